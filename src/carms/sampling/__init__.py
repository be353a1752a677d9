"""Independent draws from categorical distributions, and what all couplings share."""
