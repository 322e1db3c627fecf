"""Headway: a work ledger and runtime for LLM agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.actions.turns import TurnReport
    from headway.agents.tools.custom import tool
    from headway.agents.tools.execution import Execution
    from headway.assembly import Headway
    from headway.ledger.errors import Conflict, Halted, HeadwayError, Invalid, NotFound, TurnFailed, TurnRunning, WrongCell

__version__ = "0.1.0"
__all__ = [
    "Conflict",
    "Execution",
    "Halted",
    "Headway",
    "HeadwayError",
    "Invalid",
    "NotFound",
    "TurnFailed",
    "TurnReport",
    "TurnRunning",
    "WrongCell",
    "__version__",
    "tool",
]

# Imported on first use, so that `import headway`, and with it every command, stays quick.
HOMES = {
    "Execution": "headway.agents.tools.execution",
    "Headway": "headway.assembly",
    "TurnReport": "headway.actions.turns",
    "tool": "headway.agents.tools.custom",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    return getattr(import_module(HOMES.get(name, "headway.ledger.errors")), name)
