"""calculate and now: small questions that models answer poorly without a tool."""

import time

import pytest

from headway.agents.tools.builtin import BUILTIN_NAMES, ExternalAccess, build_builtin_tools, evaluate_expression
from headway.ledger.errors import Invalid
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import build_caller
from tests.tables import each_row


@each_row(
    ("expression", "result"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 // 2", -4),
        ("7 % 4", 3),
        ("1 / 8", 0.125),
        ("2 ** -1", 0.5),
        ("2 ** 10", 1024),
        ("sqrt(16) + abs(-2)", 6.0),
        ("round(2.675 * 100) + round(1.2345, 2)", 269.23),
        ("min(3, 1, 2) + max([3, 1, 2])", 4),
        ("sum([1, 2, 3.5])", 6.5),
        ("round(pi, 5) - round(e, 5)", 3.14159 - 2.71828),
        ("1 +\n 2", 3),
        ("1_000 * 2", 2000),
        ("2 ** 64", "18446744073709551616"),
        ("+".join(["1"] * 300), 300),
    ],
)
def test_expressions_have_the_value_they_have_on_paper(expression: str, result: object) -> None:
    value = evaluate_expression(expression)
    assert value == result
    assert type(value) is type(result)


@each_row(
    "expression",
    [
        "9**9**9",
        "9**9**9**9",
        "10**1000**2",
        "(10**1000)**(10**1000)",
        "2**4096",
        "(-2)**4097",
        "2.0**99999",
        "1e999",
        "1e308*10",
        "10**1000/3.5",
        "round(5, -10**9)",
        "round(5, 1.5)",
        "1/0",
        "5 % 0",
        "0**-1",
        "sqrt(-1)",
        "(-8)**0.5",
        "min()",
        "abs(1, 2)",
        "(" * 400 + "1" + ")" * 400,
        "(" * 150 + "1" + ")" * 151,
        "-" * 999 + "1",
        "1" * 1001,
        "",
        "1;2",
        "\0",
        "\ud800",
        "True",
        "'a' * 9",
        "5j",
        "[1, 2]",
        "1 if 2 else 3",
        "1 < 2",
        "1 << 9999999999",
        "lambda: 1",
        "x",
        "e.real",
        "abs.__self__",
        "__import__('os').system('true')",
        "sum(n for n in [1])",
        "sum(*[1, 2])",
        "round(1, ndigits=1)",
        "max((1, 2), (3, 4))",
        "print(1)",
    ],
)
def test_excessive_or_invalid_arithmetic_is_refused_at_once_in_one_sentence(expression: str) -> None:
    started_at = time.monotonic()
    with pytest.raises(Invalid) as refusal:
        evaluate_expression(expression)
    assert time.monotonic() - started_at < 20
    assert str(refusal.value).endswith(".")
    assert len(str(refusal.value)) < 200


def test_a_model_gets_the_result_or_the_reason(sqlite_agent: Agent) -> None:
    caller = build_caller(sqlite_agent)

    assert caller("calculate", expression="6 * 7") == {"result": 42}
    assert caller.refused("calculate", expression="9**9**9") == "The result is too large."


def test_the_time_is_the_ledgers_with_its_offset_and_weekday(agent: Agent) -> None:
    caller = build_caller(agent)

    assert caller("now") == {"now": "2023-11-14T22:13:20+00:00", "weekday": "Tuesday"}
    assert caller("now", timezone="Asia/Kolkata") == {"now": "2023-11-15T03:43:20+05:30", "weekday": "Wednesday"}


@each_row("zone", ["Mars/Base", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b", "x" * 5000, "Europe/Berlin\n/x"])
def test_an_unknown_timezone_is_refused_in_a_sentence(sqlite_agent: Agent, zone: str) -> None:
    assert build_caller(sqlite_agent).refused("now", timezone=zone).startswith("Unknown timezone")


def test_external_tools_exist_only_where_they_are_allowed() -> None:
    names = {tool.name for tool in build_builtin_tools(ExternalAccess())}

    assert {tool.name for tool in build_builtin_tools(ExternalAccess(("example.org",), ("ls", "python3")))} == BUILTIN_NAMES
    assert BUILTIN_NAMES - names == {"http_get", "run_command", "run_python"}
    assert "http_get" in {tool.name for tool in build_builtin_tools(ExternalAccess(http_hosts=("*",)))}
    assert {tool.name for tool in build_builtin_tools(ExternalAccess(commands=("ls",)))} - names == {"run_command"}


def test_every_tool_has_a_description_and_a_family() -> None:
    tools = build_builtin_tools(ExternalAccess(("example.org",), ("ls", "python")))

    assert {tool.family for tool in tools} == {"builtin"}
    assert all(tool.as_json()["description"].endswith(".") for tool in tools)
    assert {tool.name for tool in tools if not tool.idempotent} == {"edit_file", "remember", "run_command", "run_python"}
