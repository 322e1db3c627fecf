"""The optional libraries, which `pip install 'headway[NAME]'` adds. Each is imported where it is first needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from headway.ledger.errors import MissingExtra

LIBRARIES: Final = {
    "mcp": "mcp",
    "notify": "apprise",
    "postgres": "psycopg",
    "restate": "restate",
    "schema": "jsonschema",
}


def is_installed(extra: str) -> bool:
    """Look for the library of an extra without importing it."""
    return find_spec(LIBRARIES[extra]) is not None


def require_extra(extra: str, purpose: str) -> None:
    """Raise MissingExtra if the library of an extra is not installed."""
    if not is_installed(extra):
        raise MissingExtra(describe_missing(extra, purpose))


@contextmanager
def requiring_extra(extra: str, purpose: str) -> Iterator[None]:
    """Raise MissingExtra instead of ModuleNotFoundError if the imports in the block need the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != LIBRARIES[extra]:
            raise
        raise MissingExtra(describe_missing(extra, purpose)) from None


def describe_missing(extra: str, purpose: str) -> str:
    return f"{purpose} needs a library that is not installed: {describe_remedy(extra)}."


def describe_remedy(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'headway[{extra}]' (in a checkout: '.[{extra}]')"
