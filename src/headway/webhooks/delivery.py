"""The job that delivers events to one webhook, in order, each at least once.

It reads the log in batches, sends event by event, and stores how far it has come. After a crash it begins where that was stored.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from headway.actions.engine import webhooks
from headway.engine.runner import JobHandler
from headway.ledger.job import Job
from headway.ledger.limits import Limits
from headway.ledger.webhook import JOB_KIND, DeliveryAttempt, DeliveryProgress, Outbox
from headway.storage.database import DatabaseAccess
from headway.storage.retry import PatientView
from headway.storage.transaction import Transaction
from headway.webhooks.sender import Sender, WebhookMessage, build_message, build_pruned_message, build_test_message

STORE_AFTER_S: Final = 1.0  # for how long messages are sent before what was delivered is stored
SLICE_S: Final = 10.0  # for how long a job delivers before other webhooks of the tenant get their turn


class Deliverer(NamedTuple):
    """Resources that the deliveries of a process share."""

    database: DatabaseAccess
    sender: Sender
    owner: str  # this process's name among the job owners
    limits: Limits

    def build_handlers(self) -> dict[str, JobHandler]:
        return {JOB_KIND: JobHandler(self.deliver, webhooks.fail)}

    async def deliver(self, job: Job) -> None:
        """Deliver until the end of the log, a failure, or the end of the time slice."""
        database, slice_ends_at = PatientView(self.database.of(job.tenant_id)), time.monotonic() + SLICE_S
        goes_on = True
        while goes_on:
            outbox = await database.read(partial(webhooks.read_outbox, tenant_id=job.tenant_id, webhook_id=job.id))
            if outbox is None:
                await database.write(partial(webhooks.rest, job=job, owner=self.owner))
                return
            progress = await self.send_events(outbox, slice_ends_at)
            goes_on = await database.write(
                partial(webhooks.record_progress, outbox=outbox, progress=progress, owner=self.owner, limits=self.limits)
            )

    async def send_events(self, outbox: Outbox, slice_ends_at: float) -> DeliveryProgress:
        """Send the events of an outbox one after the other, up to a failure or until what was delivered is to be stored."""
        webhook, attempts, sent_to = outbox.webhook, list[DeliveryAttempt](), outbox.webhook.sent_to
        store_at = time.monotonic() + STORE_AFTER_S
        for message, position in list_messages(outbox):
            if message is not None:
                attempts.append(await self.sender.send(webhook.url, message, outbox.secrets))
                if attempts[-1].error:
                    break
            sent_to = position
            if time.monotonic() >= store_at:
                break
        return DeliveryProgress(sent_to, attempts, has_time=time.monotonic() < slice_ends_at)


def list_messages(outbox: Outbox) -> Iterator[tuple[WebhookMessage | None, int]]:
    """Yield each message with the position of the webhook once it is delivered. None: the filter leaves an event out."""
    webhook = outbox.webhook
    if outbox.pruned:
        yield build_pruned_message(webhook, outbox.pruned, int(time.time() * 1000)), webhook.sent_to
    for event in outbox.events:
        yield None if event.data is None else build_message(webhook, event), event.seq
    yield None, outbox.end


def prepare_test(tx: Transaction, tenant_id: int, webhook_id: str) -> Outbox:
    """Return what a test message needs. A paused webhook can be tested as well."""
    webhook = webhooks.get_webhook(tx, tenant_id, webhook_id).webhook
    return Outbox(webhook, webhooks.load_secrets(tx, webhook), [], webhook.sent_to, is_last=True)


async def send_test(sender: Sender, outbox: Outbox) -> DeliveryAttempt:
    """Send a test message once."""
    return await sender.send(outbox.webhook.url, build_test_message(outbox.webhook, int(time.time() * 1000)), outbox.secrets)
