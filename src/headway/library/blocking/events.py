"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/events.py."""

from collections.abc import Collection, Iterator

from headway.library.namespaces import events
from headway.library.portal import Portal
from headway.values.turns import Event


class SyncEvents:
    """Follows the event log."""

    def __init__(self, portal: Portal, source: events.Events) -> None:
        self._portal = portal
        self._source = source

    def follow(
        self, *, kinds: Collection[str] | str = (), conversation_id: int | None = None, after: int | None = None
    ) -> Iterator[Event]:
        """Iterate over new events, until you leave the loop. With `after`, first over those with a higher number: 0 replays all.

        `kinds` selects events by name. A slow loop loses no events of the log: they are read again when it asks for more. Pieces of
        text (`text_delta`) are not in the log, so it may miss them. If events were deleted because of their age, `log_pruned` says
        so.
        """
        return self._portal.iterate(self._source.follow(kinds=kinds, conversation_id=conversation_id, after=after))
