"""Handlers for the engine's jobs that pursue goals and notify the operator."""

from headway.actions import goals, notices
from headway.agents.loop.context import Runtime
from headway.agents.loop.job_handlers import fail_job
from headway.autonomy import channels, pursuit
from headway.engine.runner import JobHandler
from headway.ledger.goal import GoalLimits


def build_handlers(runtime: Runtime, limits: GoalLimits, notify: tuple[str, ...], home: str) -> dict[str, JobHandler]:
    return {
        goals.JOB_KIND: JobHandler(lambda job: pursuit.pursue(runtime.of(job.tenant_id), limits, job), pursuit.fail_pursuit),
        notices.JOB_KIND: JobHandler(lambda job: channels.deliver(runtime.of(job.tenant_id), notify, home, job), fail_job),
    }
