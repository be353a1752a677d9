"""Faults for the lab, one kind a file; ``benchmarks/faults.py`` runs them and counts."""
