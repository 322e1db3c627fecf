"""The options for the fields of todos that all surfaces share: --priority, --due and --label."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from headway.ledger.parsing.todo_fields import FIELDS, check_label, parse_due, parse_priority, parse_words
from headway.ledger.scope import Selection

Command = TypeVar("Command", bound=Callable[..., None])


def field_options(command: Command) -> Command:
    """Add the options of a command that adds or changes todos."""
    for field in reversed(FIELDS):
        more = " (repeatable)" if field.is_list else ""
        text = f"{field.meaning}{more}."
        command = click.option(f"--{field.word}", multiple=field.is_list, metavar=field.metavar, help=text)(command)
    return command


def read_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Take the fields out of the options, and parse those that were given."""
    given = [(field, options.pop(field.word)) for field in FIELDS]
    words = [(field.word, value) for field, values in given for value in (values if field.is_list else [values])]
    return parse_words((word, value) for word, value in words if value is not None)


def field_filters(command: Command) -> Command:
    """Add the options of a command that lists todos."""
    command = click.option("--overdue", is_flag=True, help="Only open todos whose time has passed.")(command)
    command = click.option("--due-before", metavar="TIME", help="Only todos that are due before this time.")(command)
    command = click.option(
        "--label", "labels", multiple=True, metavar="TEXT", help="Only with this label (repeatable: all of them)."
    )(command)
    return click.option("--priority", metavar="WORD", help="Only of this priority.")(command)


def read_filters(options: dict[str, Any]) -> Callable[[Selection, int], Selection]:
    """Return the function that narrows a selection at a time."""
    return partial(
        Selection.narrow,
        priority=None if options["priority"] is None else parse_priority(options["priority"]),
        labels=tuple(map(check_label, options["labels"])),
        due_before=None if options["due_before"] is None else parse_due(options["due_before"]),
        overdue=options["overdue"],
    )
