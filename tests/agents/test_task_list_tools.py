"""ListTasks, AddTask, CompleteTask, UncompleteTask, DeleteTask: a conversation's task list, in the wording of its specification."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import conversations
from headway.agents.tools import catalogue
from headway.agents.tools.execution import use_execution
from headway.agents.tools.external_calls import call_in_context
from headway.agents.tools.toolbox import Result
from headway.testing import TenantHarness
from tests.agents.agent_harness import Agent
from tests.tables import each_row

TOOLS: dict[str, dict[str, Any]] = {
    "ListTasks": {},
    "AddTask": {"title": "look"},
    "CompleteTask": {"taskId": "1"},
    "UncompleteTask": {"taskId": "1"},
    "DeleteTask": {"taskId": "1"},
}
NO_CONVERSATION = "Error: Task list is not available (no conversation context)."
DAMAGED = "Error: Task file is corrupt or invalid."
NOT_FOUND = {"ok": False, "error": "Task not found"}

ADD_TASKS = """
import asyncio, os, sys
from headway.agents.instructions import roles
from headway.agents.tools import catalogue
from headway.agents.tools.execution import Execution, use_execution
from headway.agents.tools.external_calls import call_in_context
from headway.ledger.scope import Scope

folder, conversation = sys.argv[1:]
execution = Execution(None, folder, Scope(1, 1), roles.Roles().find("coder"), conversation)

async def work():
    with use_execution(execution):
        for n in range(25):
            result = await call_in_context(catalogue.build_toolbox(), "AddTask", {"title": f"{os.getpid()}.{n}"})
            assert not result.is_error, result

def live():
    code = 1
    try:
        asyncio.run(work())
        code = 0
    finally:
        os._exit(code)

print("ready", flush=True)
input()
crew = [os.fork() or live() for _ in range(8)]  # to load everything eight times takes longer than all they do
assert [os.waitpid(one, 0)[1] for one in crew] == [0] * 8
"""


def get_path(agent: Agent) -> Path:
    return agent.task_folder / f"{agent.conversation.uuid}.json"


def call_refused(agent: Agent, tool: str, **arguments: Any) -> Any:
    result = agent.call(tool, arguments)
    assert result.is_error, result
    return result.value


def list_tasks(agent: Agent) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = agent("ListTasks")["tasks"]
    return tasks


def test_an_unwritten_list_is_empty_and_creates_no_file(sqlite_agent: Agent) -> None:
    assert sqlite_agent("ListTasks") == {"tasks": []}
    assert not sqlite_agent.task_folder.exists()


def test_an_added_task_is_answered_listed_and_stored_with_its_four_fields(sqlite_agent: Agent) -> None:
    look = sqlite_agent("AddTask", title=" look ", description="in the\nlogs")
    build = sqlite_agent("AddTask", title="build")

    assert look == {"id": "1", "title": "look", "description": "in the\nlogs", "done": False}
    assert build == {"id": "2", "title": "build", "description": "", "done": False}
    assert sqlite_agent("ListTasks") == {"tasks": [look, build]} == json.loads(get_path(sqlite_agent).read_bytes())


def test_the_file_is_named_by_the_conversations_uuid_in_32_hex_digits_and_linked_by_its_id(sqlite_agent: Agent) -> None:
    """002: "Path: BaseDirectory + ".agents/tasks/" + conversationId.ToString("N") + ".json"."""
    sqlite_agent("AddTask", title="look")
    uuid, number = sqlite_agent.conversation.uuid, sqlite_agent.conversation.id

    assert len(uuid) == 32
    names = {name for name in os.listdir(sqlite_agent.task_folder) if not name.startswith(".")}
    assert names == {f"{uuid}.json", f"{number}.json"}
    assert os.readlink(sqlite_agent.task_folder / f"{number}.json") == f"{uuid}.json"


def test_a_task_is_completed_and_uncompleted_as_often_as_one_likes(sqlite_agent: Agent) -> None:
    task = sqlite_agent("AddTask", title="look")
    for tool, done in (("CompleteTask", True), ("CompleteTask", True), ("UncompleteTask", False), ("UncompleteTask", False)):
        assert sqlite_agent(tool, taskId="1") == {"ok": True, "task": task | {"done": done}}
        assert list_tasks(sqlite_agent) == [task | {"done": done}]


def test_a_deleted_task_is_gone_and_the_others_stay(sqlite_agent: Agent) -> None:
    for title in ("look", "build", "check"):
        sqlite_agent("AddTask", title=title)

    assert sqlite_agent("DeleteTask", taskId="2") == {"ok": True}
    assert [task["title"] for task in list_tasks(sqlite_agent)] == ["look", "check"]
    assert call_refused(sqlite_agent, "DeleteTask", taskId="2") == NOT_FOUND
    assert sqlite_agent("AddTask", title="ship")["id"] == "4"


@each_row("tool", ["CompleteTask", "UncompleteTask", "DeleteTask"])
@each_row("task_id", ["2", "look", "01", "1.0", "\0", "../1", 2])
def test_an_unknown_task_is_not_found_and_nothing_changes(sqlite_agent: Agent, tool: str, task_id: Any) -> None:
    sqlite_agent = sqlite_agent.another()  # with an empty list
    assert call_refused(sqlite_agent, tool, taskId=task_id) == NOT_FOUND
    assert not get_path(sqlite_agent).exists()
    sqlite_agent("AddTask", title="look")
    before = get_path(sqlite_agent).read_bytes()

    assert call_refused(sqlite_agent, tool, taskId=task_id) == NOT_FOUND
    assert get_path(sqlite_agent).read_bytes() == before


def test_an_id_that_arrives_as_a_number_is_the_same_id(sqlite_agent: Agent) -> None:
    sqlite_agent("AddTask", title="look")

    assert sqlite_agent("CompleteTask", taskId=1)["task"]["done"] is True


@each_row(
    ("tool", "arguments", "named"),
    [
        ("AddTask", {}, "title"),
        ("AddTask", {"title": "  "}, "title"),
        ("AddTask", {"title": 5}, "title"),
        ("AddTask", {"title": "look", "done": True}, "done"),
        ("AddTask", {"title": "look", "conversation_id": 1}, "conversation_id"),
        ("AddTask", {"title": "NUL \0"}, "NUL"),
        ("AddTask", {"title": "look", "description": "\ud800"}, "description"),
        ("AddTask", {"title": "x" * 1_001}, "1,001"),
        ("CompleteTask", {}, "taskId"),
        ("UncompleteTask", {"taskId": None}, "taskId"),
        ("DeleteTask", {"id": "1"}, "taskId"),
        ("ListTasks", {"done": True}, "done"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_that_says_which(
    sqlite_agent: Agent, tool: str, arguments: dict[str, Any], named: str
) -> None:
    message = call_refused(sqlite_agent, tool, **arguments)

    assert message.startswith("Error: ")
    assert named in message
    assert not sqlite_agent.task_folder.exists()


@each_row("tool", TOOLS)
def test_without_a_conversation_there_is_no_list_and_nothing_is_created(sqlite_agent: Agent, tool: str) -> None:
    nowhere = sqlite_agent.execution._replace(conversation_uuid=None)
    assert sqlite_agent.call(tool, TOOLS[tool], nowhere) == Result(NO_CONVERSATION, is_error=True)
    assert asyncio.run(call_in_context(catalogue.build_toolbox(), tool, TOOLS[tool])) == Result(NO_CONVERSATION, is_error=True)
    assert not sqlite_agent.task_folder.exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_damaged_file_is_named_as_such_kept_and_explained_in_the_log_alone(
    sqlite_agent: Agent, tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite_agent("AddTask", title="look")
    get_path(sqlite_agent).write_text('{"tasks": [{"id": "1", ')

    assert call_refused(sqlite_agent, tool, **TOOLS[tool]) == DAMAGED
    assert get_path(sqlite_agent).read_text() == '{"tasks": [{"id": "1", '
    assert str(get_path(sqlite_agent)) in caplog.text
    assert "Traceback" not in caplog.text


def test_an_error_of_the_operating_system_is_reported_in_its_words(sqlite_agent: Agent) -> None:
    sqlite_agent.task_folder.write_text("a file where a folder should be")

    assert call_refused(sqlite_agent, "AddTask", title="look") in ("Error: Not a directory", "Error: File exists")
    assert call_refused(sqlite_agent, "ListTasks") == "Error: Not a directory"


def test_fields_that_others_added_survive_and_are_not_shown(sqlite_agent: Agent) -> None:
    sqlite_agent("AddTask", title="look")
    document = json.loads(get_path(sqlite_agent).read_bytes())
    document["theirs"] = {"kept": True}
    document["tasks"][0]["due"] = "tomorrow"
    del document["tasks"][0]["description"]
    get_path(sqlite_agent).write_text(json.dumps(document))

    assert sqlite_agent("CompleteTask", taskId="1")["task"] == {"id": "1", "title": "look", "description": "", "done": True}
    sqlite_agent("AddTask", title="build")
    stored = json.loads(get_path(sqlite_agent).read_bytes())
    assert stored["theirs"] == {"kept": True}
    assert stored["tasks"][0] == {"id": "1", "title": "look", "due": "tomorrow", "done": True}


def test_a_list_does_not_grow_without_end(sqlite_agent: Agent) -> None:
    sqlite_agent("AddTask", title="look")
    full = {"tasks": [{"id": str(n), "title": "x", "description": "", "done": False} for n in range(1_000)]}
    get_path(sqlite_agent).write_text(json.dumps(full))

    assert "1,000" in call_refused(sqlite_agent, "AddTask", title="one more")
    assert len(list_tasks(sqlite_agent)) == 1_000


# Ownership


def test_each_conversation_has_its_own_list(sqlite_agent: Agent) -> None:
    other = sqlite_agent.another()
    sqlite_agent("AddTask", title="ours")
    other("AddTask", title="theirs")

    assert [task["title"] for task in list_tasks(sqlite_agent)] == ["ours"]
    assert [task["title"] for task in list_tasks(other)] == ["theirs"]


def test_two_tenants_with_the_same_key_never_share_a_file(sqlite_agent: Agent) -> None:
    rival = sqlite_agent.another(TenantHarness(sqlite_agent.desk.database, "rival"))
    for caller in (sqlite_agent, rival):
        caller.conversation = caller.desk.conversation(key="the same")
    sqlite_agent("AddTask", title="ours")

    assert list_tasks(rival) == []
    assert get_path(rival) != get_path(sqlite_agent)


@pytest.mark.parametrize(
    "key", ["../../escape", "/etc/passwd", "..", ".", "a/b", "~root", "CON", "x" * 200, "%2e%2e%2fescape", "🦉"]
)
def test_a_hostile_key_never_names_a_file(sqlite_agent: Agent, key: str, tmp_path: Path) -> None:
    sqlite_agent.conversation = sqlite_agent.desk.write(conversations.add_conversation, "", key)
    sqlite_agent("AddTask", title="look")

    files = [
        path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink() and not path.name.startswith("headway.db")
    ]
    assert sorted(path.relative_to(tmp_path).parts[0] for path in files) == ["tasks", "tasks"]
    assert [path.name for path in files if path.suffix == ".json"] == [f"{sqlite_agent.conversation.uuid}.json"]


def test_a_worker_has_the_task_list_too(sqlite_agent: Agent) -> None:
    worker = sqlite_agent.another(role="researcher")
    worker("AddTask", title="look")

    assert [task["title"] for task in list_tasks(worker)] == ["look"]


# Concurrency


def test_calls_at_the_same_time_lose_nothing(sqlite_agent: Agent) -> None:
    async def scenario() -> None:
        with use_execution(sqlite_agent.execution):
            await asyncio.gather(*(call_in_context(catalogue.build_toolbox(), "AddTask", {"title": str(n)}) for n in range(40)))

    asyncio.run(scenario())
    assert {task["title"] for task in list_tasks(sqlite_agent)} == {str(n) for n in range(40)}


def test_eight_processes_that_add_tasks_at_once_lose_none(sqlite_agent: Agent, at_once: Callable[..., list[str]]) -> None:
    at_once(ADD_TASKS, str(sqlite_agent.task_folder), sqlite_agent.conversation.uuid, processes=1)

    tasks = list_tasks(sqlite_agent)
    assert [task["id"] for task in tasks] == [str(n) for n in range(1, 201)]
    assert len({task["title"] for task in tasks}) == 200
