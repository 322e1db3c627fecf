"""All tools there are, in the order in which they are shown."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headway.agents import own_tools
from headway.agents.agent_tools import AGENT_TOOLS
from headway.agents.builtin_tools import NAMES, World, builtin_tools
from headway.agents.goal_tools import GOAL_TOOLS
from headway.agents.ledger_tools import LEDGER_TOOLS
from headway.agents.plan_tools import PLAN_TOOLS
from headway.agents.task_tools import TASK_TOOLS
from headway.agents.toolbox import Toolbox


def toolbox(world: World | None = None, folder: Path | None = None, brought: Iterable[Callable[..., Any]] = ()) -> Toolbox:
    """Ours, those a folder holds, and those a program brings along. A name of ours is taken, also while the tool itself is
    switched off."""
    ours = (*PLAN_TOOLS, *TASK_TOOLS, *LEDGER_TOOLS, *AGENT_TOOLS, *GOAL_TOOLS, *builtin_tools(world or World()))
    taken = {*NAMES, *(tool.name for tool in ours)}
    own = own_tools.load(folder, taken) if folder else ()
    more = own_tools.handed_over(brought, taken | {tool.name for tool in own})
    return Toolbox((*ours, *own, *more))
