"""Cursors for paging through rows, newest first."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from headway.ledger.errors import BadCursor
from headway.ledger.text import MAX_INTEGER

CURSOR_PATTERN: Final = r"^([0-9]{1,18}\.[0-9a-f-]{36})?$"  # created_at.id


class RowCursor(NamedTuple):
    created_at: int
    id: str


class TimestampedRow(Protocol):
    @property
    def created_at(self) -> int: ...
    @property
    def id(self) -> str: ...


FIRST_PAGE: Final = RowCursor(MAX_INTEGER, "")


def decode_cursor(cursor: str | None) -> RowCursor:
    if not re.fullmatch(CURSOR_PATTERN, cursor or ""):
        raise BadCursor
    created_at, _, row_id = (cursor or "").partition(".")
    return RowCursor(int(created_at), row_id) if created_at else FIRST_PAGE


def encode_next_cursor(found: Sequence[TimestampedRow], limit: int) -> str | None:
    """Encode the cursor for the next page, or return None on the last one. `found` has up to `limit` + 1 rows."""
    return f"{found[limit - 1].created_at}.{found[limit - 1].id}" if len(found) > limit else None
