"""Templates, style and script of the pages, and the policy that lets no other script run."""

import hashlib
from base64 import b64encode
from importlib.resources import files

__all__ = ["read_asset", "script_policy"]


def read_asset(name: str) -> str:
    """A file beside this one, such as ``report.js``."""
    return files("carms.lab.report").joinpath(name).read_text("utf-8")


def script_policy(script: str) -> str:
    """The source that a content security policy must name to allow a script."""
    return "sha256-" + b64encode(hashlib.sha256(script.encode()).digest()).decode()
