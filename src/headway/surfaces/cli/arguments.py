"""Parameter types shared by several commands: ids, statuses, durations and amounts of money."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import Status, parse_status

F = TypeVar("F", bound=Callable[..., Any])

# Types have no parameter here, as in class RowId(click.ParamType[int]): click before 8.4 does not accept one.
SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class RowId(click.ParamType):  # type: ignore[type-arg]
    """A row id, written as 14 or #14."""

    name = "id"

    def __init__(self, noun: str) -> None:
        self.noun = noun

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removeprefix("#")
        if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > MAX_INTEGER:
            article = "an" if self.noun.startswith("a") else "a"
            self.fail(f"{str(value)[:60]!r} is not {article} {self.noun} id; ids look like 14 or #14.", param, ctx)
        return int(text)


class RowIdOrNone(RowId):
    """A row id, written as 14 or #14. An empty string means none and converts to 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == "" else super().convert(value, param, ctx)


class StatusName(click.ParamType):  # type: ignore[type-arg]
    """A todo status: pending, in_progress, completed or canceled. The spelling "cancelled" is accepted."""

    name = "status"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Status:
        try:
            return parse_status(str(value))
        except HeadwayError as error:
            self.fail(str(error), param, ctx)


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A duration in seconds, written as 60s, 5m, 2h or a plain number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", str(value).strip().lower(), re.ASCII)
        if not match:
            self.fail(f"{str(value)[:60]!r} is not a duration; they look like 60s, 5m or 2h.", param, ctx)
        return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def format_duration(seconds: float) -> str:
    """Format a duration in the largest unit that divides it evenly: 30s, 90m, 100d."""
    unit = next((unit for unit in "dhm" if seconds and seconds % SECONDS_PER_UNIT[unit] == 0), "s")
    return f"{seconds / SECONDS_PER_UNIT[unit]:.3f}".rstrip("0").rstrip(".") + unit


class Dollars(click.ParamType):  # type: ignore[type-arg]
    """An amount in dollars, written as 0.25 or $0.25."""

    name = "usd"

    def __init__(self, *, allows_zero: bool = False) -> None:
        self.allows_zero = allows_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"\$?(\d{1,6}(?:\.\d{1,6})?)", str(value).strip(), re.ASCII)
        if not match or not (float(match[1]) or self.allows_zero):
            self.fail(f"{str(value)[:60]!r} is not an amount of money; they look like 2 or 0.25.", param, ctx)
        return float(match[1])


def parse_json_object(text: str, name: str = "--args") -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Invalid(f"{name} must be one JSON object.")
    return parsed


TODO_ID = RowId("todo")
TODO_ID_OR_NONE = RowIdOrNone("todo")
GOAL_ID = RowId("goal")
TOKEN_ID = RowId("token")
SUB_GOAL_ID = RowId("sub-goal")
MEMORY_ID = RowId("memory")
CONVERSATION_ID = RowId("conversation")
MESSAGE_ID = RowId("message")
STATUS = StatusName()
SECONDS = Duration()
DOLLARS = Dollars()


def fork_options(command: F) -> F:
    """Add the options that forks of turns and of conversations share."""
    options = (
        click.option("--model", default="", metavar="NAME", help="Ask this model, such as provider:name."),
        click.option("--role", default="", metavar="NAME", help="Continue in this role."),
        click.option("--live", is_flag=True, help="Make calls that have no recorded result."),
    )
    for option in reversed(options):
        command = option(command)
    return command
