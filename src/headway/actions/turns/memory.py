"""Memory: notes that agents and people keep beyond a turn. A note belongs to a conversation, or to the whole tenant.

Agents remember and recall. People list, search, add, edit and delete.
"""

from typing import Any, Final, NamedTuple

from headway.actions.access import quotas
from headway.actions.runs import runs
from headway.actions.todos import finding
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.events import Event, RowChange, encode_json
from headway.ledger.scope import TENANT_WIDE, MemorySelection, Scope
from headway.ledger.text import MAX_INTEGER
from headway.ledger.wording import has_all_words, parse_words
from headway.storage.stores import memory as memory_store
from headway.storage.stores.memory import MemoryEntry, MemoryOrigin
from headway.storage.transaction import Transaction

ENTRY_LIMIT = 10_000
DEFAULT_KIND = "note"
SEARCH_LIMIT = 2_000  # how many entries a search covers, so that its cost does not grow with the memory
CURSORS: Final = CursorCodec("memory", (MAX_INTEGER,))  # the id


# Agents


def remember(
    tx: Transaction,
    scope: Scope,
    content: str,
    kind: str = DEFAULT_KIND,
    *,
    tenant_wide: bool = False,
    run_id: str | None = None,
) -> MemoryEntry:
    """Store an agent's note, in its conversation or for the whole tenant."""
    home = scope.home(tenant_wide=tenant_wide)
    return insert_note_row(tx, scope.tenant_id, home.conversation_id, content, kind, find_origin(tx, scope, run_id))


def find_origin(tx: Transaction, scope: Scope, run_id: str | None) -> MemoryOrigin:
    """Describe the agent that writes. A run knows its turn, also a sub-agent's, whose scope has none."""
    origin = MemoryOrigin(agent_id=scope.agent_id, conversation_id=scope.conversation_id or None, turn_id=scope.turn_id)
    if run_id is None:
        return origin
    run = runs.get_run(tx, scope.tenant_id, run_id)
    return origin._replace(turn_id=run.turn_id, run_id=run.id, goal_id=run.goal_id)


def recall(tx: Transaction, scope: Scope, query: str = "", limit: int = 10) -> list[MemoryEntry]:
    """Return the newest entries that contain every word of the query; without a query, the newest entries."""
    words = parse_words(query)
    matches = [
        entry for entry in list_newest_notes(tx, scope, SEARCH_LIMIT if words else limit) if has_all_words(entry.text, words)
    ]
    return matches[:limit]


def list_newest_notes(tx: Transaction, scope: Scope, limit: int) -> list[MemoryEntry]:
    scopes = {TENANT_WIDE, scope.conversation_id}
    entries = [
        entry for conversation_id in scopes for entry in memory_store.list_newest_notes(tx, scope.tenant_id, conversation_id, limit)
    ]
    return sorted(entries, key=lambda entry: entry.id, reverse=True)[:limit]


# People


class NewMemory(NamedTuple):
    text: str
    kind: str = DEFAULT_KIND
    conversation_id: int = TENANT_WIDE


class MemoryChange(NamedTuple):
    """A change of an entry. None leaves a field as it is.

    With `revision`, the change is refused if the entry was edited since that revision.
    """

    text: str | None = None
    kind: str | None = None
    revision: int | None = None


class MemoryPage(NamedTuple):
    entries: list[MemoryEntry]
    next_cursor: str | None
    searched_all: bool  # False: the search stopped before the oldest entry; it continues at the cursor

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"entries": [entry.as_json() for entry in self.entries]}


def list_notes(
    tx: Transaction, tenant_id: int, selection: MemorySelection, query: str = "", limit: int = 50, cursor: str | None = None
) -> MemoryPage:
    """List entries, newest first; with a query, only entries that contain all its words.

    A search covers SEARCH_LIMIT entries from the cursor on. If there are older ones, the page has a cursor, even without a match.
    """
    (before,) = CURSORS.decode(cursor)
    words = parse_words(query)
    selection = check_selection(tx, tenant_id, selection)
    window_size = SEARCH_LIMIT if words else limit
    rows = memory_store.list_note_page(tx, tenant_id, selection, window_size + 1, before)
    window = rows[:window_size]
    has_older = len(rows) > window_size
    matches = [entry for entry in window if has_all_words(entry.text, words)]
    last = matches[limit - 1] if len(matches) > limit else window[-1] if has_older else None
    return MemoryPage(matches[:limit], CURSORS.encode((last.id,)) if last else None, not (words and has_older))


def check_selection(tx: Transaction, tenant_id: int, selection: MemorySelection) -> MemorySelection:
    if selection.conversation_id:
        finding.get_conversation(tx, tenant_id, selection.conversation_id)
    return selection if selection.kind is None else selection._replace(kind=text.check_name(selection.kind, "kind"))


def get_note(tx: Transaction, tenant_id: int, entry_id: int) -> MemoryEntry:
    return check_found(memory_store.find_note(tx, tenant_id, entry_id), entry_id)


def add_note(tx: Transaction, tenant_id: int, new: NewMemory, person: str) -> MemoryEntry:
    """Store a person's note."""
    if new.conversation_id:
        finding.get_conversation(tx, tenant_id, new.conversation_id)
    return insert_note_row(tx, tenant_id, new.conversation_id, new.text, new.kind, MemoryOrigin(person=person))


def change_note(tx: Transaction, tenant_id: int, entry_id: int, changes: MemoryChange, person: str) -> MemoryEntry:
    """Apply a person's change. If nothing differs, nothing is stored or emitted."""
    old = check_found(memory_store.find_locked_note(tx, tenant_id, entry_id), entry_id)
    if changes.revision is not None and changes.revision != old.revision:
        by = f" by {old.origin.person}" if old.origin.person else ""
        raise Conflict(f"Memory entry #{entry_id} was edited{by} in the meantime. Nothing was changed; read it again first.")
    new = old._replace(
        text=old.text if changes.text is None else check_content(changes.text),
        kind=old.kind if changes.kind is None else text.check_name(changes.kind, "kind"),
    )
    if new == old:
        return old
    new = new._replace(revision=old.revision + 1, updated_at=tx.now, origin=old.origin._replace(person=person))
    if new.text != old.text:
        quotas.check_storage(tx, tenant_id)
    memory_store.save_note(tx, tenant_id, old, new)
    emit_note_changed(tx, tenant_id, new, "updated")
    return new


def remove_note(tx: Transaction, tenant_id: int, entry_id: int) -> MemoryEntry:
    entry = check_found(memory_store.find_locked_note(tx, tenant_id, entry_id), entry_id)
    memory_store.delete_note(tx, tenant_id, entry)
    emit_note_changed(tx, tenant_id, entry, "deleted")
    return entry


# Both


def insert_note_row(
    tx: Transaction, tenant_id: int, conversation_id: int, content: str, kind: str, origin: MemoryOrigin
) -> MemoryEntry:
    draft = MemoryEntry(0, conversation_id, text.check_name(kind, "kind"), check_content(content), 0, tx.now, tx.now, origin)
    quotas.check_storage(tx, tenant_id)
    entry = memory_store.insert_note(tx, tenant_id, draft)
    emit_note_changed(tx, tenant_id, entry, "created")
    return entry


def emit_note_changed(tx: Transaction, tenant_id: int, entry: MemoryEntry, change: RowChange) -> None:
    """Emit an event without the entry's text: events are kept forever, and a person may delete an entry for what it says."""
    data = {"change": change, "id": entry.id, "conversation_id": entry.conversation_id, "revision": entry.revision}
    tx.emit(Event(tenant_id, "memory_changed", encode_json(data), entry.conversation_id))


def check_content(content: str) -> str:
    content = text.check_text(content, "text", ENTRY_LIMIT).strip()
    if not content:
        raise Invalid("text must not be blank.")
    return content


def check_found(entry: MemoryEntry | None, entry_id: int) -> MemoryEntry:
    if entry is None:
        raise NotFound(f"No memory entry #{entry_id}.")
    return entry
