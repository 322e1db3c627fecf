"""The tools for the turn's plan: create_todo, list_todo, start_todo, complete_todo."""

import re
from typing import Any
from uuid import UUID

from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock, TenantHarness
from tests.agents.agent_harness import Agent
from tests.tables import each_row

NOTHING = {"total": 0, "pending": 0, "inProgress": 0, "completed": 0, "cancelled": 0}


def plan_each_status(agent: Agent) -> dict[str, str]:
    """Create a plan with one item in each status. Return the ids by title."""
    ids = dict(zip(("waiting", "going", "done", "dropped"), agent.plan("waiting", "going", "done", "dropped"), strict=True))
    agent("start_todo", todoId=ids["going"])
    agent("complete_todo", todoId=ids["done"], outcome="it works")
    agent("complete_todo", todoId=ids["dropped"], outcome="not needed", status="cancelled")
    return ids


# Creating


def test_a_plan_is_created_in_one_call_and_one_transaction(agent: Agent) -> None:
    before = len(agent.desk.events())
    answer = agent("create_todo", items=[{"title": "look"}, {"title": "build"}, {"title": "check"}])

    assert set(answer) == {"created", "totalPending"}
    assert [(item["title"], item["order"]) for item in answer["created"]] == [("look", 1), ("build", 2), ("check", 3)]
    assert answer["totalPending"] == 3
    assert all(set(item) == {"id", "title", "order"} and str(UUID(item["id"])) == item["id"] for item in answer["created"])
    # One transaction: the pair of events is emitted once, after all items are created.
    assert agent.kinds()[before:] == ["todo_changed"] * 3 + ["todos_updated", "todos_current"]
    assert len({row.created_at for row in agent.rows()}) == 1


def test_an_item_keeps_everything_that_was_said_of_it(agent: Agent) -> None:
    fields = {"title": "find it", "context": "in the\nlogs", "completionCriteria": "a line number", "agentType": "researcher"}
    agent("create_todo", items=[fields])

    (item,) = agent("list_todo")["items"]
    assert {name: item[name] for name in fields} == fields
    (row,) = agent.rows()
    assert (row.conversation_id, row.turn_id, row.agent_id) == (agent.conversation.id, agent.turn_id, "ada")


def test_omitted_fields_are_empty_and_not_an_error(agent: Agent) -> None:
    agent("create_todo", items=[{"title": " find it ", "agentType": ""}])

    (item,) = agent("list_todo")["items"]
    assert item["title"] == "find it"
    assert (item["context"], item["completionCriteria"], item["agentType"], item["outcome"]) == ("", "", None, None)


def test_the_total_counts_pending_items_of_the_whole_plan(agent: Agent) -> None:
    plan_each_status(agent)

    assert agent("create_todo", items=[{"title": "more"}])["totalPending"] == 2


@each_row(
    ("items", "complaint"),
    [
        ([], "items"),
        (None, "items"),
        ("look", "items"),
        ([{}], "items[0].title"),
        ([{"title": "fine"}, {"title": " \n"}], "items[1].title"),
        ([{"title": "fine", "priority": 1}], "items[0].priority"),
        ([{"title": "fine", "order": "first"}], "items[0].order"),
        ([{"title": "fine"}, {"title": "not fine", "order": 0}], "items[1].order"),
        ([{"title": "fine"}, {"title": "not fine", "order": -3}], "order"),
        ([{"title": "fine"}, {"title": "NUL \0"}], "items[1].title: it contains a NUL"),
        ([{"title": "fine"}, {"title": "x" * 1_001}], "items[1].title: it has 1,001 characters"),
        ([{"title": "fine"}] * 501, "500"),
    ],
)
def test_an_invalid_batch_creates_nothing_and_names_the_error(agent: Agent, items: Any, complaint: str) -> None:
    before = agent.desk.events()

    assert complaint in agent.refused("create_todo", items=items)
    assert (agent.rows(), agent.desk.events()) == ([], before)


def test_missing_items_are_an_error_that_names_them(sqlite_agent: Agent) -> None:
    assert "items" in sqlite_agent.refused("create_todo")


# Listing


def test_an_empty_plan_lists_as_empty(agent: Agent) -> None:
    assert agent("list_todo") == {"items": [], "summary": NOTHING}


@each_row(
    ("status", "titles"),
    [
        (None, ["waiting", "going"]),
        ("pending", ["waiting"]),
        ("in_progress", ["going"]),
        ("completed", ["done"]),
        ("cancelled", ["dropped"]),
        ("canceled", ["dropped"]),
        ("all", ["waiting", "going", "done", "dropped"]),
    ],
)
def test_the_list_shows_open_items_or_those_requested(agent: Agent, status: str | None, titles: list[str]) -> None:
    agent = agent.another()  # with an empty list
    plan_each_status(agent)
    plan = agent("list_todo", **({"status": status} if status else {}))

    assert [item["title"] for item in plan["items"]] == titles
    assert plan["summary"] == {"total": 4, "pending": 1, "inProgress": 1, "completed": 1, "cancelled": 1}


def test_an_item_of_the_list_has_all_its_fields_with_iso_times_or_null(agent: Agent, clock: FixedClock) -> None:
    (todo_id,) = agent.plan("look")
    expected = {
        "id": todo_id,
        "title": "look",
        "context": "",
        "completionCriteria": "",
        "agentType": None,
        "status": "pending",
        "priority": 0,
        "outcome": None,
        "createdAt": "2023-11-14T22:13:20.000Z",
        "startedAt": None,
        "completedAt": None,
    }
    assert agent("list_todo")["items"] == [expected]

    clock.advance(1.5)
    expected |= {"status": "in_progress", "startedAt": "2023-11-14T22:13:21.500Z"}
    assert agent("start_todo", todoId=todo_id) == expected

    clock.advance(60)
    agent("complete_todo", todoId=todo_id, outcome="seen")
    expected |= {"status": "completed", "outcome": "seen", "completedAt": "2023-11-14T22:14:21.500Z"}
    assert agent("list_todo", status="all")["items"] == [expected]


def test_the_list_is_ordered_by_priority_then_creation(agent: Agent) -> None:
    first, _ = agent.plan("first", "second")
    agent("complete_todo", todoId=first, outcome="done")
    agent.desk.add("beside the first", turn_id=agent.turn_id, position=0)

    items = agent("list_todo", status="all")["items"]
    assert [(item["title"], item["priority"]) for item in items] == [("first", 0), ("beside the first", 0), ("second", 1)]


def test_an_unknown_status_is_an_error_that_names_the_known_ones(sqlite_agent: Agent) -> None:
    message = sqlite_agent.refused("list_todo", status="open")

    assert all(word in message for word in ("status", "pending", "in_progress", "completed", "cancelled", "all"))


# Starting and completing


def test_completing_returns_the_item_its_time_and_the_remaining_count(agent: Agent, clock: FixedClock) -> None:
    first, second = agent.plan("look", "build")
    agent("start_todo", todoId=second)
    clock.advance(1)

    assert agent("complete_todo", todoId=first, outcome="seen") == {
        "id": first,
        "title": "look",
        "status": "completed",
        "outcome": "seen",
        "completedAt": "2023-11-14T22:13:21.000Z",
        "remaining": 1,
    }
    assert agent("complete_todo", todoId=second, outcome="built")["remaining"] == 0


@each_row("spelling", ["cancelled", "canceled"])
def test_both_spellings_of_cancelled_are_understood_and_this_family_answers_with_two_ls(agent: Agent, spelling: str) -> None:
    agent = agent.another()  # with an empty list
    (todo_id,) = agent.plan("look")

    assert agent("complete_todo", todoId=todo_id, outcome="no need", status=spelling)["status"] == "cancelled"
    assert agent.titles("canceled") == ["look"]
    assert agent("list_todo", status="all")["items"][0]["status"] == "cancelled"
    assert agent.row("look").status == "canceled"


@each_row(("ending", "said"), [("completed", "already completed"), ("cancelled", "already cancelled")])
@each_row("again", ["completed", "cancelled"])
def test_ending_an_item_twice_is_an_error_and_the_first_outcome_stays(agent: Agent, ending: str, said: str, again: str) -> None:
    agent = agent.another()  # with an empty list
    (todo_id,) = agent.plan("look")
    agent("complete_todo", todoId=todo_id, outcome="the first word", status=ending)
    before = agent.rows(), agent.desk.events()

    assert said in agent.refused("complete_todo", todoId=todo_id, outcome="another word", status=again)
    refusal = agent.refused("start_todo", todoId=todo_id)
    assert said in refusal
    assert f"reopen it first: todo_update with id {agent.row('look').id} and status pending" in refusal
    assert (agent.rows(), agent.desk.events()) == before


def test_starting_a_todo_in_progress_changes_nothing(agent: Agent, clock: FixedClock) -> None:
    (todo_id,) = agent.plan("look")
    started = agent("start_todo", todoId=todo_id)
    clock.advance(5)

    assert agent("start_todo", todoId=todo_id) == started


@each_row("tool", ["start_todo", "complete_todo"])
@each_row("todo_id", ["0c0ffee0-0000-4000-8000-000000000000", "14", "look", "\0", "%", "x" * 10_000])
def test_an_unknown_id_is_not_found(sqlite_agent: Agent, tool: str, todo_id: str) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    sqlite_agent.plan("look")
    arguments = {"todoId": todo_id} | ({"outcome": "seen"} if tool == "complete_todo" else {})
    message = sqlite_agent.refused(tool, **arguments)

    assert "not found" in message
    assert len(message) < 200
    assert sqlite_agent.titles("pending") == ["look"]


def test_an_id_is_found_in_any_spelling(agent: Agent) -> None:
    (todo_id,) = agent.plan("look")

    assert agent("complete_todo", todoId=todo_id.upper().replace("-", ""), outcome="seen")["id"] == todo_id


@each_row(
    ("arguments", "missing"),
    [
        ({"outcome": "seen"}, "todoId"),
        ({"todoId": "…"}, "outcome"),
        ({"todoId": "…", "outcome": " "}, "outcome"),
        ({"todoId": "", "outcome": "seen"}, "todoId"),
        ({"todoId": "…", "outcome": "seen", "status": "in_progress"}, "status"),
        ({"todoId": "…", "outcome": "seen", "turn_id": "mine"}, "turn_id"),
    ],
)
def test_missing_or_wrong_arguments_are_named_and_nothing_ends(
    sqlite_agent: Agent, arguments: dict[str, str], missing: str
) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    (todo_id,) = sqlite_agent.plan("look")
    if arguments.get("todoId"):
        arguments = arguments | {"todoId": todo_id}

    assert re.search(rf"\b{missing}\b", sqlite_agent.refused("complete_todo", **arguments))
    assert sqlite_agent.titles("pending") == ["look"]


# Ownership


def test_another_turns_item_is_not_found(agent: Agent) -> None:
    (todo_id,) = agent.plan("look")
    other = agent.another()

    assert "not found" in other.refused("complete_todo", todoId=todo_id, outcome="meddled")
    assert "not found" in other.refused("start_todo", todoId=todo_id)
    assert other("list_todo", status="all") == {"items": [], "summary": NOTHING}
    assert agent.titles("pending") == ["look"]


def test_another_tenants_turn_is_invisible(agent: Agent, database: DirectDatabase) -> None:
    (todo_id,) = agent.plan("look")
    rival = agent.another(TenantHarness(database, "rival"))
    rival.turn_id = agent.turn_id

    assert rival("list_todo", status="all") == {"items": [], "summary": NOTHING}
    assert "not found" in rival.refused("complete_todo", todoId=todo_id, outcome="meddled")
    for tool, arguments in (
        ("create_todo", {"items": [{"title": "meddled"}]}),
        ("manage_todos", {"add": ["meddled"]}),
        ("write_todos", {"todos": [{"content": "meddled"}]}),
    ):
        assert "No turn" in rival.refused(tool, **arguments)
    assert [row.subject for row in agent.rows()] == ["look"]
    assert rival.desk.events() == []


def test_rows_of_a_turn_are_never_deleted_by_any_tool(agent: Agent) -> None:
    plan_each_status(agent)
    before = {row.id for row in agent.rows()}
    agent("manage_todos", delete=["waiting", "going", "done", "dropped"])
    agent("write_todos", todos=[])
    agent("update_plan", plan=[])

    assert {row.id for row in agent.rows()} == before
    assert agent("list_todo")["items"] == []
