"""manage_todos: the turn's list as a queue with one current item, and how the runtime completes that item."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import todos
from headway.actions.todos.turn_state import load_queue_state
from headway.actions.turns import plan
from headway.agents.tools import catalogue
from headway.ledger.scope import Scope
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.agents.agent_harness import PAIR, Agent, open_agent
from tests.tables import each_row


def manage(agent: Agent, **arguments: Any) -> dict[str, Any]:
    answer = agent("manage_todos", **arguments)
    assert answer.pop("success") is ("error" not in answer)
    assert answer.keys() - {"error"} == {"state"}
    state: dict[str, Any] = answer["state"]
    assert set(state) == {"total", "remaining", "current", "items"}
    return state


def finish_current(agent: Agent, outcome: str | None = None) -> dict[str, Any]:
    scope = Scope(agent.desk.tenant.id, agent.conversation.id, agent.turn_id)

    def work(tx: Transaction) -> dict[str, Any]:
        current = load_queue_state(tx, scope.tenant_id, agent.turn_id).current
        return plan.complete_queue_item(tx, scope, agent.turn_id, current.id if current else 0, outcome).as_json()

    return agent.desk.database.write(work)


def render_items(state: dict[str, Any]) -> list[str]:
    """Return one line per item: its description and status."""
    return [f"{item['description']}: {item['status']}" for item in state["items"]]


# Adding


def test_the_first_item_is_current_and_the_rest_wait(agent: Agent) -> None:
    state = manage(agent, add=["look", "build"])

    look, build = state["items"]
    assert (state["total"], state["remaining"]) == (2, 2)
    assert look == state["current"] == {"id": look["id"], "description": "look", "status": "current"}
    assert build == {"id": build["id"], "description": "build", "status": "pending"}
    assert [row.id for row in agent.rows()] == [look["id"], build["id"]]


def test_the_schema_names_add_and_delete_and_nothing_else() -> None:
    """003: "add: { type: 'array', items: { type: 'string' } }, delete: { type: 'array', items: { oneOf: [{ type: 'string' },
    { type: 'number' }] } }", "additionalProperties: false"."""
    schema = catalogue.build_toolbox().find("manage_todos").as_json()["input_schema"]
    assert schema["properties"]["add"]["items"] == {"type": "string"}
    assert schema["properties"]["delete"]["items"] == {"anyOf": [{"type": "string"}, {"type": "number"}]}
    assert (set(schema["properties"]), schema["additionalProperties"]) == ({"add", "delete"}, False)
    assert "required" not in schema


def test_later_items_go_to_the_end_and_the_current_item_stays(agent: Agent) -> None:
    manage(agent, add=["look"])

    assert render_items(manage(agent, add=["build", "check"])) == ["look: current", "build: pending", "check: pending"]


def test_descriptions_are_trimmed_and_empty_ones_dropped(agent: Agent) -> None:
    assert render_items(manage(agent, add=["  look\n", "", " \t ", "build"])) == ["look: current", "build: pending"]


def test_adding_after_all_is_done_makes_the_new_one_current(agent: Agent) -> None:
    manage(agent, add=["look"])
    finish_current(agent)
    state = manage(agent, add=["build"])

    assert render_items(state) == ["look: done", "build: current"]
    assert (state["total"], state["remaining"], state["current"]["description"]) == (2, 1, "build")


@each_row("given", [None, "look", 5, True, {"0": "look"}, 1.5])
@each_row("argument", ["add", "delete"])
def test_an_argument_that_is_not_a_list_changes_nothing(sqlite_agent: Agent, argument: str, given: Any) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    before = manage(sqlite_agent, add=["look", "5"])

    assert manage(sqlite_agent, **{argument: given}) == before


def test_invalid_descriptions_are_skipped(sqlite_agent: Agent) -> None:
    state = manage(sqlite_agent, add=["look", None, True, {"description": "x"}, ["y"], 7, 2.0, 0.5])

    assert [item["description"] for item in state["items"]] == ["look", "7", "2", "0.5"]


def test_an_empty_call_answers_with_the_state(agent: Agent) -> None:
    assert manage(agent) == {"total": 0, "remaining": 0, "current": None, "items": []}
    before = manage(agent, add=["look"])

    assert manage(agent) == manage(agent, add=[], delete=[]) == before


def test_an_argument_the_schema_does_not_have_is_an_error_that_names_it(sqlite_agent: Agent) -> None:
    assert "remove" in sqlite_agent.refused("manage_todos", remove=[1])


@each_row("bad", ["x" * 1_001, "NUL \0", "half a pair \ud800"])
def test_an_unstorable_description_stores_nothing_of_the_call_and_emits_nothing(agent: Agent, bad: str) -> None:
    before = agent.desk.events()

    agent.refused("manage_todos", add=["fine", bad])
    assert (agent.rows(), agent.desk.events()) == ([], before)


def test_one_call_does_not_add_more_than_a_plan_holds(sqlite_agent: Agent) -> None:
    assert "500" in sqlite_agent.refused("manage_todos", add=["x"] * 501)
    assert sqlite_agent.rows() == []


# Deleting


def by_id(item: dict[str, Any]) -> int:
    return int(item["id"])


def by_digits(item: dict[str, Any]) -> str:
    return f" {item['id']} "


def by_floating_number(item: dict[str, Any]) -> float:
    return float(item["id"])


def by_description(item: dict[str, Any]) -> str:
    return f"{item['description']} "


@each_row("named", [by_id, by_digits, by_floating_number, by_description])
def test_an_item_is_deleted_by_its_id_or_its_exact_description(agent: Agent, named: Any) -> None:
    agent = agent.another()  # with an empty list
    look, _build = manage(agent, add=["look", "build"])["items"]
    state = manage(agent, delete=[named(look)])

    assert render_items(state) == ["build: current"]
    assert (state["total"], state["remaining"]) == (1, 1)


@each_row("matcher", ["loo", "Look", "look!", "*", 0, -1, 10**18, "1e9", "", True, None, ["look"], {"id": 1}])
def test_nothing_else_matches(sqlite_agent: Agent, matcher: Any) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    before = manage(sqlite_agent, add=["look", "build"])

    answer = sqlite_agent("manage_todos", delete=[matcher])
    assert answer["state"] == before
    name = plan.parse_text(matcher)
    assert answer["success"] is (not name)  # what is no text and no number is ignored
    assert answer.get("error") == (f"Not in the list, so not deleted: {name!r}." if name else None)


def test_what_is_in_the_list_is_deleted_although_the_rest_is_not(sqlite_agent: Agent) -> None:
    manage(sqlite_agent, add=["look", "build"])
    answer = sqlite_agent("manage_todos", delete=["look", 77])
    assert (answer["success"], render_items(answer["state"])) == (False, ["build: current"])
    assert answer["error"] == "Not in the list, so not deleted: '77'."


def test_a_description_names_all_items_that_say_it(agent: Agent) -> None:
    manage(agent, add=["look", "build", "look"])

    assert render_items(manage(agent, delete=["look"])) == ["build: current"]


def test_deleting_the_current_one_activates_the_next(agent: Agent) -> None:
    current = manage(agent, add=["look", "build", "check"])["current"]

    assert render_items(manage(agent, delete=[current["id"]])) == ["build: current", "check: pending"]


def test_deleting_the_last_one_leaves_none_current(agent: Agent) -> None:
    manage(agent, add=["look"])
    state = manage(agent, delete=["look"])

    assert state == {"total": 0, "remaining": 0, "current": None, "items": []}


def test_add_runs_before_delete(agent: Agent) -> None:
    manage(agent, add=["look"])

    assert render_items(manage(agent, add=["build", "check"], delete=["look", "build"])) == ["check: current"]


def test_deleting_cancels_an_open_row_and_leaves_a_completed_one(agent: Agent) -> None:
    manage(agent, add=["look", "build"])
    finish_current(agent, "seen")

    assert render_items(manage(agent, delete=["look", "build"])) == ["look: done"]
    assert [(row.subject, row.status, row.outcome) for row in agent.rows()] == [
        ("look", "completed", "seen"),
        ("build", "canceled", None),
    ]


@each_row("named", [by_id, by_digits, by_floating_number])
def test_a_done_item_is_deleted_from_the_queue_by_its_id(agent: Agent, named: Any) -> None:
    """003: "`delete?: (string | number)[]` — ids or exact descriptions to remove", of items in every status.
    000: "No rows are ever deleted"."""
    agent = agent.another()  # with an empty list
    look, _build = manage(agent, add=["look", "build"])["items"]
    finish_current(agent, "seen")
    before = len(agent.desk.events())
    state = manage(agent, delete=[named(look)])

    assert render_items(state) == ["build: current"]
    assert (state["total"], state["remaining"]) == (1, 1)
    assert agent.kinds()[before:] == PAIR
    assert [(row.subject, row.status, row.outcome) for row in agent.rows()] == [
        ("look", "completed", "seen"),
        ("build", "pending", None),
    ]
    plan = agent("list_todo", status="all")
    assert [(item["title"], item["status"]) for item in plan["items"]] == [("look", "completed"), ("build", "pending")]
    assert plan["summary"]["completed"] == 1


def test_an_item_that_is_reopened_is_back_in_the_queue(agent: Agent) -> None:
    look = manage(agent, add=["look"])["current"]
    finish_current(agent)
    assert render_items(manage(agent, delete=[look["id"]])) == []

    agent.desk.change(agent.row("look"), status="pending")
    assert render_items(manage(agent)) == ["look: current"]
    assert render_items(finish_current(agent)) == ["look: done"]


# Progress


def test_the_current_item_is_finished_and_the_next_becomes_current(agent: Agent, clock: FixedClock) -> None:
    manage(agent, add=["look", "build"])
    clock.advance(5)
    state = finish_current(agent, "seen")

    assert render_items(state) == ["look: done", "build: current"]
    assert (state["total"], state["remaining"]) == (2, 1)
    assert (agent.row("look").completed_at, agent.row("look").outcome) == (clock.now, "seen")
    assert render_items(finish_current(agent)) == ["look: done", "build: done"]


def test_finishing_with_nothing_left_changes_nothing(agent: Agent) -> None:
    manage(agent, add=["look"])
    state = finish_current(agent)
    rows = agent.rows()

    assert finish_current(agent) == state
    assert state["current"] is None
    assert agent.rows() == rows


def test_the_item_in_progress_is_the_current_one_at_any_position(agent: Agent) -> None:
    manage(agent, add=["look", "build", "check"])
    agent.desk.change(agent.row("build"), status="in_progress")
    agent.desk.change(agent.row("check"), status="in_progress")

    assert render_items(manage(agent)) == ["look: pending", "build: current", "check: pending"]
    assert render_items(finish_current(agent)) == ["look: pending", "build: done", "check: current"]


def test_another_process_sees_the_same_queue(agent: Agent, database_url: str, tmp_path: Path, clock: FixedClock) -> None:
    state = manage(agent, add=["look", "build"])
    with open_agent(agent.desk, database_url, tmp_path, clock) as successor:
        successor.turn_id = agent.turn_id

        assert manage(successor) == state


def test_the_state_is_the_callers_own_copy(agent: Agent) -> None:
    state = manage(agent, add=["look", "build"])
    untouched = json.loads(json.dumps(state))
    state["items"].clear()
    state["current"]["description"] = "meddled"

    assert manage(agent) == untouched


# Events


@each_row(
    "arguments", [{}, {"add": ["look"]}, {"delete": ["begun"]}, {"delete": ["nothing"]}, {"add": ["look"], "delete": ["begun"]}]
)
def test_every_call_emits_the_whole_state_then_the_current_item(agent: Agent, arguments: dict[str, Any]) -> None:
    agent = agent.another()  # with an empty list
    manage(agent, add=["begun"])
    before = len(agent.desk.events())
    state = manage(agent, **arguments)

    events = agent.desk.events()[before:]
    assert [kind for kind, _ in events if kind != "todo_changed"] == PAIR
    assert [kind for kind, _ in events][-2:] == PAIR
    updated, current = (json.loads(data) for _, data in events[-2:])
    assert updated == state
    assert current == {name: state[name] for name in ("current", "remaining", "total")}


def test_finishing_the_current_item_emits_the_pair_too(agent: Agent) -> None:
    manage(agent, add=["look"])
    for _ in range(2):  # the second time, nothing is left to finish
        before = len(agent.desk.events())
        state = finish_current(agent)

        assert [kind for kind, _ in agent.desk.events()][before:][-2:] == PAIR
        assert json.loads(agent.desk.events()[-2][1]) == state


def test_a_listener_that_fails_never_fails_the_tool(
    desk: TenantHarness, database_url: str, tmp_path: Path, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_tenants: frozenset[int]) -> None:
        raise RuntimeError("the wire is cut")

    with open_agent(desk, database_url, tmp_path, clock, fail) as agent:
        assert render_items(manage(agent, add=["look"])) == ["look: current"]
        assert render_items(manage(agent)) == ["look: current"]
        assert agent.kinds()[-2:] == PAIR
    assert "the wire is cut" in caplog.text


def test_several_verbs_in_one_transaction_emit_the_pair_once(agent: Agent) -> None:
    manage(agent, add=["look", "build"])
    before = len(agent.desk.events())
    scope = Scope(agent.desk.tenant.id, agent.conversation.id, agent.turn_id)
    look, build = agent.row("look"), agent.row("build")

    def work(tx: Transaction) -> None:
        plan.manage(tx, scope, agent.turn_id, ["check"])
        plan.complete_queue_item(tx, scope, agent.turn_id, look.id)
        todos.end_todo(tx, scope.tenant_id, build.id, "canceled")

    agent.desk.database.write(work)
    assert agent.kinds()[before:] == ["todo_changed"] * 3 + PAIR
    assert render_items(json.loads(agent.desk.events()[-2][1])) == ["look: done", "check: current"]


def test_a_queue_grows_no_larger_than_a_plan_over_several_calls(sqlite_agent: Agent) -> None:
    manage(sqlite_agent, add=["x"] * 500)

    assert "500" in sqlite_agent.refused("manage_todos", add=["one more"])
    assert "500" in sqlite_agent.refused("create_todo", items=[{"title": "one more"}])
    assert len(sqlite_agent.rows()) == 500
