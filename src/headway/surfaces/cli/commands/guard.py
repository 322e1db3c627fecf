"""`headway guard`: sends coding assistants back to work that is not finished."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headway.actions.guard import rules, sessions
from headway.ledger import text
from headway.ledger.check import Check, decode_checks, describe_check
from headway.ledger.guard import CLIENT_TITLES, GuardRule, count_items
from headway.settings import get_environment
from headway.surfaces.cli.arguments import check_options, read_checks
from headway.surfaces.cli.commands.mcp import find_program
from headway.surfaces.cli.context import Command, CommandGroup, Invocation, UnusedFlags, pass_invocation
from headway.surfaces.cli.render import PROOF_MARKS
from headway.surfaces.guard.hook import run as run_hook
from headway.surfaces.guard.installation import CLIENTS, GuardFile
from headway.surfaces.guard.places import find_home_folder, find_project

CLIENT = click.Choice(list(CLIENTS))


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    user = click.option("--user/--project", "for_user", default=False, help="For all your projects, or for this one (default).")
    return user(command)


@click.command(cls=Command)
@click.argument("client", type=CLIENT, metavar="CLIENT")
@place_options
@click.option("--print", "print_only", is_flag=True, help="Show the file and what would be written, and change nothing.")
@pass_invocation
def install(invocation: Invocation, client: str, *, for_user: bool, print_only: bool) -> None:
    """Install the guard into an assistant.

    CLIENT is claude-code, codex, gemini, opencode or cursor. The hooks use the home of the project that the assistant works in: the
    nearest .headway, from its folder upwards, or the one that --home names here. This command creates one here if there is none;
    with --user, in your home folder.
    Other entries of the file stay as they are.
    """
    file = find_guard_file(invocation, client, for_user=for_user)
    is_new = False
    if not print_only:
        open_home(invocation, for_user=for_user)
        is_new = file.install()
    document = {"client": client, "file": str(file.path), "content": file.render(), "changed": is_new}

    def draw() -> None:
        path = text.to_one_line(str(file.path))
        if print_only:
            click.echo(f"For {path}:\n\n{file.render()}")
            return
        scope = "in all your projects" if for_user else f"in {text.to_one_line(os.getcwd())}"
        click.echo(f"{'Installed in' if is_new else 'Already in'} {path}. Headway guards {file.client.title} {scope}.")
        if file.client.advice:
            click.echo(file.client.advice)
        undo = f"headway guard uninstall {client}{' --user' if for_user else ''}"
        click.echo(f'Next: headway guard add "the tests pass" --check-command "…"   Undo: {undo}')

    invocation.answer(document, draw)


@click.command(cls=Command)
@click.argument("client", type=CLIENT, metavar="CLIENT")
@place_options
@pass_invocation
def uninstall(invocation: Invocation, client: str, *, for_user: bool) -> None:
    """Remove the guard from an assistant. Its records stay."""
    file = find_guard_file(invocation, client, for_user=for_user)
    was_there = file.uninstall()
    path = text.to_one_line(str(file.path))
    message = f"Removed from {path}." if was_there else f"{path} does not have the guard. Nothing was changed."
    invocation.answer({"client": client, "file": str(file.path), "changed": was_there}, lambda: click.echo(message))


def find_guard_file(invocation: Invocation, client: str, *, for_user: bool) -> GuardFile:
    """Return the file of a client. A home that is named with --home is the home of its hooks."""
    project = None if for_user else Path.cwd()
    known = CLIENTS[client]
    named_home = () if invocation.home is None else ("env", f"HEADWAY_HOME={os.path.abspath(invocation.home)}")
    return GuardFile(known, known.find_file(project, Path.home(), get_environment()), (*named_home, *find_program()))


def open_home(invocation: Invocation, *, for_user: bool) -> None:
    """Create the home and its database if there are none."""
    with enter_home(invocation, Path.home() if for_user else None), invocation.open_ledger():
        pass


@contextmanager
def enter_home(invocation: Invocation, folder: Path | None = None) -> Iterator[str]:
    """Use the home of the project, as the hooks do: the nearest one from this folder upwards. Yields the project's folder."""
    here = os.getcwd()
    start = str(folder) if folder else here
    if invocation.home is None and not get_environment().get("HEADWAY_HOME"):
        os.chdir(find_home_folder(start) or start)
    try:
        yield find_project(here)
    finally:
        os.chdir(here)


# `headway guard …`: keeps coding assistants from stopping while their list is open or a check fails.


@click.group(
    cls=CommandGroup,
    unused=UnusedFlags(("tenant", "conversation"), "uses the local tenant"),
    examples=("headway guard install claude-code", "headway guard add 'The tests pass' --check-command 'pytest -q'"),
)
def guard() -> None:
    """Keep coding assistants from stopping while their list is open or a check fails."""


guard.add_command(install)
guard.add_command(uninstall)


@guard.command()
@click.argument("subject", metavar="TEXT")
@check_options
@click.option("--yes", is_flag=True, help="Do not ask before commands are allowed to run without a sandbox.")
@pass_invocation
def add(invocation: Invocation, /, subject: str, *, yes: bool, **fields: Any) -> None:
    """Add what must hold before an assistant in this project may stop.

    The checks run at every stop, in the sandbox. Without a sandbox, this asks whether the commands may run with all your rights.
    """
    checks = read_checks(fields)
    is_confirmed = bool(checks) and confirm_without_sandbox(invocation, checks, yes=yes)
    with enter_home(invocation) as project, invocation.open_ledger() as ledger:
        rule = ledger.write(rules.add_guard_rule, project, subject, checks, is_confirmed=is_confirmed)
    invocation.answer({"rule": describe_rule(rule)}, lambda: click.echo(draw_rule(rule)))


@guard.command("list")
@pass_invocation
def list_rules(invocation: Invocation) -> None:
    """List what must hold in this project."""
    with enter_home(invocation) as project, invocation.open_ledger() as ledger:
        found = ledger.read(rules.list_rules, project)

    def draw() -> None:
        click.echo("\n".join(map(draw_rule, found)) or "No rules in this project.")

    invocation.answer({"rules": [describe_rule(rule) for rule in found]}, draw)


@guard.command("rm")
@click.argument("rule_id", type=int, metavar="ID")
@pass_invocation
def remove(invocation: Invocation, rule_id: int) -> None:
    """Remove a rule."""
    with enter_home(invocation), invocation.open_ledger() as ledger:
        rule = ledger.write(rules.remove_guard_rule, rule_id)
    invocation.answer({"rule": describe_rule(rule)}, lambda: click.echo(f"Removed: {draw_rule(rule)}"))


@guard.command()
@pass_invocation
def status(invocation: Invocation) -> None:
    """Show the sessions of assistants in this project: what is open, what was refused, how often, and why."""
    with enter_home(invocation) as project, invocation.open_ledger() as ledger:
        found = ledger.read(sessions.list_sessions, project)

    def draw() -> None:
        if not found:
            click.echo("No session in this project has planned anything yet.")
        for session in found:
            draw_session(session)

    invocation.answer({"project": project, "sessions": [session.as_json() for session in found]}, draw)


@guard.command()
@click.argument("client", type=CLIENT, metavar="CLIENT")
def hook(client: str) -> None:
    """Answer an event of an assistant's hooks: JSON on standard input and standard output. The hooks call this."""
    run_hook(client)


def draw_session(session: sessions.GuardedSession) -> None:
    conversation = session.conversation
    name = CLIENT_TITLES.get(conversation.client, conversation.client)
    sent_back = f", sent back {session.refusals} times" if session.refusals > 1 else ", sent back once" if session.refusals else ""
    ended = f", ended {session.outcome}" if session.outcome else ""
    click.echo(text.to_one_line(f"{name} {conversation.client_session}: {count_items(len(session.open_items))}{sent_back}{ended}"))
    for todo in session.open_items:
        proof = f" [{PROOF_MARKS[todo.proof]}]" if todo.proof == "broken" else ""  # why a completed item is open
        click.echo(f"  #{todo.id} [{todo.status}]{proof} {text.to_one_line(todo.subject)}")
    if session.reason:
        click.echo("  Sent back the last time with:")
        for line in text.to_lines(session.reason):
            click.echo(f"    {line}")
        click.echo(f"  More: headway why {session.turn_id}")


def confirm_without_sandbox(invocation: Invocation, checks: Sequence[Check], *, yes: bool) -> bool:
    """Return whether the commands of the checks may run without a sandbox. A person is asked if there is none."""
    if not any(check["kind"] == "command" for check in checks):
        return False
    from headway.agents.tools.programs.sandbox import find_fault  # noqa: PLC0415  loads the agent libraries
    from headway.surfaces.cli.proving import confirm_commands  # noqa: PLC0415

    with enter_home(invocation):
        has_sandbox = not find_fault(invocation.settings().sandbox)
    return not has_sandbox and (yes or confirm_commands(checks))


def describe_rule(rule: GuardRule) -> dict[str, Any]:
    return {"id": rule.id, "folder": rule.folder, "text": rule.subject, "checks": decode_checks(rule.checks)}


def draw_rule(rule: GuardRule) -> str:
    checks = ", ".join(describe_check(check) for check in decode_checks(rule.checks))
    return text.to_one_line(f"#{rule.id} {rule.subject} ({checks})")
