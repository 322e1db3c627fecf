"""The instructions of a model describe the tools and writs that its role grants, and no others."""

import json
from pathlib import Path

import pytest

from headway.agents.tools.goals import GOAL_TOOLS
from headway.agents.tools.ledger import LEDGER_TOOLS
from headway.agents.tools.tasks import TASK_TOOLS
from headway.ledger.run import TurnMode
from tests.agents.turn_harness import list_callable, list_on_demand, open_talk
from tests.model_server import Request, text

HEADINGS = {"Planning", "Todos to keep", "Working a queue", "Answering", "Delegation", "The runtime"}
PLAIN = {"Planning", "Answering", "The runtime"}
ALL = PLAIN | {"Delegation", "Todos to keep"}


def get_first_request(url: str, home: Path, role: str = "", mode: TurnMode = "plan") -> Request:
    """Return the first request of a turn whose role `index` is defined by this file."""
    (home / "agents").mkdir()
    (home / "agents" / "index.toml").write_text(role)
    with open_talk(url, home, text("Hello.")) as talk:
        assert talk.say("Hello!", mode)["status"] == "finished"
        (request,) = talk.server.requests
        return request


def list_sections(request: Request) -> set[str]:
    headings = {line[2:] for line in request.system.splitlines() if line.startswith("# ")}
    assert headings <= HEADINGS
    return headings


def test_the_supervisor_prompt_describes_all_its_tools(sqlite_url: str, tmp_path: Path) -> None:
    request = get_first_request(sqlite_url, tmp_path)
    assert list_sections(request) == ALL
    assert request.system.startswith("You are the supervisor")
    assert {"create_todo", "complete_todo", "delegate", "calculate", "use_tool"} <= set(request.tools)
    assert request.tools == sorted(request.tools)
    assert request.messages[1:] == [{"role": "user", "content": "Hello!"}]


def test_tools_that_are_rarely_needed_are_named_by_one_tool(sqlite_url: str, tmp_path: Path) -> None:
    """002: "the model can use ListTasks, then AddTask / CompleteTask / UncompleteTask / DeleteTask to maintain the list", and "a
    short note that the current conversation has task list tools"."""
    request = get_first_request(sqlite_url, tmp_path)
    named = list_on_demand(request)
    (use_tool,) = (tool["function"] for tool in request.body["tools"] if tool["function"]["name"] == "use_tool")
    assert "*Task*: this conversation's task list" in use_tool["description"]
    assert {tool.name for tool in (*TASK_TOOLS, *LEDGER_TOOLS, *GOAL_TOOLS)} < named
    assert {"list_todo", "read_result", "spawn_agent", "await_agent", "check_agent", "cancel_agent", "remember", "recall"} < named
    assert not named & set(request.tools)


def test_when_to_plan_and_when_not_is_said(sqlite_url: str, tmp_path: Path) -> None:
    system = get_first_request(sqlite_url, tmp_path).system
    assert "Plan work that has several distinct steps" in system
    assert "A question, small talk or a single step needs no plan" in system


def test_the_rules_of_planning_are_said(sqlite_url: str, tmp_path: Path) -> None:
    """000: "Plan first", "Execute sequentially", "You MUST NOT produce a final response to the user until all TODO items are
    completed or cancelled", "Skip planning for simple tasks"."""
    system = get_first_request(sqlite_url, tmp_path).system
    assert "one create_todo call with all of them, in order" in system
    assert "When an item of the plan is done, call complete_todo with its outcome and startNext" in system
    assert "An answer is accepted only when no item is open." in system
    assert 'with status "cancelled" and the reason' in system


def test_the_last_rule_is_to_answer_with_the_results(sqlite_url: str, tmp_path: Path) -> None:
    system = get_first_request(sqlite_url, tmp_path).system
    assert "put the results into the final answer" in system
    assert "Never claim what you did not do." in system


@pytest.mark.parametrize(
    ("role", "missing"),
    [
        ('tools = ["tasks", "ledger", "builtin"]', {"Planning"}),
        ('tools = ["list_todo", "complete_todo", "tasks", "ledger"]', {"Planning"}),
        ('tools = ["turn_plan", "queue", "ledger", "builtin"]', {"Task list"}),
        ('tools = ["turn_plan", "tasks", "builtin"]', {"Ledger"}),
        ("writs = []", set()),
        ('tools = ["create_todo"]\nwrits = []', {"Task list", "Ledger"}),
        ("tools = []\nwrits = []", {*PLAIN, "Task list", "Ledger"}),
    ],
)
def test_tools_that_a_role_lacks_are_not_mentioned(sqlite_url: str, tmp_path: Path, role: str, missing: set[str]) -> None:
    request = get_first_request(sqlite_url, tmp_path, role)
    assert list_sections(request) == (PLAIN if "tools" in role else ALL) - missing
    mentioned = f"{request.system} {json.dumps(request.body.get('tools', []))}"
    for section, word in (("Planning", "create_todo"), ("Task list", "AddTask"), ("Ledger", "todo_add")):
        assert (word in mentioned) == (section not in missing)


def test_the_runtimes_tools_belong_to_every_role_that_has_tools(sqlite_url: str, tmp_path: Path) -> None:
    assert get_first_request(sqlite_url, tmp_path, 'tools = ["calculate"]').tools == ["calculate", "read_result"]


def test_a_role_without_tools_gets_none(sqlite_url: str, tmp_path: Path) -> None:
    assert "tools" not in get_first_request(sqlite_url, tmp_path, "tools = []").body


def test_a_queue_has_its_own_way_to_plan_and_no_other(sqlite_url: str, tmp_path: Path) -> None:
    request = get_first_request(sqlite_url, tmp_path, mode="queue")
    assert list_sections(request) == ALL - {"Planning"} | {"Working a queue"}
    assert "manage_todos" in request.tools
    assert not {"create_todo", "complete_todo", "list_todo"} & list_callable(request)


def test_shapes_known_from_elsewhere_are_not_offered(sqlite_url: str, tmp_path: Path) -> None:
    request = get_first_request(sqlite_url, tmp_path)
    assert not {"TodoWrite", "write_todos", "update_plan", "manage_todos"} & list_callable(request)


def test_external_tools_are_off_until_they_are_allowed(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello."), http_allow="example.org", commands="git") as talk:
        talk.say()
        assert {"http_get", "run_command"} <= set(talk.server.requests[0].tools)
    assert not {"http_get", "run_command"} & set(get_first_request(f"{sqlite_url}2", tmp_path).tools)


def test_a_role_has_words_and_a_tier_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text('prompt = "You are a pirate."\ntier = "mid"\n')
    with open_talk(sqlite_url, tmp_path, text("Arr."), model_mid="openai-chat:mid-1") as talk:
        talk.say()
        (request,) = talk.server.requests
        assert request.model == "mid-1"
        assert request.system.startswith("You are a pirate.")
        assert [(call.tier, call.model) for call in talk.model_calls()] == [("mid", "openai-chat:mid-1")]
