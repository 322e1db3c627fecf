"""Cursors: where the next page of a list begins. All lists share one encoding, which callers pass back unchanged."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from headway.ledger.errors import BadCursor
from headway.ledger.text import MAX_INTEGER

KeysT = TypeVar("KeysT", bound=tuple[int | str, ...])
RowT = TypeVar("RowT")

NEWEST: Final = (MAX_INTEGER, "")  # the start of a list that is sorted by creation time and id, newest first


class CursorCodec(NamedTuple, Generic[KeysT]):
    """Encodes the sort keys of a page's last row with the name of their list, and decodes the cursors that callers send."""

    list_name: str
    start: KeysT  # the keys before the first row

    def encode(self, keys: KeysT) -> str:
        from base64 import urlsafe_b64encode  # noqa: PLC0415  every command loads this module, but most lists fit on one page

        document = json.dumps([self.list_name, *keys], ensure_ascii=False, separators=(",", ":"))
        return urlsafe_b64encode(document.encode()).decode().rstrip("=")

    def encode_next(self, rows: Sequence[RowT], limit: int, get_keys: Callable[[RowT], KeysT]) -> str | None:
        """Encode the cursor of the next page, or return None on the last one. `rows` has up to `limit` + 1 rows."""
        return self.encode(get_keys(rows[limit - 1])) if len(rows) > limit else None

    def decode(self, cursor: str | None) -> KeysT:
        """Return the keys after which the page begins. Raise BadCursor for anything that this list did not give out."""
        if not cursor:
            return self.start
        keys = self.parse(cursor)
        if [type(key) for key in keys] != [type(key) for key in self.start] or not all(map(is_storable, keys)):
            raise BadCursor
        return cast("KeysT", keys)

    def parse(self, cursor: str) -> tuple[Any, ...]:
        from base64 import urlsafe_b64decode  # noqa: PLC0415

        try:
            name, *keys = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            is_genuine = name == self.list_name and self.encode(cast("KeysT", keys)) == cursor
        except (ValueError, TypeError, RecursionError):  # not base64, not JSON or not a list
            is_genuine = False
        if not is_genuine:
            raise BadCursor
        return tuple(keys)


def is_storable(key: int | str) -> bool:
    return "\0" not in key if isinstance(key, str) else 0 <= key <= MAX_INTEGER
