"""All tools there are, in the order in which they are shown."""

from headway.agents.ledger_tools import LEDGER_TOOLS
from headway.agents.plan_tools import PLAN_TOOLS
from headway.agents.task_tools import TASK_TOOLS
from headway.agents.toolbox import Toolbox


def toolbox() -> Toolbox:
    return Toolbox((*PLAN_TOOLS, *TASK_TOOLS, *LEDGER_TOOLS))
