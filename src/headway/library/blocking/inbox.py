"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/inbox.py."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from headway.ledger.inbox import ApprovalState, QuestionState, RequestKind, RequestState
from headway.library.namespaces import inbox
from headway.library.portal import Portal
from headway.values.inbox import Approval, PersonRequest, Question
from headway.values.value import Page

REQUEST_EVENTS = {"approval_requested": "approval", "question_asked": "question"}

FOLLOWED_PAGE = 100


class SyncInbox:
    """Lists, follows and answers the requests of agents: calls that need approval, and questions."""

    def __init__(self, portal: Portal, source: inbox.Inbox) -> None:
        self._portal = portal
        self._source = source

    def list(
        self,
        *,
        kind: RequestKind | None = None,
        state: Literal[RequestState, "all"] = "open",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[PersonRequest]:
        """List requests, newest first: those that wait for a person, or those in another state. `kind` is approval or question."""
        return self._portal.run(self._source.list(kind=kind, state=state, limit=limit, cursor=cursor))

    def get(self, request_id: int) -> PersonRequest:
        """Return a request, or raise NotFound."""
        return self._portal.run(self._source.get(request_id))

    def follow(self) -> Iterator[PersonRequest]:
        """Iterate over what waits for a person, until you leave the loop: first the requests that wait already, oldest first, and
        then each one that comes. Requests that were decided elsewhere before the loop asks for them are left out."""
        return self._portal.iterate(self._source.follow())

    def approve(
        self, request_id: int, *, arguments: Mapping[str, Any] | None = None, reason: str = "", always: bool = False
    ) -> PersonRequest:
        """Approve a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        return self._portal.run(self._source.approve(request_id, arguments=arguments, reason=reason, always=always))

    def reject(self, request_id: int, reason: str = "") -> PersonRequest:
        """Reject a proposed call. The agent reads the reason."""
        return self._portal.run(self._source.reject(request_id, reason))

    def answer(self, request_id: int, answer: str) -> PersonRequest:
        """Answer a question, with one of its choices if it has any."""
        return self._portal.run(self._source.answer(request_id, answer))


class SyncApprovals:
    """The approvals of the inbox, under their older name."""

    def __init__(self, portal: Portal, source: inbox.Approvals) -> None:
        self._portal = portal
        self._source = source

    def list(self, *, state: ApprovalState | None = "proposed", limit: int = 50, cursor: str | None = None) -> Page[Approval]:
        """List approvals, newest first: those that wait for a decision, or those in another state (None: all)."""
        return self._portal.run(self._source.list(state=state, limit=limit, cursor=cursor))

    def get(self, approval_id: int) -> Approval:
        """Return an approval, or raise NotFound."""
        return self._portal.run(self._source.get(approval_id))

    def approve(
        self, approval_id: int, *, arguments: Mapping[str, Any] | None = None, reason: str = "", always: bool = False
    ) -> Approval:
        """Approve a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        return self._portal.run(self._source.approve(approval_id, arguments=arguments, reason=reason, always=always))

    def reject(self, approval_id: int, reason: str = "") -> Approval:
        """Reject a proposed call. The agent reads the reason."""
        return self._portal.run(self._source.reject(approval_id, reason))


class SyncQuestions:
    """The questions of the inbox, under their older name."""

    def __init__(self, portal: Portal, source: inbox.Questions) -> None:
        self._portal = portal
        self._source = source

    def list(self, *, state: QuestionState | None = "open", limit: int = 50, cursor: str | None = None) -> Page[Question]:
        """List questions, newest first: those that wait for an answer, or those in another state (None: all)."""
        return self._portal.run(self._source.list(state=state, limit=limit, cursor=cursor))

    def get(self, question_id: int) -> Question:
        """Return a question, or raise NotFound."""
        return self._portal.run(self._source.get(question_id))

    def answer(self, question_id: int, answer: str) -> Question:
        """Answer a question, with one of its choices if it has any."""
        return self._portal.run(self._source.answer(question_id, answer))
