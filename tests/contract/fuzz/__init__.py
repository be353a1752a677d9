"""Random calls of the public surface, and a judge of how they end."""
