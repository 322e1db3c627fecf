"""The plan, the queue and the ledger are one list: each change to a row of a turn appears in every view and emits its events."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headway.actions.todos import import_export, todos
from headway.actions.turns import plan
from headway.actions.turns.plan import PlanItem
from headway.ledger.errors import EmptySubject
from headway.ledger.scope import Scope, Selection
from headway.ledger.todo import Change, Draft
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.agents.agent_harness import PAIR, Agent
from tests.tables import each_row


def list_queue(agent: Agent) -> list[tuple[int, str, str]]:
    return [(item["id"], item["description"], item["status"]) for item in agent("manage_todos")["state"]["items"]]


def list_by_subject(agent: Agent) -> dict[str, tuple[int, str]]:
    """Return id and status of the turn's rows by subject, as the ledger tools report them."""
    rows = agent("todo_list", status="all", limit=100)["todos"]
    return {todo["subject"]: (todo["id"], todo["status"]) for todo in rows if todo["turn_id"] == agent.turn_id}


def test_rows_added_in_one_view_show_in_the_others(agent: Agent) -> None:
    agent.plan("planned")
    agent("manage_todos", add=["queued"])
    agent.desk.add("posted", turn_id=agent.turn_id)
    agent("write_todos", todos=[{"content": content} for content in ("planned", "queued", "posted", "written")])

    titles = ["planned", "queued", "posted", "written"]
    assert agent.titles() == titles
    assert [(description, status) for _, description, status in list_queue(agent)] == [
        ("planned", "current"),
        ("queued", "pending"),
        ("posted", "pending"),
        ("written", "pending"),
    ]
    ids = {row.subject: row.id for row in agent.rows()}
    assert {description: todo_id for todo_id, description, _ in list_queue(agent)} == ids
    assert list_by_subject(agent) == {title: (ids[title], "pending") for title in titles}
    assert agent.desk.subjects(Selection(turn_id=agent.turn_id)) == titles


def test_rows_ended_in_one_view_have_ended_in_the_others(agent: Agent) -> None:
    by_plan, *_ = agent.plan("by plan", "by queue", "by hand", "left")
    agent("complete_todo", todoId=by_plan, outcome="done")
    agent("manage_todos", delete=["by queue"])
    agent("todo_update", id=agent.row("by hand").id, status="completed", outcome="done by hand")

    assert [(description, status) for _, description, status in list_queue(agent)] == [
        ("by plan", "done"),
        ("by hand", "done"),
        ("left", "current"),
    ]
    assert {title: status for title, (_, status) in list_by_subject(agent).items()} == {
        "by plan": "completed",
        "by queue": "canceled",
        "by hand": "completed",
        "left": "pending",
    }
    items = {item["title"]: (item["status"], item["outcome"]) for item in agent("list_todo", status="all")["items"]}
    assert items == {
        "by plan": ("completed", "done"),
        "by queue": ("cancelled", None),
        "by hand": ("completed", "done by hand"),
        "left": ("pending", None),
    }


def test_canceled_rows_are_not_part_of_the_queue_and_reopening_brings_them_back(agent: Agent) -> None:
    agent("manage_todos", add=["look", "build"])
    agent("manage_todos", delete=["look"])
    assert [description for _, description, _ in list_queue(agent)] == ["build"]

    agent.desk.change(agent.row("look"), status="pending")
    assert [(description, status) for _, description, status in list_queue(agent)] == [("look", "current"), ("build", "pending")]


# Every operation that changes a row of a turn. Each gets an agent whose plan is "look", "build".
OPERATIONS: dict[str, Callable[[Agent], Any]] = {
    "create_todo": lambda agent: agent.plan("new", "newer"),
    "start_todo": lambda agent: agent("start_todo", todoId=agent.row("look").uuid),
    "complete_todo": lambda agent: agent("complete_todo", todoId=agent.row("look").uuid, outcome="seen"),
    "manage_todos": lambda agent: agent("manage_todos", add=["new", "newer"], delete=["look", "build"]),
    "write_todos": lambda agent: agent("write_todos", todos=[{"content": "new"}, {"content": "build", "status": "completed"}]),
    "update_plan": lambda agent: agent("update_plan", plan=[{"step": "build"}, {"step": "look"}]),
    "todo_update": lambda agent: agent("todo_update", id=agent.row("look").id, subject="look again", status="in_progress"),
    "todos.add": lambda agent: agent.desk.add("new", turn_id=agent.turn_id),
    "todos.add_many": lambda agent: agent.desk.write(
        todos.add_many, [Draft("new", turn_id=agent.turn_id), Draft("newer", turn_id=agent.turn_id)]
    ),
    "todos.change of a word": lambda agent: agent.desk.change(agent.row("look"), subject="look again"),
    "todos.change of a place": lambda agent: agent.desk.change(agent.row("build"), position=0),
    "todos.change of a dependency": lambda agent: agent.desk.change(agent.row("build"), depends_on=(agent.row("look").id,)),
    "todos.end": lambda agent: agent.desk.write(todos.end_todo, agent.row("look").id, "canceled"),
}


@each_row("door", OPERATIONS.values())
def test_changing_a_row_of_a_turn_on_any_surface_emits_the_pair_once_at_the_end(agent: Agent, door: Callable[[Agent], Any]) -> None:
    agent = agent.another()  # with an empty list
    agent.plan("look", "build")
    before = len(agent.desk.events())
    door(agent)

    kinds = agent.kinds()[before:]
    assert kinds[-2:] == PAIR
    assert set(kinds[:-2]) <= {"todo_changed", "todos_moved"}
    assert len(kinds) > 2
    updated, current = (json.loads(data) for _, data in agent.desk.events()[-2:])
    assert updated == agent("manage_todos")["state"]
    assert current == {name: updated[name] for name in ("current", "remaining", "total")}


def test_an_import_of_a_plan_emits_the_pair(agent: Agent) -> None:
    agent.plan("look", "build")
    exported = agent.desk.read(import_export.export_json, Selection(turn_id=agent.turn_id))
    rival = TenantHarness(agent.desk.database, "rival")
    rival.database.write(lambda tx: import_export.import_json(tx, Scope(rival.tenant.id), exported.text))

    events = rival.events()
    assert [kind for kind, _ in events] == ["todo_changed", "todo_changed", *PAIR]
    assert [item["description"] for item in json.loads(events[-2][1])["items"]] == ["look", "build"]


def test_a_row_with_one_dependency_less_is_emitted(agent: Agent) -> None:
    obstacle = agent.desk.add("obstacle")
    agent.plan("look")
    agent.desk.change(agent.row("look"), depends_on=(obstacle.id,))
    before = len(agent.desk.events())
    agent.desk.write(todos.remove_todo, obstacle.id)

    assert agent.kinds()[before:] == ["todo_changed", "todo_changed", *PAIR]
    assert agent.row("look").depends_on == ()


def test_an_empty_change_and_a_change_elsewhere_emit_no_pair(agent: Agent) -> None:
    agent.plan("look")
    before = len(agent.desk.events())
    agent.desk.change(agent.row("look"), subject="look")
    agent.desk.add("in the conversation", conversation_id=agent.conversation.id)

    assert agent.kinds()[before:] == ["todo_changed"]


def test_a_refused_call_emits_nothing_that_was_rolled_back(agent: Agent) -> None:
    agent.plan("look")
    before = agent.desk.events()
    agent.refused("write_todos", todos=[{"content": "new"}, {"content": "NUL \0"}])

    def failing_part(tx: Transaction) -> None:
        with pytest.raises(EmptySubject):
            tx.attempt(lambda tx: todos.add_many(tx, agent.desk.tenant.id, [Draft("new", turn_id=agent.turn_id), Draft(" ")]))

    agent.desk.database.write(failing_part)
    assert agent.desk.events() == before
    assert agent.titles() == ["look"]


def test_two_turns_changed_in_one_transaction_are_each_emitted_once(agent: Agent) -> None:
    other = agent.another()
    before = len(agent.desk.events())

    def work(tx: Transaction) -> None:
        for owner in (agent, other, agent):
            plan.create_plan(tx, Scope(owner.desk.tenant.id), owner.turn_id, [PlanItem("look")])
        todos.change_todo(
            tx, agent.desk.tenant.id, todos.add_todo(tx, agent.desk.tenant.id, Draft("wide")).id, Change(subject="wider")
        )

    agent.desk.database.write(work)
    assert agent.kinds()[before:] == ["todo_changed"] * 5 + PAIR + PAIR
    totals = [json.loads(data)["total"] for kind, data in agent.desk.events()[before:] if kind == "todos_updated"]
    assert totals == [2, 1]
