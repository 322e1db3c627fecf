"""`headway approval` and `headway question`: decide about tool calls that agents proposed, and answer their questions."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import click

from headway.actions import jobs
from headway.actions.people import approvals as approval_actions
from headway.actions.people import questions as question_actions
from headway.actions.people.approvals import ApprovalDecision
from headway.ledger.permission import Approval, ApprovalState, PersonQuestion, QuestionState
from headway.surfaces.cli.arguments import APPROVAL_ID, QUESTION_ID, parse_json_object
from headway.surfaces.cli.commands.engine import DEFAULT_PAGE_SIZE, print_fields
from headway.surfaces.cli.commands.tools import prepare_tools_for, run_headway
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, TenantDatabase, pass_invocation
from headway.surfaces.cli.tables import print_row, print_table

if TYPE_CHECKING:
    from headway.assembly import Headway

ALL_STATES = "all"
APPROVAL_HEADINGS = ("id", "state", "role", "tool", "arguments")
QUESTION_HEADINGS = ("id", "state", "role", "question")


@click.group(
    "approval", cls=CommandGroup, unused=TENANT_WIDE, examples=("headway approval list", "headway approval approve 1 --always")
)
def approvals() -> None:
    """Approve or reject the tool calls that agents propose."""


@approvals.command("list")
@click.option(
    "--state",
    default="proposed",
    show_default=True,
    type=click.Choice([*get_args(ApprovalState), ALL_STATES]),
    help="Only those in this state; `proposed` ones wait for a decision.",
)
@click.option(
    "--limit",
    default=DEFAULT_PAGE_SIZE,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 500),
    help="List at most this many.",
)
@pass_invocation
def list_approvals(invocation: Invocation, state: str, limit: int) -> None:
    """List approvals, newest first."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(approval_actions.list_page, None if state == ALL_STATES else state, limit)
    rows = list(map(build_approval_row, page["approvals"]))
    invocation.answer(page, lambda: print_table(APPROVAL_HEADINGS, rows, "no approvals", more=bool(page["next_cursor"])))


@approvals.command("show")
@click.argument("approval_id", metavar="ID", type=APPROVAL_ID)
@pass_invocation
def show_approval(invocation: Invocation, approval_id: int) -> None:
    """Show everything about an approval: the call, who asks and why."""
    with invocation.open_ledger() as ledger:
        document = ledger.read(approval_actions.get, approval_id).as_json()
    invocation.answer({"approval": document}, lambda: print_fields(document))


@approvals.command("approve")
@click.argument("approval_id", metavar="ID", type=APPROVAL_ID)
@click.option("--args", "arguments", metavar="JSON", help="Make the call with these arguments instead, a JSON object.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@click.option("--always", is_flag=True, help="Allow such calls from now on: adds a rule to policy.toml.")
@pass_invocation
def approve(invocation: Invocation, approval_id: int, arguments: str | None, reason: str, *, always: bool) -> None:
    """Approve a proposed call. A `serve` or `worker` process continues the agent, now or when it starts."""
    edits = None if arguments is None else approval_actions.encode_arguments(parse_json_object(arguments))
    decision = ApprovalDecision("approve", SENDER, edits, reason)
    with invocation.open_ledger() as ledger:
        if edits is None and not always:
            approval = ledger.write(approval_actions.decide, approval_id, decision)
        else:
            tool = ledger.read(approval_actions.get, approval_id).tool
            decide = partial(ledger.write, approval_id=approval_id, decision=decision, always=always)
            approval = run_headway(invocation, partial(decide_with_tools, tool=tool, decide=decide))
        answer_with_approval(invocation, ledger, approval)


@approvals.command("reject")
@click.argument("approval_id", metavar="ID", type=APPROVAL_ID)
@click.option("--reason", default="", metavar="TEXT", help="Why; the agent reads it.")
@pass_invocation
def reject(invocation: Invocation, approval_id: int, reason: str) -> None:
    """Reject a proposed call. The agent continues without it."""
    with invocation.open_ledger() as ledger:
        approval = ledger.write(approval_actions.decide, approval_id, ApprovalDecision("reject", SENDER, reason=reason))
        answer_with_approval(invocation, ledger, approval)


async def decide_with_tools(headway: "Headway", tool: str, decide: Callable[..., Approval]) -> Approval:
    """Decide with the tool loaded, which checks edited arguments and says what a rule must name. It may be an MCP server's."""
    if tool not in headway.toolbox.tools:
        await prepare_tools_for(headway, tool)
    return decide(headway.permission.decide)


def answer_with_approval(invocation: Invocation, ledger: TenantDatabase, approval: Approval) -> None:
    document = approval.as_json()
    invocation.answer({"approval": document}, lambda: print_row(build_approval_row(document)))
    hint_at_missing_worker(invocation, ledger)


def hint_at_missing_worker(invocation: Invocation, ledger: TenantDatabase) -> None:
    """Say on standard error if no process continues the agent now."""
    if not invocation.as_json and not ledger.database.read(jobs.count_live_workers):
        click.echo("No process is running: the agent continues when `headway serve` or `headway worker` starts.", err=True)


def build_approval_row(approval: dict[str, Any]) -> Sequence[str]:
    arguments = json.dumps(approval["arguments"], ensure_ascii=False)
    return f"#{approval['id']}", approval["state"], approval["role"], approval["tool"], arguments


@click.group("question", cls=CommandGroup, unused=TENANT_WIDE, examples=("headway question list", "headway question answer 1 yes"))
def questions() -> None:
    """Answer the questions of agents."""


@questions.command("list")
@click.option(
    "--state",
    default="open",
    show_default=True,
    type=click.Choice([*get_args(QuestionState), ALL_STATES]),
    help="Only those in this state; `open` ones wait for an answer.",
)
@click.option(
    "--limit",
    default=DEFAULT_PAGE_SIZE,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 500),
    help="List at most this many.",
)
@pass_invocation
def list_questions(invocation: Invocation, state: str, limit: int) -> None:
    """List questions, newest first."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(question_actions.list_page, None if state == ALL_STATES else state, limit)
    rows = list(map(build_question_row, page["questions"]))
    invocation.answer(page, lambda: print_table(QUESTION_HEADINGS, rows, "no questions", more=bool(page["next_cursor"])))


@questions.command("show")
@click.argument("question_id", metavar="ID", type=QUESTION_ID)
@pass_invocation
def show_question(invocation: Invocation, question_id: int) -> None:
    """Show everything about a question: its choices, who asks and the answer."""
    with invocation.open_ledger() as ledger:
        document = ledger.read(question_actions.get, question_id).as_json()
    invocation.answer({"question": document}, lambda: print_fields(document))


@questions.command("answer")
@click.argument("question_id", metavar="ID", type=QUESTION_ID)
@click.argument("text")
@pass_invocation
def answer_question(invocation: Invocation, question_id: int, text: str) -> None:
    """Answer a question with TEXT: one of its choices, if it has any."""
    with invocation.open_ledger() as ledger:
        question: PersonQuestion = ledger.write(question_actions.answer, question_id, text, SENDER)
        document = question.as_json()
        invocation.answer({"question": document}, lambda: print_row(build_question_row(document)))
        hint_at_missing_worker(invocation, ledger)


def build_question_row(question: dict[str, Any]) -> Sequence[str]:
    choices = f" [{' | '.join(question['choices'])}]" if question["choices"] else ""
    answer = f" → {question['answer']}" if question["answer"] else ""
    return f"#{question['id']}", question["state"], question["role"], f"{question['question']}{choices}{answer}"
