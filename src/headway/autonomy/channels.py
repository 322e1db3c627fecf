"""Deliver notices to the operator through the configured channels. An unreachable channel never stops an agent."""

import asyncio
import json
import logging
from functools import partial

from headway.actions import jobs
from headway.agents.loop.context import Runtime
from headway.ledger.job import Job
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.operator")

UNREACHED_MESSAGE = "{} of {} channels could not be reached."


async def deliver(means: Runtime, channels: tuple[str, ...], home: str, job: Job) -> None:
    """Deliver a notice to every channel that has not received it. Failed channels are retried later, as with any job."""
    notice = json.loads(job.payload)
    if not channels:
        log.warning("operator notice: %s %s", to_one_line(notice["text"]), notice["url"])
        await means.database.write(partial(record_delivery, means=means, job=job, left=[], total=0))
        return
    link = f"{home}{notice['url']}" if notice["url"] else ""
    left = json.loads(job.result) or list(range(len(channels)))
    reached = await asyncio.gather(
        *(asyncio.to_thread(send, channels[place], notice["kind"], notice["text"], link) for place in left if place < len(channels))
    )
    missed = [place for place, ok in zip(left, reached, strict=False) if not ok]
    await means.database.write(partial(record_delivery, means=means, job=job, left=missed, total=len(channels)))


def send(url: str, kind: str, text: str, link: str) -> bool:
    import apprise  # noqa: PLC0415  slow to import, and most installations have no channels

    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs channel URLs, which contain secrets
    channel = apprise.Apprise()
    if not channel.add(url):
        return False
    body = f"{text}\n{link}" if link else text
    return bool(channel.notify(body=body, title=f"Headway: {kind.replace('_', ' ')}"))


def record_delivery(tx: Transaction, means: Runtime, job: Job, left: list[int], total: int) -> None:
    held = jobs.find_owned(tx, job.tenant_id, job.id, means.owner)
    if held is None:
        return
    if left:
        jobs.retry_later(tx, held._replace(result=json.dumps(left)), UNREACHED_MESSAGE.format(len(left), total), means.limits)
    else:
        jobs.complete(tx, held)
