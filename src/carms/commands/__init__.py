"""The commands: each parses, calls the lab, prints."""
