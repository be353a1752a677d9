# Each target sets up its own environment on first use and reuses it later: that of the lab, or with
# all that tests, the site and the package need.
PYTHON ?= python3
BIN := .venv/bin
LAB := .venv/lab
READY := .venv/ready
LOWEST := .venv-lowest

.PHONY: demo test lowest bench docs lint wheel clean

demo: $(LAB)
	for estimator in loorf carms-s carms-t; do \
	  $(BIN)/carms vae --dataset digits --categories 10 --estimator $$estimator --rate 1e-3 \
	    --steps 2400 --log-every 100 --eval-every 200 --checkpoint-every 800 \
	    --out demo/$$estimator || exit; \
	done
	$(BIN)/carms plot demo/loorf demo/carms-s demo/carms-t --out demo/curves.png
	$(BIN)/carms report demo/loorf demo/carms-s demo/carms-t --out demo/report.html

# All tests, and the examples in docstrings.
test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto

# The tests of the library, without the lab, on the oldest torch that is supported.
lowest: $(LOWEST)/ready
	$(LOWEST)/bin/python -m pytest --numprocesses auto tests/core tests/sampling tests/copulas \
	  tests/couplings tests/estimators tests/comparison tests/sequences tests/subsets \
	  tests/contract tests/test_*.py --ignore tests/sequences/test_transformers.py \
	  --ignore tests/sequences/test_trl.py

bench: $(READY)
	$(BIN)/python benchmarks/variance.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/trained.py
	$(BIN)/python benchmarks/shelf.py --out runs/shelf.png
	$(BIN)/python benchmarks/sequences.py
	$(BIN)/python benchmarks/subsets.py

# Build the site in site/. A broken link or a missing reference is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Build the sdist, and the wheel from the sdist, in dist/, and try them in an empty environment.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python .ci/wheel.py dist

# Install torch first, by its pin, so that no other package chooses its version.
$(LAB): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[lab]'
	touch $(LAB)

$(READY): $(LAB)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

$(LOWEST)/ready: pyproject.toml requirements-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --requirement requirements-lowest.txt --editable .
	touch $(LOWEST)/ready

clean:
	rm -rf .venv .venv-lowest demo dist site
