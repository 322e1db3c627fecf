"""`headway turn`: inspects, steers, copies and compares turns."""

from collections.abc import Iterator
from typing import Any, Final

import click

from headway.actions.engine import run_ends
from headway.actions.inspection import steps as step_inspection
from headway.actions.inspection.forks import ForkRequest
from headway.actions.todos import finding
from headway.actions.turns import steering, turns
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction
from headway.surfaces.cli.arguments import fork_options
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, pass_invocation
from headway.surfaces.cli.tables import count_columns, cut_at_word, print_row
from headway.surfaces.cli.turn_view import describe_changes, list_changed_files, list_diff_lines

COLUMN_WIDTH: Final = 38
SAME_MARK: Final = "  "
DIVERGED_MARK: Final = "≠ "


def print_turn(turn: dict[str, Any], steps: list[dict[str, Any]], *, with_diff: bool) -> None:
    """Print a turn, then one line per step and one per tool call, then its open items and what it changed in its repository."""
    print_row((turn["id"], describe_end(turn), turn["request"]))
    if origin := turn["forked_from"]:
        click.echo(f"fork of {origin['turn_id']} at step {origin['at']}")
    for step in steps:
        lines = [to_one_line(step["text"])] if step["text"].strip() or not step["calls"] else []
        lines += map(describe_call, step["calls"])
        for index, line in enumerate(lines):
            click.echo(cut_at_word(f"{step['step'] if index == 0 else '':>3}  {line}", 79).rstrip())
    for item in turn["incomplete"]:
        click.echo(f"  open: {to_one_line(item['title'])}")
    if changes := turn["changes"]:
        diff = ["", *list_diff_lines(changes)] if with_diff else []
        click.echo("\n".join([f"  {describe_changes(changes)}", *(f"    {line}" for line in list_changed_files(changes)), *diff]))


def print_diff(diff: dict[str, Any]) -> None:
    """Print the two turns side by side. A mark in front of a step says that it differs; the first one is the divergence."""
    for left, right in build_lines(diff):
        click.echo(f"{pad(left)} │ {cut_at_word(right, COLUMN_WIDTH)}".rstrip())
    diverged = diff["diverged_at"]
    click.echo(f"They diverge at step {diverged}." if diverged else "No step differs.")


def build_lines(diff: dict[str, Any]) -> Iterator[tuple[str, str]]:
    first, second = diff["a"], diff["b"]
    for name in ("id", "request", "status", "role", "models", "steps", "tokens", "cost", "time"):
        yield f"{name:<8}{describe(first, name)}", f"{name:<8}{describe(second, name)}"
    for index in range(max(len(first["plan"]), len(second["plan"]))):
        yield describe_item(first["plan"], index), describe_item(second["plan"], index)
    for step in diff["steps"]:
        yield "─" * COLUMN_WIDTH, "─" * COLUMN_WIDTH
        mark = SAME_MARK if step["same"] else DIVERGED_MARK
        yield from zip_lines(list_step_lines(mark, step, "a"), list_step_lines(mark, step, "b"))
    yield "─" * COLUMN_WIDTH, "─" * COLUMN_WIDTH
    yield f"answer  {to_one_line(first['answer'])}", f"answer  {to_one_line(second['answer'])}"


def zip_lines(left: list[str], right: list[str]) -> Iterator[tuple[str, str]]:
    for index in range(max(len(left), len(right))):
        yield left[index] if index < len(left) else "", right[index] if index < len(right) else ""


def list_step_lines(mark: str, step: dict[str, Any], side: str) -> list[str]:
    answer = step[side]
    if answer is None:
        return [f"{mark}{step['step']}  (none)"]
    lines = [to_one_line(answer["text"])] if answer["text"].strip() or not answer["calls"] else []
    for call in answer["calls"]:
        lines += [describe_call(call), f"→ {to_one_line(call['result'])}"]
    head = f"{mark}{step['step']}"
    return [f"{head if index == 0 else '':<5}{line}" for index, line in enumerate(lines)]


def describe(turn: dict[str, Any], name: str) -> str:
    usage = turn["usage"]
    match name:
        case "status":
            return describe_end(turn)
        case "models":
            return to_one_line(", ".join(turn["models"])) or "-"
        case "tokens":
            return f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out"
        case "cost":
            return f"${usage['cost_usd']:.4f}"
        case "time":
            return f"{turn['duration_s']:,.1f} s"
    return to_one_line(str(turn[name] if turn[name] is not None else "-"))


def describe_end(turn: dict[str, Any]) -> str:
    return f"{turn['status']} ({turn['outcome']})" if turn["outcome"] else str(turn["status"])


def describe_item(plan: list[dict[str, Any]], index: int) -> str:
    return f"plan    [{plan[index]['status']}] {to_one_line(plan[index]['title'])}" if index < len(plan) else ""


def describe_call(call: dict[str, Any]) -> str:
    state = "" if call["state"] == "succeeded" else f" [{call['state']}]"
    return f"{to_one_line(call['tool'])} {to_one_line(call['arguments'])}{state}{' (replayed)' if call['replayed'] else ''}"


def pad(text: str) -> str:
    fitted = cut_at_word(text, COLUMN_WIDTH)
    return fitted + " " * (COLUMN_WIDTH - count_columns(fitted))


# `headway turn`: control turns from the shell.


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway turn show TURN_ID", "headway turn fork TURN_ID --at 3 --model openai:gpt-5-mini"),
)
def turn() -> None:
    """Inspect, steer, copy and compare turns. A turn is the work on one message; `headway chat` starts one."""


@turn.command("show")
@click.argument("turn_id")
@click.option("--diff", is_flag=True, help="Also print the diff of its changes in its repository.")
@pass_invocation
def show_turn(invocation: Invocation, turn_id: str, *, diff: bool) -> None:
    """Show a turn and its steps: the model's answers with their tool calls, numbered as `turn fork --at` counts them."""
    limits = invocation.settings().limits
    with invocation.open_ledger() as ledger:
        shown = ledger.read(turns.show_turn, turn_id, limits)
        steps = ledger.read(step_inspection.list_steps, turn_id)
    invocation.answer({"turn": shown, "steps": steps}, lambda: print_turn(shown, steps, with_diff=diff))


@turn.command("cancel")
@click.argument("turn_id")
@pass_invocation
def cancel_turn(invocation: Invocation, turn_id: str) -> None:
    """Cancel a turn and its sub-agents. Finished work is kept, planned work stays open."""
    limits = invocation.settings().limits

    def stop(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        run_ends.cancel_turn(tx, tenant_id, turn_id)
        return turns.show_turn(tx, tenant_id, turn_id, limits)

    with invocation.open_ledger() as ledger:
        ended = ledger.write(stop)
    invocation.answer({"turn": ended}, lambda: print_row((ended["id"], ended["status"], ended["request"])))


@turn.command("fork")
@click.argument("turn_id")
@click.option("--at", "at", required=True, type=click.IntRange(0, 1_000_000), metavar="STEP", help="Keep this many steps.")
@click.option(
    "--message", default="", metavar="TEXT", help="The message that the agent reads next; at step 0 it replaces the request."
)
@fork_options
@pass_invocation
def fork_turn(invocation: Invocation, turn_id: str, at: int, message: str, model: str, role: str, *, live: bool) -> None:
    """Copy a turn up to a step into a new conversation, and run it from there.

    The model is asked again. Calls that the original made get its recorded results. At a call without one the fork stops, with exit
    code 6; with --live the call is made.
    """
    from headway.surfaces.cli.commands.chat import run_fork  # noqa: PLC0415  imports asyncio, which few commands need

    request = ForkRequest(at, message, model, role, live, sender=SENDER)
    with invocation.open_ledger() as ledger:
        ledger.read(finding.get_turn, turn_id)  # before the model layer is loaded
    run_fork(invocation, request, lambda forks, tx, tenant_id, checked: forks.begin(tx, tenant_id, turn_id, checked))


@turn.command("diff")
@click.argument("first")
@click.argument("second")
@pass_invocation
def diff_turns(invocation: Invocation, first: str, second: str) -> None:
    """Compare two turns: plans, calls, results, answers, tokens, cost and time, side by side."""
    with invocation.open_ledger() as ledger:
        diff = ledger.read(step_inspection.compare_turns, first, second)
    invocation.answer({"diff": diff}, lambda: print_diff(diff))


@turn.command("send")
@click.argument("turn_id")
@click.argument("message")
@pass_invocation
def send_to_turn(invocation: Invocation, turn_id: str, message: str) -> None:
    """Send MESSAGE to a running turn. Its agent reads it at its next step."""
    with invocation.open_ledger() as ledger:
        sent = ledger.write(steering.send_to_turn, turn_id, message, SENDER)
    invocation.answer({"message": sent.as_json()}, lambda: click.echo(f"sent to {turn_id}"))
