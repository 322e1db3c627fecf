"""The fields that every surface takes from one table: what is accepted, how it is stored, and how people write it."""

from random import Random
from typing import Any

import pytest

from headway.ledger.errors import Invalid
from headway.ledger.parsing.todo_fields import (
    LATEST_SECOND,
    NO_DUE,
    cut_words,
    format_time,
    format_words,
    list_labels,
    parse_fields,
    parse_labels,
    parse_time,
)
from headway.ledger.todo import Draft
from tests.tables import each_row

END_OF_DAY = 1_796_169_599  # of 2026-12-01


@each_row(
    ("written", "seconds"),
    [
        (1_700_000_000, 1_700_000_000),
        (1_700_000_000.0, 1_700_000_000),
        ("1700000000", 1_700_000_000),
        ("2026-12-01", END_OF_DAY),
        ("2026-12-01T14:00Z", END_OF_DAY - 86_399 + 14 * 3600),
        ("2026-12-01 14:00:05", END_OF_DAY - 86_399 + 14 * 3600 + 5),
        ("2026-12-01t16:30:00.5+02:30", END_OF_DAY - 86_399 + 14 * 3600),
        ("2024-02-29", 1_709_251_199),
        ("9999-12-31", LATEST_SECOND),
    ],
)
def test_a_time_is_read_as_people_and_programs_write_it(written: Any, seconds: int) -> None:
    assert parse_time(written, "due") == seconds


NO_TIMES = [
    0,
    -1,
    LATEST_SECOND + 1,
    1.5,
    float("nan"),
    True,
    [],
    "",
    "soon",
    "2026-02-29",
    "2026-13-01",
    "2026-12-01T24:00",
    "9" * 14,
]


@each_row("written", NO_TIMES)
def test_what_is_no_time_is_refused(written: Any) -> None:
    with pytest.raises(Invalid, match="due must be a date"):
        parse_time(written, "due")


def test_every_time_is_written_so_that_it_is_read_again() -> None:
    chance = Random(44)
    for _ in range(2_000):
        seconds = chance.randrange(1, LATEST_SECOND)
        assert parse_time(format_time(seconds), "due") == seconds


def test_labels_are_sorted_whole_and_without_duplicates() -> None:
    stored = parse_labels(["work", "home", "work", " two words "])
    assert list_labels(stored) == ["home", "two words", "work"]
    assert list_labels(parse_labels([])) == []


@each_row(
    ("document", "said"),
    [
        ({"priority": "asap"}, "priority must be urgent, high, normal or low"),
        ({"priority": ["high"]}, "priority must be"),
        ({"labels": "home"}, "labels must be a list"),
        ({"labels": [5]}, "must be text"),
        ({"labels": [" "]}, "must not be blank"),
        ({"labels": ["a\nb"]}, "control characters"),
        ({"labels": ['a"b']}, "quotation marks"),
        ({"labels": ["x" * 51]}, "at most 50 characters"),
        ({"labels": [str(n) for n in range(21)]}, "at most 20 labels"),
    ],
)
def test_wrong_fields_are_refused_with_the_rule(document: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        parse_fields(document)


@each_row(
    ("line", "rest", "words"),
    [
        ("Buy milk", "Buy milk", ""),
        ("Buy milk priority:high due:2026-12-01 label:home", "Buy milk", " priority:high due:2026-12-01 label:home"),
        ('Buy label:"two words" label:a', "Buy", ' label:a label:"two words"'),
        ("read label:home of the door", "read label:home of the door", ""),
        ("due:2026-12-01T14:00Z", "", " due:2026-12-01T14:00:00Z"),
    ],
)
def test_fields_at_the_end_of_a_line_are_cut_off_and_written_again(line: str, rest: str, words: str) -> None:
    subject, fields = cut_words(line)
    assert (subject, format_words(Draft("x")._replace(**fields))) == (rest, words)


def test_a_draft_without_the_fields_has_none() -> None:
    draft = Draft("x")
    assert (format_words(draft), draft.due, parse_fields({"due": None})) == ("", NO_DUE, {})
