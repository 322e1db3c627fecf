"""Notices to the operator: stored, emitted as events and delivered to the configured channels by a job."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headway.actions.runs import jobs
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Invalid
from headway.ledger.events import Event, encode_json
from headway.ledger.goal import Goal
from headway.ledger.run import Run
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import notices as notice_store
from headway.storage.transaction import Transaction

JOB_KIND = "notice"  # the kind of the delivering job
REPEAT_AFTER_MS = 3600 * 1000
CURSORS: Final = CursorCodec("notices", (MAX_INTEGER,))  # the id
BUDGET_KIND: Final = "budget"  # a goal or turn waits for money
PAUSE_KINDS: Final = ("proposal", "decision", "fault", BUDGET_KIND)  # a paused goal waits for the operator


class NoticeSubject(NamedTuple):
    """The conversation, turn or goal that a notice is about."""

    conversation_id: int = 0
    turn_id: str | None = None
    goal_id: int | None = None
    page: str = ""  # the path of a page where the operator can respond

    @property
    def url(self) -> str:
        """Return the URL where the operator can respond."""
        if self.page:
            return self.page
        if self.goal_id is not None:
            return f"/goals/{self.goal_id}"
        return f"/c/{self.conversation_id}" if self.conversation_id else ""


NO_SUBJECT: Final = NoticeSubject()


def notify(tx: Transaction, tenant_id: int, kind: str, text: str, subject: NoticeSubject = NO_SUBJECT) -> None:
    """Notify the operator with a short text: what happened and what is needed."""
    notice_id = notice_store.insert_notice(tx, tenant_id, kind, text, subject.turn_id, subject.goal_id, subject.url)
    data = {"id": notice_id, "kind": kind, "text": text, "turn_id": subject.turn_id, "goal_id": subject.goal_id, "url": subject.url}
    tx.emit(Event(tenant_id, "operator_notice", encode_json(data), subject.conversation_id, subject.turn_id))
    jobs.create_job(tx, tenant_id, JOB_KIND, data)


def notify_once(tx: Transaction, run: Run, kind: str, text: str) -> None:
    """Notify the operator. The same notice about the run's turn or goal of the last hour is opened again instead."""
    if not notice_store.reopen_since(tx, run.tenant_id, kind, run.turn_id, run.goal_id, tx.now - REPEAT_AFTER_MS):
        notify(tx, run.tenant_id, kind, text, NoticeSubject(run.conversation_id, run.turn_id, run.goal_id))


def notify_about_goal(tx: Transaction, goal: Goal, kind: str, text: str) -> None:
    notify(tx, goal.tenant_id, kind, text, NoticeSubject(goal_id=goal.id))


def settle_requests(tx: Transaction, tenant_id: int, pages: Sequence[str]) -> None:
    """Mark the notices about approvals or questions, named by their pages, as done: no response is needed any more."""
    notice_store.settle_pages(tx, tenant_id, pages)


def settle_goal(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    """Mark the notices that ask to decide about a goal, or say that it waits for money, as done: it is no longer paused."""
    notice_store.settle_goal(tx, tenant_id, goal_id, PAUSE_KINDS)


def settle_turn(tx: Transaction, tenant_id: int, turn_id: str) -> None:
    """Mark the notice that a turn waits for money as done, because it is no longer paused."""
    notice_store.settle_turn(tx, tenant_id, turn_id, BUDGET_KIND)


def mark(tx: Transaction, tenant_id: int, notice_ids: Sequence[int] | None, up_to: int | None, *, is_done: bool) -> int:
    """Mark notices as done or open again: the given ids, or all up to one as done. Return how many were changed."""
    if (notice_ids is None) == (up_to is None):
        raise Invalid("Give either ids or up_to.")
    if up_to is None:
        return notice_store.mark(tx, tenant_id, notice_ids or (), is_done=is_done)
    if not is_done:
        raise Invalid("up_to marks notices as done. To open some again, name their ids.")
    return notice_store.mark_all_done(tx, tenant_id, up_to)


def list_page(
    tx: Transaction, tenant_id: int, limit: int, cursor: str | None = None, *, is_done: bool | None = None
) -> dict[str, Any]:
    """List notices, newest first: all, only done ones, or only open ones."""
    (before,) = CURSORS.decode(cursor)
    rows = notice_store.list_notice_page(tx, tenant_id, limit + 1, before, is_done=is_done)
    return {
        "notices": [
            {
                **notice._asdict(),
                "created_at": notice.created_at // 1000,
                "done_at": notice.done_at // 1000,
            }
            for notice in rows[:limit]
        ],
        "next_cursor": CURSORS.encode_next(rows, limit, lambda notice: (notice.id,)),
    }
