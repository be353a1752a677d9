"""What several estimators have in common: base classes and the tools of their families."""
