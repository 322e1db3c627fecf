"""Requests that wait for people: to approve a call, to answer a question, or to decide about a goal."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from headway.ledger.goal import Decision
from headway.ledger.inbox import ApprovalState, QuestionState, RequestKind, RequestState
from headway.library.transport import RequestTransport, drop_none
from headway.values.inbox import Approval, PersonRequest, Question
from headway.values.value import Page, decode, decode_page

REQUEST_EVENTS = {"approval_requested": "approval", "question_asked": "question", "decision_requested": "decision"}
FOLLOWED_PAGE = 100


class Inbox:
    """Lists, follows and answers requests: calls that need approval, questions, and paused goals that need a decision."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        kind: RequestKind | None = None,
        state: Literal[RequestState, "all"] = "open",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[PersonRequest]:
        """List requests, newest first: open ones, which wait for a person, or ones in another state. `kind` is approval, question
        or decision."""
        query = drop_none(kind=kind, state=state, limit=limit, cursor=cursor)
        return decode_page(PersonRequest, await self._transport.send("GET /inbox", query=query), "requests")

    async def get(self, request_id: int) -> PersonRequest:
        """Return a request, or raise NotFound."""
        return decode(PersonRequest, (await self._transport.send("GET /inbox/{}", request_id))["request"])

    async def follow(self) -> AsyncIterator[PersonRequest]:
        """Iterate over what waits for a person, until you leave the loop: first the requests that wait already, oldest first, and
        then each one that comes. Requests that were decided elsewhere before the loop asks for them are left out."""
        known: set[int] = set()
        is_loaded = False
        events = self._transport.follow(None, None)
        try:
            async for event in events:
                # The first event says that the stream is open, so nothing is missed from now on.
                waiting, is_loaded = () if is_loaded else await self._list_open(), True
                data: Mapping[str, Any] = event.data
                coming = (data[REQUEST_EVENTS[event.kind]]["id"],) if event.kind in REQUEST_EVENTS else ()
                for request_id in (*waiting, *coming):
                    request = None if request_id in known else await self.get(request_id)
                    known.add(request_id)
                    if request is not None and request.state == "open":
                        yield request
        finally:
            await events.aclose()

    async def _list_open(self) -> Sequence[int]:
        """Return the ids of the open requests, oldest first."""
        ids: tuple[int, ...] = ()
        cursor: str | None = None
        while True:
            page = await self.list(limit=FOLLOWED_PAGE, cursor=cursor)
            ids += tuple(request.id for request in page)
            cursor = page.next_cursor
            if cursor is None:
                return ids[::-1]

    async def approve(
        self, request_id: int, *, arguments: Mapping[str, Any] | None = None, reason: str = "", always: bool = False
    ) -> PersonRequest:
        """Approve a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        body = drop_none(decision="approve", arguments=arguments, reason=reason, always=always)
        return await self._respond(request_id, body)

    async def reject(self, request_id: int, reason: str = "") -> PersonRequest:
        """Reject a proposed call. The agent reads the reason."""
        return await self._respond(request_id, {"decision": "reject", "reason": reason})

    async def answer(self, request_id: int, answer: str) -> PersonRequest:
        """Answer a question, with one of its choices if it has any."""
        return await self._respond(request_id, {"answer": answer})

    async def decide(self, request_id: int, action: Decision, note: str = "") -> PersonRequest:
        """Decide about a paused goal: continue it, replan it with a note for the new plan, or abandon it."""
        return await self._respond(request_id, {"action": action, "note": note})

    async def _respond(self, request_id: int, body: dict[str, Any]) -> PersonRequest:
        return decode(PersonRequest, (await self._transport.send("POST /inbox/{}", request_id, body=body))["request"])


class Approvals:
    """The approvals of the inbox alone."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def list(self, *, state: ApprovalState | None = "proposed", limit: int = 50, cursor: str | None = None) -> Page[Approval]:
        """List approvals, newest first: the ones that wait for a decision, the ones in another state, or all for None."""
        query = drop_none(state=state, limit=limit, cursor=cursor)
        return decode_page(Approval, await self._transport.send("GET /approvals", query=query), "approvals")

    async def get(self, approval_id: int) -> Approval:
        """Return an approval, or raise NotFound."""
        return decode(Approval, (await self._transport.send("GET /approvals/{}", approval_id))["approval"])

    async def approve(
        self, approval_id: int, *, arguments: Mapping[str, Any] | None = None, reason: str = "", always: bool = False
    ) -> Approval:
        """Approve a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        body = drop_none(decision="approve", arguments=arguments, reason=reason, always=always)
        return decode(Approval, (await self._transport.send("POST /approvals/{}", approval_id, body=body))["approval"])

    async def reject(self, approval_id: int, reason: str = "") -> Approval:
        """Reject a proposed call. The agent reads the reason."""
        body = {"decision": "reject", "reason": reason}
        return decode(Approval, (await self._transport.send("POST /approvals/{}", approval_id, body=body))["approval"])


class Questions:
    """The questions of the inbox alone."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def list(self, *, state: QuestionState | None = "open", limit: int = 50, cursor: str | None = None) -> Page[Question]:
        """List questions, newest first: the ones that wait for an answer, the ones in another state, or all for None."""
        query = drop_none(state=state, limit=limit, cursor=cursor)
        return decode_page(Question, await self._transport.send("GET /questions", query=query), "questions")

    async def get(self, question_id: int) -> Question:
        """Return a question, or raise NotFound."""
        return decode(Question, (await self._transport.send("GET /questions/{}", question_id))["question"])

    async def answer(self, question_id: int, answer: str) -> Question:
        """Answer a question, with one of its choices if it has any."""
        sent = await self._transport.send("POST /questions/{}", question_id, body={"answer": answer})
        return decode(Question, sent["question"])
