"""Agents' memory: notes of a conversation, listed together with those of the whole tenant."""

from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.scope import TENANT_WIDE, Scope
from headway.storage.stores import memory as memory_store
from headway.storage.stores.memory import MemoryEntry
from headway.storage.transaction import Transaction

ENTRY_LIMIT = 10_000
QUERY_LIMIT = 1_000
DEFAULT_KIND = "note"
SEARCH_LIMIT = 2_000  # how many entries a search covers, so that its cost does not grow with the memory


def remember(tx: Transaction, scope: Scope, content: str, kind: str = DEFAULT_KIND) -> MemoryEntry:
    content = text.check_text(content, "text", ENTRY_LIMIT).strip()
    if not content:
        raise Invalid("text must not be blank.")
    return memory_store.insert(tx, scope, text.check_name(kind, "kind"), content)


def recall(tx: Transaction, scope: Scope, query: str = "", limit: int = 10) -> list[MemoryEntry]:
    """Return the newest entries that contain every word of the query; without a query, the newest entries."""
    words = text.check_text(query, "query", QUERY_LIMIT).casefold().split()
    # Compared here and not in SQL, because the databases fold case differently and patterns need escaping.
    matches = [entry for entry in list_newest(tx, scope, SEARCH_LIMIT if words else limit) if has_all_words(entry, words)]
    return matches[:limit]


def list_newest(tx: Transaction, scope: Scope, limit: int) -> list[MemoryEntry]:
    scopes = {TENANT_WIDE, scope.conversation_id}
    entries = [
        entry for conversation_id in scopes for entry in memory_store.list_newest(tx, scope.tenant_id, conversation_id, limit)
    ]
    return sorted(entries, key=lambda entry: entry.id, reverse=True)[:limit]


def has_all_words(entry: MemoryEntry, words: list[str]) -> bool:
    content = entry.text.casefold()
    return all(word in content for word in words)
