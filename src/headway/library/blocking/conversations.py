"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/conversations.py."""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from headway.library.namespaces import conversations
from headway.library.portal import Portal
from headway.values.turns import Conversation, Message, Turn
from headway.values.value import Page


class SyncConversations:
    """Opens, finds, renames and deletes conversations."""

    def __init__(self, portal: Portal, source: conversations.Conversations) -> None:
        self._portal = portal
        self._source = source

    def add(self, title: str = "", *, key: str | None = None) -> Conversation:
        """Open a conversation. `key` is your own name for it, such as a user's id; NameTaken is raised if it is in use."""
        return self._portal.run(self._source.add(title, key=key))

    def ensure(self, key: str) -> Conversation:
        """Return the conversation with this key. It is opened if there is none yet."""
        return self._portal.run(self._source.ensure(key))

    def find(self, key: str) -> Conversation | None:
        """Return the conversation with this key, or None."""
        return self._portal.run(self._source.find(key))

    def get(self, conversation: int | str) -> Conversation:
        """Return a conversation by its id or its key, or raise NotFound."""
        return self._portal.run(self._source.get(conversation))

    def list(
        self, query: str = "", *, sort: Literal["created", "activity"] = "created", limit: int = 50, cursor: str | None = None
    ) -> Page[Conversation]:
        """List conversations, newest first, or those that contain all words of a query."""
        return self._portal.run(self._source.list(query, sort=sort, limit=limit, cursor=cursor))

    def iterate(self, query: str = "") -> Iterator[Conversation]:
        """Iterate over all conversations, or those that contain all words of a query."""
        return self._portal.iterate(self._source.iterate(query))

    def rename(self, conversation_id: int, title: str) -> Conversation:
        """Set the title of a conversation."""
        return self._portal.run(self._source.rename(conversation_id, title))

    def delete(self, conversation_id: int) -> datetime:
        """Delete a conversation, and return until when it can be restored."""
        return self._portal.run(self._source.delete(conversation_id))

    def restore(self, conversation_id: int) -> Conversation:
        """Restore a deleted conversation."""
        return self._portal.run(self._source.restore(conversation_id))

    def running_turn(self, conversation_id: int) -> Turn | None:
        """Return the turn that an agent is answering in a conversation, or None."""
        return self._portal.run(self._source.running_turn(conversation_id))

    def messages(self, conversation_id: int, *, limit: int = 50, before: int | None = None) -> tuple[Message, ...]:
        """List the latest messages, or those before an id, oldest first."""
        return self._portal.run(self._source.messages(conversation_id, limit=limit, before=before))
