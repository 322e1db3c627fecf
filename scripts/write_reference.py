"""Write docs/reference and the tables of docs/settings.md from the code: commands, routes, events and settings.

    make docs

The output is the same on every machine: it does not depend on the width of the terminal, the home folder or the settings.
docs/reference is not committed; tests/test_documents.py fails when the tables of settings are out of date.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from headway.agents.instructions.roles import Roles
from headway.settings import PREFIX
from headway.settings.declarations import GROUPS, Setting
from headway.surfaces.cli.context import build_shared_flags
from headway.surfaces.cli.main import headway
from headway.surfaces.http.app import list_routes
from headway.surfaces.http.openapi import BODY_STATUSES, COMMON_STATUSES, TOKEN_STATUSES, build_openapi, list_events
from headway.surfaces.http.problems import STATUS_TITLES

FOLDER = Path(__file__).parent.parent / "docs"
SOURCE = FOLDER.parent / "src" / "headway"
WIDTH = 100
MADE = "<!-- Written by scripts/write_reference.py: `make docs`. Changes made here are lost. -->"
SHARED = {flag.name for flag in build_shared_flags()}
NO_BODY = "nothing"


def documents() -> dict[str, str]:
    """Return every file with generated text, by its path in docs."""
    api = build_openapi(list_routes(), Roles().by_name)
    return {
        "reference/cli.md": cli_page(),
        "reference/http.md": http_page(api),
        "reference/events.md": events_page(api),
        "reference/modules.md": modules_page(),
        "settings.md": settings_page(),
        "reference/openapi.json": json.dumps(api, indent=1, sort_keys=True, ensure_ascii=False) + "\n",
    }


# The command line


def cli_page() -> str:
    root = click.Context(headway, info_name="headway", terminal_width=WIDTH, **headway.context_settings)
    parts = [
        MADE,
        "# Every command",
        "The output of `headway … --help`. [The command line](../page.md#the-command-line) explains output and exit codes.",
        "All commands accept these options, before or after the subcommand; they are omitted below.\n"
        "An option that has no effect on a command (`halt --tenant acme`) is rejected:",
        block(flags_of_all()),
    ]
    for context in commands(root):
        parts += [f"{'#' * (2 if depth(context) < 2 else 3)} {context.command_path}", block(help_of(context))]
    return "\n\n".join(parts) + "\n"


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the command and its subcommands, in the order of its help."""
    yield context
    family = context.command
    if isinstance(family, click.Group):
        for name in family.list_commands(context):
            command = family.get_command(context, name)
            assert command is not None
            if command.hidden:
                continue
            yield from commands(click.Context(command, parent=context, info_name=name, **command.context_settings))


def depth(context: click.Context) -> int:
    return 0 if context.parent is None else depth(context.parent) + 1


def help_of(context: click.Context) -> str:
    """Return the help of a command without the shared flags."""
    command = copy(context.command)
    command.params = [parameter for parameter in command.params if parameter.name not in SHARED]
    return command.get_help(context)


def flags_of_all() -> str:
    nothing = click.Command("headway", params=build_shared_flags(), add_help_option=False)
    formatter = click.HelpFormatter(width=WIDTH)
    nothing.format_options(click.Context(nothing, terminal_width=WIDTH), formatter)
    return formatter.getvalue().rstrip()


def block(text: str) -> str:
    return f"```text\n{text}\n```"


# HTTP


def http_page(api: dict[str, Any]) -> str:
    parts = [
        MADE,
        "# Every route",
        "A summary of [openapi.json](openapi.json), which also has the schemas of all requests and responses; `headway serve`\n"
        "serves it at `/openapi.json`. [The HTTP API](../http.md) explains the routes.",
        "Parameters: `?` in the query, `{}` in the body; those in **bold** are required. Errors that are not repeated below:",
        f"- every route: {told(COMMON_STATUSES)}\n- every route that requires a token: {told(TOKEN_STATUSES)}\n"
        f"- every route with a body: {told(BODY_STATUSES)}",
    ]
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in operations(api)):
        rows = [row(api, method, path, operation) for method, path, operation in operations(api) if operation["tags"][0] == tag]
        head = ("| route | what it does | takes | answers | errors |", "|---|---|---|---|---|")
        parts += [f"## {tag.capitalize()}", "\n".join([*head, *rows])]
    return "\n\n".join(parts) + "\n"


def operations(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    return ((method.upper(), path, operation) for path, methods in api["paths"].items() for method, operation in methods.items())


def row(api: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    usual_codes = {
        *COMMON_STATUSES,
        *(TOKEN_STATUSES if "security" in operation else ()),
        *(BODY_STATUSES if "requestBody" in operation else ()),
    }
    codes = sorted(int(code) for code in operation["responses"])
    success_codes = ", ".join(str(code) for code in codes if code < 400)
    error_codes = ", ".join(str(code) for code in codes if code >= 400 and code not in usual_codes)
    key = (
        " · `Idempotency-Key`"
        if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", ()))
        else ""
    )
    inputs = " ".join(part for part in (query_of(operation), body_of(api, operation)) if part)
    cells = (
        f"`{method} {path}`",
        operation["summary"].replace("|", "\\|"),
        f"{inputs}{key}".removeprefix(" · "),
        success_codes,
        error_codes,
    )
    return f"| {' | '.join(cells)} |"


def query_of(operation: dict[str, Any]) -> str:
    names = [
        named(parameter["name"], required=parameter["required"])
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    return f"?&nbsp;{', '.join(names)}" if names else ""


def body_of(api: dict[str, Any], operation: dict[str, Any]) -> str:
    if "requestBody" not in operation:
        return ""
    shape = resolved(api, operation["requestBody"]["content"]["application/json"]["schema"])
    kinds = [resolved(api, kind) for kind in shape.get("anyOf", shape.get("oneOf", (shape,)))]
    return "{}&nbsp;" + " or ".join(fields(api, kind) for kind in kinds)


def fields(api: dict[str, Any], shape: dict[str, Any]) -> str:
    if shape.get("type") == "array":
        return f"a list of ({fields(api, resolved(api, shape['items']))})"
    names = [named(name, required=name in shape.get("required", ())) for name in shape.get("properties", ())]
    ellipsis = ["…"] if shape.get("additionalProperties") else []
    return ", ".join([*names, *ellipsis]) or NO_BODY


def resolved(api: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = api["components"]["schemas"][shape["$ref"].rpartition("/")[2]] if "$ref" in shape else shape
    return schema


def named(name: str, *, required: bool) -> str:
    return f"**`{name}`**" if required else f"`{name}`"


def told(codes: tuple[int, ...]) -> str:
    return ", ".join(f"{code} {STATUS_TITLES[code].lower()}" for code in sorted(codes))


# Events


def events_page(api: dict[str, Any]) -> str:
    parts = [
        MADE,
        "# Every event",
        "The data of each event of the [streams](../http.md#live-events), of webhooks and of `headway.events.follow`. A field\n"
        "with `?` can be missing. [openapi.json](openapi.json) has the types with a capital.",
    ]
    for event in list_events():
        schema = api["components"]["schemas"][event.data.__name__]
        rows = [describe_field(name, field, schema.get("required", ())) for name, field in schema["properties"].items()]
        table = ["\n".join(["| field | type | meaning |", "|---|---|---|", *rows])] if rows else ["It has no data."]
        parts += [f"## {event.kind}", event.meaning, *table]
    return "\n\n".join(parts) + "\n"


def describe_field(name: str, field: dict[str, Any], required: Sequence[str]) -> str:
    """Return the row of a field in the table of an event."""
    mark = "" if name in required else "?"
    return f"| `{name}{mark}` | {spell_type(field)} | {field.get('description', '')} |"


def spell_type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(spell_type(option) for option in schema["anyOf"])
    if schema.get("type") == "array":
        return f"a list of {spell_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"an object of {spell_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any JSON"))


# Modules


def modules_page() -> str:
    """List every module with the first sentence of its docstring."""
    parts = [MADE, "# Every module", "[The architecture](../internals/architecture.md) explains the packages."]
    modules = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__main__.py")
    for folder, paths in groupby(modules, key=lambda path: path.parent):
        rows = [row for path in paths if (row := describe_module(path))]
        if rows:
            name = "headway" if folder == SOURCE else folder.relative_to(SOURCE).as_posix()
            parts += [f"## {name}", "\n".join(["| module | what it is for |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def describe_module(path: Path) -> str:
    """Return a row of the table, or nothing for a package without a docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        return ""
    name = path.relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__")
    sentence = re.split(r"(?<=[.]) |\n\n", " ".join(docstring.partition("\n\n")[0].split()), maxsplit=1)[0]
    return f"| `{name}` | {sentence.replace('|', chr(92) + '|')} |"


# Settings


def settings_page() -> str:
    """Return docs/settings.md with its tables of variables rewritten. The text around them is not generated."""
    page = (FOLDER / "settings.md").read_text(encoding="utf-8")
    for group, declared in GROUPS.items():
        marker = f"<!-- table: {group} -->\n"
        page, count = re.subn(rf"{re.escape(marker)}(\|[^\n]*\n)*", lambda _: marker + table_of(declared), page)  # noqa: B023
        assert count == 1, f"docs/settings.md has no {marker}"
    return page


def table_of(declared: Mapping[str, Setting]) -> str:
    rows = [(f"`{PREFIX}{name.upper()}`", spell_default(setting), setting.sentence) for name, setting in declared.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in [("variable", "default", "meaning"), ("---",) * 3, *rows])


def spell_default(setting: Setting) -> str:
    default = setting.default if isinstance(setting.default, str) else f"{setting.default:g}"
    return f"`{default}`" if default else ""


if __name__ == "__main__":
    (FOLDER / "reference").mkdir(exist_ok=True)
    for name, text in documents().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
