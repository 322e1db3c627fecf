"""Webhooks: subscriptions to the event log. Each has a job, with the same id, that delivers to it.

The job sleeps while there is nothing to deliver, and is woken when the log has gone on. Its state is the state of the webhook: one
that waits for a retry, or is dead. A transaction that changes both locks the job first.
"""

import json
import os
from typing import Any, Final, NamedTuple
from uuid import uuid4

from headway.actions.access import audit, quotas
from headway.actions.goals import goals
from headway.actions.installation import halts
from headway.actions.runs import jobs, notices
from headway.actions.runs.notices import NoticeSubject
from headway.actions.todos import finding
from headway.ledger import text
from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.errors import Invalid, NotFound, QuotaExceeded
from headway.ledger.events import Event, encode_json
from headway.ledger.job import Job
from headway.ledger.limits import Limits
from headway.ledger.parsing.addresses import parse_url
from headway.ledger.webhook import (
    JOB_KIND,
    KEY_PREFIX,
    DeliveryAttempt,
    DeliveryProgress,
    NewWebhook,
    Outbox,
    Secrets,
    Webhook,
    WebhookChange,
    check_description,
    check_filter,
)
from headway.outbound import check_receiver
from headway.storage.stores import events as event_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.stores import webhooks as webhook_store
from headway.storage.stores.webhooks import StoredSecret
from headway.storage.transaction import Transaction

MAX_ATTEMPTS: Final = 300  # with the longest delay of 5 minutes, about a day
SECRET_BYTES: Final = 32
MAX_SECRETS: Final = 3
DEFAULT_OVERLAP_S: Final = 86_400
MAX_OVERLAP_S: Final = 30 * 86_400
EVENTS_PER_BATCH: Final = 50
CURSORS: Final = CursorCodec("webhooks", NEWEST)


class WebhookView(NamedTuple):
    """A webhook with the job that delivers to it. `secret` is set when it was just created."""

    webhook: Webhook
    job: Job | None
    secret: str = ""

    def __repr__(self) -> str:
        return f"WebhookView({self.webhook.id})"

    def as_json(self) -> dict[str, Any]:
        return self.webhook.as_json(self.job)


# Requested by people


def create_webhook(tx: Transaction, tenant_id: int, new: NewWebhook, hosts: tuple[str, ...]) -> WebhookView:
    """Subscribe an address to the events from now on. The secret is returned here and never again."""
    quotas.check_storage(tx, tenant_id)
    quota = tx.process.quotas.webhooks
    if tenant_store.count_webhooks(tx, tenant_id) >= quota:
        advice = quotas.ADVICE.format("Delete one that is no longer needed.", "webhooks")
        raise QuotaExceeded(f"This tenant has {quota:,} webhooks, which is its quota. {advice}")
    check_receiver(new.url, hosts)
    check_scope(tx, tenant_id, new.conversation_id, new.goal_id)
    webhook = Webhook(
        id=str(uuid4()),
        tenant_id=tenant_id,
        url=new.url,
        kinds=json.dumps(check_filter(new.kinds)),
        conversation_id=new.conversation_id,
        goal_id=new.goal_id,
        description=check_description(new.description),
        paused=0,
        sent_to=event_store.get_last_seq(tx, tenant_id),
        recent="[]",
        created_at=tx.now,
        updated_at=tx.now,
    )
    secret = generate_secret()
    job = create_job(tx, webhook)
    webhook_store.insert_webhook(tx, webhook, [StoredSecret(secret, 0)])
    record_delivery(tx, webhook, "create", None, describe_webhook(webhook))
    return WebhookView(webhook, job, secret)


def check_scope(tx: Transaction, tenant_id: int, conversation_id: int, goal_id: int) -> None:
    """Raise NotFound if the filter names a conversation or a goal that the tenant does not have."""
    if conversation_id:
        finding.get_conversation(tx, tenant_id, conversation_id)
    if goal_id:
        goals.get_goal(tx, tenant_id, goal_id)


def create_job(tx: Transaction, webhook: Webhook) -> Job:
    """Create the job that delivers. All of a tenant share a family, so that a few slow receivers do not use all its slots."""
    return jobs.create_job(
        tx,
        webhook.tenant_id,
        JOB_KIND,
        {"webhook_id": webhook.id},
        job_id=webhook.id,
        family=f"webhooks:{webhook.tenant_id}",
        max_attempts=MAX_ATTEMPTS,
    )


def get_webhook(tx: Transaction, tenant_id: int, webhook_id: str) -> WebhookView:
    webhook = webhook_store.find_webhook(tx, tenant_id, text.check_text(webhook_id, "webhook_id"))
    if webhook is None:
        raise NotFound(f"No webhook {webhook_id[:80]!r}.")
    return WebhookView(webhook, job_store.find_job(tx, tenant_id, webhook_id))


def get_locked_webhook(tx: Transaction, tenant_id: int, webhook_id: str) -> WebhookView:
    job = job_store.find_locked_job(tx, tenant_id, text.check_text(webhook_id, "webhook_id"))
    webhook = webhook_store.find_locked_webhook(tx, tenant_id, webhook_id)
    if webhook is None:
        raise NotFound(f"No webhook {webhook_id[:80]!r}.")
    return WebhookView(webhook, job)


def list_webhooks(tx: Transaction, tenant_id: int, limit: int, cursor: str | None = None) -> dict[str, Any]:
    """List webhooks, newest first."""
    rows = webhook_store.list_webhook_page(tx, tenant_id, limit + 1, CURSORS.decode(cursor))
    views = [WebhookView(webhook, job_store.find_job(tx, tenant_id, webhook.id)) for webhook in rows[:limit]]
    return {
        "webhooks": [view.as_json() for view in views],
        "next_cursor": CURSORS.encode_next(rows, limit, lambda webhook: (webhook.created_at, webhook.id)),
    }


def list_deliveries(tx: Transaction, tenant_id: int, webhook_id: str) -> list[dict[str, Any]]:
    """List the last attempts, newest first."""
    attempts: list[dict[str, Any]] = json.loads(get_webhook(tx, tenant_id, webhook_id).webhook.recent)
    return attempts[::-1]


def change_webhook(tx: Transaction, tenant_id: int, webhook_id: str, wanted: WebhookChange, hosts: tuple[str, ...]) -> WebhookView:
    """Change a webhook. With `paused` False, deliveries that had failed for good begin again."""
    old, job, _ = get_locked_webhook(tx, tenant_id, webhook_id)
    if wanted.url is not None:
        check_receiver(wanted.url, hosts)
    check_scope(tx, tenant_id, wanted.conversation_id or 0, wanted.goal_id or 0)
    changes: dict[str, Any] = {name: value for name, value in wanted._asdict().items() if value is not None}
    if wanted.kinds is not None:
        changes["kinds"] = json.dumps(check_filter(wanted.kinds))
    if wanted.description is not None:
        changes["description"] = check_description(wanted.description)
    if wanted.paused is not None:
        changes["paused"] = int(wanted.paused)
    webhook = old._replace(**changes, updated_at=tx.now)
    webhook_store.save_webhook(tx, webhook)
    record_delivery(tx, webhook, "change", describe_webhook(old), describe_webhook(webhook))
    if not webhook.paused and (wanted.paused is not None or (job and job.retry_at)):
        job = start_again(tx, webhook, job)
    return WebhookView(webhook, job)


def start_again(tx: Transaction, webhook: Webhook, job: Job | None) -> Job:
    """Let the job deliver now, whatever has become of it."""
    if job is None:
        return create_job(tx, webhook)
    if job.state == "running":
        return job
    if job.over:
        halts.check(tx)
    return jobs.move(tx, job, "queued", attempts=0, errors="[]", result="null")


def remove_webhook(tx: Transaction, tenant_id: int, webhook_id: str) -> None:
    webhook, job, _ = get_locked_webhook(tx, tenant_id, webhook_id)
    if job:
        job_store.delete_job(tx, tenant_id, job.id)
    webhook_store.delete_webhook(tx, tenant_id, webhook_id)
    record_delivery(tx, webhook, "delete", describe_webhook(webhook), None)


def rotate(tx: Transaction, tenant_id: int, webhook_id: str, overlap_s: float = DEFAULT_OVERLAP_S) -> WebhookView:
    """Create a secret that replaces the present one. Until `overlap_s` have passed, messages are signed with both."""
    if not 0 <= overlap_s <= MAX_OVERLAP_S:
        raise Invalid(f"The overlap can be 0 seconds to {MAX_OVERLAP_S // 86400} days.")
    webhook, job, _ = get_locked_webhook(tx, tenant_id, webhook_id)
    ends_at = tx.now + int(overlap_s * 1000)
    former = [
        secret._replace(ends_at=min(secret.ends_at or ends_at, ends_at))
        for secret in webhook_store.load_secrets(tx, tenant_id, webhook_id)
    ]
    secret = generate_secret()
    kept = [StoredSecret(secret, 0), *(one for one in former if one.ends_at > tx.now)][:MAX_SECRETS]
    webhook_store.save_secrets(tx, tenant_id, webhook_id, kept)
    record_delivery(tx, webhook, "rotate", None, {"former_secret_ends_at": ends_at // 1000})
    return WebhookView(webhook, job, secret)


def replay(tx: Transaction, tenant_id: int, webhook_id: str, after: int) -> WebhookView:
    """Deliver the events after a number: again, if they were delivered before. A later number skips events."""
    webhook, job, _ = get_locked_webhook(tx, tenant_id, webhook_id)
    last_seq, pruned, _ = event_store.get_bounds(tx, tenant_id)
    if after > last_seq:
        raise Invalid(f"The last event has the number {last_seq}. Nothing was changed.")
    if 0 < after < pruned:
        raise Invalid(
            f"Events up to number {pruned} were deleted because of their age. Nothing was changed. Use 0 for all that are left."
        )
    moved = webhook._replace(sent_to=after, updated_at=tx.now)
    webhook_store.save_webhook(tx, moved)
    record_delivery(tx, moved, "replay", {"after": webhook.sent_to}, {"after": after})
    if not moved.paused:
        job = start_again(tx, moved, job)
    return WebhookView(moved, job)


def generate_secret() -> str:
    from base64 import b64encode  # noqa: PLC0415  few commands create a secret

    return KEY_PREFIX + b64encode(os.urandom(SECRET_BYTES)).decode()


def describe_webhook(webhook: Webhook) -> dict[str, Any]:
    """Describe a webhook for the audit log. Of the address only the host is shown: the rest may contain a secret."""
    fields = webhook.as_json(None)
    names = ("kinds", "conversation_id", "goal_id", "description", "paused")
    return {"host": parse_url(webhook.url).host, **{name: fields[name] for name in names}}


def record_delivery(tx: Transaction, webhook: Webhook, verb: str, old: Any, new: Any) -> None:
    """Record a change in the audit log, and let pages know."""
    audit.record_in_audit(tx, webhook.tenant_id, f"webhook.{verb}", f"webhook:{webhook.id}", old, new)
    data = {"change": verb, "webhook_id": webhook.id, "paused": bool(webhook.paused)}
    tx.emit(Event(webhook.tenant_id, "webhook_changed", encode_json(data), subject=f"job:{webhook.id}"))


# Delivery


def read_outbox(tx: Transaction, tenant_id: int, webhook_id: str) -> Outbox | None:
    """Read the next events for a webhook. Returns None if it is paused or no longer exists."""
    webhook = webhook_store.find_webhook(tx, tenant_id, webhook_id)
    if webhook is None or webhook.paused:
        return None
    events = webhook_store.list_events(tx, webhook, EVENTS_PER_BATCH)
    pruned = event_store.get_bounds(tx, tenant_id).pruned
    has_gap = webhook.sent_to < pruned and (not events or events[0].seq > webhook.sent_to + 1)
    end, is_last = events[-1].seq if events else webhook.sent_to, len(events) < EVENTS_PER_BATCH
    if is_last:  # numbers at the end of the log may belong to events that were deleted
        end = max(end, event_store.get_last_seqs(tx, [tenant_id]).get(tenant_id, 0))
    return Outbox(webhook, load_secrets(tx, webhook), events, end, is_last, pruned if has_gap else 0)


def load_secrets(tx: Transaction, webhook: Webhook) -> Secrets:
    return Secrets(tuple(secret.value for secret in webhook_store.load_secrets(tx, webhook.tenant_id, webhook.id)))


def rest(tx: Transaction, job: Job, owner: str) -> None:
    """Let the job of a paused webhook sleep."""
    owned_job = jobs.find_owned(tx, job.tenant_id, job.id, owner)
    if owned_job:
        jobs.delay(tx, owned_job._replace(attempts=0, errors="[]"))


def record_progress(tx: Transaction, outbox: Outbox, progress: DeliveryProgress, owner: str, limits: Limits) -> bool:
    """Store what was delivered. Returns whether this process continues: it still owns the job, and there is more to do.

    The webhook may have been changed meanwhile. If its position was changed, the job continues from there.
    """
    tenant_id, webhook_id = outbox.webhook.tenant_id, outbox.webhook.id
    job = jobs.find_owned(tx, tenant_id, webhook_id, owner)
    webhook = webhook_store.find_locked_webhook(tx, tenant_id, webhook_id) if job else None
    if job is None or webhook is None:
        return False
    recent = webhook.add_attempts(progress.attempts)
    is_in_place = webhook.sent_to == outbox.webhook.sent_to
    webhook_store.save_webhook(tx, webhook._replace(sent_to=progress.sent_to if is_in_place else webhook.sent_to, recent=recent))
    if progress.has_delivered:
        job = jobs.clear_failures(tx, job)
    if progress.failure and is_in_place:
        record_failure(tx, webhook, job, progress.failure, limits)
    elif is_in_place and outbox.is_last and progress.sent_to == outbox.end:
        jobs.delay(tx, job)
    elif progress.has_time:
        return True
    else:
        jobs.requeue(tx, job)
    return False


def record_failure(tx: Transaction, webhook: Webhook, job: Job, failure: DeliveryAttempt, limits: Limits) -> None:
    """Retry later, or give up and tell the operator."""
    if failure.is_gone:
        job = jobs.fail_permanently(tx, job, failure.error)
    else:
        job = jobs.retry_later(tx, job, failure.error, limits, failure.retry_after_s)
    if job.state == "dead":
        notify_failure(tx, webhook, failure.error)


def notify_failure(tx: Transaction, webhook: Webhook, error: str) -> None:
    words = (
        f"Headway has stopped delivering events to {parse_url(webhook.url).host}: {error} Resume the webhook when that is fixed."
    )
    notices.notify(tx, webhook.tenant_id, "webhook_failed", words, NoticeSubject(page="/operations/webhooks"))


def fail(tx: Transaction, job: Job, error: str) -> None:
    """Give up after an internal error."""
    jobs.fail_permanently(tx, job, error)
    webhook = webhook_store.find_webhook(tx, job.tenant_id, job.id)
    if webhook:
        notify_failure(tx, webhook, error)


def record_test(tx: Transaction, tenant_id: int, webhook_id: str, attempt: DeliveryAttempt) -> None:
    """Add a test to the list of attempts, if the webhook still exists."""
    webhook = webhook_store.find_locked_webhook(tx, tenant_id, webhook_id)
    if webhook:
        webhook_store.save_webhook(tx, webhook._replace(recent=webhook.add_attempts([attempt])))


def wake_webhook(tx: Transaction, idle: list[tuple[int, str]]) -> None:
    """Queue the jobs of webhooks that have something to deliver."""
    for tenant_id, webhook_id in idle:
        jobs.wake_job(tx, tenant_id, webhook_id)
