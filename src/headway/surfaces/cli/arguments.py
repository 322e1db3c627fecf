"""Arguments and options that several commands have."""

import json
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headway.ledger.check import Check
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.parsing.todo_fields import FIELDS, FILTERS, parse_words
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import Status, parse_status
from headway.surfaces.cli.context import option

F = TypeVar("F", bound=Callable[..., Any])

# Types have no parameter here, as in class RowId(click.ParamType[int]): click before 8.4 does not accept one.
DEFAULT_PAGE_SIZE = 50
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


def limit_option(command: F) -> F:
    """Add `--limit`, for commands that list rows."""
    number = click.IntRange(1, 500)
    limit = option(
        "--limit", default=DEFAULT_PAGE_SIZE, show_default=True, metavar="N", type=number, help="List at most this many."
    )
    return limit(command)


def fork_options(command: F) -> F:
    """Add the options that forks of turns and of conversations share."""
    options = (
        option("--model", default="", metavar="NAME", help="Ask this model, such as provider:name."),
        option("--role", default="", metavar="NAME", help="Continue in this role."),
        option("--live", is_flag=True, help="Make calls that have no recorded result."),
    )
    for add_option in reversed(options):
        command = add_option(command)
    return command


# The options with which commands take checks.


NAMES = ("check_commands", "check_files", "check_json", "in_workspace")


def check_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for checks. `read_checks` turns their values into definitions."""
    options = (
        option(
            "--check-command",
            "check_commands",
            multiple=True,
            metavar="CMD",
            help="Require that this shell command succeeds in this folder (repeatable).",
        ),
        option(
            "--check-file",
            "check_files",
            multiple=True,
            metavar="PATH[~TEXT]",
            help="Require that this file exists in this folder and contains TEXT (repeatable).",
        ),
        option("--check", "check_json", multiple=True, metavar="JSON", help="Require a check of any kind (repeatable)."),
        option("--workspace", "in_workspace", is_flag=True, help="Check the tenant's workspace instead of this folder."),
    )
    for add_option in reversed(options):
        command = add_option(command)
    return command


def read_checks(fields: dict[str, Any]) -> list[Check]:
    """Take the values of these options out of a command's fields, and return the definitions.

    Commands and files refer to the current folder, which the check records, unless `--workspace` is given. JSON is taken as it is.
    """
    commands, files, documents, in_workspace = (fields.pop(name) for name in NAMES)
    if in_workspace and not commands and not files:
        raise click.UsageError("--workspace goes with --check-command or --check-file.")
    folder = {} if in_workspace else {"folder": os.getcwd()}
    checks: list[Check] = [{"kind": "command", "run": command, **folder} for command in commands]
    for file in files:
        path, _, text = file.partition("~")
        checks.append({"kind": "file", "path": path, **({"contains": text} if text else {}), **folder})
    return [*checks, *map(parse_check_json, documents)]


def parse_check_json(document: str) -> Check:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Invalid('--check must be one JSON object, such as {"kind": "command", "run": "pytest -q"}.')
    return parsed


# The options for the fields of todos that all surfaces share, and for lists of todos with certain fields.


Command = TypeVar("Command", bound=Callable[..., None])


def field_options(command: Command) -> Command:
    """Add the options of a command that adds or changes todos."""
    for field in reversed(FIELDS):
        more = " (repeatable)" if field.is_list else ""
        text = f"{field.meaning}{more}."
        command = option(f"--{field.word}", multiple=field.is_list, metavar=field.metavar, help=text)(command)
    return command


def read_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Take the fields out of the options, and parse the ones that were given."""
    given = [(field, options.pop(field.word)) for field in FIELDS]
    words = [(field.word, value) for field, values in given for value in (values if field.is_list else [values])]
    return parse_words((word, value) for word, value in words if value is not None)


def field_filters(command: Command) -> Command:
    """Add the options of a command that lists todos. `parse_filters` reads them."""
    for filter in reversed(FILTERS):
        name = f"--{filter.name.replace('_', '-')}"
        flag = option(name, multiple=filter.is_list, metavar=filter.metavar, help=filter.meaning)
        command = (flag if filter.metavar else option(name, is_flag=True, help=filter.meaning))(command)
    return command
