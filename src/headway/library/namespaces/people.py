"""The notes and the costs of agents."""

from headway.library.transport import RequestTransport, drop_none
from headway.values.value import Page, decode, decode_page
from headway.values.work import Costs, Note


class Memory:
    """The notes that agents recall."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def add(self, text: str, *, kind: str | None = None, conversation_id: int = 0) -> Note:
        """Add a note. A conversation_id of 0 means that agents in every conversation recall it."""
        body = drop_none(text=text, kind=kind, conversation_id=conversation_id)
        return decode(Note, (await self._transport.send("POST /memory", body=body))["entry"])

    async def list(
        self,
        query: str = "",
        *,
        kind: str | None = None,
        conversation_id: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Note]:
        """List notes, newest first, or only notes that contain all words of a query."""
        parameters = drop_none(q=query or None, kind=kind, conversation_id=conversation_id, limit=limit, cursor=cursor)
        return decode_page(Note, await self._transport.send("GET /memory", query=parameters), "entries")

    async def get(self, note_id: int) -> Note:
        """Return a note, or raise NotFound."""
        return decode(Note, (await self._transport.send("GET /memory/{}", note_id))["entry"])

    async def update(self, note_id: int, *, text: str | None = None, kind: str | None = None, revision: int | None = None) -> Note:
        """Edit a note. With a revision, Conflict is raised if the note has another one by now."""
        body = drop_none(text=text, kind=kind, revision=revision)
        return decode(Note, (await self._transport.send("PATCH /memory/{}", note_id, body=body))["entry"])

    async def delete(self, note_id: int) -> None:
        """Delete a note for good."""
        await self._transport.send("DELETE /memory/{}", note_id)


class Spending:
    """The costs of agents."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def get(self) -> Costs:
        """Return the costs of the last 24 hours, and the limit."""
        return decode(Costs, (await self._transport.send("GET /costs"))["costs"])

    async def set_limit(self, limit_usd: float) -> Costs:
        """Set how much the tenant's agents may spend in 24 hours. Work that waits for money continues if there is room."""
        return decode(Costs, (await self._transport.send("PUT /costs", body={"limit_usd": limit_usd}))["costs"])
