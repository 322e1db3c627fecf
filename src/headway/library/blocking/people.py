"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/people.py."""

from headway.library.namespaces import people
from headway.library.portal import Portal
from headway.values.value import Page
from headway.values.work import Costs, Note


class SyncMemory:
    """The notes that agents recall."""

    def __init__(self, portal: Portal, source: people.Memory) -> None:
        self._portal = portal
        self._source = source

    def add(self, text: str, *, kind: str | None = None, conversation_id: int = 0) -> Note:
        """Add a note. A conversation_id of 0 means that agents in every conversation recall it."""
        return self._portal.run(self._source.add(text, kind=kind, conversation_id=conversation_id))

    def list(
        self,
        query: str = "",
        *,
        kind: str | None = None,
        conversation_id: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Note]:
        """List notes, newest first, or those that contain all words of a query."""
        return self._portal.run(self._source.list(query, kind=kind, conversation_id=conversation_id, limit=limit, cursor=cursor))

    def get(self, note_id: int) -> Note:
        """Return a note, or raise NotFound."""
        return self._portal.run(self._source.get(note_id))

    def update(self, note_id: int, *, text: str | None = None, kind: str | None = None, revision: int | None = None) -> Note:
        """Edit a note. With a revision, Conflict is raised if the note has another one by now."""
        return self._portal.run(self._source.update(note_id, text=text, kind=kind, revision=revision))

    def delete(self, note_id: int) -> None:
        """Delete a note for good."""
        return self._portal.run(self._source.delete(note_id))


class SyncSpending:
    """What agents cost."""

    def __init__(self, portal: Portal, source: people.Spending) -> None:
        self._portal = portal
        self._source = source

    def get(self) -> Costs:
        """Return the costs of the last 24 hours, and the limit."""
        return self._portal.run(self._source.get())

    def set_limit(self, limit_usd: float) -> Costs:
        """Set how much the tenant's agents may spend in 24 hours. Work that waits for money continues if there is room."""
        return self._portal.run(self._source.set_limit(limit_usd))
