"""The tree of commands: its groups, older names, examples, and what a mistyped name is told."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from headway.surfaces.cli.main import ALIASES
from headway.surfaces.cli.main import headway as root
from tests.surfaces.shell import Shell
from tests.tables import each_row

OLDER_NAMES = {
    **ALIASES,
    "agents list": "agent list",
    "conversation new": "conversation add",
    "files get": "file get",
    "jobs drop": "admin job rm",
    "jobs stats": "admin job stats",
    "schedule put": "schedule add",
    "tenant move": "admin tenant move",
    "token new": "token add",
    "token revoke": "token rm",
    "tools call": "tool call",
    "workers": "worker list",
}
MISTAKES = {
    "tood list": "No such command 'tood'. Did you mean `headway todo` or `headway tool`?",
    "todo ad": "No such command 'ad'. Did you mean `headway todo add`",
    "admin tenat": "No such command 'tenat'. Did you mean `headway admin tenant`?",
    "frobnicate": "No such command 'frobnicate'. Try `headway --help`.",
    "token rm": "Give either the ID of a token or --all.",
    "token rm 1 --all": "Give either the ID of a token or --all.",
    "why todo 1 --sub-goal 2": "--sub-goal needs a goal",
    "mcp install": "Missing argument 'CLIENT'. Choose from: claude-code, claude-desktop",
}


def list_groups(command: click.Command, *path: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        yield " ".join(path)
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from list_groups(child, *path, name)


def parse(line: str) -> click.Command:
    """Parse a command line with its options, and return the command that it would call."""
    program, *words = shlex.split(line)
    context = root.make_context(program, words)
    command: click.Command = root
    while isinstance(command, click.Group) and (words := [*context._protected_args, *context.args]):
        name, child, rest = command.resolve_command(context, words)
        assert child is not None
        command, context = child, child.make_context(name, rest, parent=context)
    return command


def test_help_has_groups_and_no_older_names(headway: Shell) -> None:
    shown = headway("--help").out

    assert re.findall(r"^([A-Z].*):$", shown, re.MULTILINE) == ["Start", "Work", "Set up", "Operate", "Options", "Examples"]
    assert set(re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE)) & ALIASES.keys() == set()


@each_row("old, new", OLDER_NAMES.items())
def test_older_names_still_work(headway: Shell, old: str, new: str) -> None:
    expected = headway(*new.split(), *([] if "--" in new else ["--help"]))

    assert expected.code == 0
    assert headway(*old.split(), "--help") == expected


@each_row("path", list_groups(root))
def test_every_group_has_examples_that_can_be_typed(headway: Shell, path: str) -> None:
    examples = re.findall(r"^  (headway .+)$", headway(*path.split(), "--help").out, re.MULTILINE)

    assert examples
    for example in examples:
        assert not isinstance(parse(example), click.Group) or path in ("mcp", "worker")


@each_row("line, message", MISTAKES.items())
def test_a_mistake_is_told_what_to_type(headway: Shell, line: str, message: str) -> None:
    result = headway(*line.split())

    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize("words", [("rm", "--all", "--yes"), ("revoke-all", "--yes")])
def test_all_tokens_are_revoked(headway: Shell, words: tuple[str, ...]) -> None:
    headway("token", "add")

    assert headway("token", *words).out == "revoked tokens: 1, ended sessions: 0\n"


def test_compatible_tools_are_listed_on_request(headway: Shell) -> None:
    usual, every = ({tool["name"] for tool in headway.json("tool", "list", *flags)["tools"]} for flags in ((), ("--all",)))

    assert {"create_todo", "todo_add", "read_file"} <= usual
    assert {"AddTask", "TodoWrite", "manage_todos", "update_plan", "write_todos"} <= every - usual
    assert f"{len(every - usual)} more tools" in headway("tool", "list").err
    assert headway("tool", "list", "--all").err == ""
