"""The log stores what changed and no more: long texts that stay the same, and todos that only move, do not fill it."""

import json
from typing import Any

import pytest

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.history import timeline
from headway.actions.history.timeline import TimelineView
from headway.actions.inspection import copies, why
from headway.actions.runs import runs, sub_goals
from headway.actions.todos import conversations, todos
from headway.actions.turns import turns
from headway.actions.turns.live_text import LiveText
from headway.actions.turns.turns import TurnRequest
from headway.ledger.check import encode_checks
from headway.ledger.limits import Limits
from headway.ledger.scope import MemorySelection
from headway.ledger.text import MAX_INTEGER, SUBJECT_LIMIT, TEXT_LIMIT
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.stores import forks as fork_store
from headway.storage.stores import memory as memory_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.goal_plans import add_plan, end, get_sub_goal, start
from tests.proofs import Proof
from tests.storage.test_lists import ExplainingTransaction

LONG = "x" * 2_000
CHECKS = encode_checks([{"kind": "judge", "rubric": LONG, "by": "person"}])


def read_events(desk: TenantHarness, kind: str) -> list[dict[str, Any]]:
    return [json.loads(data) for event_kind, data in desk.events() if event_kind == kind]


def replay(desk: TenantHarness) -> dict[int, dict[str, Any]]:
    """Rebuild the todos from the log as a client does: it keeps what an event leaves out."""
    rows: dict[int, dict[str, Any]] = {}
    for kind, text in desk.events():
        data = json.loads(text)
        if kind == "todos_moved":
            for todo_id, position in data["positions"].items():
                rows[int(todo_id)] |= {"position": position, "updated_at": data["updated_at"]}
        elif kind == "todo_changed":
            assert all(name not in data["todo"] for name in data.get("omitted", ()))
            rows[data["todo"]["id"]] = rows.get(data["todo"]["id"], {}) | data["todo"]
            if data["change"] == "deleted":
                del rows[data["todo"]["id"]]
    return rows


def to_json(desk: TenantHarness, *todo_ids: int) -> dict[int, dict[str, Any]]:
    return {todo_id: json.loads(json.dumps(desk.read(todos.get_todo, todo_id).as_json())) for todo_id in todo_ids}


# Todos


@pytest.mark.proof
def test_moving_todos_of_200_kb_logs_kilobytes(desk: TenantHarness, clock: FixedClock, proof: Proof) -> None:
    count = proof.trials("moves of todos of 200 KB", share=20, whole=200)
    rows = [desk.add(f"todo {number}", description="x" * TEXT_LIMIT) for number in range(count)]
    before = len(desk.events())
    for row in rows:
        clock.advance(1)
        desk.change(row, position=1)

    logged = sum(len(data) for _, data in desk.events()[before:])
    assert logged < count * (1_000 + 30 * count), f"{logged:,} bytes"  # a todo of the usual size, and a number for each that moved
    assert replay(desk) == to_json(desk, *(row.id for row in rows))
    assert desk.subjects() == [row.subject for row in reversed(rows)]


def test_long_texts_are_logged_when_they_change(desk: TenantHarness, clock: FixedClock) -> None:
    talk = desk.conversation()
    first = desk.add("first", conversation_id=talk.id, description=LONG, completion_criteria=LONG, checks=CHECKS)
    second = desk.add("second", conversation_id=talk.id, description="short", depends_on=(first.id,))
    clock.advance(1)
    desk.change(first, subject="renamed")
    desk.change(first, description=f"{LONG}, changed")
    desk.change(first, outcome=f"{LONG}, too")
    desk.change(second, position=1)
    desk.write(todos.end_todo, first.id, "canceled")
    todo_ids = (first.id, second.id)
    rows = to_json(desk, *todo_ids)
    events = fork_store_events(desk, talk.id)

    assert [data.get("omitted", []) for data in read_events(desk, "todo_changed")] == [
        [],
        [],
        ["description", "completion_criteria", "checks"],
        ["completion_criteria", "checks"],
        ["description", "completion_criteria", "checks"],
        [],
        ["description", "completion_criteria", "outcome", "checks"],
    ]
    assert replay(desk) == rows
    versions = copies.group_versions(events)
    assert {todo_id: versions[todo_id][-1].row for todo_id in todo_ids} == rows
    assert [line.text for line in desk.read(why.explain, "todo", str(first.id), 100).lines[1:-1]] == [
        "Its subject changed.",
        "Its description changed.",
        "Its outcome changed.",
        "It was canceled.",
    ]
    desk.write(todos.remove_todo, first.id)
    assert read_events(desk, "todo_changed")[-2]["omitted"] == ["description", "completion_criteria", "outcome", "checks"]
    assert replay(desk) == to_json(desk, second.id)


def fork_store_events(desk: TenantHarness, conversation_id: int) -> list[Any]:
    return desk.read(fork_store.list_events, conversation_id, copies.TODO_KINDS, 0, MAX_INTEGER)


def test_a_plan_with_many_long_titles_is_cut_in_events(desk: TenantHarness) -> None:
    turn = desk.write(conversations.open_turn, desk.conversation().id).id
    desk.write(todos.add_many, [Draft(f"{number} {'x' * (SUBJECT_LIMIT - 10)}", turn_id=turn) for number in range(100)])
    kind, data = desk.events()[-2]
    state = json.loads(data)

    assert (kind, len(state["items"]), state["total"]) == ("todos_updated", 100, 100)
    assert len(data) < 50_000
    assert all(item["description"].endswith("…") for item in state["items"])
    assert len(state["current"]["description"]) > SUBJECT_LIMIT - 10


# Goals, agents and schedules


def test_long_texts_of_goals_are_logged_once(desk: TenantHarness, clock: FixedClock) -> None:
    goal = desk.write(goals.add_goal, NewGoal("reach it", LONG))
    step_id = desk.write(lambda tx, _: add_plan(tx, goal, {LONG: []}))[LONG]
    desk.write(lambda tx, _: start(tx, goal, step_id))
    clock.advance(1)
    desk.write(lambda tx, _: end(tx, goal, step_id, LONG))
    desk.write(lambda tx, _: sub_goals.change_sub_goal(tx, get_sub_goal(tx, goal, step_id), check_ins=1))

    assert [data.get("omitted") for data in read_events(desk, "goal_changed")][-2:] == [["success_criteria"]] * 2
    assert read_events(desk, "goal_changed")[0]["goal"]["success_criteria"] == LONG
    created, *_, ended, changed = read_events(desk, "sub_goal_changed")
    assert created["sub_goal"]["description"] == LONG
    assert (ended["omitted"], ended["sub_goal"]["outcome"]["summary"]) == (["description", "expected_outcome"], LONG)
    assert changed["omitted"] == ["description", "expected_outcome", "outcome"]


def test_the_long_task_of_a_sub_agent_is_logged_once_and_shown_in_every_timeline(desk: TenantHarness, clock: FixedClock) -> None:
    talk = desk.conversation()
    parent = desk.write(turns.start_turn, talk.id, TurnRequest("look"))
    child = desk.write(lambda tx, _: runs.begin_child(tx, parent, "coder", LONG, 5))
    clock.advance(1)
    desk.write(lambda tx, _: runs.cancel_tree(tx, child))
    events = read_events(desk, "agent_changed")
    page = desk.read(timeline.show_timeline, talk.id, TimelineView(Limits(), LiveText(), 1))

    assert [data.get("omitted") for data in events] == [None, ["task"]]
    assert [(entry["kind"], entry["data"]["run"]["task"]) for entry in page["entries"]] == [("agent_changed", LONG)]


def test_a_schedule_with_a_long_message_logs_it_once(desk: TenantHarness) -> None:
    work = {"message": {"conversation_id": desk.conversation().id, "content": LONG}}
    desk.write(schedules.put, "daily", Timing(every_ms=60_000), work)
    desk.write(schedules.pause, "daily")
    desk.write(schedules.remove_schedule, "daily")

    events = read_events(desk, "schedule_changed")
    assert [(data["change"], data.get("omitted"), "message" in data["schedule"]) for data in events] == [
        ("updated", None, True),
        ("updated", ["message"], False),
        ("deleted", ["message"], False),
    ]


# Reading through indexes


def test_a_conversations_memory_is_read_through_the_index(sqlite_url: str) -> None:
    def explain(tx: Transaction) -> list[str]:
        explaining = ExplainingTransaction(tx)
        memory_store.list_note_page(explaining, 1, MemorySelection(7, "note"), 50, MAX_INTEGER)  # type: ignore[arg-type]
        return explaining.steps

    with DirectDatabase(sqlite_url) as database:
        steps = database.read(explain)
    expected = "SEARCH memory_entries USING INDEX memory_of_conversation (tenant_id=? AND conversation_id=? AND id<?)"
    assert steps == [expected] * 2
