"""One turn in an editor: its events become updates, and what it waits for becomes requests to the person there."""

import asyncio
from contextlib import suppress
from typing import Any, Final, NamedTuple

from headway.actions.engine import run_ends
from headway.actions.installation import halts
from headway.actions.runs import inbox, jobs, runs
from headway.actions.runs.inbox import ApprovalDecision
from headway.actions.turns import turns
from headway.feed import TENANT_MOVED, FeedReader
from headway.ledger.errors import Closed, Conflict, Halted, TurnEnded, TurnFailed, WrongCell
from headway.ledger.job import Job
from headway.ledger.tenancy import Conversation
from headway.process.assembly import Headway
from headway.storage.transaction import Transaction, act_as
from headway.surfaces.acp.content import build_call, build_chunk, build_updates
from headway.surfaces.acp.rpc import RefusedByClient, RpcConnection
from headway.surfaces.turn_events import (
    ItemKey,
    SideEvent,
    TurnCanceled,
    TurnErrored,
    TurnEvent,
    TurnEventTranslator,
    TurnFinished,
    WaitingItem,
)

SENDER: Final = "editor"
HALT_POLL_S: Final = 0.5
ORPHAN_POLL_S: Final = 1.0
STOP_REASONS: Final = {"limit": "max_turn_requests", "filtered": "refusal"}
APPROVAL_OPTIONS: Final = [
    {"optionId": "approve", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]


class FoundTurn(NamedTuple):
    """A turn that was begun or that runs, at a moment."""

    conversation: Conversation
    job: Job
    after: int  # the last event of that moment; a cancel can be the next one


class EditorTurn:
    """Follows one turn until it ends, or until it waits for a text that the person writes as the next prompt."""

    def __init__(self, headway: Headway, connection: RpcConnection, tenant_id: int, found: FoundTurn) -> None:
        self.headway = headway
        self.connection = connection
        self.tenant_id = tenant_id
        self.conversation, self.job, self.after = found
        self.turn_id = turns.get_turn_id(found.job)
        self.database = headway.database.of(tenant_id)
        self.translator = TurnEventTranslator()
        self.translator.turn_id, self.translator.run_id = self.turn_id, found.job.id  # the event that says so may be in the past
        self.last_plan: dict[str, Any] = {}
        self.asking: dict[ItemKey, asyncio.Task[None]] = {}
        self.open_question = ""  # which the next prompt answers

    async def follow(self) -> str:
        """Show the turn, and return the protocol's reason why it stopped. Raises TurnFailed if it failed."""
        headway = self.headway
        channel, reader = await headway.feed.open(self.tenant_id, self.conversation.id, self.after)
        reader.follow_turn(self.turn_id, reader.after)
        background = [asyncio.create_task(watch) for watch in (self._run(), self._leave_when_halted(reader))]
        try:
            async for events in headway.feed.follow(channel, reader):
                for event in events:
                    data = event.decode_data()
                    if event.kind == TENANT_MOVED:
                        raise WrongCell.from_event(data)
                    for turn_event in self.translator.translate(event.kind, data):
                        if reason := await self._show(turn_event):
                            return reason
                self._ask()
                if self.open_question:
                    await self.send(build_chunk("agent_message_chunk", self.open_question))
                    return "end_turn"
        finally:
            for task in (*background, *self.asking.values()):
                task.cancel()
            headway.feed.leave(channel, reader)
        if headway.feed.closed:
            raise Closed
        raise Halted

    async def _show(self, event: TurnEvent) -> str:
        """Show an event. Returns the reason if it ends the turn."""
        match event:
            case TurnFinished(end):
                return STOP_REASONS.get(str(end["outcome"]), "end_turn")
            case TurnCanceled():
                return "cancelled"
            case TurnErrored(message, _):
                raise TurnFailed(message)
            case SideEvent("turn_paused", data):
                raise TurnFailed(f"The turn is paused: {data.get('why') or 'it waits for budget'}. It resumes automatically.")
        for update in build_updates(event, self.conversation.folder):
            if update == self.last_plan:
                continue  # the list has changed in a way that the editor does not show
            self.last_plan = update if update["sessionUpdate"] == "plan" else self.last_plan
            await self.send(update)
        return ""

    async def send(self, update: dict[str, Any]) -> None:
        await self.connection.notify("session/update", {"sessionId": self.conversation.key, "update": update})

    # Requests that the turn waits for

    def _ask(self) -> None:
        """Ask about what is new. A question without choices is answered with the next prompt."""
        for key, item in self.translator.waiting.items():
            if key[0] == "question" and not item.document["choices"]:
                self.open_question = item.document["question"]
            elif key not in self.asking:
                self.asking[key] = asyncio.create_task(self._request(key, item))

    async def _request(self, key: ItemKey, item: WaitingItem) -> None:
        """Let the person choose. Without a choice, the turn still waits, and any surface can decide."""
        document, is_approval = item.document, key[0] == "approval"
        tool, arguments = (document["tool"], document["arguments"]) if is_approval else ("ask_person", document)
        options = APPROVAL_OPTIONS if is_approval else build_choices(document["choices"])
        if not is_approval:
            await self.send(build_chunk("agent_message_chunk", document["question"]))
        call = {**build_call(item.call_id, tool, arguments, self.conversation.folder), "status": "pending"}
        request = {"sessionId": self.conversation.key, "toolCall": call, "options": options}
        with suppress(RefusedByClient, Conflict):  # another surface may have been faster
            answer = await self.connection.request("session/request_permission", request)
            outcome = answer.get("outcome") if isinstance(answer, dict) else None
            if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
                return
            chosen = str(outcome.get("optionId"))
            run_id = await self.database.write(lambda tx: self._decide(tx, key, document, chosen))
            self.headway.engine.adopt(run_id)

    def _decide(self, tx: Transaction, key: ItemKey, document: dict[str, Any], chosen: str) -> str:
        with act_as(tx, SENDER):
            if key[0] == "question":
                answer = document["choices"][int(chosen)] if chosen.isdigit() and int(chosen) < len(document["choices"]) else chosen
                return inbox.answer(tx, self.tenant_id, key[1], answer, SENDER).waiting_run
            decision = ApprovalDecision("reject" if chosen not in ("approve", "always") else "approve", SENDER)
            return self.headway.permission.decide(tx, self.tenant_id, key[1], decision, always=chosen == "always").waiting_run

    async def cancel(self) -> None:
        with suppress(TurnEnded):
            ended = await self.database.write(self._cancel)
            self.headway.interrupt(ended)

    def _cancel(self, tx: Transaction) -> list[str]:
        return run_ends.cancel_turn(tx, self.tenant_id, self.turn_id, self.headway.live_text)

    async def _run(self) -> None:
        """Run the turn here. One that another process runs is taken over if that process was killed, which shows when its lease
        ends, within seconds."""
        if self.job.state == "running" and self.job.owner == self.headway.engine.owner:
            self.headway.engine.take(self.job)
            return
        self.headway.engine.adopt(self.job.id)
        while (await self.database.read(lambda tx: jobs.get_job(tx, self.tenant_id, self.job.id))).state == "running":
            await asyncio.sleep(ORPHAN_POLL_S)
            if await self.database.write(self._recover):
                self.headway.engine.nudge()
                return

    def _recover(self, tx: Transaction) -> int:
        agents = runs.list_runs(tx, self.tenant_id, self.turn_id, 500)
        return self.headway.engine.takeover.recover(tx, [run.id for run in agents])

    async def _leave_when_halted(self, reader: FeedReader) -> None:
        while self.job.id in self.headway.engine.tasks or await self.database.read(halts.find_active) is None:
            await asyncio.sleep(HALT_POLL_S)
        reader.leave()


def build_choices(choices: list[str]) -> list[dict[str, str]]:
    return [{"optionId": str(number), "name": choice, "kind": "allow_once"} for number, choice in enumerate(choices)]
