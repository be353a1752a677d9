"""Faults for the lab, one kind a file; ``benchmarks/faults.py`` runs them and counts."""

import os

# A process is forked only while it has a single thread.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
