"""The models that the lab trains."""
