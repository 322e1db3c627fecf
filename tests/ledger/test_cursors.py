"""Cursors: a cursor decodes to the keys it was made from, and any other text is refused."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.errors import BadCursor
from headway.ledger.text import MAX_INTEGER
from tests.tables import each_row

JOBS = CursorCodec("jobs", NEWEST)
NAMES = CursorCodec("schedules", ("",))
NUMBERS = CursorCodec("goals", (MAX_INTEGER,))
UUID = "0b5ea8d4-6a3c-4b7e-9d61-0c4f3f0d9a11"


def encode(document: Any) -> str:
    return urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode().rstrip("=")


@given(st.integers(0, MAX_INTEGER), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_keys_come_back_as_they_were_from_text_that_fits_into_an_address(created_at: int, name: str) -> None:
    cursor = JOBS.encode((created_at, name))

    assert JOBS.decode(cursor) == (created_at, name)
    assert all(character.isascii() and (character.isalnum() or character in "-_") for character in cursor)


@each_row("nothing", [None, ""])
def test_without_a_cursor_a_list_begins_at_its_start(nothing: str | None) -> None:
    assert JOBS.decode(nothing) == NEWEST
    assert NAMES.decode(nothing) == ("",)


def test_there_is_a_next_page_if_one_more_row_was_found_than_asked_for() -> None:
    assert NUMBERS.encode_next([9, 8, 7], 3, lambda row: (row,)) is None
    assert NUMBERS.decode(NUMBERS.encode_next([9, 8, 7], 2, lambda row: (row,))) == (8,)


@each_row(
    "cursor",
    [
        NUMBERS.encode((17,)),
        JOBS.encode((17, UUID))[:-1],
        JOBS.encode((17, UUID)) + "=",
        JOBS.encode((17, UUID)) + "\n",
        encode(["jobs"]),
        encode(["jobs", 17]),
        encode(["jobs", "17", UUID]),
        encode(["jobs", 17.0, UUID]),
        encode(["jobs", True, UUID]),
        encode(["jobs", -1, UUID]),
        encode(["jobs", MAX_INTEGER + 1, UUID]),
        encode(["jobs", 17, "a\0b"]),
        encode(["jobs", 17, "\ud800"]),
        encode({"jobs": 17}),
        encode("jobs"),
        encode(17),
        urlsafe_b64encode(b'["jobs", 17, "a"]').decode().rstrip("="),
        urlsafe_b64encode(b"[" * 100_000).decode(),
        urlsafe_b64encode(b"\xff\xfe").decode(),
        "17",
        "1.2",
        "1.2.3",
        f"{'9' * 19}.{UUID}",
        "abc",
        "a\0b",
        "٣",
        "\ud800",
    ],
)
def test_what_the_list_did_not_give_out_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor, match="Pass a page's next_cursor unchanged, or omit it"):
        JOBS.decode(cursor)


@given(st.text())
def test_no_text_does_more_than_be_refused(cursor: str) -> None:
    for codec in (JOBS, NAMES, NUMBERS):
        try:
            keys = codec.decode(cursor)
        except BadCursor:
            continue
        assert len(keys) == len(codec.start)
