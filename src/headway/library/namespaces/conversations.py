"""Conversations and their messages."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Literal

from headway.ledger.errors import NameTaken, NotFound
from headway.library.transport import RequestTransport, drop_none, encode_key
from headway.values.turns import Conversation, Message, Turn
from headway.values.value import Page, decode, decode_all, decode_page, to_time


class Conversations:
    """Opens, finds, renames and deletes conversations."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def add(self, title: str = "", *, key: str | None = None) -> Conversation:
        """Open a conversation. `key` is your own name for it, such as a user's id; NameTaken is raised if it is in use."""
        answer = await self._transport.send("POST /conversations", body=drop_none(title=title, key=key))
        return decode(Conversation, answer["conversation"])

    async def ensure(self, key: str) -> Conversation:
        """Return the conversation with this key. It is opened if there is none yet."""
        if found := await self.find(key):
            return found
        try:
            return await self.add(key=key)
        except NameTaken:  # by another caller, a moment ago
            found = await self.find(key)
            if found is None:
                raise
            return found

    async def find(self, key: str) -> Conversation | None:
        """Return the conversation with this key, or None."""
        answer = await self._transport.send("GET /conversations", query={"key": encode_key(key)})
        return next(iter(decode_page(Conversation, answer, "conversations")), None)

    async def get(self, conversation: int | str) -> Conversation:
        """Return a conversation by its id or its key, or raise NotFound."""
        if isinstance(conversation, int):
            return decode(Conversation, (await self._transport.send("GET /conversations/{}", conversation))["conversation"])
        found = await self.find(conversation)
        if found is None:
            raise NotFound(f"No conversation with the key {conversation[:80]!r}.")
        return found

    async def list(
        self,
        query: str = "",
        *,
        sort: Literal["created", "activity"] = "created",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Conversation]:
        """List conversations, newest first, or only conversations that contain all words of a query."""
        parameters = drop_none(q=query or None, sort=sort, limit=limit, cursor=cursor)
        return decode_page(Conversation, await self._transport.send("GET /conversations", query=parameters), "conversations")

    async def iterate(self, query: str = "") -> AsyncIterator[Conversation]:
        """Iterate over all conversations, or only conversations that contain all words of a query."""
        cursor: str | None = None
        while True:
            page = await self.list(query, limit=500, cursor=cursor)
            for conversation in page:
                yield conversation
            cursor = page.next_cursor
            if not cursor:
                return

    async def rename(self, conversation_id: int, title: str) -> Conversation:
        """Set the title of a conversation."""
        answer = await self._transport.send("PATCH /conversations/{}", conversation_id, body={"title": title})
        return decode(Conversation, answer["conversation"])

    async def delete(self, conversation_id: int) -> datetime:
        """Delete a conversation, and return until when it can be restored."""
        return to_time((await self._transport.send("DELETE /conversations/{}", conversation_id))["restorable_until"])

    async def restore(self, conversation_id: int) -> Conversation:
        """Restore a deleted conversation."""
        answer = await self._transport.send("POST /conversations/{}/restore", conversation_id)
        return decode(Conversation, answer["conversation"])

    async def running_turn(self, conversation_id: int) -> Turn | None:
        """Return the turn that an agent is answering in a conversation, or None."""
        answer = await self._transport.send("GET /conversations/{}/timeline", conversation_id, query={"limit": 1})
        running = answer["timeline"]["running"]
        return decode(Turn, running) if running else None

    async def messages(self, conversation_id: int, *, limit: int = 50, before: int | None = None) -> tuple[Message, ...]:
        """List the latest messages, or messages before an id, oldest first."""
        query = drop_none(limit=limit, before=before)
        answer = await self._transport.send("GET /conversations/{}/messages", conversation_id, query=query)
        return decode_all(Message, answer["messages"])
