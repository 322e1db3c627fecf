"""What agents remember: notes of a conversation, which it sees together with those of the whole tenant."""

from headway.ledger import text
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.scope import TENANT_WIDE, Scope
from headway.storage import memory_store
from headway.storage.memory_store import Entry
from headway.storage.transaction import Transaction

ENTRY_LIMIT = 10_000
QUERY_LIMIT = 1_000
NOTE = "note"
SEARCHED = 2_000  # how far back a search looks: it costs the same however long agents have been at work


def remember(tx: Transaction, scope: Scope, words: str, kind: str = NOTE) -> Entry:
    words = text.safe(words, "text", ENTRY_LIMIT).strip()
    if not words:
        raise Invalid("There is nothing to remember: text is blank.")
    return memory_store.insert(tx, scope, text.name(kind, "kind"), words)


def recall(tx: Transaction, scope: Scope, query: str = "", limit: int = 10) -> list[Entry]:
    """The newest entries that contain every word of the query; without a query, simply the newest."""
    wanted = text.safe(query, "query", QUERY_LIMIT).casefold().split()
    # Compared here and not by the databases: they disagree on what a capital letter is, and patterns need escaping.
    found = [entry for entry in newest(tx, scope, SEARCHED if wanted else limit) if contains(entry, wanted)]
    return found[:limit]


def forget(tx: Transaction, scope: Scope, entry_id: int) -> None:
    if not memory_store.delete(tx, scope, entry_id):
        raise NotFound(f"No memory {entry_id}.")


def newest(tx: Transaction, scope: Scope, limit: int) -> list[Entry]:
    places = {TENANT_WIDE, scope.conversation_id}
    entries = [entry for place in places for entry in memory_store.newest(tx, scope.tenant_id, place, limit)]
    return sorted(entries, key=lambda entry: entry.id, reverse=True)[:limit]


def contains(entry: Entry, words: list[str]) -> bool:
    content = entry.text.casefold()
    return all(word in content for word in words)
