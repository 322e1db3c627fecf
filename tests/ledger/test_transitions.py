"""The statuses of a todo, the legal transitions between them, and the times that each transition stamps."""

from itertools import product
from typing import Any

import pytest

from headway.ledger.errors import AlreadyEnded, IllegalTransition, Invalid, UnknownStatus, UnsafeText
from headway.ledger.todo import (
    POSITION_LIMIT,
    STATUSES,
    Change,
    Status,
    Todo,
    change_status,
    check_not_already_ended,
    check_position,
    parse_status,
    refuse_start_of_ended,
)
from tests.tables import each_row

# (before, after). Repeated here, so that a change to the rules also needs a change to this table.
LEGAL = {
    ("pending", "in_progress"),
    ("pending", "completed"),
    ("pending", "canceled"),
    ("in_progress", "pending"),
    ("in_progress", "completed"),
    ("in_progress", "canceled"),
    ("completed", "pending"),
    ("completed", "in_progress"),
    ("canceled", "pending"),
    ("canceled", "in_progress"),
}
PAIRS: list[tuple[Status, Status]] = list(product(STATUSES, STATUSES))
THEN, NOW = 1_000, 2_000


def make_todo(status: Status = "pending") -> Todo:
    """Build a todo that was created at THEN, and started and ended at THEN if its status implies it."""
    return Todo(
        id=7,
        uuid="0" * 32,
        conversation_id=0,
        turn_id=None,
        agent_id="index",
        subject="paint the fence",
        description="",
        completion_criteria="",
        agent_type=None,
        status=status,
        position=1,
        outcome="it is white" if status in ("completed", "canceled") else None,
        created_at=THEN,
        updated_at=THEN,
        started_at=0 if status == "pending" else THEN,
        completed_at=THEN if status in ("completed", "canceled") else 0,
    )


@each_row(("before", "after"), [pair for pair in PAIRS if pair in LEGAL])
def test_a_legal_way_leads_to_the_new_status(before: Status, after: Status) -> None:
    moved = change_status(make_todo(before), after, NOW)

    assert moved.status == after
    assert moved.ended == (after in ("completed", "canceled"))


@each_row(("before", "after"), [pair for pair in PAIRS if pair not in LEGAL and pair[0] != pair[1]])
def test_an_illegal_way_is_refused_and_the_legal_ones_are_named(before: Status, after: Status) -> None:
    with pytest.raises(
        IllegalTransition, match=f"Todo 7 is {before} and cannot become {after}; it can become pending or in_progress"
    ):
        change_status(make_todo(before), after, NOW)


@each_row("status", STATUSES)
def test_the_status_it_already_has_changes_nothing(status: Status) -> None:
    assert change_status(make_todo(status), status, NOW) == make_todo(status)


@each_row("end", ["completed", "canceled"])
@each_row("before", ["pending", "in_progress"])
def test_an_end_is_stamped_and_the_start_stays_what_it_was(before: Status, end: Status) -> None:
    ended_todo = change_status(make_todo(before), end, NOW)

    assert ended_todo.completed_at == NOW
    assert ended_todo.started_at == make_todo(before).started_at


def test_only_the_first_start_is_stamped() -> None:
    started = change_status(make_todo(), "in_progress", NOW)
    put_back = change_status(started, "pending", NOW + 1)
    restarted = change_status(put_back, "in_progress", NOW + 2)

    assert (started.started_at, put_back.started_at, restarted.started_at) == (NOW, NOW, NOW)


@each_row("end", ["completed", "canceled"])
def test_reopening_clears_both_times_and_the_outcome(end: Status) -> None:
    reopened = change_status(make_todo(end), "pending", NOW)

    assert (reopened.started_at, reopened.completed_at, reopened.outcome) == (0, 0, None)
    assert not reopened.ended


@each_row("end", ["completed", "canceled"])
def test_reopening_into_progress_starts_it_now_and_clears_its_end(end: Status) -> None:
    reopened = change_status(make_todo(end), "in_progress", NOW)

    assert (reopened.started_at, reopened.completed_at, reopened.outcome) == (NOW, 0, None)


@each_row("end", ["completed", "canceled"])
def test_starting_an_ended_todo_is_refused_with_a_hint_to_reopen_it(end: Status) -> None:
    with pytest.raises(IllegalTransition, match=f"Todo 7 is {end} and cannot be started. Reopen it first: .*todo reopen 7"):
        refuse_start_of_ended(make_todo(end))


@each_row("status", ["pending", "in_progress"])
def test_starting_an_open_todo_is_not_refused(status: Status) -> None:
    refuse_start_of_ended(make_todo(status))


@each_row("end", ["completed", "canceled"])
def test_ending_a_todo_twice_the_same_way_is_refused_by_name(end: Status) -> None:
    with pytest.raises(AlreadyEnded, match=f"Todo 7 is already {end}"):
        check_not_already_ended(make_todo(end), end)


@each_row("status", ["pending", "in_progress"])
def test_ending_an_open_todo_is_not_a_second_end(status: Status) -> None:
    check_not_already_ended(make_todo(status), "completed")


def test_both_spellings_of_canceled_are_understood() -> None:
    assert parse_status("cancelled") == parse_status("canceled") == "canceled"


@each_row("word", ["", "done", "Pending", "in progress", "pending ", "x" * 100_000])
def test_an_unknown_status_is_refused_in_a_short_line_that_lists_the_known_ones(word: str) -> None:
    with pytest.raises(UnknownStatus, match=r"Known: pending, in_progress, completed, canceled\.$") as refusal:
        parse_status(word)

    assert len(str(refusal.value)) < 150


def test_a_change_sets_only_the_named_fields() -> None:
    before = make_todo()
    after = Change(subject=" paint the gate ", outcome="begun").apply_to(before, NOW)

    assert after == before._replace(subject="paint the gate", outcome="begun")


def test_a_change_can_set_a_field_to_nothing() -> None:
    assert Change(outcome=None).apply_to(make_todo("completed"), NOW).outcome is None


def test_an_outcome_said_while_reopening_is_kept() -> None:
    assert Change(status="pending", outcome="try again").apply_to(make_todo("completed"), NOW).outcome == "try again"


@each_row("field", ["subject", "description", "completion_criteria", "agent_type", "outcome"])
def test_every_text_of_a_change_is_checked(field: str) -> None:
    fields: dict[str, Any] = {field: "not\0fine"}
    change = Change()._replace(**fields)

    with pytest.raises(UnsafeText, match=f"^{field} "):
        change.apply_to(make_todo(), NOW)


@each_row("position", [-1, POSITION_LIMIT + 1, 2**63])
def test_a_position_off_the_list_is_refused(position: int) -> None:
    with pytest.raises(Invalid, match="position must be between 0 and"):
        check_position(position)


def test_json_has_times_in_seconds_and_zero_for_unset_ones() -> None:
    document = make_todo("in_progress")._replace(created_at=5_999, depends_on=(1, 2)).as_json()

    assert (document["created_at"], document["started_at"], document["completed_at"]) == (5, 1, 0)
    assert list(document["depends_on"]) == [1, 2]
