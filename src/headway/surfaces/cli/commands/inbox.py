"""`headway inbox`: decide about proposed tool calls and paused goals, and answer questions.

`headway approval` and `headway question` do the same for the requests of one kind.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import click

from headway.actions.goals import goals
from headway.actions.runs import inbox as inbox_actions
from headway.actions.runs import jobs
from headway.actions.runs.inbox import ApprovalDecision
from headway.ledger.errors import Invalid
from headway.ledger.goal import Decision
from headway.ledger.inbox import REQUEST_KINDS, ApprovalState, PersonRequest, QuestionState, RequestKind, RequestState
from headway.surfaces.cli.arguments import DEFAULT_PAGE_SIZE, RowId, parse_json_object
from headway.surfaces.cli.commands.tools import prepare_tools_for, run_headway
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, TenantDatabase, pass_invocation
from headway.surfaces.cli.tables import print_fields, print_row, print_table

if TYPE_CHECKING:
    from headway.process.assembly import Headway

ALL: Final = "all"
STATES: Final[dict[RequestKind | None, tuple[str, ...]]] = {
    None: get_args(RequestState),
    "approval": get_args(ApprovalState),
    "question": get_args(QuestionState),
}
HEADINGS: Final[dict[RequestKind | None, tuple[str, ...]]] = {
    None: ("id", "kind", "state", "role", "request"),
    "approval": ("id", "state", "role", "tool", "arguments"),
    "question": ("id", "state", "role", "question"),
}

FOR_PROGRAMS: Final = ("call_id", "digest")  # in the JSON document only


def build_group(name: str, kind: RequestKind | None, **options: Any) -> click.Group:
    """Build a group of commands about the requests of a kind, or about all."""
    group = CommandGroup(name, unused=TENANT_WIDE, **options)
    add_list(group, kind)
    add_show(group, kind)
    if kind != "question":
        add_approve(group, kind)
        add_reject(group, kind)
    if kind != "approval":
        add_answer(group, kind)
    return group


def add_list(group: click.Group, kind: RequestKind | None) -> None:
    @click.option(
        "--state",
        default=STATES[kind][0],
        show_default=True,
        type=click.Choice([*STATES[kind], ALL]),
        help=f"Only requests in this state; `{STATES[kind][0]}` ones wait for you.",
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
    def list_requests(invocation: Invocation, state: Any, limit: int, shown_kind: RequestKind | None = None) -> None:
        """List what waits for you, newest first."""
        chosen = None if state == ALL else state
        with invocation.open_ledger() as ledger:
            if kind:
                page = ledger.read(inbox_actions.list_items, kind, chosen, limit)
            else:
                requests, cursor = ledger.read(inbox_actions.list_page, shown_kind, chosen, limit)
                page = {"requests": [request.as_json() for request in requests], "next_cursor": cursor}
        rows = [build_row(document, kind) for document in page[name_member(kind) + "s"]]
        nothing = f"no {kind}s" if kind else "nothing waits" if state == "open" else "no requests"
        invocation.answer(page, lambda: print_table(HEADINGS[kind], rows, nothing, more=bool(page["next_cursor"])))

    if not kind:
        choose = click.option("--kind", "shown_kind", type=click.Choice(REQUEST_KINDS), help="Only requests of this kind.")
        list_requests = choose(list_requests)
    group.command("list")(list_requests)


def add_show(group: click.Group, kind: RequestKind | None) -> None:
    @group.command("show")
    @id_argument(kind)
    @pass_invocation
    def show_request(invocation: Invocation, request_id: int) -> None:
        """Show everything about a request: the call or the question, who asks, why, and what was decided."""
        with invocation.open_ledger() as ledger:
            document = describe(ledger.read(inbox_actions.get, request_id, kind), kind)
        shown = {name: value for name, value in document.items() if name not in FOR_PROGRAMS}
        invocation.answer({name_member(kind): document}, lambda: print_fields(shown))


def add_approve(group: click.Group, kind: RequestKind | None) -> None:
    @group.command("approve")
    @id_argument(kind)
    @click.option("--args", "arguments", metavar="JSON", help="Make the call with these arguments instead, a JSON object.")
    @click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
    @click.option("--always", is_flag=True, help="Allow such calls from now on: adds a rule to policy.toml.")
    @pass_invocation
    def approve(invocation: Invocation, request_id: int, arguments: str | None, reason: str, *, always: bool) -> None:
        """Approve a proposed call. A `serve` or `worker` process continues the agent, now or when it starts."""
        edits = None if arguments is None else inbox_actions.encode_arguments(parse_json_object(arguments))
        decision = ApprovalDecision("approve", SENDER, edits, reason)
        with invocation.open_ledger() as ledger:
            if edits is None and not always:
                approval = ledger.write(inbox_actions.decide, request_id, decision)
            else:
                tool = ledger.read(inbox_actions.get, request_id, "approval").tool
                decide = partial(ledger.write, approval_id=request_id, decision=decision, always=always)
                approval = run_headway(invocation, partial(decide_with_tools, tool=tool, decide=decide))
            answer_with(invocation, ledger, approval, kind)


def add_reject(group: click.Group, kind: RequestKind | None) -> None:
    @group.command("reject")
    @id_argument(kind)
    @click.option("--reason", default="", metavar="TEXT", help="Why; the agent reads it.")
    @pass_invocation
    def reject(invocation: Invocation, request_id: int, reason: str) -> None:
        """Reject a proposed call. The agent continues without it."""
        with invocation.open_ledger() as ledger:
            approval = ledger.write(inbox_actions.decide, request_id, ApprovalDecision("reject", SENDER, reason=reason))
            answer_with(invocation, ledger, approval, kind)


def add_answer(group: click.Group, kind: RequestKind | None) -> None:
    @pass_invocation
    def answer(invocation: Invocation, request_id: int, text: str, note: str = "") -> None:
        """Answer a question with TEXT: one of its choices, if it has any. For a paused goal: continue, replan or abandon."""
        with invocation.open_ledger() as ledger:
            asked = ledger.read(inbox_actions.get, request_id, kind)
            if asked.kind == "decision":
                limits = invocation.settings().limits
                answered = ledger.write(goals.answer_decision, request_id, parse_decision(text), note, limits)
            else:
                answered = ledger.write(inbox_actions.answer, request_id, text, SENDER)
            answer_with(invocation, ledger, answered, kind)

    if not kind:
        answer = click.option("--note", default="", metavar="TEXT", help="About a goal: why, or what a new plan should do.")(answer)
    group.command("answer")(id_argument(kind)(click.argument("text")(answer)))


def parse_decision(action: str) -> Decision:
    if action not in get_args(Decision):
        raise Invalid(f"Answer with one of: {', '.join(get_args(Decision))}.")
    return cast("Decision", action)


def id_argument(kind: RequestKind | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument("request_id", metavar="ID", type=RowId(name_member(kind)))


def name_member(kind: RequestKind | None) -> str:
    return kind or "request"


def describe(request: PersonRequest, kind: RequestKind | None) -> dict[str, Any]:
    return request.as_item() if kind else request.as_json()


async def decide_with_tools(headway: "Headway", tool: str, decide: Callable[..., PersonRequest]) -> PersonRequest:
    """Decide with the tool loaded, which checks edited arguments and says what a rule must name. It may be an MCP server's."""
    if tool not in headway.toolbox.tools:
        await prepare_tools_for(headway, tool)
    return decide(headway.permission.decide)


def answer_with(invocation: Invocation, ledger: TenantDatabase, request: PersonRequest, kind: RequestKind | None) -> None:
    """Print a request that was decided, and say on standard error if no process continues the work now."""
    document = describe(request, kind)
    invocation.answer({name_member(kind): document}, lambda: print_row(build_row(document, kind)))
    if not invocation.as_json and not ledger.database.read(jobs.count_live_workers):
        click.echo("No process is running: the agent continues when `headway serve` or `headway worker` starts.", err=True)


def build_row(request: dict[str, Any], kind: RequestKind | None) -> Sequence[str]:
    first = (f"#{request['id']}", *(() if kind else (request["kind"],)), request["state"], request["role"])
    if (kind or request["kind"]) == "approval":
        call = request["tool"], json.dumps(request["arguments"], ensure_ascii=False)
        return (*first, *call) if kind else (*first, " ".join(call))
    choices = f" [{' | '.join(request['choices'])}]" if request["choices"] else ""
    answer = f" → {request['answer']}" if request["answer"] else ""
    return (*first, f"{request['question']}{choices}{answer}")


inbox = build_group(
    "inbox",
    None,
    help="Decide about the tool calls that agents propose and about paused goals, and answer questions.",
    examples=("headway inbox list", "headway inbox approve 1 --always", "headway inbox answer 2 yes"),
)
approvals = build_group("approval", "approval", hidden=True, help="Approve or reject the tool calls that agents propose.")
questions = build_group("question", "question", hidden=True, help="Answer the questions of agents.")
