"""Webhooks: subscriptions to the event log, and their messages."""

import json
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.errors import Invalid
from headway.ledger.events import EVENT_KINDS, check_kinds
from headway.ledger.job import Job
from headway.ledger.text import check_text

WebhookState = Literal["active", "retrying", "paused", "failed"]

JOB_KIND: Final = "webhook"
KEY_PREFIX: Final = "whsec_"  # of signing secrets
KINDS_LIMIT: Final = 50  # event kinds in a filter
DESCRIPTION_LIMIT: Final = 1_000
MAX_RECENT: Final = 30  # attempts that are kept


class DeliveryAttempt(NamedTuple):
    """One request to a receiver."""

    message_id: str
    seq: int  # of the event; 0: a test
    kind: str
    at: int
    ms: int  # how long it took
    status: int  # of the answer; 0: none
    error: str  # empty: it was accepted
    retry_after_s: float | None = None  # what the receiver asked for

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants nothing more."""
        return self.status == 410

    def as_json(self) -> dict[str, Any]:
        return {
            "message_id": self.message_id,
            "seq": self.seq or None,
            "type": self.kind,
            "at": self.at // 1000,
            "ms": self.ms,
            "status": self.status or None,
            "error": self.error or None,
        }


class Webhook(NamedTuple):
    id: str  # also of the job that delivers
    tenant_id: int
    url: str
    kinds: str  # JSON: the event kinds that are sent; empty: all
    conversation_id: int  # 0: of all conversations
    goal_id: int  # 0: of all goals
    description: str
    paused: int
    sent_to: int  # the number of the last event that was delivered or did not match
    recent: str  # JSON: the last attempts, oldest first
    created_at: int
    updated_at: int

    @property
    def kind_list(self) -> list[str]:
        kinds: list[str] = json.loads(self.kinds)
        return kinds

    def find_state(self, job: Job | None) -> WebhookState:
        """Return the state. `job` delivers; without one, it was dropped after it had failed."""
        if self.paused:
            return "paused"
        if job is None or job.over:
            return "failed"
        return "retrying" if job.attempts else "active"

    def add_attempts(self, attempts: list[DeliveryAttempt]) -> str:
        """Return the last attempts with new ones, as JSON."""
        recent = [*json.loads(self.recent), *(attempt.as_json() for attempt in attempts)]
        return json.dumps(recent[-MAX_RECENT:], ensure_ascii=False)

    def as_json(self, job: Job | None) -> dict[str, Any]:
        errors = json.loads(job.errors) if job else []
        return {
            "id": self.id,
            "url": self.url,
            "kinds": self.kind_list,
            "conversation_id": self.conversation_id or None,
            "goal_id": self.goal_id or None,
            "description": self.description,
            "state": self.find_state(job),
            "paused": bool(self.paused),
            "after": self.sent_to,
            "error": errors[-1] if errors else None,
            "failures": job.attempts if job else 0,
            "retry_at": job.retry_at if job else 0,
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
        }


class NewWebhook(NamedTuple):
    url: str
    kinds: tuple[str, ...] = ()
    conversation_id: int = 0
    goal_id: int = 0
    description: str = ""


class WebhookChange(NamedTuple):
    """A partial update of a webhook. None leaves a field as it is."""

    url: str | None = None
    kinds: tuple[str, ...] | None = None
    conversation_id: int | None = None  # 0: of all conversations
    goal_id: int | None = None
    description: str | None = None
    paused: bool | None = None


class Secrets(NamedTuple):
    """Signing secrets, the newest first. They do not show when the value is printed."""

    values: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)})"


class OutgoingEvent(NamedTuple):
    """An event of the log. `data` is None if the webhook's filter does not match."""

    seq: int
    conversation_id: int
    turn_id: str | None
    kind: str
    data: str | None
    at: int


class Outbox(NamedTuple):
    """The next events for a webhook, as one transaction has read them."""

    webhook: Webhook
    secrets: Secrets
    events: list[OutgoingEvent]
    end: int  # the position of the webhook once all of these are delivered
    is_last: bool  # whether nothing followed in the log
    pruned: int = 0  # events up to this number were deleted before they were delivered; 0: none


class DeliveryProgress(NamedTuple):
    """The progress of the delivery of an outbox."""

    sent_to: int
    attempts: list[DeliveryAttempt]
    has_time: bool  # whether the job may go on; otherwise other webhooks get their turn

    @property
    def failure(self) -> DeliveryAttempt | None:
        """Return the attempt that failed, which is the last one."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].error else None

    @property
    def has_delivered(self) -> bool:
        return bool(self.attempts) and not self.attempts[0].error


def check_filter(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if len(kinds) > KINDS_LIMIT:
        raise Invalid(f"A filter can name at most {KINDS_LIMIT} event kinds.")
    check_kinds(kinds, EVENT_KINDS)
    return tuple(dict.fromkeys(kinds))


def check_description(description: str) -> str:
    return check_text(description, "description", DESCRIPTION_LIMIT)
