"""The log of everything that happens."""

from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING

from headway.ledger.events import STREAMED_KINDS, StreamedKind, check_kinds
from headway.library.transport import RequestTransport

if TYPE_CHECKING:
    from headway.values.events import TypedEvent


class Events:
    """Follows the event log."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def follow(
        self, *, kinds: Collection[StreamedKind] | StreamedKind = (), conversation_id: int | None = None, after: int | None = None
    ) -> AsyncIterator["TypedEvent"]:
        """Iterate over new events, until you leave the loop. With `after`, first over those with a higher number: 0 replays all.

        `kinds` selects events by name. A slow loop loses no events of the log: they are read again when it asks for more. Pieces of
        text (`text_delta`) are not in the log, so it may miss them. If events were deleted because of their age, `log_pruned` says
        so.
        """
        wanted = {kinds} if isinstance(kinds, str) else set(kinds)
        check_kinds(wanted, STREAMED_KINDS)
        events = self._transport.follow(conversation_id, after)
        try:
            async for event in events:
                if event.kind != "ping" and (not wanted or event.kind in wanted):
                    yield event
        finally:
            await events.aclose()
