"""How the engine's jobs for goals and for the operator are worked on."""

from functools import partial

from headway.actions import goals, jobs, notices
from headway.agents.work import Means
from headway.autonomy import channels, pursuit
from headway.engine import Handler
from headway.ledger.goal import GoalLimits
from headway.ledger.job import Job
from headway.storage.transaction import Transaction


def handlers(means: Means, limits: GoalLimits, notify: tuple[str, ...], home: str) -> dict[str, Handler]:
    return {
        goals.GOAL: Handler(partial(pursuit.pursue, means, limits), pursuit.bury),
        notices.NOTICE: Handler(partial(channels.deliver, means, notify, home), die),
    }


def die(tx: Transaction, job: Job, error: str) -> None:
    jobs.die(tx, job, error)
