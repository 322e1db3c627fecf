"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/turns.py."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from headway.ledger.run import TurnMode
from headway.library.namespaces import turns
from headway.library.portal import Portal
from headway.values.turns import Event, SentMessage, StopDecision, Turn, TurnReport


class SyncTurns:
    """Starts, follows, steers and cancels turns."""

    def __init__(self, portal: Portal, source: turns.Turns) -> None:
        self._portal = portal
        self._source = source

    def start(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
    ) -> Turn:
        """Send a message for an agent to answer, and return the turn without waiting for its end. The arguments are those of
        `ask`."""
        return self._portal.run(self._source.start(content, conversation, mode=mode, attachments=attachments, continues=continues))

    def open(self, conversation_id: int) -> Turn:
        """Open a turn without running an agent, for an agent loop of your own."""
        return self._portal.run(self._source.open(conversation_id))

    def get(self, turn_id: str) -> Turn:
        """Return a turn, or raise NotFound."""
        return self._portal.run(self._source.get(turn_id))

    def wait(self, turn_id: str) -> TurnReport:
        """Wait until a turn has ended, and return its report. Raises TurnFailed if it failed."""
        return self._portal.run(self._source.wait(turn_id))

    def report(self, turn_id: str) -> TurnReport:
        """Return the report of a turn as it is now: its answer, plan, tokens and cost. Raises TurnFailed if it failed."""
        return self._portal.run(self._source.report(turn_id))

    def stream(self, turn_id: str, *, after: int | None = None) -> Iterator[Event]:
        """Iterate over the events of a turn, from its start or after the number of an event, until it ends."""
        return self._portal.iterate(self._source.stream(turn_id, after=after))

    def stop(self, turn_id: str, answer: str = "") -> StopDecision:
        """Ask whether the agent of your own loop may stop. It may not while items of its plan are open or their checks fail, which
        run for this. If it may not, send it the reason and go on. After several refusals without progress it may."""
        return self._portal.run(self._source.stop(turn_id, answer))

    def cancel(self, turn_id: str) -> Turn:
        """Cancel a running turn. Completed work is kept. Raises TurnEnded if it has ended."""
        return self._portal.run(self._source.cancel(turn_id))

    def send_message(self, turn_id: str, content: str) -> SentMessage:
        """Send a message to a running turn. Its agent reads it at its next step."""
        return self._portal.run(self._source.send_message(turn_id, content))

    def sent_messages(self, turn_id: str, *, limit: int = 50) -> tuple[SentMessage, ...]:
        """List the messages that were sent to a turn while it ran, oldest first."""
        return self._portal.run(self._source.sent_messages(turn_id, limit=limit))
