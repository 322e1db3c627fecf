"""Validation of text that enters the ledger."""

from typing import Any

import pytest

from headway.ledger import text
from headway.ledger.errors import EmptySubject, Invalid, TextTooLong, UnsafeText
from headway.ledger.todo import Draft
from tests.tables import each_row


@each_row("harmless", ["", " as it is ", "two\nlines\tand a tab", "naïve café", "日本語", "👩‍👩‍👧", "\u202edrawkcab"])
def test_harmless_text_is_kept_to_the_letter(harmless: str) -> None:
    assert text.check_text(harmless, "description") == harmless


@each_row("hostile", ["\0", "before\0after", "\ud800", "high \udbff alone", "low \udc00 alone", "\udc00\ud800"])
def test_nul_and_lone_surrogates_are_refused_and_the_field_is_named(hostile: str) -> None:
    with pytest.raises(UnsafeText, match=r"^outcome contains a"):
        text.check_text(hostile, "outcome")


def test_text_may_be_as_long_as_its_limit_and_no_longer() -> None:
    assert len(text.check_text("x" * text.TEXT_LIMIT, "description")) == text.TEXT_LIMIT
    with pytest.raises(TextTooLong, match="description has 200,001 characters; at most 200,000"):
        text.check_text("x" * (text.TEXT_LIMIT + 1), "description")


def test_ten_megabytes_are_refused_in_one_short_line() -> None:
    with pytest.raises(TextTooLong) as refusal:
        Draft("small", description="x" * 10_000_000).checked()

    assert len(str(refusal.value)) < 100


@each_row("nothing", ["", " ", "\n\t ", "\u3000\u00a0"])
def test_a_subject_of_nothing_but_space_is_empty(nothing: str) -> None:
    with pytest.raises(EmptySubject):
        text.check_subject(nothing)


def test_a_subject_loses_the_space_around_it() -> None:
    assert text.check_subject("  buy milk \n") == "buy milk"


def test_a_subject_has_its_own_limit() -> None:
    assert len(text.check_subject("x" * text.SUBJECT_LIMIT)) == text.SUBJECT_LIMIT
    with pytest.raises(TextTooLong, match="subject"):
        text.check_subject("x" * (text.SUBJECT_LIMIT + 1))


def test_a_name_is_one_printable_line() -> None:
    assert text.check_name("agent 7 🤖", "agent_id") == "agent 7 🤖"
    with pytest.raises(Invalid, match="agent_id must not be"):
        text.check_name("  ", "agent_id")
    with pytest.raises(TextTooLong, match="agent_id"):
        text.check_name("x" * (text.NAME_LIMIT + 1), "agent_id")


@each_row("control", ["two\nlines", "ends\n", "bell\a", "\x1b[31mred", "nul\0", "next\x85line", "\u2028"])
def test_a_name_with_control_characters_is_refused(control: str) -> None:
    with pytest.raises(Invalid, match=r"^key "):
        text.check_name(control, "key")


@each_row("field", ["subject", "description", "completion_criteria", "agent_type", "agent_id", "outcome"])
def test_every_text_of_a_draft_is_checked(field: str) -> None:
    fields: dict[str, Any] = {field: "not\0fine"}
    draft = Draft("fine")._replace(**fields)

    with pytest.raises(UnsafeText, match=f"^{field} "):
        draft.checked()
