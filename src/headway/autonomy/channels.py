"""Deliver notices to the operator through the configured channels. An unreachable channel never stops an agent."""

import asyncio
import json
import logging
import re
from functools import partial
from typing import Final

from headway.actions import jobs
from headway.agents.loop.context import Runtime
from headway.ledger.job import Job
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.operator")

UNREACHED_MESSAGE = "{} of {} channels could not be reached."
LITERAL_SCHEMAS: Final = frozenset(("json", "jsons", "xml", "xmls", "form", "forms"))  # for programs: the text stays as it is
MARKDOWN_SCHEMAS: Final = frozenset(("discord", "fluxer", "guilded", "mmost", "mmosts", "revolt", "zulip"))  # also in plain text
MARKDOWN_SIGN: Final = re.compile(r"[\\`*_~|>#\[\]()-]")
LIVE_SIGN: Final = re.compile(r"@(?=[^\s@])|\](?=\()")  # begins a mention, or the target of a link


async def deliver(runtime: Runtime, channels: tuple[str, ...], home: str, job: Job) -> None:
    """Deliver a notice to every channel that has not received it. Failed channels are retried later, as with any job."""
    notice = json.loads(job.payload)
    if not channels:
        log.warning("operator notice: %s %s", to_one_line(notice["text"]), notice["url"])
        await runtime.database.write(partial(record_delivery, runtime=runtime, job=job, pending=[], total=0))
        return
    link = f"{home}{notice['url']}" if notice["url"] else ""
    pending = json.loads(job.result) or list(range(len(channels)))
    results = await asyncio.gather(
        *(
            asyncio.to_thread(send, channels[index], notice["kind"], notice["text"], link)
            for index in pending
            if index < len(channels)
        )
    )
    failed = [index for index, ok in zip(pending, results, strict=False) if not ok]
    await runtime.database.write(partial(record_delivery, runtime=runtime, job=job, pending=failed, total=len(channels)))


def send(url: str, kind: str, text: str, link: str) -> bool:
    import apprise  # noqa: PLC0415  slow to import, and most installations have no channels

    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs channel URLs, which contain secrets
    channel = apprise.Apprise()
    if not channel.add(url):
        return False
    safe_text = escape_markup(text, url.partition(":")[0].lower())
    body = f"{safe_text}\n{link}" if link else safe_text
    # The format makes Apprise escape what is markup for the service: HTML, Slack's commands, Markdown.
    return bool(channel.notify(body=body, title=f"Headway: {kind.replace('_', ' ')}", body_format=apprise.NotifyFormat.TEXT))


def escape_markup(text: str, schema: str) -> str:
    """Escape what services act on even in plain text, so that a tenant's words cannot mention people or hide a link's target.

    An invisible space follows the sign, so that people read the text as it is.
    """
    if schema in LITERAL_SCHEMAS:
        return text
    escaped = MARKDOWN_SIGN.sub(r"\\\g<0>", text) if schema in MARKDOWN_SCHEMAS else text
    return LIVE_SIGN.sub("\\g<0>\u200b", escaped)


def record_delivery(tx: Transaction, runtime: Runtime, job: Job, pending: list[int], total: int) -> None:
    owned_job = jobs.find_owned(tx, job.tenant_id, job.id, runtime.owner)
    if owned_job is None:
        return
    if pending:
        jobs.retry_later(
            tx, owned_job._replace(result=json.dumps(pending)), UNREACHED_MESSAGE.format(len(pending), total), runtime.limits
        )
    else:
        jobs.complete(tx, owned_job)
