"""What agents wait for: approvals and questions. And what they know and spend: notes and costs."""

from collections.abc import Mapping
from typing import Any

from headway.ledger.permission import ApprovalState, QuestionState
from headway.library.door import Door, drop_none
from headway.values.value import Page, decode, decode_page
from headway.values.work import Approval, Costs, Note, Question


class Approvals:
    """Lists and decides tool calls that need a person's approval."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def list(self, *, state: ApprovalState | None = "proposed", limit: int = 50, cursor: str | None = None) -> Page[Approval]:
        """List approvals, newest first: those that wait for a decision, or those in another state (None: all)."""
        query = drop_none(state=state, limit=limit, cursor=cursor)
        return decode_page(Approval, await self._door.send("GET /approvals", query=query), "approvals")

    async def get(self, approval_id: int) -> Approval:
        """Return an approval, or raise NotFound."""
        return decode(Approval, (await self._door.send("GET /approvals/{}", approval_id))["approval"])

    async def approve(
        self, approval_id: int, *, arguments: Mapping[str, Any] | None = None, reason: str = "", always: bool = False
    ) -> Approval:
        """Approve a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        body = drop_none(decision="approve", arguments=arguments, reason=reason, always=always)
        return decode(Approval, (await self._door.send("POST /approvals/{}", approval_id, body=body))["approval"])

    async def reject(self, approval_id: int, reason: str = "") -> Approval:
        """Reject a proposed call. The agent reads the reason."""
        body = {"decision": "reject", "reason": reason}
        return decode(Approval, (await self._door.send("POST /approvals/{}", approval_id, body=body))["approval"])


class Questions:
    """Lists and answers questions of agents to people."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def list(self, *, state: QuestionState | None = "open", limit: int = 50, cursor: str | None = None) -> Page[Question]:
        """List questions, newest first: those that wait for an answer, or those in another state (None: all)."""
        query = drop_none(state=state, limit=limit, cursor=cursor)
        return decode_page(Question, await self._door.send("GET /questions", query=query), "questions")

    async def get(self, question_id: int) -> Question:
        """Return a question, or raise NotFound."""
        return decode(Question, (await self._door.send("GET /questions/{}", question_id))["question"])

    async def answer(self, question_id: int, answer: str) -> Question:
        """Answer a question, with one of its choices if it has any."""
        sent = await self._door.send("POST /questions/{}", question_id, body={"answer": answer})
        return decode(Question, sent["question"])


class Memory:
    """The notes that agents recall."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def add(self, text: str, *, kind: str | None = None, conversation_id: int = 0) -> Note:
        """Add a note. A conversation_id of 0 means that agents in every conversation recall it."""
        body = drop_none(text=text, kind=kind, conversation_id=conversation_id)
        return decode(Note, (await self._door.send("POST /memory", body=body))["entry"])

    async def list(
        self,
        query: str = "",
        *,
        kind: str | None = None,
        conversation_id: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Note]:
        """List notes, newest first, or those that contain all words of a query."""
        parameters = drop_none(q=query or None, kind=kind, conversation_id=conversation_id, limit=limit, cursor=cursor)
        return decode_page(Note, await self._door.send("GET /memory", query=parameters), "entries")

    async def get(self, note_id: int) -> Note:
        """Return a note, or raise NotFound."""
        return decode(Note, (await self._door.send("GET /memory/{}", note_id))["entry"])

    async def update(self, note_id: int, *, text: str | None = None, kind: str | None = None, revision: int | None = None) -> Note:
        """Edit a note. With a revision, Conflict is raised if the note has another one by now."""
        body = drop_none(text=text, kind=kind, revision=revision)
        return decode(Note, (await self._door.send("PATCH /memory/{}", note_id, body=body))["entry"])

    async def delete(self, note_id: int) -> None:
        """Delete a note for good."""
        await self._door.send("DELETE /memory/{}", note_id)


class Spending:
    """What agents cost."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def get(self) -> Costs:
        """Return the costs of the last 24 hours, and the limit."""
        return decode(Costs, (await self._door.send("GET /costs"))["costs"])

    async def set_limit(self, limit_usd: float) -> Costs:
        """Set how much the tenant's agents may spend in 24 hours. Work that waits for money continues if there is room."""
        return decode(Costs, (await self._door.send("PUT /costs", body={"limit_usd": limit_usd}))["costs"])
