"""Turns: messages that agents answer."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from headway.ledger.errors import TurnFailed
from headway.ledger.run import TurnMode
from headway.library.namespaces.todos import Todos
from headway.library.transport import AskedMessage, RequestTransport, drop_none, join_explanation, to_files
from headway.values.turns import SentMessage, StopDecision, Turn, TurnReport
from headway.values.value import decode, decode_all

if TYPE_CHECKING:
    from headway.values.events import TypedEvent


class Turns:
    """Starts, follows, steers and cancels turns."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def start(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
    ) -> Turn:
        """Send a message for an agent to answer, and return the turn without waiting for its end. The arguments are the same
        as for `ask`."""
        return await self.get(
            await self._transport.begin_turn(AskedMessage(content, conversation, mode, to_files(attachments), continues))
        )

    async def open(self, conversation_id: int) -> Turn:
        """Open a turn without running an agent, for an agent loop of your own."""
        return decode(Turn, (await self._transport.send("POST /turns", body={"conversation_id": conversation_id}))["turn"])

    async def get(self, turn_id: str) -> Turn:
        """Return a turn, or raise NotFound."""
        return decode(Turn, (await self._transport.send("GET /turns/{}", turn_id))["turn"])

    async def why(self, turn_id: str) -> str:
        """Explain how a turn got into its current state, one event per line. The last line says what would change it."""
        return join_explanation(await self._transport.send("GET /why/turn/{}", turn_id))

    async def wait(self, turn_id: str) -> TurnReport:
        """Wait until a turn has ended, and return its report. Raises TurnFailed if it failed."""
        last: int | None = None
        while (await self.get(turn_id)).ended_at is None:
            async for event in self._transport.follow_turn(turn_id, last):
                last = event.number or last
        return await self.report(turn_id)

    async def report(self, turn_id: str) -> TurnReport:
        """Return the report of a turn as it is now: its answer, plan, tokens and cost. Raises TurnFailed if it failed."""
        turn = await self.get(turn_id)
        if turn.status == "failed":
            raise TurnFailed(turn.error)
        plan = [todo async for todo in Todos(self._transport).iterate(turn_id=turn_id)]
        return TurnReport(
            id=turn.id,
            conversation_id=turn.conversation_id,
            status=turn.status,
            outcome=turn.outcome,
            answer=turn.answer or "",
            plan=tuple(sorted(plan, key=lambda todo: (todo.position, todo.id))),
            usage=turn.usage,
            models=turn.models,
            duration_s=turn.duration_s,
            changes=turn.changes,
        )

    async def stream(self, turn_id: str, *, after: int | None = None) -> AsyncIterator["TypedEvent"]:
        """Iterate over the events of a turn, from its start or after the number of an event, until it ends."""
        async for event in self._transport.follow_turn(turn_id, after):
            if event.kind != "ping":
                yield event

    async def stop(self, turn_id: str, answer: str = "") -> StopDecision:
        """Ask whether the agent of your own loop may stop. It may not while items of its plan are open or their checks fail, which
        run for this. If it may not, send it the reason and go on. After several refusals without progress it may."""
        return decode(StopDecision, (await self._transport.send("POST /turns/{}/stop", turn_id, body={"answer": answer}))["stop"])

    async def cancel(self, turn_id: str) -> Turn:
        """Cancel a running turn. Completed work is kept. Raises TurnEnded if it has ended."""
        return decode(Turn, (await self._transport.send("POST /turns/{}/cancel", turn_id))["turn"])

    async def send_message(self, turn_id: str, content: str) -> SentMessage:
        """Send a message to a running turn. Its agent reads it at its next step."""
        answer = await self._transport.send("POST /turns/{}/messages", turn_id, body={"content": content})
        return decode(SentMessage, answer["message"])

    async def sent_messages(self, turn_id: str, *, limit: int = 50) -> tuple[SentMessage, ...]:
        """List the messages that were sent to a turn while it ran, oldest first."""
        answer = await self._transport.send("GET /turns/{}/messages", turn_id, query=drop_none(limit=limit))
        return decode_all(SentMessage, answer["messages"])
