"""Asks the person at the terminal about the requests that a turn waits for: tool calls to approve, and questions of agents."""

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headway.actions.runs import inbox, waiting
from headway.actions.runs.inbox import ApprovalDecision
from headway.ledger.errors import HeadwayError
from headway.ledger.inbox import PersonRequest
from headway.ledger.text import to_lines, to_one_line
from headway.surfaces.cli.arguments import parse_json_object
from headway.surfaces.cli.context import SENDER, act_as_sender
from headway.surfaces.cli.keyboard.typed_lines import Keyboard
from headway.surfaces.cli.turn_view import LiveTurnView, TurnView

if TYPE_CHECKING:
    from headway.process.assembly import Headway

REQUEST_EVENTS = {"approval_requested": "approval", "question_asked": "question"}
DECISION_EVENTS = {"approval_decided": "approval", "question_answered": "question"}
MAX_LINES = 60  # of a call's arguments
MAX_LINE_LENGTH = 1_000
APPROVAL_HINT = "Approve this call? [y]es  [n]o REASON  [a]lways  [e]dit the arguments  (Ctrl-D: later)"
QUESTION_HINT = "Type your answer  (Ctrl-D: later)"
CHOICE_HINT = "Type a number or an answer  (Ctrl-D: later)"
SUMMARY_LENGTH = 200

Item = dict[str, Any]


class PersonPrompts:
    """The requests of one turn's agents to a person. Without a keyboard, there is no person to ask."""

    def __init__(self, headway: "Headway", tenant_id: int, view: TurnView) -> None:
        self.headway = headway
        self.database = headway.database.of(tenant_id)
        self.tenant_id = tenant_id
        self.view = view
        self.keyboard: Keyboard | None = None
        self.waiting: dict[tuple[str, int], Item] = {}  # in the order in which they are asked
        self.shown: tuple[str, int] | None = None
        self.is_line_older = False  # whether the line that is being typed was begun before the question
        self.is_postponed = False
        self.screen = asyncio.Lock()  # held while an editor uses the terminal

    async def load(self, turn_id: str) -> None:
        """Find what the turn waits for since before this process followed it."""
        requests = await self.database.read(lambda tx: waiting.list_by_turn(tx, self.tenant_id, turn_id))
        self.waiting |= {(request.kind, request.id): request.as_item() for request in requests}
        self.show_next()

    def hear(self, kind: str, data: dict[str, Any]) -> None:
        """Follow the events that begin and end the waiting. Hide a question before its answer is printed above it."""
        if name := REQUEST_EVENTS.get(kind):
            self.waiting[name, data[name]["id"]] = data[name]
        elif name := DECISION_EVENTS.get(kind):
            key = name, data[name]["id"]
            self.waiting.pop(key, None)
            if key == self.shown and isinstance(self.view, LiveTurnView):
                self.shown = None
                self.view.hide_question()

    @property
    def is_unattended(self) -> bool:
        """Whether the turn waits for a person who is not here."""
        return bool(self.waiting) and (self.keyboard is None or self.is_postponed)

    def show_next(self) -> None:
        """Show what has waited longest, unless it is shown already."""
        if not isinstance(self.view, LiveTurnView) or self.keyboard is None:
            return
        key = next(iter(self.waiting), None)
        if key is None or key == self.shown:
            return
        self.shown = key
        self.is_line_older = bool(self.view.draft)
        kind, item = key[0], self.waiting[key]
        if kind == "approval":
            self.view.ask(describe_call(item), APPROVAL_HINT)
        else:
            self.view.ask(describe_question(item), CHOICE_HINT if item["choices"] else QUESTION_HINT)

    # Answers

    def wants(self) -> bool:
        """Whether the line that was just typed is an answer. A line that was begun before the question is not."""
        was_older, self.is_line_older = self.is_line_older, False
        return self.shown is not None and not was_older

    def postpone(self) -> None:
        """Leave the turn waiting: the person decides later, on any surface."""
        self.is_postponed = self.shown is not None

    async def answer(self, line: str) -> None:
        """Apply a typed line to what is shown. A line that is refused changes nothing."""
        if self.shown is None:
            return
        (kind, item_id), item = self.shown, self.waiting[self.shown]
        try:
            if kind == "approval":
                await self.decide(item_id, item, line.strip())
            else:
                await self.reply(item_id, pick_choice(item["choices"], line.strip()))
        except HeadwayError as error:
            self.view.note(str(error))
        except click.ClickException as error:
            self.view.note(error.format_message())

    async def decide(self, approval_id: int, item: Item, line: str) -> None:
        word, _, reason = line.partition(" ")
        match word.lower().rstrip(","):
            case "y" | "yes" if not reason:
                await self.apply(approval_id, ApprovalDecision("approve", SENDER))
            case "a" | "always" if not reason:
                await self.apply(approval_id, ApprovalDecision("approve", SENDER), always=True)
            case "n" | "no":
                await self.apply(approval_id, ApprovalDecision("reject", SENDER, reason=reason))
            case "e" | "edit" if not reason:
                await self.edit(approval_id, item)
            case _:
                self.view.note("Type y, n, a or e.")

    async def apply(self, approval_id: int, decision: ApprovalDecision, *, always: bool = False) -> None:
        work = partial(self.headway.permission.decide, always=always)
        self.carry_on(await self.database.write(act_as_sender(lambda tx: work(tx, self.tenant_id, approval_id, decision))))

    async def edit(self, approval_id: int, item: Item) -> None:
        """Let the person edit the arguments in their editor, and approve the call with them."""
        assert isinstance(self.view, LiveTurnView)
        assert self.keyboard is not None
        proposed = json.dumps(item["arguments"], ensure_ascii=False, indent=2) + "\n"
        async with self.screen:
            with self.view.suspended(), self.keyboard.released():
                edited = await asyncio.to_thread(click.edit, proposed, extension=".json")
        if edited is None:
            self.view.note("The arguments were not changed.")
            return
        arguments = inbox.encode_arguments(parse_json_object(edited, "The arguments"))
        await self.apply(approval_id, ApprovalDecision("approve", SENDER, arguments))

    async def reply(self, question_id: int, content: str) -> None:
        work = partial(inbox.answer, content=content, answered_by=SENDER)
        self.carry_on(await self.database.write(lambda tx: work(tx, self.tenant_id, question_id)))

    def carry_on(self, item: PersonRequest) -> None:
        """Run the agent's job here. In a chat, the engine runs only jobs that it adopted."""
        self.headway.engine.adopt(item.waiting_run)

    def explain(self, conversation_id: int) -> str:
        """Say what the turn waits for, and how to decide from elsewhere."""
        (kind, item_id), item = next(iter(self.waiting.items()))
        if kind == "approval":
            what = f"approval #{item_id}, to call {item['tool']}"
        else:
            what = f"an answer to question #{item_id}: {to_one_line(item['question'])[:SUMMARY_LENGTH]}"
        how = waiting.advise(kind, item_id)
        where = f"`headway serve`, `headway worker` or `headway chat --conversation {conversation_id}`"
        return f"The turn waits for {what}. {how}; then {where} continues it."


def describe_call(approval: Item) -> list[str]:
    """Render a proposed call in full, because what is approved is what runs. Only very long arguments are cut."""
    lines = to_lines(json.dumps(approval["arguments"], ensure_ascii=False, indent=2))
    hidden = len(lines) - MAX_LINES
    shown = [line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]}… (cut)" for line in lines[:MAX_LINES]]
    more = [f"… {hidden} more lines: `headway inbox show {approval['id']}` shows them"] if hidden > 0 else []
    heading = f"Approval #{approval['id']}: the agent {approval['role']} asks to call {approval['tool']} ({approval['why']})"
    return [to_one_line(heading), *(f"  {line}" for line in (*shown, *more))]


def describe_question(question: Item) -> list[str]:
    heading = f"Question #{question['id']}: the agent {question['role']} asks:"
    choices = [f"  {number}. {to_one_line(choice)}" for number, choice in enumerate(question["choices"], 1)]
    return [to_one_line(heading), *(f"  {line}" for line in to_lines(question["question"])), *choices]


def pick_choice(choices: list[str], line: str) -> str:
    """Return the choice with this number, or the line itself."""
    if line in choices or not (line.isascii() and line.isdigit() and len(line) < 4 and 1 <= int(line) <= len(choices)):
        return line
    return choices[int(line) - 1]
