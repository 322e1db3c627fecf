"""Headway: a work ledger and runtime for LLM agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway import checks, sync
    from headway.actions.inspection.forks import ForkRequest
    from headway.agents.tools.custom import tool
    from headway.agents.tools.execution import Execution
    from headway.ledger.errors import (
        CheckFailed,
        Closed,
        Conflict,
        Forbidden,
        Halted,
        HeadwayError,
        Invalid,
        LeaseLost,
        MissingExtra,
        NotFound,
        QuotaExceeded,
        ServerFailed,
        ServerUnreachable,
        SettingsError,
        StorageError,
        TurnFailed,
        TurnRunning,
        Unauthorized,
        UntrustedFolder,
        WrongCell,
    )
    from headway.ledger.items.work import MadeCall
    from headway.library.client import Client
    from headway.library.remote import RemoteHeadway, connect
    from headway.library.turn_stream import TurnStream
    from headway.process.assembly import Headway
    from headway.values.events import TypedEvent
    from headway.values.files import File, FileVersion
    from headway.values.goals import AgentResult, Goal, JournalEntry, SubGoal
    from headway.values.inbox import Approval, PersonRequest, Question
    from headway.values.operators import (
        AccessToken,
        CreatedAccessToken,
        HaltState,
        RotatedAccessToken,
        Webhook,
        WebhookDelivery,
        WebhookWithSecret,
    )
    from headway.values.todos import Claim, Comment, Receipt, Todo, TodoDraft
    from headway.values.turns import Conversation, Event, Message, Turn, TurnReport, Usage
    from headway.values.value import Page
    from headway.values.work import Agent, Costs, Job, Note, Schedule

__version__ = "0.1.0"
__all__ = [
    "AccessToken",
    "Agent",
    "AgentResult",
    "Approval",
    "CheckFailed",
    "Claim",
    "Client",
    "Closed",
    "Comment",
    "Conflict",
    "Conversation",
    "Costs",
    "CreatedAccessToken",
    "Event",
    "Execution",
    "File",
    "FileVersion",
    "Forbidden",
    "ForkRequest",
    "Goal",
    "HaltState",
    "Halted",
    "Headway",
    "HeadwayError",
    "Invalid",
    "Job",
    "JournalEntry",
    "LeaseLost",
    "MadeCall",
    "Message",
    "MissingExtra",
    "NotFound",
    "Note",
    "Page",
    "PersonRequest",
    "Question",
    "QuotaExceeded",
    "Receipt",
    "RemoteHeadway",
    "RotatedAccessToken",
    "Schedule",
    "ServerFailed",
    "ServerUnreachable",
    "SettingsError",
    "StorageError",
    "SubGoal",
    "Todo",
    "TodoDraft",
    "Turn",
    "TurnFailed",
    "TurnReport",
    "TurnRunning",
    "TurnStream",
    "TypedEvent",
    "Unauthorized",
    "UntrustedFolder",
    "Usage",
    "Webhook",
    "WebhookDelivery",
    "WebhookWithSecret",
    "WrongCell",
    "__version__",
    "checks",
    "connect",
    "sync",
    "tool",
]

# Imported on first use, so that `import headway`, and with it every command, stays quick.
MODULES = ("checks", "sync")
VALUES = "headway.values"
HOMES = {
    "TypedEvent": f"{VALUES}.events",
    "Client": "headway.library.client",
    "ForkRequest": "headway.actions.inspection.forks",
    "Execution": "headway.agents.tools.execution",
    "Headway": "headway.process.assembly",
    "MadeCall": "headway.ledger.items.work",
    "Page": f"{VALUES}.value",
    "RemoteHeadway": "headway.library.remote",
    "TurnStream": "headway.library.turn_stream",
    "connect": "headway.library.remote",
    "tool": "headway.agents.tools.custom",
    **dict.fromkeys(("File", "FileVersion"), f"{VALUES}.files"),
    **dict.fromkeys(("AgentResult", "Goal", "JournalEntry", "SubGoal"), f"{VALUES}.goals"),
    **dict.fromkeys(("Approval", "PersonRequest", "Question"), f"{VALUES}.inbox"),
    **dict.fromkeys(
        ("AccessToken", "CreatedAccessToken", "HaltState", "RotatedAccessToken", "Webhook", "WebhookDelivery", "WebhookWithSecret"),
        f"{VALUES}.operators",
    ),
    **dict.fromkeys(("Claim", "Comment", "Receipt", "Todo", "TodoDraft"), f"{VALUES}.todos"),
    **dict.fromkeys(("Conversation", "Event", "Message", "Turn", "TurnReport", "Usage"), f"{VALUES}.turns"),
    **dict.fromkeys(("Agent", "Costs", "Job", "Note", "Schedule"), f"{VALUES}.work"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    if name in MODULES:
        return import_module(f"headway.{name}")
    return getattr(import_module(HOMES.get(name, "headway.ledger.errors")), name)


def __dir__() -> list[str]:
    """List the public names, for completion in a console or a notebook."""
    return __all__
