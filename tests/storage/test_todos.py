"""Adding, changing and removing todos, and the events of each change."""

import json
from contextlib import suppress
from functools import partial

import pytest

from headway.actions.todos import conversations, finding, todo_lists, todos
from headway.actions.turns import plan
from headway.actions.turns.plan import PlanItem
from headway.ledger.errors import (
    AlreadyEnded,
    Conflict,
    EmptySubject,
    HeadwayError,
    IllegalTransition,
    Invalid,
    NotFound,
    StorageError,
    TextTooLong,
    TurnRowsStay,
    UnsafeText,
)
from headway.ledger.scope import Scope, Selection
from headway.ledger.todo import POSITION_LIMIT, STATUSES, Change, Draft, Status
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

HOSTILE = "'; DROP TABLE todos; -- ? %s %% \\ \" \n\t 🦉"


def list_pending(desk: TenantHarness) -> list[tuple[str, int]]:
    """Return (subject, position) of the pending todos, in order."""
    page = desk.read(todo_lists.list_todos, Selection(statuses=("pending",)), 500).todos
    return [(todo.subject, todo.position) for todo in page]


def test_the_runtime_says_that_it_planned_from_the_request_and_completed_by_effects(desk: TenantHarness) -> None:
    conversation_id = desk.conversation().id
    turn_id = desk.write(conversations.open_turn, conversation_id).id
    scope = Scope(desk.tenant.id, conversation_id, turn_id)
    (item,) = desk.write(lambda tx, _: plan.create_plan(tx, scope, turn_id, [PlanItem("bake")], source="request")).todos
    assert desk.read(finding.get_turn, turn_id).plan_source == "request"

    desk.write(todos.end_todo, item.id, "completed", completed_by="effect")
    assert desk.get(item).completed_by == "effect"
    assert desk.changes()[-1][1]["completed_by"] == "effect"


# Adding


def test_an_added_todo_can_be_read_back_whole(desk: TenantHarness, clock: FixedClock) -> None:
    conversation = desk.conversation()
    first = desk.add("first", conversation_id=conversation.id)
    added = desk.add(
        "second",
        description=HOSTILE,
        completion_criteria="it is there",
        agent_type="coder",
        agent_id="agent 7",
        conversation_id=conversation.id,
        outcome="none yet",
        depends_on=(first.id, first.id),
    )

    assert desk.get(added) == added
    assert added.description == HOSTILE
    assert (added.position, added.depends_on, added.created_at) == (2, (first.id,), clock.now)


@each_row("status", STATUSES)
def test_a_todo_can_enter_the_ledger_in_any_status_with_the_stamps_that_belong_to_it(
    desk: TenantHarness, clock: FixedClock, status: Status
) -> None:
    todo = desk.get(desk.add(status=status))

    assert todo.status == status
    assert todo.started_at == (clock.now if status == "in_progress" else 0)
    assert todo.completed_at == (clock.now if status in ("completed", "canceled") else 0)


def test_every_list_counts_its_own_positions(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    turn = desk.write(conversations.open_turn, conversation.id).id
    plan = [desk.add(conversation_id=conversation.id, turn_id=turn).position for _ in range(2)]
    thread = [desk.add(conversation_id=conversation.id).position for _ in range(2)]
    wide = [desk.add().position for _ in range(2)]

    assert (plan, thread, wide) == ([0, 1], [1, 2], [1, 2])


@each_row(
    ("draft", "error"),
    [
        (Draft(""), EmptySubject),
        (Draft(" \n "), EmptySubject),
        (Draft("x" * 1_001), TextTooLong),
        (Draft("x", description="x" * 10_000_000), TextTooLong),
        (Draft("nul\0"), UnsafeText),
        (Draft("x", outcome="\ud800"), UnsafeText),
        (Draft("x", agent_id=""), Invalid),
        (Draft("x", position=-1), Invalid),
        (Draft("x", position=POSITION_LIMIT + 1), Invalid),
        (Draft("x", depends_on=(404,)), NotFound),
        (Draft("x", conversation_id=404), NotFound),
        (Draft("x", turn_id="404"), NotFound),
        (Draft("x", depends_on=tuple(range(1, 102))), Invalid),
    ],
)
def test_a_bad_draft_leaves_no_trace(desk: TenantHarness, draft: Draft, error: type[HeadwayError]) -> None:
    with pytest.raises(error):
        desk.write(todos.add_todo, draft)

    assert (desk.count("todos"), desk.count("todo_lists"), desk.events()) == (0, 0, [])


def test_a_turn_of_another_conversation_is_refused(desk: TenantHarness) -> None:
    turn = desk.write(conversations.open_turn, desk.conversation().id).id

    with pytest.raises(Conflict, match="belongs to conversation"):
        desk.add(conversation_id=desk.conversation().id, turn_id=turn)


def test_a_batch_is_written_in_its_order(desk: TenantHarness) -> None:
    added = desk.write(todos.add_many, [Draft("first"), Draft("second"), Draft("third")])

    assert [todo.subject for todo in added] == desk.subjects() == ["first", "second", "third"]
    assert [change for change, _ in desk.changes()] == ["created"] * 3


def test_a_batch_with_one_bad_draft_is_not_written_at_all(desk: TenantHarness) -> None:
    desk.add("before")
    events_before = desk.events()

    with pytest.raises(EmptySubject):
        desk.write(todos.add_many, [Draft("fine"), Draft("also fine"), Draft("")])

    assert (desk.subjects(), desk.events()) == (["before"], events_before)
    assert desk.add("after").position == 2


@each_row("size", [0, 501])
def test_a_batch_holds_one_to_five_hundred(desk: TenantHarness, size: int) -> None:
    with pytest.raises(Invalid, match=f"1 to 500 todos; this one has {size}"):
        desk.write(todos.add_many, [Draft("x")] * size)

    assert desk.count("todos") == 0


# Positions


def test_a_taken_position_is_given_to_the_newcomer_and_the_rest_move_down(desk: TenantHarness) -> None:
    for subject in ("first", "second", "third"):
        desk.add(subject)
    newcomer = desk.add("newcomer", position=2)

    assert newcomer.position == 2
    assert list_pending(desk) == [("first", 1), ("newcomer", 2), ("second", 3), ("third", 4)]
    assert desk.add("last").position == 5


def test_only_the_unbroken_run_behind_a_taken_position_moves(desk: TenantHarness) -> None:
    desk.add("first")
    desk.add("far away", position=10)
    desk.add("newcomer", position=1)

    assert list_pending(desk) == [("newcomer", 1), ("first", 2), ("far away", 10)]
    assert desk.add("last").position > 10


def test_todos_that_make_room_share_one_event(desk: TenantHarness, clock: FixedClock) -> None:
    first, second = desk.add("first"), desk.add("second")
    before = len(desk.events())
    clock.advance(5)
    desk.add("newcomer", position=1)

    (moved, data), (created, newcomer) = desk.events()[before:]
    assert (moved, json.loads(data)) == (
        "todos_moved",
        {
            "conversation_id": 0,
            "turn_id": None,
            "positions": {str(first.id): 2, str(second.id): 3},
            "updated_at": clock.now // 1000,
        },
    )
    assert (created, json.loads(newcomer)["todo"]["position"]) == ("todo_changed", 1)
    assert [todo.updated_at for todo in map(desk.get, (first, second))] == [clock.now] * 2


def test_a_todo_moved_up_gets_its_position_and_leaves_the_others_in_order(desk: TenantHarness) -> None:
    _, _, third = (desk.add(subject) for subject in ("first", "second", "third"))
    moved = desk.change(third, position=1)

    assert desk.get(third) == moved
    assert [subject for subject, _ in list_pending(desk)] == ["third", "first", "second"]


@pytest.mark.parametrize("away", ["in_progress", "completed", "canceled"])
def test_a_reopened_todo_never_shares_its_position(desk: TenantHarness, away: Status) -> None:
    first = desk.add("first")
    desk.change(first, status=away)
    desk.add("usurper", position=first.position)
    back = desk.change(first, status="pending")

    assert back == desk.get(first)
    assert list_pending(desk) == [("first", 1), ("usurper", 2)]


# Changing


def test_a_change_is_stored_stamped_and_emitted_with_the_whole_todo(desk: TenantHarness, clock: FixedClock) -> None:
    todo = desk.add("first wording", description="kept")
    clock.advance(5)
    changed = desk.change(todo, subject="second wording", agent_type="writer")

    assert desk.get(todo) == changed
    assert changed == todo._replace(subject="second wording", agent_type="writer", updated_at=clock.now)
    assert [change for change, _ in desk.changes()] == ["created", "updated"]
    document = desk.changes()[-1][1]
    assert document == changed.as_json() | {"depends_on": list(changed.depends_on)}


@pytest.mark.parametrize(
    "change",
    [
        Change(),
        Change(subject="as it is"),
        Change(subject="  as it is "),
        Change(status="pending"),
        Change(position=2),
        Change(outcome=None, agent_type=None),
        Change(depends_on=()),
    ],
)
def test_an_empty_change_is_neither_stamped_nor_emitted(desk: TenantHarness, clock: FixedClock, change: Change) -> None:
    desk.add("first")
    todo = desk.add("as it is")
    events_before = desk.events()
    clock.advance(5)

    assert desk.write(todos.change_todo, todo.id, change) == todo
    assert (desk.get(todo), desk.events()) == (todo, events_before)


def test_a_refused_change_leaves_the_todo_and_the_log_alone(desk: TenantHarness) -> None:
    todo = desk.add()
    ended = desk.write(todos.end_todo, todo.id, "completed", "done")
    events_before = desk.events()

    with pytest.raises(IllegalTransition, match="is completed and cannot become canceled; it can become pending"):
        desk.change(todo, subject="too late", status="canceled")

    assert (desk.get(todo), desk.events()) == (ended, events_before)


def test_an_action_that_fails_after_writing_leaves_no_row_no_counter_and_no_event(desk: TenantHarness) -> None:
    desk.add("before")
    events_before = desk.events()

    def add_and_fail(tx: Transaction, tenant_id: int) -> None:
        todos.add_todo(tx, tenant_id, Draft("lost"))
        todos.change_todo(tx, tenant_id, todos.add_todo(tx, tenant_id, Draft("lost, too")).id, Change(status="completed"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        desk.write(add_and_fail)

    assert (desk.subjects(), desk.events()) == (["before"], events_before)
    assert desk.read(todo_lists.get_todo_list, Selection(), 50).counts == {
        "pending": 1,
        "in_progress": 0,
        "completed": 0,
        "canceled": 0,
    }


def test_ending_stores_the_outcome_and_a_second_end_is_refused(desk: TenantHarness, clock: FixedClock) -> None:
    todo = desk.add()
    clock.advance(5)
    ended = desk.write(todos.end_todo, todo.id, "completed", "as agreed")

    assert desk.get(todo) == ended
    assert (ended.status, ended.outcome, ended.completed_at) == ("completed", "as agreed", clock.now)
    with pytest.raises(AlreadyEnded, match="already completed"):
        desk.write(todos.end_todo, todo.id, "completed", "again")
    assert desk.get(todo) == ended


def test_ending_without_an_outcome_keeps_the_one_it_had(desk: TenantHarness) -> None:
    todo = desk.add(outcome="half of it")

    assert desk.write(todos.end_todo, todo.id, "canceled").outcome == "half of it"


def test_an_unknown_todo_is_not_found_by_any_verb(desk: TenantHarness) -> None:
    for verb in (
        todos.get_todo,
        todos.remove_todo,
        partial(todos.change_todo, changes=Change(subject="x")),
        partial(todos.end_todo, status="completed"),
    ):
        with pytest.raises(NotFound, match=r"No todo 404\."):
            desk.database.write(partial(verb, tenant_id=desk.tenant.id, todo_id=404))

    assert desk.events() == []


# Removing


def test_a_removed_todo_is_gone_and_the_log_keeps_its_content(desk: TenantHarness) -> None:
    todo = desk.add("here today")

    assert desk.write(todos.remove_todo, todo.id) == todo
    with pytest.raises(NotFound):
        desk.get(todo)
    change, document = desk.changes()[-1]
    assert (change, document["subject"]) == ("deleted", "here today")


def test_the_id_of_a_removed_todo_is_never_given_out_again(desk: TenantHarness) -> None:
    todo = desk.add()
    desk.write(todos.remove_todo, todo.id)

    assert desk.add().id > todo.id


def test_rows_of_a_turn_stay(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    turn = desk.write(conversations.open_turn, conversation.id).id
    todo = desk.add(conversation_id=conversation.id, turn_id=turn)

    with pytest.raises(TurnRowsStay):
        desk.write(todos.remove_todo, todo.id)
    assert desk.get(todo) == todo


# Reading


def test_a_read_changes_nothing_even_if_it_tries(desk: TenantHarness) -> None:
    todo = desk.add("as it is")

    with suppress(StorageError):  # Postgres raises an error, SQLite ignores the write
        desk.read(todos.change_todo, todo.id, Change(subject="not like this"))

    assert desk.get(todo) == todo


def test_a_position_that_would_move_too_many_todos_is_refused(desk: TenantHarness) -> None:
    for _ in range(3):
        desk.write(todos.add_many, [Draft("x")] * 334)
    first = desk.subjects()[0]
    before = desk.count("events")

    with pytest.raises(Invalid, match="1,000 todos would have to move"):
        desk.add("first of all", position=1)
    assert (desk.subjects()[0], desk.count("events")) == (first, before)
    assert desk.add("nearer to the end", position=3).position == 3


def test_only_some_todos_of_a_batch_may_name_their_place(desk: TenantHarness) -> None:
    with pytest.raises(Invalid, match="At most 20 todos"):
        desk.write(todos.add_many, [Draft("x", position=1)] * 21)
    assert desk.count("todos") == 0
