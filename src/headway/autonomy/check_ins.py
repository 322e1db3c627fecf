"""Notices to operators: check-ins about goals, and the channels that carry them."""

import asyncio
import json
import logging
import re
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from headway.actions.goals import goals
from headway.actions.runs import jobs, runs, sub_goals, waiting
from headway.agents.instructions.prompts import SUBMIT_INTERVENTION
from headway.agents.loop.context import Runtime
from headway.agents.loop.structured import Form, FormResult, Question
from headway.autonomy import prompts
from headway.ledger.goal import Goal, SubGoal
from headway.ledger.job import Job
from headway.ledger.limits import GoalLimits
from headway.ledger.run import Run
from headway.ledger.text import to_one_line
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

MAX_INTERVAL_MS: Final = 600_000  # between two check-ins
CLOCK_TOLERANCE_MS: Final = 1_000  # the clocks of two connections may differ a little
STUCK_STEPS: Final = 5  # without a successful tool call
MAX_INTERVENTIONS: Final = 3
DEFAULT_MESSAGE: Final = "You seem to make no progress. Say what blocks you, try another approach, or end with what you have."


class InterventionForm(Form):
    action: Literal["message", "rescope", "cancel", "wait"]
    text: Annotated[str, Field(description="The message, or the new description of the sub-goal", max_length=4_000)] = ""


def compute_due_at(sub_goal: SubGoal, limits: GoalLimits, now: int) -> int:
    """Return when the next check-in is due. The interval doubles with every check-in. If the last one seems to be in the
    future, the clock was set back: then one is due now, which stores the right time."""
    if sub_goal.checked_at > now + CLOCK_TOLERANCE_MS:
        return now
    return sub_goal.checked_at + min(limits.check_in_ms << min(sub_goal.check_ins, 20), MAX_INTERVAL_MS)


def check_progress(tx: Transaction, sub_goal: SubGoal, run: Run, limits: GoalLimits) -> tuple[dict[str, int], str]:
    """Return the fields that this check-in updates, and why the sub-agent counts as stuck, if it does.

    A stuck sub-agent's check-in ends only when the model has decided on an intervention.
    """
    effects = run_store.count_succeeded_effects(tx, sub_goal.tenant_id, run.id)
    changes = {"check_ins": sub_goal.check_ins + 1, "checked_at": tx.now}
    if effects > sub_goal.progress_effects or run.status == "queued" or waiting.is_person_needed(tx, run):
        return {**changes, "progress_at": tx.now, "progress_steps": run.iterations, "progress_effects": effects}, ""
    if run.iterations - sub_goal.progress_steps >= STUCK_STEPS:
        return changes, f"{run.iterations - sub_goal.progress_steps} steps without a successful tool call"
    if tx.now - sub_goal.progress_at >= limits.stuck_after_ms:
        return changes, f"{(tx.now - sub_goal.progress_at) // 1000} s without progress"
    return changes, ""


def build_question(goal: Goal, sub_goal: SubGoal, run: Run, why: str) -> Question[InterventionForm]:
    text = prompts.render_stuck(goal, sub_goal, run, why)
    return Question("mid", prompts.OVERSEER, text, {}, SUBMIT_INTERVENTION, InterventionForm)


def intervene(tx: Transaction, sub_goal: SubGoal, run: Run, result: FormResult[InterventionForm] | None, why: str) -> None:
    """Apply the model's decision about a stuck sub-agent.

    Without a decision, the sub-agent first gets a default message, and is canceled the next time.
    """
    form = result.form if result else None
    fallback = (
        InterventionForm(action="message", text=DEFAULT_MESSAGE)
        if result and not sub_goal.interventions
        else InterventionForm(action="cancel")
    )
    form = form or fallback
    sub_goals.append_to_journal(tx, sub_goal, "intervened", action=form.action, text=form.text, why=why)
    changes = {
        "interventions": sub_goal.interventions + 1,
        "progress_at": tx.now,
        "progress_steps": run.iterations,
        "check_ins": 0,
        "checked_at": tx.now,
    }
    match form.action:
        case "message":
            runs.set_hint(tx, run, form.text or DEFAULT_MESSAGE)
            sub_goals.change_sub_goal(tx, sub_goal, **changes)
        case "wait":
            sub_goals.change_sub_goal(tx, sub_goal, **changes)
        case "rescope":
            rescoped = {"description": form.text.strip(), "title": ""} if form.text.strip() else {}
            restart(tx, sub_goal, run, **changes, **rescoped)
        case "cancel":
            sub_goals.change_sub_goal(tx, sub_goal, **changes)
            runs.cancel_tree(tx, run)


def restart(tx: Transaction, sub_goal: SubGoal, run: Run, **changes: Any) -> None:
    """Restart a sub-goal from the beginning. Its partial work is discarded."""
    sub_goals.mark_pending(tx, sub_goal, **changes)
    goals.release_run(tx, run)


# Deliver notices to the operator through the configured channels. An unreachable channel never stops an agent.


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
        jobs.complete_job(tx, owned_job)
