"""All tools there are, in the order in which they are shown."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headway.agents.tools import custom
from headway.agents.tools.agents import AGENT_TOOLS
from headway.agents.tools.builtin import BUILTIN_NAMES, ExternalAccess, build_builtin_tools
from headway.agents.tools.goals import GOAL_TOOLS
from headway.agents.tools.ledger import LEDGER_TOOLS
from headway.agents.tools.plan import PLAN_TOOLS
from headway.agents.tools.tasks import TASK_TOOLS
from headway.agents.tools.toolbox import Toolbox


def build_toolbox(
    world: ExternalAccess | None = None, folder: Path | None = None, brought: Iterable[Callable[..., Any]] = ()
) -> Toolbox:
    """Ours, those a folder holds, and those a program brings along. A name of ours is taken, also while the tool itself is
    switched off."""
    ours = (*PLAN_TOOLS, *TASK_TOOLS, *LEDGER_TOOLS, *AGENT_TOOLS, *GOAL_TOOLS, *build_builtin_tools(world or ExternalAccess()))
    taken = {*BUILTIN_NAMES, *(tool.name for tool in ours)}
    own = custom.load(folder, taken) if folder else ()
    more = custom.collect_tools(brought, taken | {tool.name for tool in own})
    return Toolbox((*ours, *own, *more))
