"""Checks that a command runs before it completes a todo, and afterwards."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import click

from headway.actions.todos import todos
from headway.agents.checks.completion import Prover
from headway.agents.checks.runner import PERSONAL_JUDGEMENT
from headway.agents.instructions.roles import SUPERVISOR
from headway.agents.tools.execution import ResolvedScope
from headway.ledger.check import Check, describe_check
from headway.ledger.errors import CheckFailed, Conflict, Invalid
from headway.ledger.scope import Scope
from headway.ledger.text import to_lines, to_one_line
from headway.process.assembly import Headway
from headway.storage.transaction import Work
from headway.surfaces.cli.commands.tools import run_headway
from headway.surfaces.cli.context import CONFLICT_EXIT_CODE, SENDER, Invocation
from headway.surfaces.cli.render import PROOF_MARKS
from headway.surfaces.cli.trust_question import is_person_present

T = TypeVar("T")

SILENT_S = 1.0  # checks that take longer are announced


def write_with_checks(invocation: Invocation, tenant_id: int, work: Work[T], *, yes: bool) -> T:
    """Run work that completes todos, after the checks of these. Prints what failed."""

    async def prove(headway: Headway) -> T:
        return await announce_if_slow(build_prover(headway, tenant_id, yes=yes).write(headway.database.of(tenant_id).write, work))

    try:
        return run_headway(invocation, prove)
    except CheckFailed as error:
        print_failures(error.failures)
        raise Conflict(str(error).partition(" Check failed:")[0]) from None


def run_prover(invocation: Invocation, tenant_id: int, work: Callable[[Prover], Awaitable[T]], *, yes: bool) -> T:
    return run_headway(invocation, lambda headway: announce_if_slow(work(build_prover(headway, tenant_id, yes=yes))))


def build_prover(headway: Headway, tenant_id: int, *, yes: bool) -> Prover:
    """Return what runs checks for the person at the terminal, who is asked before a command runs outside a sandbox."""
    execution = headway.execution(ResolvedScope(Scope(tenant_id), None), headway.roles.find(SUPERVISOR))

    def ask(checks: Sequence[Check]) -> bool:
        return yes or confirm_commands(checks)

    return Prover(headway.checks, execution, SENDER, PERSONAL_JUDGEMENT, is_operator=True, may_leave_sandbox=ask)


def confirm_commands(checks: Sequence[Check]) -> bool:
    """Show the commands and ask whether they may run without a sandbox. Raises Invalid if there is no terminal to ask on."""
    commands = [to_one_line(check["run"]) for check in checks if check["kind"] == "command"]
    if not is_person_present():
        raise Invalid(f"There is no sandbox here, so these commands need --yes: {'; '.join(commands)}. Nothing was changed.")
    click.echo("There is no sandbox here. These commands would run with all your rights:", err=True)
    for command in commands:
        click.echo(f"  {command}", err=True)
    try:
        agreed = click.confirm("Run them?", err=True)
    except click.Abort:
        click.echo(err=True)  # the cursor is still on the line of the question
        raise
    if not agreed:
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)
    return True


async def announce_if_slow(work: Awaitable[T]) -> T:
    """Say on standard error that checks are running, if they take longer than a moment."""

    async def announce() -> None:
        await asyncio.sleep(SILENT_S)
        click.echo("running checks …", err=True)

    announcement = asyncio.create_task(announce())
    try:
        return await work
    finally:
        announcement.cancel()


def print_failures(failures: Sequence[object]) -> None:
    for failure in failures:
        assert isinstance(failure, dict)
        click.echo(f"✗ {to_one_line(failure['check'])}", err=True)
        for line in to_lines(failure["detail"]):
            click.echo(f"    {line}", err=True)


# `headway todo verify`: runs checks again and says what no longer holds.


def verify_todos(invocation: Invocation, tenant_id: int, ids: tuple[int, ...], *, yes: bool) -> None:
    """Run the checks of todos one after the other, print what they found, and exit with 4 if some do not pass."""

    async def verify(prover: Prover) -> list[dict[str, Any]]:
        results = []
        for todo_id in ids:
            receipt = await prover.verify(todo_id)
            todo = await prover.execution.database.read(partial(todos.get_todo, tenant_id=tenant_id, todo_id=todo_id))
            results.append({"todo": todo.as_json(), "receipt": receipt.as_json()})
            if not invocation.as_json:
                print_result(results[-1])
        return results

    results = run_prover(invocation, tenant_id, verify, yes=yes)
    failed = [result for result in results if is_failure(result)]
    invocation.answer({"results": results}, lambda: click.echo(f"{len(results) - len(failed)} of {len(results)} hold"))
    if failed:
        raise click.exceptions.Exit(CONFLICT_EXIT_CODE)


def is_failure(result: dict[str, Any]) -> bool:
    """Whether the checks failed. A todo that a person completed without them stays completed."""
    return not result["receipt"]["ok"] and result["todo"]["proof"] != "overridden"


def print_result(result: dict[str, Any]) -> None:
    todo, receipt = result["todo"], result["receipt"]
    click.echo(f"{PROOF_MARKS[todo['proof']]} #{todo['id']} {to_one_line(todo['subject'])}")
    for found in receipt["checks"]:
        if not found["ok"]:
            click.echo(f"    ✗ {to_one_line(describe_check(found['check']))}")
            for line in to_lines(found["detail"]):
                click.echo(f"        {line}")
