"""How the engine's jobs for goals and for the operator are worked on."""

from functools import partial

from headway.actions import goals, notices
from headway.agents.driving import jobs_die
from headway.agents.work import Means
from headway.autonomy import channels, pursuit
from headway.engine import Handler
from headway.ledger.goal import GoalLimits


def handlers(means: Means, limits: GoalLimits, notify: tuple[str, ...], home: str) -> dict[str, Handler]:
    return {
        goals.GOAL: Handler(partial(pursuit.pursue, means, limits), pursuit.bury),
        notices.NOTICE: Handler(partial(channels.deliver, means, notify, home), jobs_die),
    }
