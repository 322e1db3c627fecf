"""The transport to a Headway in this program."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from pydantic import TypeAdapter

from headway.actions.access import local_tenant
from headway.actions.access.rights import Right
from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.actions.turns.turns import TurnRequest
from headway.agents.checks.completion import Prover
from headway.agents.checks.runner import PERSONAL_JUDGEMENT, CheckRunner
from headway.agents.instructions.roles import SUPERVISOR, Role
from headway.agents.tools.execution import Execution, ResolvedScope
from headway.feed import TENANT_MOVED, Feed, FeedChannel, FeedEvent, FeedReader
from headway.ledger.errors import ChecksRequired, Closed, WrongCell
from headway.ledger.events import TURN_ENDS
from headway.ledger.job import Job
from headway.ledger.scope import Scope
from headway.ledger.tenancy import LOCAL_TENANT
from headway.library.transport import (
    AskedMessage,
    Document,
    drop_none,
    encode_body,
    encode_key,
    encode_path,
    encode_query,
    read_files,
)
from headway.operations.conversations import NewConversation
from headway.operations.operation import OperationCall, OperationHost, find_operation
from headway.operations.requests import parse_arguments, parse_document, parse_id
from headway.operations.turns import NewMessage
from headway.storage.database import Database
from headway.storage.transaction import Transaction, Work
from headway.values.turns import Event

if TYPE_CHECKING:
    from headway.values.events import TypedEvent

ACTOR: Final = "library"  # who made a change, in events and the audit log, if the program does not say
MESSAGE: Final = TypeAdapter(NewMessage)
FIRST_MESSAGE: Final = TypeAdapter(NewConversation)


class RunningHeadway(OperationHost, Protocol):
    """The parts of a running Headway that the library uses."""

    database: Database
    feed: Feed
    checks: CheckRunner

    def execution(self, resolved: ResolvedScope, role: Role) -> Execution: ...

    def begin_requested_turn(self, tx: Transaction, tenant_id: int, conversation_id: int, request: TurnRequest) -> Job: ...

    async def agents_ready(self) -> None: ...

    async def start_job(self, begin: Work[Job]) -> Job: ...

    async def run_to_end(self, begin: Work[Job]) -> Job: ...


def find_tenant_id(tx: Transaction, name: str) -> int:
    """Return the id of a tenant, or 0 if the local tenant does not exist yet; no row has that id."""
    tenant = local_tenant.find_local(tx) if name == LOCAL_TENANT else tenants.get_by_name(tx, name)
    return tenant.id if tenant else 0


# Runs the library's requests as actions, each in one transaction, and reads the live feed.


T = TypeVar("T")


class LocalCaller(NamedTuple):
    """The program that embeds Headway. It acts for the installation's operator."""

    name: str

    def find_token(self, _tx: Transaction) -> None:
        return None

    def get_name(self, _tx: Transaction) -> str:
        return self.name

    def has_right(self, _tx: Transaction, _right: Right) -> bool:
        return True


class EmbeddedTransport:
    """The transport to a Headway in this process, for one tenant. Changes are recorded under the name of the actor."""

    def __init__(self, headway: RunningHeadway, tenant: str, actor: str = ACTOR) -> None:
        self.headway = headway
        self.tenant = tenant
        self.actor = actor

    async def send(
        self,
        route: str,
        *path: int | str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        is_slow: bool = False,
    ) -> Document:
        operation = find_operation(route)
        arguments = parse_arguments(operation, encode_path(path), encode_query(query or {}), encode_body(body or {}))
        if operation.prepare is not None:
            await asyncio.to_thread(operation.prepare, self.headway)
        after_commit: list[Callable[[], object]] = []

        def call(function: Callable[..., T], tx: Transaction, tenant_id: int) -> T:
            after_commit.clear()  # a repeated transaction begins again
            return function(OperationCall(self.headway, LocalCaller(self.actor), tx, tenant_id, after_commit), **arguments)

        if operation.check is not None:
            await self._read(partial(call, operation.check))
        run = self._read if operation.method == "GET" else self._write
        answer = await run(partial(call, operation.function))
        for follow_up in after_commit:
            follow_up()
        return dict(answer or {})

    async def _read(self, act: Callable[[Transaction, int], T]) -> T:
        return await self.headway.database.read(lambda tx: act(tx, find_tenant_id(tx, self.tenant)))

    async def _write(self, act: Callable[[Transaction, int], T]) -> T:
        def work(tx: Transaction) -> T:
            tenant_id = tenants.resolve(tx, self.tenant).id
            tx.actor = self.actor
            return act(tx, tenant_id)

        try:
            return await self.headway.database.write(work)
        except ChecksRequired:
            return await (await self._build_prover()).write(self.headway.database.write, work)

    async def download(self, route: str, *path: int | str, query: Mapping[str, Any] | None = None) -> bytes:
        data: bytes = (await self.send(route, *path, query=query))["data"]
        return data

    async def _build_prover(self) -> Prover:
        """Return what runs the checks of todos that the program completes."""
        headway, tenant_id = self.headway, await self._get_tenant_id()
        execution = headway.execution(ResolvedScope(Scope(tenant_id), None), headway.roles.find(SUPERVISOR))
        return Prover(
            headway.checks, execution, self.actor, PERSONAL_JUDGEMENT, is_stopping=lambda: headway.feed.closed, is_operator=True
        )

    async def _get_tenant_id(self) -> int:
        return await self.headway.database.write(lambda tx: tenants.resolve(tx, self.tenant).id)

    # Turns

    async def begin_turn(self, message: AskedMessage) -> str:
        return turns.get_turn_id(await self.headway.start_job(await self._prepare(message)))

    async def answer(self, message: AskedMessage) -> str:
        return turns.get_turn_id(await self.headway.run_to_end(await self._prepare(message)))

    async def _prepare(self, message: AskedMessage) -> Work[Job]:
        """Return the work that starts the turn."""
        files = await read_files(message.attachments)
        check_message(message)
        await self.headway.agents_ready()
        request = turns.TurnRequest(message.content, message.mode, attachments=tuple(files), continues=message.continues)

        def begin(tx: Transaction) -> Job:
            tenant_id = tenants.resolve(tx, self.tenant).id
            tx.actor = self.actor
            conversation = conversations.ensure(tx, tenant_id, message.conversation)
            return self.headway.begin_requested_turn(tx, tenant_id, conversation.id, request)

        return begin

    # Events

    async def stream_answer(self, message: AskedMessage) -> AsyncGenerator["TypedEvent"]:
        tenant_id = await self._get_tenant_id()
        async with self._read_feed(tenant_id, None, None) as (channel, reader):  # before the turn starts: no event is missed
            turn_id = await self.begin_turn(message)
            position = await self._find_position(tenant_id, turn_id)
            reader.conversation_id = position.conversation_id
            reader.follow_turn(turn_id, position.after)
            async for event in self._yield_turn(channel, reader):
                yield event

    async def follow_turn(self, turn_id: str, after: int | None) -> AsyncGenerator["TypedEvent"]:
        tenant_id = await self._get_tenant_id()
        position = await self._find_position(tenant_id, turn_id, after)
        if position.is_over:
            return
        async with self._read_feed(tenant_id, position.conversation_id, None) as (channel, reader):
            reader.follow_turn(turn_id, position.after)
            async for event in self._yield_turn(channel, reader):
                yield event

    async def _find_position(self, tenant_id: int, turn_id: str, after: int | None = None) -> turns.TurnPosition:
        return await self.headway.database.of(tenant_id).read(lambda tx: turns.find_turn_position(tx, tenant_id, turn_id, after))

    async def _yield_turn(self, channel: FeedChannel, reader: FeedReader) -> AsyncIterator["TypedEvent"]:
        async for event in self._yield_events(channel, reader):
            yield event
            if event.kind in TURN_ENDS:
                return
        raise Closed

    async def follow(self, conversation_id: int | None, after: int | None) -> AsyncGenerator["TypedEvent"]:
        tenant_id = await self._get_tenant_id()
        if conversation_id is not None:
            await self.send("GET /conversations/{}", conversation_id)
        async with self._read_feed(tenant_id, conversation_id, after) as (channel, reader):
            async for event in self._yield_events(channel, reader):
                yield event
        raise Closed("Headway was closed, so no more events arrive.")

    @asynccontextmanager
    async def _read_feed(
        self, tenant_id: int, conversation_id: int | None, after: int | None
    ) -> AsyncGenerator[tuple[FeedChannel, FeedReader]]:
        feed = self.headway.feed
        channel, reader = await feed.open(tenant_id, conversation_id, after)
        try:
            yield channel, reader
        finally:
            feed.leave(channel, reader)

    async def _yield_events(self, channel: FeedChannel, reader: FeedReader) -> AsyncIterator["TypedEvent"]:
        async for events in self.headway.feed.follow(channel, reader):
            for event in events:
                yield to_event(event)


def check_message(message: AskedMessage) -> None:
    """Parse a message and its conversation like the requests of REST, so that both refuse the same."""
    content = encode_body(drop_none(content=message.content, mode=message.mode, continues=message.continues or None))
    conversation = message.conversation
    if conversation is None:
        parse_document(FIRST_MESSAGE, b'{"message":%b}' % content)
        return
    if isinstance(conversation, int):
        parse_id("conversation_id", *encode_path((conversation,)))
    else:
        parse_arguments(find_operation("GET /conversations"), (), encode_query({"key": encode_key(conversation)}), b"")
    parse_document(MESSAGE, content)


def to_event(event: FeedEvent) -> "TypedEvent":
    data = event.decode_data()
    if event.kind == TENANT_MOVED:
        raise WrongCell.from_event(data)
    return cast("TypedEvent", Event(cast("Any", event.kind), data, None if event.is_broadcast else event.seq))
