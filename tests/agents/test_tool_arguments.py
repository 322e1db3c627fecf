"""Arguments from models: null for omitted values, lists as JSON text, and errors that use the argument names of the caller."""

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from headway.agents.tools import catalogue
from headway.agents.tools.agents import Delegate
from headway.agents.tools.arguments import ID_SCHEMA, build_input_schema, describe_validation_error
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.custom import find_tool, tool
from headway.agents.tools.toolbox import Tool
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller
from tests.tables import each_row

TOOLS = catalogue.build_toolbox(ExternalAccess(("*",), ("ls", "python3"))).tools.values()
LONG = "x" * 1_001
NUL = "half \0"

# A valid value for each type of required argument.
SAMPLES: dict[str, Any] = {"string": "1", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def required_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}


def sample(schema: dict[str, Any]) -> Any:
    if schema.get("type") == "array":
        return [sample(schema["items"])]
    if schema.get("type") == "object":
        return required_arguments(schema)
    return SAMPLES["integer" if schema == ID_SCHEMA else schema["type"]]


# Ids


def find_ids(schema: dict[str, Any]) -> list[str]:
    return [name for name in schema["properties"] if re.search(r"(^|_|[a-z])(ids?|Id|depends_on)$", name) and name != "agent_id"]


@each_row("one", [one for one in TOOLS if find_ids(build_input_schema(one.arguments))])
def test_an_id_may_be_a_number_or_text(one: Tool) -> None:
    schema = build_input_schema(one.arguments)
    for name in find_ids(schema):
        field, is_list = schema["properties"][name], schema["properties"][name].get("type") == "array"
        if name != "run_id":  # a UUID, but a number is answered with what is wrong, not with a type
            assert (field["items"] if is_list else field)["anyOf"] == ID_SCHEMA["anyOf"]
        both = [one.arguments.model_validate(required_arguments(schema) | {name: [ref] if is_list else ref}) for ref in (3, "3")]
        assert both[0] == both[1]


def test_a_plan_item_may_be_delegated_as_todo_id() -> None:
    assert Delegate.model_validate({"agent": "coder", "task": "it", "todo_id": 3}).todoId == "3"


# Null


@each_row("one", TOOLS)
def test_null_for_an_optional_argument_means_that_it_is_absent(one: Tool) -> None:
    """000: "context?: string", "agentType?: string", "order?: number": optional, and models send null for omitted values."""
    schema = build_input_schema(one.arguments)
    required = required_arguments(schema)
    optional = {name: None for name in schema["properties"] if name not in required}

    assert one.arguments.model_validate(required | optional) == one.arguments.model_validate(required)


@each_row("one", [one for one in TOOLS if build_input_schema(one.arguments).get("required")])
def test_null_for_a_required_argument_is_refused_by_its_name(one: Tool) -> None:
    for name in build_input_schema(one.arguments)["required"]:
        with pytest.raises(ValidationError) as refused:
            one.arguments.model_validate(required_arguments(build_input_schema(one.arguments)) | {name: None})
        assert describe_validation_error(refused.value).startswith(f"Invalid arguments: {name}: ")


def test_a_plan_with_nulls_in_it_is_a_plan(agent: Agent) -> None:
    """000: "order?: number; // 1-indexed position (default: append)"."""
    item = {"title": "look", "context": None, "completionCriteria": None, "agentType": None, "order": None}
    (created,) = agent("create_todo", items=[item])["created"]

    assert created["order"] == 1
    assert agent("list_todo", status=None)["items"][0]["context"] == ""
    assert agent("complete_todo", todoId=created["id"], outcome="seen", status=None)["status"] == "completed"


def test_nulls_in_every_other_family_are_taken_as_absent(sqlite_agent: Agent) -> None:
    """002: "`description` (optional, default `""`)". 003: "`add?: string[]`", "`delete?: (string | number)[]`"."""
    assert sqlite_agent("AddTask", title="look", description=None)["description"] == ""
    assert sqlite_agent("manage_todos", add=None, delete=None)["state"]["items"] == []
    assert sqlite_agent("write_todos", todos=[{"content": "look", "status": None}])["todos"][0]["status"] == "pending"
    assert sqlite_agent("todo_add", subject="look", description=None, depends_on=None)["todo"]["depends_on"] == ()
    assert sqlite_agent("todo_list", limit=None)["next_cursor"] is None
    assert sqlite_agent("recall", query=None, limit=None) == {"entries": []}


def test_null_for_an_optional_parameter_of_a_function_gives_its_default(sqlite_agent: Agent) -> None:
    @tool
    def repeat(word: str, times: int = 2) -> str:
        """A word, several times."""
        return word * times

    repeat_tool = find_tool(repeat)
    assert repeat_tool is not None
    assert ToolCaller(sqlite_agent.execution, [repeat_tool])("repeat", word="ab", times=None) == "abab"


# JSON text


def test_items_given_as_json_text_are_items(agent: Agent) -> None:
    """000: "accepts an array to avoid burning one tool iteration per item": models also send that array as text."""
    created = agent("create_todo", items=json.dumps([{"title": "look", "order": 1}, {"title": "build"}]))["created"]

    assert [item["title"] for item in created] == ["look", "build"]
    assert [item["title"] for item in agent("create_todo", items=['{"title": "check"}'])["created"]] == ["check"]


def test_other_lists_given_as_json_text_are_lists(sqlite_agent: Agent) -> None:
    assert sqlite_agent("manage_todos", add='["look", "build"]')["state"]["total"] == 2
    assert len(sqlite_agent("write_todos", todos='[{"content": "look"}]')["todos"]) == 1
    first = sqlite_agent("todo_add", subject="first")["todo"]["id"]
    assert sqlite_agent("todo_add", subject="second", depends_on=f"[{first}]")["todo"]["depends_on"] == (first,)


def test_text_that_looks_like_json_stays_text(sqlite_agent: Agent) -> None:
    assert sqlite_agent("AddTask", title='["a"]', description='{"b": 1}') == {
        "id": "1",
        "title": '["a"]',
        "description": '{"b": 1}',
        "done": False,
    }


@each_row(
    ("items", "expected"),
    [
        ("look", "items"),
        ("[{", "items"),
        ('{"title": "look"}', "items"),
        ("[" * 100_000, "items"),
        ('[{"title": "look", "order": 1e999}]', "items[0].order: NaN"),
        (f'[{{"title": "look", "order": {10**30}}}]', "items[0].order: the number"),
        (r'[{"title": "\ud800"}]', "items[0].title"),
        ('[{"title": ""}]', "items[0].title"),
    ],
)
def test_json_text_that_does_not_do_is_refused_like_anything_else(sqlite_agent: Agent, items: str, expected: str) -> None:
    assert expected in sqlite_agent.refused("create_todo", items=items)
    assert sqlite_agent.rows() == []


# Argument names


@each_row(
    ("name", "arguments", "expected"),
    [
        ("create_todo", {"items": [{"title": LONG}]}, "items[0].title: it has 1,001 characters"),
        ("create_todo", {"items": [{"title": "x", "context": NUL}]}, "items[0].context: it contains a NUL"),
        ("create_todo", {"items": [{"title": "x", "completionCriteria": NUL}]}, "items[0].completionCriteria: it contains"),
        ("create_todo", {"items": [{"title": "x", "agentType": "a\nb"}]}, "items[0].agentType: it must not"),
        ("create_todo", {"items": [{"title": "x"}, {"title": "y", "order": 0}]}, "items[1].order"),
        ("create_todo", {"items": [{"title": "x", "order": 10**30}]}, "items[0].order"),
        ("complete_todo", {"todoId": "1", "outcome": NUL}, "outcome: it contains a NUL"),
        ("complete_todo", {"outcome": "done"}, "todoId"),
        ("start_todo", {"todoId": ""}, "todoId"),
        ("manage_todos", {"add": ["fine", LONG]}, "add[1]: it has 1,001 characters"),
        ("manage_todos", {"add": [NUL]}, "add[0]: it contains a NUL"),
        ("write_todos", {"todos": [{"content": LONG}]}, "todos[0].content: it has 1,001 characters"),
        ("update_plan", {"plan": [{"step": NUL}]}, "plan[0].step: it contains a NUL"),
        ("AddTask", {"title": LONG}, "title: it has 1,001 characters"),
        ("AddTask", {"title": "x", "description": NUL}, "description: it contains a NUL"),
        ("CompleteTask", {"taskId": " "}, "taskId"),
        ("todo_add", {"subject": LONG}, "subject"),
    ],
)
def test_a_refused_argument_is_named_as_its_caller_wrote_it(
    agent: Agent, name: str, arguments: dict[str, Any], expected: str
) -> None:
    """000: "title: string; // required — human-readable task name": not the ledger's subject."""
    result = agent.call(name, arguments)
    message = str(result.value)

    assert result.is_error
    assert expected in message
    for word in {"subject", "completion_criteria", "agent_type"} - set(arguments):
        assert word not in message
    assert agent.rows() == []
