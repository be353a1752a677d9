"""Many runs: grids, and processes that carry them out."""
