"""The options with which commands take checks."""

import json
import os
from collections.abc import Callable
from typing import Any

import click

from headway.ledger.check import Check
from headway.ledger.errors import Invalid

NAMES = ("check_commands", "check_files", "check_json", "in_workspace")


def check_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for checks. `read_checks` turns their values into definitions."""
    options = (
        click.option(
            "--check-command",
            "check_commands",
            multiple=True,
            metavar="CMD",
            help="Require that this shell command succeeds in this folder (repeatable).",
        ),
        click.option(
            "--check-file",
            "check_files",
            multiple=True,
            metavar="PATH[~TEXT]",
            help="Require that this file exists in this folder and contains TEXT (repeatable).",
        ),
        click.option("--check", "check_json", multiple=True, metavar="JSON", help="Require a check of any kind (repeatable)."),
        click.option("--workspace", "in_workspace", is_flag=True, help="Check the tenant's workspace instead of this folder."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_checks(fields: dict[str, Any]) -> list[Check]:
    """Take the values of these options out of a command's fields, and return the definitions.

    Commands and files refer to the current folder, which the check records, unless `--workspace` is given. JSON is taken as it is.
    """
    commands, files, documents, in_workspace = (fields.pop(name) for name in NAMES)
    if in_workspace and not commands and not files:
        raise click.UsageError("--workspace goes with --check-command or --check-file.")
    place = {} if in_workspace else {"folder": os.getcwd()}
    checks: list[Check] = [{"kind": "command", "run": command, **place} for command in commands]
    for file in files:
        path, _, text = file.partition("~")
        checks.append({"kind": "file", "path": path, **({"contains": text} if text else {}), **place})
    return [*checks, *map(parse_check_json, documents)]


def parse_check_json(document: str) -> Check:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Invalid('--check must be one JSON object, such as {"kind": "command", "run": "pytest -q"}.')
    return parsed
