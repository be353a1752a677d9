"""Sets of images."""
