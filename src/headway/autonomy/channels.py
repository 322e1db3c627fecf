"""Bringing notices to the operator, through whatever channels there are. An unreachable one never stops an agent."""

import asyncio
import json
import logging
from functools import partial

from headway.actions import jobs
from headway.agents.work import Means
from headway.ledger.job import Job
from headway.ledger.text import one_line
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.operator")

UNREACHED = "{} of {} channels could not be reached."


async def deliver(means: Means, channels: tuple[str, ...], home: str, job: Job) -> None:
    """To every channel that has not had it. One that fails is tried again later, like anything else."""
    notice = json.loads(job.payload)
    if not channels:
        log.warning("for the operator: %s %s", one_line(notice["text"]), notice["url"])
        await means.database.write(partial(settle, means=means, job=job, left=[], total=0))
        return
    link = f"{home}{notice['url']}" if notice["url"] else ""
    left = json.loads(job.result) or list(range(len(channels)))
    reached = await asyncio.gather(
        *(asyncio.to_thread(send, channels[place], notice["kind"], notice["text"], link) for place in left if place < len(channels))
    )
    missed = [place for place, ok in zip(left, reached, strict=False) if not ok]
    await means.database.write(partial(settle, means=means, job=job, left=missed, total=len(channels)))


def send(url: str, kind: str, text: str, link: str) -> bool:
    import apprise  # noqa: PLC0415  takes a while to load, and few have channels

    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it writes down addresses, and those are secrets
    channel = apprise.Apprise()
    if not channel.add(url):
        return False
    body = f"{text}\n{link}" if link else text
    return bool(channel.notify(body=body, title=f"Headway: {kind.replace('_', ' ')}"))


def settle(tx: Transaction, means: Means, job: Job, left: list[int], total: int) -> None:
    held = jobs.held_by(tx, job.tenant_id, job.id, means.owner)
    if held is None:
        return
    if left:
        jobs.set_back(tx, held._replace(result=json.dumps(left)), UNREACHED.format(len(left), total), means.limits)
    else:
        jobs.complete(tx, held)
