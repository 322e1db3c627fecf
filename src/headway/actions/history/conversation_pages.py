"""Lists of conversations: the newest, the last used, and conversations that contain certain words."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from headway.actions.todos import conversations, finding, todo_lists
from headway.ledger.cursors import CursorCodec
from headway.ledger.tenancy import Conversation
from headway.ledger.text import MAX_INTEGER
from headway.ledger.wording import cut_excerpt, has_all_words, parse_words
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import messages as message_store
from headway.storage.transaction import Transaction

Sort = Literal["created", "activity"]
# How many conversations and how many messages one search reads, so that its cost does not grow with what is stored.
SEARCH_LIMIT: Final = 500
SEARCHED_CHARACTERS: Final = 8_000  # of each message, from its beginning
NEWEST: Final = CursorCodec("conversations", (MAX_INTEGER,))  # the id
LAST_USED: Final = CursorCodec("conversations by activity", (MAX_INTEGER, MAX_INTEGER))  # the time and the id
SEARCH: Final = CursorCodec("conversations with words", (MAX_INTEGER, 0))  # the id, and the last message that was read


class ConversationFilter(NamedTuple):
    query: str = ""
    sort: Sort = "created"
    before: int | None = None  # only lower ids


class ConversationPage(NamedTuple):
    conversations: list[Conversation]
    next_cursor: str | None
    searched_all: bool = True  # False: the search stopped before the oldest one; it continues at the cursor
    excerpts: Mapping[int, str] = MappingProxyType({})  # from the message that was found, by conversation

    def as_json(self) -> dict[str, Any]:
        rows = [
            {**row.as_json(), "excerpt": self.excerpts[row.id]} if row.id in self.excerpts else row.as_json()
            for row in self.conversations
        ]
        return {"conversations": rows, "next_cursor": self.next_cursor, "searched_all": self.searched_all}


def list_conversations(
    tx: Transaction, tenant_id: int, selection: ConversationFilter, limit: int = 50, cursor: str | None = None
) -> ConversationPage:
    limit, words = todo_lists.check_limit(limit), parse_words(selection.query)
    if selection.sort == "activity" and not words and not selection.before:
        rows = conversation_store.list_by_activity(tx, tenant_id, LAST_USED.decode(cursor), limit + 1)
        following = LAST_USED.encode_next(rows, limit, lambda row: (row.updated_at, row.id))
        return ConversationPage(rows[:limit], following)
    if words:
        return search(tx, tenant_id, words, limit, SEARCH.decode(cursor) if cursor else (selection.before or MAX_INTEGER, 0))
    before = NEWEST.decode(cursor)[0] if cursor else selection.before or MAX_INTEGER
    rows = conversation_store.list_conversation_page(tx, tenant_id, before, limit + 1)
    return ConversationPage(rows[:limit], NEWEST.encode_next(rows, limit, lambda row: (row.id,)))


def list_by_key(tx: Transaction, tenant_id: int, key: str) -> ConversationPage:
    """List the conversation with this key, if there is one."""
    found = finding.find_by_key(tx, tenant_id, key)
    return ConversationPage([conversations.show_conversation(tx, tenant_id, found.id)] if found else [], None)


def search(
    tx: Transaction, tenant_id: int, words: list[str], limit: int, position: tuple[int, int], window: int = SEARCH_LIMIT
) -> ConversationPage:
    """Find conversations with all words in their title and one message, newest first.

    Titles and messages are read through indexes from a position on: (conversation, message) in descending order, where message 0
    is the end of a conversation. If there is more than `window` of either, the page has a cursor, even without a match.
    """
    start, message_id = position
    messages = message_store.list_texts(tx, tenant_id, position, SEARCHED_CHARACTERS, window + 1)
    rows = conversation_store.list_conversation_page(tx, tenant_id, start + (message_id > 0), window + 1)
    ends = [messages[window - 1][:2]] if len(messages) > window else []
    ends += [(rows[window - 1].id, 0)] if len(rows) > window else []
    end = max(ends, default=None)  # where the next search begins
    texts: dict[int, list[str]] = {}
    for conversation_id, number, content in messages:
        if end is None or (conversation_id, number) >= end:
            texts.setdefault(conversation_id, []).append(content)
    found: dict[int, Conversation] = {}
    excerpts: dict[int, str] = {}
    for row in rows:
        if end and row.id < end[0]:
            break
        if (text := find_text(row.title, texts.get(row.id, []), words)) is None:
            continue
        found[row.id] = row
        if text:
            excerpts[row.id] = cut_excerpt(text, words)
        if len(found) == limit:
            end = (row.id, 0) if end or row is not rows[-1] else None
            break
    if end and end[0] in found:
        end = (end[0], 0)  # the rest of its messages need not be read
    return ConversationPage(list(found.values()), SEARCH.encode(end) if end else None, end is None, excerpts)


def find_text(title: str, contents: list[str], words: list[str]) -> str | None:
    """Return the newest message that has all words together with the title; empty if the title has them; None if none has."""
    if has_all_words(title, words):
        return ""
    return next((content for content in contents if has_all_words(f"{title}\n{content}", words)), None)
