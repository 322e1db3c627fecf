"""The client of a Headway, embedded or on a server. Type your own functions with this class, and they work with both."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headway.ledger.errors import Conflict
from headway.ledger.run import TurnMode
from headway.library.transport import AskedMessage, RequestTransport, to_files

if TYPE_CHECKING:
    from headway.library.namespaces.conversations import Conversations
    from headway.library.namespaces.engine import Agents, Jobs, Schedules
    from headway.library.namespaces.events import Events
    from headway.library.namespaces.files import Files
    from headway.library.namespaces.goals import Goals
    from headway.library.namespaces.inbox import Approvals, Inbox, Questions
    from headway.library.namespaces.operators import HaltSwitch, Tokens, Webhooks
    from headway.library.namespaces.people import Memory, Spending
    from headway.library.namespaces.todos import Todos
    from headway.library.namespaces.turns import Turns
    from headway.library.turn_stream import TurnStream
    from headway.values.turns import TurnReport

# The methods are imported when they are first used, so that commands, which need none of them, start quickly.


class Client(ABC):
    """The methods of the library. `Headway.open` and `headway.connect` provide one."""

    @property
    @abstractmethod
    def transport(self) -> RequestTransport:
        """The transport that carries the requests."""

    @cached_property
    def todos(self) -> "Todos":
        """The todos of the ledger."""
        from headway.library.namespaces.todos import Todos  # noqa: PLC0415

        return Todos(self.transport)

    @cached_property
    def goals(self) -> "Goals":
        """Goals that agents pursue on their own."""
        from headway.library.namespaces.goals import Goals  # noqa: PLC0415

        return Goals(self.transport)

    @cached_property
    def turns(self) -> "Turns":
        """Messages that agents answer."""
        from headway.library.namespaces.turns import Turns  # noqa: PLC0415

        return Turns(self.transport)

    @cached_property
    def conversations(self) -> "Conversations":
        """Threads of messages."""
        from headway.library.namespaces.conversations import Conversations  # noqa: PLC0415

        return Conversations(self.transport)

    @cached_property
    def agents(self) -> "Agents":
        """Runs of agents and sub-agents."""
        from headway.library.namespaces.engine import Agents  # noqa: PLC0415

        return Agents(self.transport)

    @cached_property
    def jobs(self) -> "Jobs":
        """The jobs of the engine."""
        from headway.library.namespaces.engine import Jobs  # noqa: PLC0415

        return Jobs(self.transport)

    @cached_property
    def schedules(self) -> "Schedules":
        """Work that starts again and again."""
        from headway.library.namespaces.engine import Schedules  # noqa: PLC0415

        return Schedules(self.transport)

    @cached_property
    def inbox(self) -> "Inbox":
        """Requests to people: calls that need approval, questions of agents, and paused goals."""
        from headway.library.namespaces.inbox import Inbox  # noqa: PLC0415

        return Inbox(self.transport)

    @cached_property
    def approvals(self) -> "Approvals":
        """The approvals of the inbox alone."""
        from headway.library.namespaces.inbox import Approvals  # noqa: PLC0415

        return Approvals(self.transport)

    @cached_property
    def questions(self) -> "Questions":
        """The questions of the inbox alone."""
        from headway.library.namespaces.inbox import Questions  # noqa: PLC0415

        return Questions(self.transport)

    @cached_property
    def memory(self) -> "Memory":
        """The notes that agents recall."""
        from headway.library.namespaces.people import Memory  # noqa: PLC0415

        return Memory(self.transport)

    @cached_property
    def files(self) -> "Files":
        """Files that agents wrote."""
        from headway.library.namespaces.files import Files  # noqa: PLC0415

        return Files(self.transport)

    @cached_property
    def costs(self) -> "Spending":
        """The costs of agents."""
        from headway.library.namespaces.people import Spending  # noqa: PLC0415

        return Spending(self.transport)

    @cached_property
    def webhooks(self) -> "Webhooks":
        """Subscriptions of other systems to the event log."""
        from headway.library.namespaces.operators import Webhooks  # noqa: PLC0415

        return Webhooks(self.transport)

    @cached_property
    def tokens(self) -> "Tokens":
        """The tokens of the tenant."""
        from headway.library.namespaces.operators import Tokens  # noqa: PLC0415

        return Tokens(self.transport)

    @cached_property
    def halt(self) -> "HaltSwitch":
        """The switch that stops all work."""
        from headway.library.namespaces.operators import HaltSwitch  # noqa: PLC0415

        return HaltSwitch(self.transport)

    @cached_property
    def events(self) -> "Events":
        """The log of everything that happens."""
        from headway.library.namespaces.events import Events  # noqa: PLC0415

        return Events(self.transport)

    async def ask(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
    ) -> "TurnReport":
        """Have an agent answer a message, and return a report of the turn.

        Raises TurnFailed if the turn failed. Canceling the call does not stop the turn. `conversation` is an id, or a key of your
        choice; a conversation is opened for a new key. `mode` is plan (the default) or queue. `attachments` are files or their
        contents: images, PDFs or text. `continues` is the id of an ended turn of the conversation, whose open todos this turn takes
        over, in the same mode.
        """
        message = AskedMessage(content, conversation, mode, to_files(attachments), continues)
        return await self.turns.report(await self.transport.answer(message))

    def ask_stream(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
    ) -> "TurnStream":
        """Have an agent answer a message, and return an iterator over the events of the turn. `text_delta` events have the words of
        the answer as the model writes them. `await stream.report()` returns the report, `await stream.cancel()` stops the turn."""
        from headway.library.turn_stream import TurnStream  # noqa: PLC0415

        return TurnStream(self.transport, self.turns, AskedMessage(content, conversation, mode, to_files(attachments), continues))

    async def send_message(self, content: str, conversation: int | str) -> None:
        """Send a message to the turn that runs in a conversation, or raise Conflict. Its agent reads it at its next step."""
        found = await self.conversations.get(conversation)
        turn = await self.conversations.running_turn(found.id)
        if turn is None:
            raise Conflict("No turn is running in this conversation.")
        await self.turns.send_message(turn.id, content)


class DoorClient(Client):
    """A client of one tenant of a Headway that runs."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    @property
    def transport(self) -> RequestTransport:
        """The transport that carries the requests."""
        return self._transport
