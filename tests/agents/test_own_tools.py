"""Custom tools: how a Python function becomes a tool, and the error for a function that cannot."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from headway.agents.tools.builtin import BUILTIN_NAMES
from headway.agents.tools.custom import find_tool, load, tool
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Tool
from headway.ledger.errors import BadTool, Invalid, SettingsError
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller
from tests.tables import each_row


def build_tool(function: Any) -> Tool:
    custom_tool = find_tool(function)
    assert custom_tool is not None
    return custom_tool


def build_tool_caller(agent: Agent, *functions: Any) -> ToolCaller:
    return ToolCaller(agent.execution, map(build_tool, functions))


class Point(BaseModel):
    x: int
    y: int = 0


@tool
def weather(city: str, days: Annotated[int, Field(description="how many days ahead", ge=1, le=7)] = 1) -> str:
    """The weather in a city."""
    return f"{city}: sun for {days}"


# From function to tool


def test_a_function_with_types_and_a_docstring_is_a_tool(sqlite_agent: Agent) -> None:
    assert build_tool(weather).as_json() == {
        "name": "weather",
        "description": "The weather in a city.",
        "input_schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "description": "how many days ahead", "minimum": 1, "maximum": 7},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    assert build_tool(weather).family == "own"
    assert build_tool_caller(sqlite_agent, weather)("weather", city="Rome") == "Rome: sun for 1"
    assert build_tool_caller(sqlite_agent, weather)("weather", city="Rome", days="3") == "Rome: sun for 3"


def test_a_tool_can_still_be_called_as_a_function() -> None:
    assert weather("Rome") == "Rome: sun for 1"


def test_options_set_the_name_and_the_permissions_of_a_tool() -> None:
    @tool(name="send-mail", idempotent=True, timeout_s=5)
    def send(to: str) -> None:
        """Send it."""

    assert (build_tool(send).name, build_tool(send).idempotent, build_tool(send).timeout_s) == ("send-mail", True, 5)
    assert (build_tool(weather).idempotent, build_tool(weather).timeout_s) == (False, 60)


@each_row("arguments", [{}, {"city": 1}, {"city": "Rome", "days": 8}, {"city": "Rome", "extra": 1}])
def test_arguments_that_do_not_fit_are_refused_by_their_names(sqlite_agent: Agent, arguments: dict[str, Any]) -> None:
    message = build_tool_caller(sqlite_agent, weather).refused("weather", **arguments)

    assert message.startswith("Invalid arguments: ")
    assert "argument_" not in message


def test_an_async_function_is_awaited(sqlite_agent: Agent) -> None:
    @tool
    async def wait(seconds: float) -> dict[str, float]:
        """Wait a little."""
        await asyncio.sleep(seconds)
        return {"waited": seconds}

    assert build_tool_caller(sqlite_agent, wait)("wait", seconds=0) == {"waited": 0}


def test_the_execution_parameter_is_injected_and_no_model_can_send_it(sqlite_agent: Agent) -> None:
    @tool
    def who(execution: Execution, greeting: str = "hello") -> str:
        """Who calls."""
        return f"{greeting} {execution.scope.agent_id}"

    caller = build_tool_caller(sqlite_agent, who)
    assert list(build_tool(who).as_json()["input_schema"]["properties"]) == ["greeting"]
    assert caller("who") == "hello ada"
    assert caller.refused("who", execution={"role": "index"})


def test_parameters_may_have_any_name(sqlite_agent: Agent) -> None:
    @tool
    def odd(json: str, copy: int, model_config: str, _private: int, schema: str = "s", self: int = 1) -> list[Any]:
        """Takes odd names."""
        return [json, copy, model_config, _private, schema, self]

    values = {"json": "j", "copy": 1, "model_config": "m", "_private": 2}
    assert build_tool_caller(sqlite_agent, odd)("odd", **values) == ["j", 1, "m", 2, "s", 1]


def test_arguments_arrive_as_the_types_they_were_declared_as(sqlite_agent: Agent) -> None:
    @tool
    def far(points: list[Point], names: dict[str, int] | None = None) -> int:
        """How far it is."""
        return sum(point.x + point.y for point in points) + sum((names or {}).values())

    assert build_tool_caller(sqlite_agent, far)("far", points=[{"x": 1, "y": 2}, {"x": 3}], names={"a": 4}) == 10


def test_defaults_are_not_shared_between_calls(sqlite_agent: Agent) -> None:
    @tool
    def gather(word: str, words: list[str] = []) -> list[str]:  # noqa: B006  users write this
        """Gather words."""
        words.append(word)
        return words

    caller = build_tool_caller(sqlite_agent, gather)
    assert [caller("gather", word="a"), caller("gather", word="b")] == [["a"], ["b"]]


# Results


@dataclass
class Pair:
    left: int
    right: Point


@each_row(
    ("result", "answer"),
    [
        ("text", "text"),
        (None, None),
        (1.5, 1.5),
        ([1, {"a": (2, 3)}], [1, {"a": [2, 3]}]),
        (Point(x=1), {"x": 1, "y": 0}),
        (Pair(1, Point(x=2)), {"left": 1, "right": {"x": 2, "y": 0}}),
        ([Point(x=1)], [{"x": 1, "y": 0}]),
    ],
)
def test_results_become_json(sqlite_agent: Agent, result: Any, answer: Any) -> None:
    @tool
    def give() -> Any:
        """Give it."""
        return result

    assert build_tool_caller(sqlite_agent, give)("give") == answer


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@each_row("result", [object(), float("nan"), [float("inf")], b"\xff", "\ud800", ENDLESS, {"a": lambda: 1}])
def test_a_result_that_is_no_json_is_an_error_that_says_it_was_run(sqlite_agent: Agent, result: Any) -> None:
    @tool
    def give() -> Any:
        """Give it."""
        return result

    assert build_tool_caller(sqlite_agent, give).refused("give").startswith("give ran, but its result")


def test_any_exception_of_a_function_is_a_result_for_the_model(sqlite_agent: Agent) -> None:
    @tool
    def fail(kindly: bool) -> None:
        """Fail."""
        raise Invalid("Not on Sundays.") if kindly else ZeroDivisionError("oh")

    caller = build_tool_caller(sqlite_agent, fail)
    assert caller.refused("fail", kindly=True) == "Not on Sundays."
    assert caller.refused("fail", kindly=False) == "fail failed with ZeroDivisionError: oh"


# Functions that cannot be tools


def no_docstring(city: str) -> str:
    return city


def no_types(city) -> str:  # type: ignore[no-untyped-def]
    """Has no types."""
    return str(city)


def many(*cities: str) -> None:
    """Takes many."""


def more(**cities: str) -> None:
    """Takes more."""


def by_place(city: str, /) -> None:
    """Takes it by its place."""


def unknown_type(city: "Metropolis") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Takes what does not exist."""


def no_json(callback: Callable[[], int]) -> None:
    """Takes a function."""


def some_class(agent: Agent) -> None:
    """Takes an object."""


def described_default(city: str = Field(description="a city")) -> None:
    """Describes a default."""


class Node(BaseModel):
    children: "list[Node]"


def itself(node: Node) -> None:
    """Takes a tree."""


@each_row(
    ("function", "said"),
    [
        (no_docstring, "no_docstring needs a docstring"),
        (no_types, "no_types: the parameter city needs a type"),
        (many, "many: *cities: str is not supported"),
        (more, "more: **cities: str is not supported"),
        (by_place, "by_place: city: str is not supported"),
        (unknown_type, "unknown_type: its parameters cannot be read: name 'Metropolis' is not defined"),
        (no_json, "no_json: its parameters cannot be described"),
        (some_class, "some_class: its parameters cannot be checked"),
        (described_default, "described_default: describe city as Annotated"),
        (itself, "itself: its parameters cannot be described"),
    ],
)
def test_an_invalid_tool_is_refused_when_it_is_registered(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(BadTool) as refused:
        tool(function)
    assert str(refused.value).startswith(said)


@each_row("options", [{"name": "two words"}, {"name": "x" * 65}, {"name": "größe"}, {"timeout_s": 0}, {"timeout_s": float("nan")}])
def test_names_and_times_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadTool):
        tool(**options)(by_place)


# Folders of tools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    return tmp_path / "tools"


def write_source(folder: Path, name: str, source: str) -> None:
    (folder / name).write_text("from headway.agents.tools.custom import tool\n" + dedent(source))


def greeting_source(name: str) -> str:
    return f'@tool\ndef {name}(who: str) -> str:\n    """Greet."""\n    return "{name} " + who\n'


def test_all_files_of_a_folder_are_loaded_in_order(sqlite_agent: Agent, folder: Path) -> None:
    write_source(folder, "b.py", greeting_source("zulu") + greeting_source("alpha"))
    write_source(folder, "a.py", greeting_source("hello"))
    (folder / "notes.txt").write_text("no code")
    tools = load(folder, BUILTIN_NAMES)

    assert [loaded.name for loaded in tools] == ["hello", "zulu", "alpha"]
    assert ToolCaller(sqlite_agent.execution, tools)("zulu", who="Ada") == "zulu Ada"


def test_a_folder_that_is_missing_or_empty_holds_no_tools(folder: Path) -> None:
    assert load(folder / "missing") == ()
    assert load(folder) == ()


def test_types_of_a_file_are_found_even_where_annotations_are_text(sqlite_agent: Agent, folder: Path) -> None:
    (folder / "a.py").write_text(
        dedent('''
            from __future__ import annotations
            from dataclasses import dataclass
            from headway.agents.tools.execution import Execution
            from headway.agents.tools.custom import tool

            @dataclass
            class Place:
                city: str

            @tool
            def where(place: Place, execution: Execution) -> Place:
                """Where it is."""
                return place
        ''')
    )

    assert ToolCaller(sqlite_agent.execution, load(folder))("where", place={"city": "Rome"}) == {"city": "Rome"}


def test_a_file_called_like_a_library_does_not_take_its_place(folder: Path) -> None:
    library = sys.modules["json"]
    write_source(folder, "json.py", greeting_source("hello"))

    assert [loaded.name for loaded in load(folder)] == ["hello"]
    assert sys.modules["json"] is library


def test_tools_that_a_file_imports_are_not_registered_again(folder: Path) -> None:
    write_source(folder, "a.py", "from tests.agents.test_own_tools import weather\n" + greeting_source("hello") + "again = hello\n")

    assert [loaded.name for loaded in load(folder)] == ["hello"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def (", "SyntaxError"),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("@tool\ndef f(a: int) -> None: pass", "f needs a docstring"),
        ("raise ValueError('\\x1b[2J two\\nlines')", "ValueError"),
        ("raise ValueError('x' * 9999)", "ValueError"),
    ],
)
def test_a_file_that_fails_is_named_with_the_reason_in_one_line(folder: Path, source: str, reason: str) -> None:
    write_source(folder, "broken.py", source)
    before = set(sys.modules)
    with pytest.raises(SettingsError) as refused:
        load(folder)

    message = str(refused.value)
    assert message.startswith(f"{folder / 'broken.py'} cannot be loaded: {reason}")
    assert message.isprintable()
    assert len(message) < 800
    assert set(sys.modules) - before == set()


def test_a_file_that_is_not_utf8_is_named(folder: Path) -> None:
    (folder / "broken.py").write_bytes(b"x = '\xff'")
    with pytest.raises(SettingsError, match=r"broken\.py cannot be loaded: SyntaxError"):
        load(folder)


def test_names_are_taken_once(folder: Path) -> None:
    write_source(folder, "a.py", greeting_source("hello"))
    write_source(folder, "b.py", greeting_source("hello"))
    with pytest.raises(SettingsError, match=r"b\.py: the tool hello is already defined in .*a\.py"):
        load(folder)


def test_a_built_in_tool_is_not_replaced(folder: Path) -> None:
    write_source(folder, "a.py", greeting_source("read_file"))
    with pytest.raises(SettingsError, match=r"a\.py: read_file is the name of a built-in tool"):
        load(folder, BUILTIN_NAMES)
