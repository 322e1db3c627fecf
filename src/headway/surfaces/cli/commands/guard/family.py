"""`headway guard …`: keeps coding assistants from stopping while their list is open or a check fails."""

from collections.abc import Sequence
from typing import Any

import click

from headway.actions.guard import overview, rules
from headway.ledger import text
from headway.ledger.check import Check, decode_checks, describe_check
from headway.ledger.guard.texts import count_items
from headway.ledger.guard.values import CLIENT_TITLES, GuardRule
from headway.surfaces.cli.check_options import check_options, read_checks
from headway.surfaces.cli.commands.guard.installing import CLIENT, enter_home, install, uninstall
from headway.surfaces.cli.context import CommandGroup, Invocation, UnusedFlags, pass_invocation
from headway.surfaces.guard.hook import run as run_hook


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
        rule = ledger.write(rules.add, project, subject, checks, is_confirmed=is_confirmed)
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
        rule = ledger.write(rules.remove, rule_id)
    invocation.answer({"rule": describe_rule(rule)}, lambda: click.echo(f"Removed: {draw_rule(rule)}"))


@guard.command()
@pass_invocation
def status(invocation: Invocation) -> None:
    """Show the sessions of assistants in this project: what is open, what was refused, how often, and why."""
    with enter_home(invocation) as project, invocation.open_ledger() as ledger:
        found = ledger.read(overview.list_sessions, project)

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


def draw_session(session: overview.GuardedSession) -> None:
    conversation = session.conversation
    name = CLIENT_TITLES.get(conversation.client, conversation.client)
    sent_back = f", sent back {session.refusals} times" if session.refusals > 1 else ", sent back once" if session.refusals else ""
    ended = f", ended {session.outcome}" if session.outcome else ""
    click.echo(text.to_one_line(f"{name} {conversation.client_session}: {count_items(len(session.open_items))}{sent_back}{ended}"))
    for todo in session.open_items:
        click.echo(f"  #{todo.id} [{todo.status}] {text.to_one_line(todo.subject)}")
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
