"""Todos with an explicit end time, todos created already ended, and reopened todos."""

import json

import pytest

from headway.actions.todos import import_export, todos
from headway.ledger.errors import IllegalTransition, Invalid
from headway.ledger.parsing.todo_fields import LATEST_SECOND
from headway.ledger.scope import Scope, Selection
from headway.ledger.todo import Status
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

LONG_AGO = 1_500_000_000_000
ENDS: tuple[Status, ...] = ("completed", "canceled")


def import_rows(desk: TenantHarness, *rows: dict[str, object]) -> import_export.ImportResult:
    document = json.dumps({"todos": rows})
    return desk.database.write(lambda tx: import_export.import_json(tx, Scope(desk.tenant.id), document))


# Time of the end


@each_row("end", ENDS)
def test_an_end_is_stamped_with_the_current_time_unless_the_caller_gives_one(
    desk: TenantHarness, clock: FixedClock, end: Status
) -> None:
    """001: "any transition into completed or canceled sets completed_at = now() unless the caller passes a value explicitly"."""
    stamped, explicit = desk.add(), desk.add()
    clock.advance(5)

    assert desk.change(stamped, status=end).completed_at == clock.now
    assert desk.change(explicit, status=end, completed_at=LONG_AGO).completed_at == LONG_AGO
    assert desk.get(desk.add(status=end)).completed_at == clock.now
    assert desk.get(desk.add(status=end, completed_at=LONG_AGO)).completed_at == LONG_AGO


def test_ended_todos_are_listed_by_the_time_that_was_given(desk: TenantHarness) -> None:
    desk.add("today", status="completed")
    desk.add("long ago", status="completed", completed_at=LONG_AGO)
    desk.add("long before", status="canceled", completed_at=LONG_AGO - 1)

    assert desk.subjects() == ["today", "long ago", "long before"]


def test_the_time_of_an_end_can_be_corrected_afterwards(desk: TenantHarness, clock: FixedClock) -> None:
    ended = desk.add(status="completed", outcome="done")
    clock.advance(5)
    corrected = desk.change(ended, completed_at=LONG_AGO)

    assert desk.get(ended) == corrected == ended._replace(completed_at=LONG_AGO, updated_at=clock.now)
    assert desk.change(ended, status="completed", completed_at=LONG_AGO + 1).completed_at == LONG_AGO + 1


def test_a_dependant_is_released_by_an_end_with_a_time_of_its_own(desk: TenantHarness) -> None:
    first = desk.add("first")
    second = desk.add("second", depends_on=(first.id,))
    desk.change(first, status="completed", completed_at=LONG_AGO)

    blocked = desk.database.read(lambda tx: tx.one("SELECT blocked_by FROM todos WHERE id = ?", second.id))
    assert blocked == (0,)


@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_an_open_todo_has_no_time_of_its_end(desk: TenantHarness, status: Status) -> None:
    refusal = f"completed_at is only accepted with an ended status .completed or canceled.; this todo is {status}"
    with pytest.raises(Invalid, match=refusal):
        desk.add(status=status, completed_at=LONG_AGO)
    assert desk.count("todos") == 0

    open_todo, ended = desk.add("open", status=status), desk.add("ended", status="completed")
    events_before = desk.events()
    with pytest.raises(Invalid, match=refusal):
        desk.change(open_todo, completed_at=LONG_AGO)
    with pytest.raises(Invalid, match=refusal):
        desk.change(ended, status=status, completed_at=LONG_AGO)
    assert (desk.get(open_todo), desk.get(ended), desk.events()) == (open_todo, ended, events_before)


@each_row("moment", [-1, 0, 999, LATEST_SECOND * 1000 + 1, 2**63])
def test_a_time_that_cannot_be_one_is_refused(desk: TenantHarness, moment: int) -> None:
    with pytest.raises(Invalid, match="completed_at must be a time in epoch seconds between 1 and 253,402,300,799"):
        desk.add(status="completed", completed_at=moment)
    todo = desk.add()
    with pytest.raises(Invalid, match="completed_at must be"):
        desk.change(todo, status="completed", completed_at=moment)
    assert desk.get(todo) == todo


# Import


def test_an_imported_todo_ended_when_its_document_says(desk: TenantHarness, clock: FixedClock) -> None:
    """001: "any transition into completed or canceled sets completed_at = now() unless the caller passes a value explicitly"."""
    explicit, stamped = import_rows(
        desk,
        {"subject": "given", "status": "completed", "completed_at": LONG_AGO / 1000 + 0.25},
        {"subject": "stamped", "status": "canceled"},
    ).added

    assert (desk.get(explicit).completed_at, desk.get(stamped).completed_at) == (LONG_AGO + 250, clock.now)
    assert (explicit.created_at, explicit.started_at) == (clock.now, 0)


@each_row(
    ("row", "words"),
    [
        ({"status": "pending", "completed_at": 5}, "completed_at is only accepted with an ended status"),
        ({"completed_at": 5}, "this todo is pending"),
        ({"status": "completed", "completed_at": 0}, "its status is completed, but completed_at is 0"),
        ({"status": "completed", "completed_at": "then"}, "completed_at must be a time in epoch seconds"),
        ({"status": "completed", "completed_at": LATEST_SECOND + 1}, "completed_at must be a time in epoch seconds"),
        ({"created_at": -1}, "created_at must be a time in epoch seconds"),
        ({"started_at": True}, "started_at must be a time in epoch seconds"),
    ],
)
def test_a_document_with_impossible_times_is_refused_whole(desk: TenantHarness, row: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=f"Todo 2 of the document: .*{words}"):
        import_rows(desk, {"subject": "fine"}, {"subject": "x", **row})
    assert desk.count("todos") == 0


def test_an_export_with_given_times_comes_back_unchanged(desk: TenantHarness) -> None:
    desk.add("open")
    desk.add("ended", status="completed", completed_at=LONG_AGO + 1, outcome="done")
    desk.change(desk.add("ended later"), status="canceled", completed_at=LONG_AGO + 2)
    exported = desk.read(import_export.export_json, Selection()).text

    elsewhere = TenantHarness(desk.database, "elsewhere")
    desk.database.write(lambda tx: import_export.import_json(tx, Scope(elsewhere.tenant.id), exported))
    todos_read = json.loads(elsewhere.read(import_export.export_json, Selection()).text)["todos"]
    assert [todo | {"id": 0} for todo in todos_read] == [todo | {"id": 0} for todo in json.loads(exported)["todos"]]


# Positions


@pytest.mark.parametrize("end", ENDS)
def test_a_todo_created_ended_takes_no_position_among_the_open_ones(desk: TenantHarness, end: Status) -> None:
    """001: "append-order counter within (tenant_id, conversation_id, status='pending') so /todo list is stable on ties"."""
    assert [desk.add(status=end).position for _ in range(2)] == [1, 1]
    first = desk.add("first")
    desk.add("archived", status=end)
    second = desk.add("second")

    assert (first.position, second.position) == (1, 2)
    archived: dict[str, object] = {"subject": "archived", "status": end}
    import_rows(desk, archived, {"subject": "third"}, archived | {"position": 9})
    desk.add("fourth")
    assert desk.subjects(Selection(statuses=("pending",))) == ["first", "second", "third", "fourth"]
    assert [todo["position"] for change, todo in desk.changes() if todo["status"] == "pending"] == [1, 2, 3, 4]


def test_an_ended_todo_with_a_position_moves_no_other(desk: TenantHarness) -> None:
    first, second = desk.add("first"), desk.add("second")
    seeded = desk.add("seeded", status="completed", position=1)
    moved = desk.change(seeded, position=2)

    assert (seeded.position, moved.position) == (1, 2)
    assert (desk.get(first), desk.get(second)) == (first, second)
    assert desk.add("third").position == 3


def test_an_import_into_an_empty_list_counts_on_from_its_open_todos(desk: TenantHarness) -> None:
    import_rows(desk, {"subject": "open", "position": 2}, {"subject": "archived", "status": "completed", "position": 7})

    assert desk.add("next").position == 3


def test_a_reopened_seeded_todo_has_the_position_it_arrived_with(desk: TenantHarness) -> None:
    desk.add("first")
    seeded = desk.add("seeded", status="completed")
    desk.add("second")
    desk.change(seeded, status="pending")

    subjects = desk.subjects(Selection(statuses=("pending",)))
    assert subjects == ["first", "seeded", "second"]
    positions = desk.database.read(list_pending_positions)
    assert len(positions) == len(set(positions)) == 3


def list_pending_positions(tx: Transaction) -> list[int]:
    return [int(row[0]) for row in tx.all("SELECT position FROM todos WHERE status = 'pending'")]


# Reopening


@each_row("end", ENDS)
def test_a_change_to_in_progress_reopens_and_starts_an_ended_todo_in_one_move(
    desk: TenantHarness, clock: FixedClock, end: Status
) -> None:
    """001: "completed_at = 0 until terminal"."""
    first = desk.add("first")
    second = desk.add("second", depends_on=(first.id,))
    desk.write(todos.end_todo, first.id, end, "said to be done")
    changes_before = len(desk.changes())
    clock.advance(5)
    reopened = desk.change(first, status="in_progress")

    assert desk.get(first) == reopened
    assert (reopened.status, reopened.started_at, reopened.completed_at, reopened.outcome) == ("in_progress", clock.now, 0, None)
    assert [(change, todo["status"]) for change, todo in desk.changes()[changes_before:]] == [("updated", "in_progress")]
    assert desk.database.read(lambda tx: tx.one("SELECT blocked_by FROM todos WHERE id = ?", second.id)) == (1,)


def test_starting_an_ended_todo_is_refused_and_starting_an_open_one_is_not(desk: TenantHarness) -> None:
    todo = desk.add()
    assert desk.write(todos.start_todo, todo.id).status == "in_progress"
    ended = desk.write(todos.end_todo, todo.id, "completed", "done")

    with pytest.raises(IllegalTransition, match=f"Todo {todo.id} is completed and cannot be started. Reopen it first"):
        desk.write(todos.start_todo, todo.id)
    assert desk.get(todo) == ended
