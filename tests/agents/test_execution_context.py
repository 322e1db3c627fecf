"""The execution context of tools: set during a run, cleared after it, and the only source of the scope."""

import asyncio
from typing import Any

import pytest

from headway.actions.todos import conversations
from headway.agents.instructions import roles
from headway.agents.instructions.roles import BUILT_IN_ROLES, REMOTE_FAMILIES, UnknownRole
from headway.agents.tools import catalogue
from headway.agents.tools.execution import ResolvedScope, find_current_execution, resolve_scope, use_execution
from headway.agents.tools.external_calls import call_in_context
from headway.agents.tools.toolbox import Result
from headway.ledger.errors import Conflict, NotFound
from headway.ledger.scope import Scope
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.agents.agent_harness import Agent
from tests.tables import each_row

BOX = catalogue.build_toolbox().only(REMOTE_FAMILIES)
NO_TURN = {"error": "Missing execution context"}
NO_CONVERSATION = "Error: Task list is not available (no conversation context)."

# Arguments that make each tool do something.
CALLS: dict[str, dict[str, Any]] = {
    "create_todo": {"items": [{"title": "look"}]},
    "list_todo": {},
    "start_todo": {"todoId": "0c0ffee0-0000-4000-8000-000000000000"},
    "complete_todo": {"todoId": "0c0ffee0-0000-4000-8000-000000000000", "outcome": "seen"},
    "manage_todos": {"add": ["look"]},
    "write_todos": {"todos": [{"content": "look"}]},
    "TodoWrite": {"todos": [{"content": "look"}]},
    "update_plan": {"plan": [{"step": "look"}]},
    "ListTasks": {},
    "AddTask": {"title": "look"},
    "CompleteTask": {"taskId": "1"},
    "UncompleteTask": {"taskId": "1"},
    "DeleteTask": {"taskId": "1"},
    "todo_add": {"subject": "look"},
    "todo_list": {},
    "todo_update": {"id": 1, "subject": "look"},
    "todo_ready": {},
    "todo_claim": {},
}
OF_A_TURN = [name for name, tool in BOX.tools.items() if tool.family in ("turn_plan", "queue")]
OF_A_CONVERSATION = [name for name, tool in BOX.tools.items() if tool.family == "tasks"]


def is_untouched(agent: Agent) -> bool:
    return not agent.desk.events() and not agent.desk.count("todos") and not agent.task_folder.exists()


def test_every_tool_that_others_are_handed_is_tested_here() -> None:
    assert set(CALLS) == set(BOX.tools)


# Set and cleared


def test_the_context_is_there_for_a_run_and_gone_after_it(sqlite_agent: Agent) -> None:
    assert find_current_execution() is None
    with use_execution(sqlite_agent.execution):
        assert find_current_execution() == sqlite_agent.execution
        inner = sqlite_agent.another().execution
        with use_execution(inner):
            assert find_current_execution() == inner
        assert find_current_execution() == sqlite_agent.execution
    assert find_current_execution() is None


def test_the_context_is_gone_after_a_run_that_failed(sqlite_agent: Agent) -> None:
    with pytest.raises(RuntimeError), use_execution(sqlite_agent.execution):
        raise RuntimeError
    assert find_current_execution() is None


def test_the_context_is_gone_after_a_run_that_was_cancelled(sqlite_agent: Agent) -> None:
    async def scenario() -> None:
        entered = asyncio.Event()
        contexts = []

        async def run() -> None:
            try:
                with use_execution(sqlite_agent.execution):
                    entered.set()
                    await asyncio.Event().wait()
            finally:
                contexts.append(find_current_execution())

        task = asyncio.create_task(run())
        await entered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert contexts == [None]
        assert find_current_execution() is None

    asyncio.run(scenario())


def test_tasks_that_run_at_the_same_time_each_have_their_own(sqlite_agent: Agent) -> None:
    crew = [sqlite_agent.another() for _ in range(5)]

    async def run(agent: Agent, everybody: asyncio.Barrier) -> None:
        with use_execution(agent.execution):
            await everybody.wait()
            assert find_current_execution() == agent.execution
            await call_in_context(BOX, "create_todo", {"items": [{"title": agent.turn_id}]})
            await call_in_context(BOX, "AddTask", {"title": agent.turn_id})
            await everybody.wait()
            assert find_current_execution() == agent.execution

    async def scenario() -> None:
        everybody = asyncio.Barrier(len(crew))
        await asyncio.gather(*(run(agent, everybody) for agent in crew))
        assert find_current_execution() is None

    asyncio.run(scenario())
    for agent in crew:
        assert agent.titles() == [agent.turn_id]
        assert [task["title"] for task in agent("ListTasks")["tasks"]] == [agent.turn_id]


def test_a_task_started_before_a_run_sees_nothing_of_it(sqlite_agent: Agent) -> None:
    async def scenario() -> Result:
        context_set = asyncio.Event()

        async def bystander() -> Result:
            await context_set.wait()
            return await call_in_context(BOX, "todo_add", {"subject": "meddled"})

        task = asyncio.create_task(bystander())
        with use_execution(sqlite_agent.execution):
            context_set.set()
            return await task

    assert asyncio.run(scenario()) == Result(NO_TURN, is_error=True)
    assert is_untouched(sqlite_agent)


# Missing


@each_row("tool", CALLS)
def test_without_a_context_each_family_says_so_in_its_own_words_and_touches_nothing(sqlite_agent: Agent, tool: str) -> None:
    result = asyncio.run(call_in_context(BOX, tool, CALLS[tool]))

    assert result == Result(NO_CONVERSATION if tool in OF_A_CONVERSATION else NO_TURN, is_error=True)
    assert is_untouched(sqlite_agent)


@each_row("tool", OF_A_TURN)
def test_without_a_turn_there_is_no_plan(sqlite_agent: Agent, tool: str) -> None:
    execution = sqlite_agent.execution
    nowhere = execution._replace(scope=execution.scope._replace(turn_id=None))

    assert sqlite_agent.call(tool, CALLS[tool], nowhere) == Result(NO_TURN, is_error=True)
    assert is_untouched(sqlite_agent)


def test_a_database_that_is_away_is_a_result_and_not_a_crash(sqlite_agent: Agent) -> None:
    sqlite_agent.database.close()

    assert "closed" in sqlite_agent.refused("todo_add", subject="look")


# Roles


@each_row("role", ["researcher", "coder", "writer", "reviewer"])
@each_row("tool", OF_A_TURN)
def test_a_worker_that_calls_a_plan_tool_learns_who_owns_the_plan(sqlite_agent: Agent, role: str, tool: str) -> None:
    worker = sqlite_agent.another(role=role)
    message = worker.refused(tool, **CALLS[tool])

    assert all(word in message for word in (tool, "supervisor", role))
    assert is_untouched(worker)


@each_row("role", [role.name for role in BUILT_IN_ROLES])
def test_every_role_has_the_ledger_and_the_task_list(sqlite_agent: Agent, role: str) -> None:
    worker = sqlite_agent.another(role=role)

    assert worker("todo_add", subject="look")["todo"]["subject"] == "look"
    assert worker("AddTask", title="look")["title"] == "look"


def test_supervisor_is_another_word_for_index() -> None:
    assert roles.Roles().find("supervisor") == roles.Roles().find("index")
    assert [role.name for role in BUILT_IN_ROLES if "turn_plan" in role.tools] == ["index"]


@each_row("name", ["plumber", "", "INDEX", "x" * 1_000])
def test_an_unknown_role_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownRole) as refused:
        roles.Roles().find(name)

    assert all(word in str(refused.value) for word in ("index", "researcher", "coder", "writer", "reviewer", "supervisor"))
    assert len(str(refused.value)) < 250


def test_a_role_without_a_family_gets_an_error_that_names_the_tool(sqlite_agent: Agent) -> None:
    mute = roles.Roles().find("coder")._replace(name="mute", tools=frozenset())
    for tool in ("todo_add", "AddTask"):
        result = sqlite_agent.call(tool, CALLS[tool], sqlite_agent.execution._replace(role=mute))
        assert result.is_error
        assert "mute" in str(result.value)
        assert tool in str(result.value)
    assert is_untouched(sqlite_agent)


# Arguments


@each_row("tool", CALLS)
@each_row("name", ["tenant_id", "conversation_id", "turn_id", "turnId", "conversationId", "role"])
def test_scope_never_comes_from_the_arguments(sqlite_agent: Agent, tool: str, name: str) -> None:
    result = sqlite_agent.call(tool, CALLS[tool] | {name: "1"})

    assert result.is_error
    assert name in str(result.value)
    assert is_untouched(sqlite_agent)


@each_row("tool", CALLS)
def test_every_schema_says_that_nothing_else_is_taken(tool: str) -> None:
    schema = BOX.find(tool).as_json()

    assert set(schema) == {"name", "description", "input_schema"}
    assert schema["input_schema"]["type"] == "object"
    assert schema["input_schema"]["additionalProperties"] is False
    assert set(schema["input_schema"]["properties"]) >= set(CALLS[tool])
    assert set(schema["input_schema"].get("required", ())) <= set(CALLS[tool])
    assert "$ref" not in str(schema), "models get it in one piece"


@each_row("arguments", [None, "look", 5, [{"title": "look"}], {"items": 5}])
@each_row("tool", ["create_todo", "AddTask", "todo_add"])
def test_arguments_that_are_no_arguments_are_an_error_result(sqlite_agent: Agent, tool: str, arguments: Any) -> None:
    result = sqlite_agent.call(tool, arguments)

    assert result.is_error
    assert "Invalid arguments" in str(result.value)
    assert is_untouched(sqlite_agent)


def test_an_error_does_not_repeat_the_input(sqlite_agent: Agent) -> None:
    message = sqlite_agent.refused("todo_add", **{"subject": 5, "x" * 10_000: "s3cret", "line\nbreak \x1b[31m": "s3cret"})

    assert "subject" in message
    assert "s3cret" not in message
    assert len(message) < 500
    assert message.isprintable()


def test_an_unknown_tool_is_not_found_and_the_known_ones_are_named(sqlite_agent: Agent) -> None:
    with pytest.raises(NotFound, match=r"create_todo.*ListTasks.*todo_claim"):
        sqlite_agent.call("rm_rf", {})


# Places


def resolve(desk: TenantHarness, **fields: Any) -> ResolvedScope:
    def find(tx: Transaction) -> ResolvedScope:
        return resolve_scope(tx, Scope(desk.tenant.id, **fields))

    return desk.database.read(find)


def test_a_turn_names_its_conversation(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    turn_id = desk.write(conversations.open_turn, conversation.id).id

    for fields in ({"turn_id": turn_id}, {"turn_id": turn_id, "conversation_id": conversation.id}):
        resolved = resolve(desk, **fields)
        assert (resolved.scope.conversation_id, resolved.scope.turn_id, resolved.conversation_uuid) == (
            conversation.id,
            turn_id,
            conversation.uuid,
        )
    assert resolve(desk).conversation_uuid is None
    with pytest.raises(Conflict, match="belongs to conversation"):
        resolve(desk, turn_id=turn_id, conversation_id=desk.conversation().id)


def test_a_foreign_conversation_or_turn_is_as_unknown_as_a_missing_one(desk: TenantHarness, database: DirectDatabase) -> None:
    rival = TenantHarness(database, "rival")
    theirs = rival.conversation()
    turn_id = rival.write(conversations.open_turn, theirs.id).id

    for fields in (
        {"conversation_id": theirs.id},
        {"conversation_id": 987_654_321},
        {"turn_id": turn_id},
        {"turn_id": turn_id, "conversation_id": theirs.id},
        {"turn_id": "0c0ffee0-0000-4000-8000-000000000000"},
    ):
        with pytest.raises(NotFound):
            resolve(desk, **fields)


@each_row("number", [2**63, -(2**70), float("nan"), float("inf"), [[{"deep": 10**30}]]])
def test_a_number_that_nothing_can_hold_is_refused_wherever_it_is(sqlite_agent: Agent, number: object) -> None:
    assert "Invalid arguments" in sqlite_agent.refused("manage_todos", add=[number])
    assert sqlite_agent.rows() == []
