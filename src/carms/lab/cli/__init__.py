"""The command line: parse, call the lab, print."""
