"""`headway todo verify`: runs checks again and says what no longer holds."""

from functools import partial
from typing import Any

import click

from headway.actions import todos
from headway.agents.checks.completion import Prover
from headway.ledger.check import describe_check
from headway.ledger.text import to_lines, to_one_line
from headway.surfaces.cli.context import CONFLICT_EXIT_CODE, Invocation
from headway.surfaces.cli.proving import run_prover
from headway.surfaces.cli.render import PROOF_MARKS


def verify_todos(invocation: Invocation, tenant_id: int, ids: tuple[int, ...], *, yes: bool) -> None:
    """Run the checks of todos one after the other, print what they found, and exit with 4 if some do not pass."""

    async def verify(prover: Prover) -> list[dict[str, Any]]:
        results = []
        for todo_id in ids:
            receipt = await prover.verify(todo_id)
            todo = await prover.execution.database.read(partial(todos.get, tenant_id=tenant_id, todo_id=todo_id))
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
