"""Tables and pages about runs."""
