"""Who calls, before anything is loaded that finds out where its calls act."""

from typing import NamedTuple


class McpCaller(NamedTuple):
    """An MCP client, as far as its transport knows it."""

    tenant_id: int
    conversation: str | None  # the id or key that it chose; None: ledger tools act on the lists of the whole tenant
    turn_id: str | None  # the turn that it chose
    agent_id: str
    own_key: str  # of the conversation that has its plan and its tasks if it chose none
    name: str  # what people call it, for the title of that conversation
    can_write: bool = True
