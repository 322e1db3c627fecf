"""The library's methods without `await`: what `headway.sync` opens."""

import weakref
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headway.ledger.run import TurnMode
from headway.library.blocking.conversations import SyncConversations
from headway.library.blocking.engine import SyncAgents, SyncJobs, SyncSchedules
from headway.library.blocking.events import SyncEvents
from headway.library.blocking.files import SyncFiles
from headway.library.blocking.goals import SyncGoals
from headway.library.blocking.inbox import SyncApprovals, SyncInbox, SyncQuestions
from headway.library.blocking.operators import SyncHaltSwitch, SyncTokens, SyncWebhooks
from headway.library.blocking.people import SyncMemory, SyncSpending
from headway.library.blocking.todos import SyncTodos
from headway.library.blocking.turns import SyncTurns
from headway.library.client import Client
from headway.library.loop_runner import HeldContext, LoopRunner
from headway.library.turn_stream import TurnStream
from headway.values.turns import Turn, TurnReport

if TYPE_CHECKING:
    from headway.values.events import TypedEvent


class SyncTurnStream:
    """The events of a turn that is being answered. Leaving the loop does not stop the turn; `cancel` does."""

    def __init__(self, loop_runner: LoopRunner, source: TurnStream) -> None:
        self._loop_runner = loop_runner
        self._source = source
        self._events = loop_runner.iterate(source)

    @property
    def turn_id(self) -> str | None:
        """The id of the turn; None until the first event has arrived."""
        return self._source.turn_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> "TypedEvent":
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening. The turn continues."""
        self._loop_runner.run(self._source.aclose())

    def report(self) -> TurnReport:
        """Wait until the turn has ended, and return its report. Raises TurnFailed if it failed."""
        return self._loop_runner.run(self._source.report())

    def cancel(self) -> Turn:
        """Cancel the turn. Completed work is kept."""
        return self._loop_runner.run(self._source.cancel())


class SyncClient:
    """The methods of the library for programs without an event loop, with the same names and arguments. They also work while an
    event loop runs, as in a notebook. Use it with `with`, or call `close`: then its thread ends."""

    def __init__(self, manager: AbstractAsyncContextManager[Client]) -> None:
        self._loop_runner = LoopRunner()
        holding = HeldContext(self._loop_runner.thread)
        try:
            self._client = holding.enter(manager)
        except BaseException:
            self._loop_runner.thread.close()
            raise
        self._holding = holding
        self._abandonment = weakref.finalize(self._loop_runner, holding.abandon)
        self._abandonment.atexit = False  # nothing is lost when the program ends: unfinished work resumes when the next one opens

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close Headway, or the connection to it. Unfinished work resumes when the next one opens."""
        if self._abandonment.detach():
            try:
                self._holding.exit()
            finally:
                self._loop_runner.thread.close()

    @cached_property
    def todos(self) -> SyncTodos:
        """The todos of the ledger."""
        return SyncTodos(self._loop_runner, self._client.todos)

    @cached_property
    def goals(self) -> SyncGoals:
        """Goals that agents pursue on their own."""
        return SyncGoals(self._loop_runner, self._client.goals)

    @cached_property
    def turns(self) -> SyncTurns:
        """Messages that agents answer."""
        return SyncTurns(self._loop_runner, self._client.turns)

    @cached_property
    def conversations(self) -> SyncConversations:
        """Threads of messages."""
        return SyncConversations(self._loop_runner, self._client.conversations)

    @cached_property
    def agents(self) -> SyncAgents:
        """Runs of agents and sub-agents."""
        return SyncAgents(self._loop_runner, self._client.agents)

    @cached_property
    def jobs(self) -> SyncJobs:
        """The jobs of the engine."""
        return SyncJobs(self._loop_runner, self._client.jobs)

    @cached_property
    def schedules(self) -> SyncSchedules:
        """Work that starts again and again."""
        return SyncSchedules(self._loop_runner, self._client.schedules)

    @cached_property
    def inbox(self) -> SyncInbox:
        """What waits for a person: calls that need approval, and questions of agents."""
        return SyncInbox(self._loop_runner, self._client.inbox)

    @cached_property
    def approvals(self) -> SyncApprovals:
        """The approvals of the inbox, under their older name."""
        return SyncApprovals(self._loop_runner, self._client.approvals)

    @cached_property
    def questions(self) -> SyncQuestions:
        """The questions of the inbox, under their older name."""
        return SyncQuestions(self._loop_runner, self._client.questions)

    @cached_property
    def memory(self) -> SyncMemory:
        """The notes that agents recall."""
        return SyncMemory(self._loop_runner, self._client.memory)

    @cached_property
    def files(self) -> SyncFiles:
        """Files that agents wrote."""
        return SyncFiles(self._loop_runner, self._client.files)

    @cached_property
    def costs(self) -> SyncSpending:
        """What agents cost."""
        return SyncSpending(self._loop_runner, self._client.costs)

    @cached_property
    def webhooks(self) -> SyncWebhooks:
        """Subscriptions of other systems to the event log."""
        return SyncWebhooks(self._loop_runner, self._client.webhooks)

    @cached_property
    def tokens(self) -> SyncTokens:
        """The tokens of the tenant."""
        return SyncTokens(self._loop_runner, self._client.tokens)

    @cached_property
    def halt(self) -> SyncHaltSwitch:
        """The switch that stops all work."""
        return SyncHaltSwitch(self._loop_runner, self._client.halt)

    @cached_property
    def events(self) -> SyncEvents:
        """The log of everything that happens."""
        return SyncEvents(self._loop_runner, self._client.events)

    def ask(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
    ) -> TurnReport:
        """Have an agent answer a message, and return a report of the turn.

        Raises TurnFailed if the turn failed. Interrupting it does not stop the turn. `conversation` is an id, or a key of your
        choice; a conversation is opened for a new key. `mode` is plan (the default) or queue. `attachments` are files or their
        contents: images, PDFs or text. `continues` is the id of an ended turn of the conversation, whose open todos this turn takes
        over, in the same mode.
        """
        return self._loop_runner.run(
            self._client.ask(content, conversation, mode=mode, attachments=attachments, continues=continues)
        )

    def ask_stream(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
    ) -> SyncTurnStream:
        """Have an agent answer a message, and return an iterator over the events of the turn. `text_delta` events have the words of
        the answer as the model writes them. `stream.report()` returns the report, `stream.cancel()` stops the turn."""
        source = self._client.ask_stream(content, conversation, mode=mode, attachments=attachments, continues=continues)
        return SyncTurnStream(self._loop_runner, source)

    def send_message(self, content: str, conversation: int | str) -> None:
        """Send a message to the turn that runs in a conversation, or raise Conflict. Its agent reads it at its next step."""
        self._loop_runner.run(self._client.send_message(content, conversation))
