"""Headway: a work ledger and runtime for LLM agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.agents.tools.custom import tool
    from headway.agents.tools.execution import Execution
    from headway.assembly import Headway

__version__ = "0.1.0"
__all__ = ["Execution", "Headway", "__version__", "tool"]

# Imported on first use, so that `import headway`, and with it every command, stays fast.
HOMES = {"Execution": "headway.agents.tools.execution", "Headway": "headway.assembly", "tool": "headway.agents.tools.custom"}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
