"""Paths in a workspace, as callers and models write them."""

import posixpath
from typing import Final

from headway.ledger import text
from headway.ledger.errors import Invalid

PATH_LIMIT: Final = 1_000  # characters


def split_path(path: str, field: str = "path") -> list[str]:
    """Split a path into the names below the workspace; empty for the workspace itself."""
    path = posixpath.normpath(text.check_text(path, field, PATH_LIMIT))
    if path.startswith("/"):
        raise Invalid(f"{field} must be relative to the workspace, without a leading slash.")
    parts = [part for part in path.split("/") if part != "."]
    if ".." in parts:
        raise Invalid(f"{field} leads outside the workspace.")
    return parts
