"""The events of a turn that is being answered, as an asynchronous iterator."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Self

from headway.ledger.errors import Conflict
from headway.library.transport import AskedMessage, RequestTransport
from headway.values.turns import Turn, TurnReport

if TYPE_CHECKING:
    from headway.library.namespaces.turns import Turns
    from headway.values.events import TypedEvent


class TurnStream:
    """Starts a turn when it is first iterated, and yields the turn's events until its end. Leaving the loop does not stop the turn;
    `cancel` does."""

    def __init__(self, transport: RequestTransport, turns: "Turns", message: AskedMessage) -> None:
        self._turns = turns
        self._events: AsyncGenerator[TypedEvent] = transport.stream_answer(message)
        self.turn_id: str | None = None  # None until the first event has arrived

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "TypedEvent":
        event = await anext(self._events)
        while event.kind == "ping":
            event = await anext(self._events)
        self.turn_id = self.turn_id or event.turn_id
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening. The turn continues."""
        await self._events.aclose()

    async def report(self) -> TurnReport:
        """Wait until the turn has ended, and return its report. Raises TurnFailed if it failed."""
        async for _event in self:
            pass
        return await self._turns.report(self._get_turn_id())

    async def cancel(self) -> Turn:
        """Cancel the turn. Completed work is kept."""
        return await self._turns.cancel(self._get_turn_id())

    def _get_turn_id(self) -> str:
        if self.turn_id is None:
            raise Conflict("The turn has not started. Read an event of the stream first.")
        return self.turn_id
