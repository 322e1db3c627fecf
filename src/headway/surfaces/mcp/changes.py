"""Notifications about changed resources, from the live feed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from headway.feed import Feed, FeedChannel, FeedEvent, FeedReader
from headway.ledger.scope import Scope
from headway.surfaces.mcp.offer import TODO_URI_PREFIX
from headway.surfaces.mcp.resources import LISTS

Publish = Callable[[ServerEvent], Awaitable[None]]
AdmissionCheck = Callable[[], Awaitable[bool]]


class ChangeReader:
    """A reader of the feed that publishes which resources have changed."""

    def __init__(self, feed: Feed, publish: Publish, is_admitted: AdmissionCheck) -> None:
        self.feed = feed
        self.publish = publish
        self.is_admitted = is_admitted
        self.task: asyncio.Task[None] | None = None

    async def start(self, scope: Scope, after: int | None) -> asyncio.Task[None]:
        """Begin to publish the changes after an event, or from now on. The task ends when the feed closes or the client is no
        longer admitted."""
        if not self.feed.tasks:
            self.feed.start()
        opened = await self.feed.open(scope.tenant_id, scope.conversation_id or None, after)
        self.task = asyncio.create_task(self.run(*opened))
        return self.task

    async def run(self, channel: FeedChannel, reader: FeedReader) -> None:
        try:
            async for events in self.feed.follow(channel, reader, text=False):
                if not await self.is_admitted():  # heartbeats are events, so this is asked several times a minute
                    break
                for change in collect_changes(events):
                    await self.publish(change)
        finally:
            self.feed.leave(channel, reader)

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()


def collect_changes(events: list[FeedEvent]) -> list[ServerEvent]:
    """Return what changed: the list of resources, both lists of todos, and each todo. Several changes of one are one."""
    changed = [event for event in events if event.kind in ("todo_changed", "todos_moved")]
    if not changed:
        return []
    numbers = {str(event.decode_data()["todo"]["id"]) for event in changed if event.kind == "todo_changed"}
    return [ResourcesListChanged(), *(ResourceUpdated(f"{TODO_URI_PREFIX}{name}") for name in (*sorted(LISTS), *sorted(numbers)))]


class ChangeStream(NamedTuple):
    """Which changes a stream of notifications tells of."""

    feed: Feed
    scope: Scope
    after: int | None  # the event after which it begins, or None for now
    is_admitted: AdmissionCheck


async def listen(
    stream: ChangeStream, context: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
) -> types.SubscriptionsListenResult:
    """Serve one stream of notifications of protocol 2026-07-28."""
    bus = InMemorySubscriptionBus()
    handler = ListenHandler(bus)
    changes = ChangeReader(stream.feed, bus.publish, stream.is_admitted)
    (await changes.start(stream.scope, stream.after)).add_done_callback(lambda _task: handler.close())
    try:
        return await handler(context, params)
    finally:
        changes.stop()


class SessionChanges:
    """Notifications for the client of an older protocol on standard input and output."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.uris: set[str] = set()  # what it has subscribed to
        self.reader: ChangeReader | None = None

    async def start(self, scope: Scope, session: ServerSession, after: int | None = None) -> None:
        """Begin to notify the client, once, of the changes after an event or from now on. It gets changes of the list, and of the
        resources that it has subscribed to."""

        async def send(change: ServerEvent) -> None:
            if isinstance(change, ResourcesListChanged):
                await session.send_resource_list_changed()
            elif isinstance(change, ResourceUpdated) and change.uri in self.uris:
                await session.send_resource_updated(change.uri)

        if self.reader is None:
            self.reader = ChangeReader(self.feed, send, is_always_admitted)
            await self.reader.start(scope, after)

    def stop(self) -> None:
        if self.reader is not None:
            self.reader.stop()


async def is_always_admitted() -> bool:
    return True
