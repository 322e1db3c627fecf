"""The catalogue of all tools, in display order."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headway.agents.checks.runner import CheckRunner
from headway.agents.checks.verification import build_verification_tool
from headway.agents.tools import custom
from headway.agents.tools.agents import AGENT_TOOLS
from headway.agents.tools.builtin import BUILTIN_NAMES, ExternalAccess, build_builtin_tools
from headway.agents.tools.goals import GOAL_TOOLS
from headway.agents.tools.ledger import LEDGER_TOOLS
from headway.agents.tools.people import PEOPLE_TOOLS
from headway.agents.tools.plan import PLAN_TOOLS
from headway.agents.tools.results import RUNTIME_TOOLS
from headway.agents.tools.tasks import TASK_TOOLS
from headway.agents.tools.toolbox import Toolbox


def build_toolbox(
    access: ExternalAccess | None = None, folder: Path | None = None, functions: Iterable[Callable[..., Any]] = ()
) -> Toolbox:
    """Build the toolbox from the built-in tools, those in a folder and those that a program passes in.

    A built-in tool's name is reserved even while the tool is disabled.
    """
    allowed = access or ExternalAccess()
    builtin_tools = (
        *PLAN_TOOLS,
        *TASK_TOOLS,
        *LEDGER_TOOLS,
        *AGENT_TOOLS,
        *GOAL_TOOLS,
        *PEOPLE_TOOLS,
        *RUNTIME_TOOLS,
        build_verification_tool(lambda: CheckRunner(allowed, toolbox)),
        *build_builtin_tools(allowed),
    )
    reserved_names = {*BUILTIN_NAMES, *(tool.name for tool in builtin_tools)}
    custom_tools = custom.load(folder, reserved_names) if folder else ()
    program_tools = custom.collect_tools(functions, reserved_names | {tool.name for tool in custom_tools})
    toolbox = Toolbox((*builtin_tools, *custom_tools, *program_tools))
    return toolbox
