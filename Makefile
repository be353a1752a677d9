# Each target sets up its own environment in .venv on first use and reuses it after.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test bench docs lint clean

demo: $(READY)
	for estimator in loorf carms-s carms-t; do \
	  $(BIN)/carms vae --dataset digits --categories 10 --estimator $$estimator --rate 1e-3 \
	    --steps 2400 --log-every 100 --eval-every 200 --checkpoint-every 800 \
	    --out demo/$$estimator || exit; \
	done
	$(BIN)/carms plot demo/loorf demo/carms-s demo/carms-t --out demo/curves.png
	$(BIN)/carms report demo --out demo/report.html

test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto

bench: $(READY)
	$(BIN)/python benchmarks/variance.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/trained.py
	$(BIN)/python benchmarks/shelf.py --out demo/shelf.png
	$(BIN)/python benchmarks/sequences.py
	$(BIN)/python benchmarks/subsets.py

# The site, in site/: a broken link, a missing reference or a failing example is an error.
docs: $(READY)
	$(BIN)/python -m pytest src
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch first and by its pin, so that nothing else chooses its version.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv demo site
