"""write_todos, TodoWrite and update_plan: each replaces the whole list and keeps the ids, history and outcomes of its items."""

from typing import Any

from headway.testing import FixedClock
from tests.agents.agent_harness import Agent
from tests.tables import each_row


def write(agent: Agent, *items: str, tool: str = "write_todos") -> Any:
    """Write a list of `content` or `content: status`."""
    pairs = [item.partition(": ")[::2] for item in items]
    if tool == "update_plan":
        return agent(tool, plan=[{"step": content} | ({"status": status} if status else {}) for content, status in pairs])
    return agent(tool, todos=[{"content": content} | ({"status": status} if status else {}) for content, status in pairs])


def render_rows(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['content']}: {row['status']}" for row in rows]


def ids(answer: Any) -> dict[str, int]:
    return {row["content"]: row["id"] for row in answer["todos"]}


@each_row("tool", ["write_todos", "TodoWrite", "update_plan"])
def test_the_list_becomes_the_written_one_and_missing_items_are_canceled_and_reported(agent: Agent, tool: str) -> None:
    agent = agent.another()  # with an empty list
    first = write(agent, "look", "build", "check", tool=tool)
    assert render_rows(first["todos"]) == ["look: pending", "build: pending", "check: pending"]
    assert first["canceled"] == []

    second = write(agent, "look: completed", "ship: in_progress", "check", tool=tool)
    assert render_rows(second["todos"]) == ["look: completed", "ship: in_progress", "check: pending"]
    assert second["canceled"] == [{"id": ids(first)["build"], "content": "build"}]
    assert {name: ids(second)[name] for name in ("look", "check")} == {name: ids(first)[name] for name in ("look", "check")}
    assert {row.subject: row.status for row in agent.rows()} == {
        "look": "completed",
        "build": "canceled",
        "ship": "in_progress",
        "check": "pending",
    }


def test_shapes_with_more_in_them_than_we_keep_are_understood(agent: Agent) -> None:
    agent("TodoWrite", todos=[{"content": "look", "status": "in_progress", "activeForm": "Looking", "id": "1", "priority": "high"}])
    agent("update_plan", explanation="because", plan=[{"step": "look", "status": "completed"}])

    assert [(row.subject, row.status) for row in agent.rows()] == [("look", "completed")]


@each_row("tool", ["write_todos", "TodoWrite", "update_plan"])
def test_both_spellings_of_canceled_are_understood(sqlite_agent: Agent, tool: str) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    answer = write(sqlite_agent, "look: cancelled", "build: canceled", tool=tool)

    assert render_rows(answer["todos"]) == ["look: canceled", "build: canceled"]


def test_ids_history_and_outcomes_survive_a_rewrite(agent: Agent, clock: FixedClock) -> None:
    (todo_id,) = agent.plan("look")
    agent("start_todo", todoId=todo_id)
    clock.advance(5)
    agent("complete_todo", todoId=todo_id, outcome="seen")
    before = agent.row("look")
    clock.advance(5)
    write(agent, "look: completed", "build: in_progress")

    assert agent.row("look") == before
    assert (before.outcome, before.started_at > 0) == ("seen", True)


def test_writing_the_same_list_again_changes_nothing(agent: Agent, clock: FixedClock) -> None:
    same = ("look: completed", "build: in_progress", "check", "skip: canceled")
    first = write(agent, *same)
    rows, changes = agent.rows(), agent.desk.changes()
    clock.advance(5)

    assert write(agent, *same) == first
    assert (agent.rows(), agent.desk.changes()) == (rows, changes)


def test_an_ended_item_written_as_open_is_reopened(agent: Agent) -> None:
    first = write(agent, "look: completed", "build: completed", "check: canceled")
    second = write(agent, "look", "build: in_progress", "check: completed")

    assert render_rows(second["todos"]) == ["look: pending", "build: in_progress", "check: completed"]
    assert ids(second) == ids(first)
    assert (agent.row("look").completed_at, agent.row("look").outcome) == (0, None)


def test_a_dropped_item_comes_back_as_the_same_row(agent: Agent) -> None:
    first = write(agent, "look", "build")
    write(agent, "look")
    third = write(agent, "look", "build")

    assert ids(third) == ids(first)
    assert third["canceled"] == []
    assert len(agent.rows()) == 2


def test_an_ended_item_that_is_left_out_stays_as_it_ended(agent: Agent) -> None:
    write(agent, "look: completed", "build")

    assert write(agent, "build")["canceled"] == []
    assert agent.row("look").status == "completed"
    assert agent.titles() == ["build", "look"]


def test_items_that_say_the_same_are_several_items(agent: Agent) -> None:
    first = write(agent, "test", "fix", "test")
    assert len({row["id"] for row in first["todos"]}) == 3

    second = write(agent, "test: completed", "fix", "test")
    assert [row["id"] for row in second["todos"]] == [row["id"] for row in first["todos"]]
    assert second["canceled"] == []
    third = write(agent, "fix", "test: in_progress", "test: completed")
    assert {row["id"]: row["status"] for row in third["todos"]} == {
        first["todos"][0]["id"]: "completed",
        first["todos"][1]["id"]: "pending",
        first["todos"][2]["id"]: "in_progress",
    }
    fourth = write(agent, "fix", "test: completed")
    assert fourth["canceled"] == [{"id": first["todos"][2]["id"], "content": "test"}]


def test_the_order_is_the_one_that_was_written(agent: Agent) -> None:
    for titles in (["a", "b", "c"], ["c", "a", "b"], ["b", "new", "c"], ["a", "c", "b"]):
        write(agent, *titles)

        assert agent.titles()[: len(titles)] == titles
        assert [row.position for row in agent.rows()] == list(range(len(agent.rows())))


def test_the_order_holds_when_a_todo_is_reopened_after_its_position_was_taken(agent: Agent) -> None:
    write(agent, "a: completed", "b")
    write(agent, "b")
    write(agent, "b", "a")

    assert agent.titles() == ["b", "a"]


def test_an_empty_list_cancels_the_open_items(agent: Agent) -> None:
    write(agent, "look: completed", "build", "check: in_progress")
    answer = write(agent)

    assert answer["todos"] == []
    assert [item["content"] for item in answer["canceled"]] == ["build", "check"]


@each_row(
    ("tool", "arguments", "complaint"),
    [
        ("write_todos", {}, "todos"),
        ("TodoWrite", {"todos": "look"}, "todos"),
        ("TodoWrite", {"todos": [{"content": "look"}, {"content": " "}]}, "todos[1].content"),
        ("TodoWrite", {"todos": [{"content": "look"}, {"content": "build", "status": "started"}]}, "todos[1].status"),
        ("write_todos", {"todos": [{"content": "look"}, {"content": "x" * 1_001}]}, "1,001"),
        ("write_todos", {"todos": [{"content": "look"}] * 501}, "500"),
        ("update_plan", {"plan": [{"step": "look"}, {"status": "pending"}]}, "plan[1].step"),
    ],
)
def test_a_list_with_something_wrong_in_it_changes_nothing(
    sqlite_agent: Agent, tool: str, arguments: dict[str, Any], complaint: str
) -> None:
    write(sqlite_agent, "begun: in_progress")
    before = sqlite_agent.rows(), sqlite_agent.desk.events()

    assert complaint in sqlite_agent.refused(tool, **arguments)
    assert (sqlite_agent.rows(), sqlite_agent.desk.events()) == before
