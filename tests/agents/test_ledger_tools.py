"""todo_add, todo_list, todo_update, todo_ready, todo_claim: the ledger's actions, with the same results as the REST API."""

from typing import Any

import pytest

from headway.actions.todos import claims
from headway.ledger.errors import BadCursor
from headway.ledger.scope import Scope
from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock, TenantHarness
from tests.agents.agent_harness import Agent
from tests.tables import each_row

FIELDS = {
    "id",
    "conversation_id",
    "turn_id",
    "agent_id",
    "subject",
    "description",
    "completion_criteria",
    "agent_type",
    "status",
    "position",
    "checks",
    "proof",
    "completed_by",
    "priority",
    "due",
    "labels",
    "outcome",
    "depends_on",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
}


def add(agent: Agent, subject: str = "look", **fields: Any) -> dict[str, Any]:
    todo: dict[str, Any] = agent("todo_add", subject=subject, **fields)["todo"]
    return todo


def update(agent: Agent, todo: dict[str, Any], **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = agent("todo_update", id=todo["id"], **fields)["todo"]
    return row


def list_subjects(agent: Agent, **filters: Any) -> list[str]:
    return [todo["subject"] for todo in agent("todo_list", **filters)["todos"]]


def call_outside(agent: Agent, tool: str, **arguments: Any) -> Any:
    """Call a tool for the same tenant, outside any conversation."""
    result = agent.call(tool, arguments, agent.execution._replace(scope=Scope(agent.desk.tenant.id), conversation_uuid=None))
    assert not result.is_error, result
    return result.value


# Adding and listing


def test_an_added_todo_is_written_where_the_agent_works_under_its_name(agent: Agent, clock: FixedClock) -> None:
    dependency = add(agent, "first")
    todo = add(agent, "second", description="the\nrest", completion_criteria="it runs", depends_on=[dependency["id"]])

    assert set(todo) == FIELDS
    assert (todo["conversation_id"], todo["turn_id"], todo["agent_id"]) == (agent.conversation.id, None, "ada")
    assert (todo["description"], todo["completion_criteria"]) == ("the\nrest", "it runs")
    assert (todo["status"], todo["created_at"], todo["completed_at"]) == ("pending", clock.now // 1000, 0)
    assert list(todo["depends_on"]) == [dependency["id"]]
    assert call_outside(agent, "todo_add", subject="wide")["todo"]["conversation_id"] == 0


def test_the_list_is_the_open_ones_of_the_conversation_and_the_tenant_wide_ones(agent: Agent) -> None:
    call_outside(agent, "todo_add", subject="wide")
    going, done, dropped = add(agent, "going"), add(agent, "done"), add(agent, "dropped")
    add(agent.another(), "elsewhere")
    add(agent, "waiting")
    update(agent, going, status="in_progress")
    update(agent, done, status="completed")
    update(agent, dropped, status="cancelled")
    agent("create_todo", items=[{"title": "a step of the plan"}])

    assert list_subjects(agent) == ["going", "a step of the plan", "waiting", "wide"]
    assert list_subjects(agent, status="all") == ["going", "a step of the plan", "waiting", "wide", "dropped", "done"]
    assert list_subjects(agent, status="completed") == ["done"]
    assert list_subjects(agent, status="canceled") == list_subjects(agent, status="cancelled") == ["dropped"]
    assert sorted(todo["subject"] for todo in call_outside(agent, "todo_list")["todos"]) == [
        "elsewhere",
        "going",
        "waiting",
        "wide",
    ]


def test_a_list_is_as_long_as_asked_for_and_says_whether_there_is_more(agent: Agent) -> None:
    for n in range(3):
        add(agent, f"todo {n}")

    page = agent("todo_list", limit=2)
    assert [todo["subject"] for todo in page["todos"]] == ["todo 0", "todo 1"]
    assert page["next_cursor"]
    assert agent("todo_list", limit=3)["next_cursor"] is None
    for limit in (0, 101, "many", float("nan")):
        assert "limit" in agent.refused("todo_list", limit=limit)


def test_a_cursor_continues_where_its_page_ended(agent: Agent) -> None:
    for n in range(5):
        add(agent, f"todo {n}")

    pages, cursor = list[str](), None
    while not pages or cursor:
        page = agent("todo_list", limit=2, cursor=cursor)
        pages += [todo["subject"] for todo in page["todos"]]
        cursor = page["next_cursor"]
    assert pages == [f"todo {n}" for n in range(5)]
    for bad in ("x", "1.2", "1.2.3.4", "-1.2.3", "9" * 100, "'; DROP TABLE todos"):
        assert agent.refused("todo_list", cursor=bad) == BadCursor.__doc__
    assert "cursor" in agent.refused("todo_list", cursor=7.5)


# Updating


def test_named_fields_change_and_the_rest_stays(agent: Agent, clock: FixedClock) -> None:
    todo = add(agent, description="as it was")
    clock.advance(5)
    changed = update(agent, todo, subject="look again", status="in_progress")

    now = clock.now // 1000
    assert changed == todo | {"subject": "look again", "status": "in_progress", "started_at": now, "updated_at": now}
    assert update(agent, todo, description="")["description"] == ""


@pytest.mark.parametrize(("spelling", "status"), [("completed", "completed"), ("canceled", "canceled"), ("cancelled", "canceled")])
def test_a_todo_is_ended_with_its_outcome_in_one_change(agent: Agent, clock: FixedClock, spelling: str, status: str) -> None:
    todo = add(agent)
    before = len(agent.desk.changes())
    clock.advance(5)
    ended = update(agent, todo, status=spelling, outcome="seen", description="and noted")

    assert (ended["status"], ended["outcome"], ended["description"]) == (status, "seen", "and noted")
    assert ended["completed_at"] == clock.now // 1000
    assert [change for change, _ in agent.desk.changes()[before:]] == ["updated"]


def test_ending_an_ended_todo_is_an_error_and_reopening_is_not(agent: Agent) -> None:
    todo = add(agent)
    update(agent, todo, status="completed", outcome="seen")

    assert "already completed" in agent.refused("todo_update", id=todo["id"], status="completed", outcome="again")
    assert "cannot become canceled" in agent.refused("todo_update", id=todo["id"], status="canceled")
    assert agent("todo_list", status="completed")["todos"][0]["outcome"] == "seen"
    assert "Reopen it first" in agent.refused("todo_update", id=todo["id"], status="in_progress")
    assert update(agent, todo, status="pending")["completed_at"] == 0
    assert update(agent, todo, status="in_progress")["status"] == "in_progress"


@each_row(
    ("arguments", "named"),
    [
        ({}, "id"),
        ({"id": 0}, "id"),
        ({"id": 2**63}, "id"),
        ({"id": "look"}, "id"),
        ({"id": 1, "status": "open"}, "status"),
        ({"id": 1, "subject": " "}, "subject"),
        ({"id": 1, "position": 1}, "position"),
        ({"id": 1, "description": "NUL \0"}, "description"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_by_name(sqlite_agent: Agent, arguments: dict[str, Any], named: str) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    todo = add(sqlite_agent)
    if arguments.get("id") == 1:
        arguments = arguments | {"id": todo["id"]}

    assert named in sqlite_agent.refused("todo_update", **arguments)
    assert list_subjects(sqlite_agent) == ["look"]


def test_a_foreign_todo_is_as_unknown_as_a_missing_one(agent: Agent, database: DirectDatabase) -> None:
    rival = agent.another(TenantHarness(database, "rival"))
    theirs = add(rival)

    for todo_id in (theirs["id"], 987_654_321):
        assert agent.refused("todo_update", id=todo_id, subject="meddled") == f"No todo {todo_id}."
        assert agent.refused("todo_add", subject="x", depends_on=[todo_id]) == f"No todo {todo_id}."
    assert list_subjects(rival) == ["look"]
    assert list_subjects(agent, status="all") == []


# Claiming


def test_ready_lists_todos_that_can_start_now(agent: Agent) -> None:
    first = add(agent, "first")
    add(agent, "second", depends_on=[first["id"]])
    add(agent, "third")
    agent.plan("of the plan")

    assert [todo["subject"] for todo in agent("todo_ready")["todos"]] == ["first", "third"]
    assert [todo["subject"] for todo in agent("todo_ready", limit=1)["todos"]] == ["first"]
    update(agent, first, status="completed")
    assert [todo["subject"] for todo in agent("todo_ready")["todos"]] == ["second", "third"]


def test_a_claim_is_the_next_ready_todo_with_a_lease(agent: Agent, clock: FixedClock) -> None:
    todo = add(agent)
    claim = agent("todo_claim", agent_id="grace", lease_s=30)

    assert set(claim) == {"todo", "lease"}
    assert (claim["todo"]["id"], claim["todo"]["status"], claim["todo"]["agent_id"]) == (todo["id"], "in_progress", "grace")
    assert claim["lease"]["expires_at"] == clock.now // 1000 + 30
    assert agent("todo_claim", agent_id="grace") == {"todo": None, "lease": None}


def test_a_claim_without_an_agent_belongs_to_the_caller(agent: Agent) -> None:
    assert agent.desk.add().agent_id == "index"

    assert agent("todo_claim")["todo"]["agent_id"] == "ada"


def test_only_the_lease_holder_can_end_a_claimed_todo(agent: Agent) -> None:
    todo = add(agent)
    token = agent("todo_claim", agent_id="grace")["lease"]["token"]

    assert "lease" in agent.refused("todo_update", id=todo["id"], status="completed")
    assert "lease" in agent.refused("todo_update", id=todo["id"], status="completed", lease_token="another")
    ended = update(agent, todo, status="completed", outcome="seen", lease_token=token)
    assert (ended["status"], ended["outcome"]) == ("completed", "seen")


def test_a_lease_that_ran_out_and_was_taken_over_is_worth_nothing(agent: Agent, clock: FixedClock) -> None:
    todo = add(agent)
    token = agent("todo_claim", agent_id="grace", lease_s=1)["lease"]["token"]
    clock.advance(2)
    assert agent.desk.write(claims.claim, "ada") is not None

    assert "lease" in agent.refused("todo_update", id=todo["id"], status="completed", lease_token=token)


@each_row(
    "arguments",
    [{"agent_id": " "}, {"agent_id": "ada", "lease_s": 0}, {"agent_id": "ada", "lease_s": float("nan")}, {"agent_id": "a\nb"}],
)
def test_a_claim_that_does_not_fit_claims_nothing(sqlite_agent: Agent, arguments: dict[str, Any]) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    add(sqlite_agent)

    sqlite_agent.refused("todo_claim", **arguments)
    assert len(sqlite_agent("todo_ready")["todos"]) == 1
