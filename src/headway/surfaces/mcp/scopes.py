"""The conversation and the plan that a call belongs to, and who calls."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.actions.todos import conversations, finding
from headway.actions.turns import plan as plan_turn
from headway.agents.instructions.roles import READING_TOOLS
from headway.agents.tools.execution import ResolvedScope, resolve_scope
from headway.agents.tools.toolbox import Tool
from headway.ledger.errors import NotFound, ReadOnlyToken
from headway.ledger.scope import TENANT_WIDE, Scope
from headway.storage.transaction import Transaction

if TYPE_CHECKING:
    from headway.storage.database import DatabaseAccess


class McpCaller(NamedTuple):
    """An MCP client, as far as its transport knows it."""

    tenant_id: int
    conversation: str | None  # the id or key that it chose; without one, ledger tools act on the lists of the whole tenant
    turn_id: str | None  # the turn that it chose
    agent_id: str
    own_key: str  # of the conversation that has its plan and its tasks if it chose none
    name: str  # what people call it, for the title of that conversation
    can_write: bool = True


# Where the calls of an MCP client act: its tenant, its conversation, and the plan of that conversation.


PLAN_FAMILIES: Final = ("turn_plan", "queue")
BEGINS_PLANS: Final = "create_todo"  # when everything in the open plan has ended, it begins the next one


async def place_call(database: "DatabaseAccess", caller: McpCaller, tool: Tool | None) -> ResolvedScope:
    """Return the scope of a call. Conversations and plans are created when a call first needs them.

    `tool` is None for resources. Raises ReadOnlyToken, or NotFound for an unknown id.
    """
    if tool is not None and tool.name not in READING_TOOLS and not caller.can_write:
        raise ReadOnlyToken
    if tool is None or tool.name != BEGINS_PLANS:
        try:
            return await database.read(lambda tx: find_scope(tx, caller, tool))
        except NotFound:
            if not caller.can_write:
                raise
    return await database.write(lambda tx: create_scope(tx, caller, tool))


def find_or_create_scope(tx: Transaction, caller: McpCaller, tool: Tool) -> ResolvedScope:
    """Return the scope of a call of a client that may write, in one transaction."""
    if tool.name != BEGINS_PLANS:
        with suppress(NotFound):
            return find_scope(tx, caller, tool)
    return create_scope(tx, caller, tool)


def find_scope(tx: Transaction, caller: McpCaller, tool: Tool | None) -> ResolvedScope:
    """Return the scope if everything that it needs exists. Otherwise raise NotFound."""
    key = find_key(caller, tool)
    conversation_id = finding.resolve(tx, caller.tenant_id, key).id if key else TENANT_WIDE
    turn_id = caller.turn_id
    if turn_id is None and needs_turn(tool):
        plan = plan_turn.find_open_plan(tx, caller.tenant_id, conversation_id)
        if plan is None:
            raise NotFound("This conversation has no plan yet.")
        turn_id = plan.id
    return resolve_scope(tx, Scope(caller.tenant_id, conversation_id, turn_id, caller.agent_id))


def create_scope(tx: Transaction, caller: McpCaller, tool: Tool | None) -> ResolvedScope:
    """Return the scope, and create the conversation and the plan that it needs."""
    key = find_key(caller, tool)
    title = f"MCP: {caller.name}" if key == caller.own_key else key or ""
    conversation_id = conversations.resolve_or_create(tx, caller.tenant_id, key, title).id if key else TENANT_WIDE
    turn_id = caller.turn_id
    if turn_id is None and tool is not None and needs_turn(tool):
        open_plan = plan_turn.begin_open_plan if tool.name == BEGINS_PLANS else plan_turn.continue_or_open
        turn_id = open_plan(tx, caller.tenant_id, conversation_id).id
    return resolve_scope(tx, Scope(caller.tenant_id, conversation_id, turn_id, caller.agent_id))


def find_key(caller: McpCaller, tool: Tool | None) -> str | None:
    """Return the id or key of the conversation for a call, or None if the turn names it or the call needs none."""
    if caller.conversation or caller.turn_id or tool is None or tool.family == "ledger":
        return caller.conversation
    return caller.own_key


def needs_turn(tool: Tool | None) -> bool:
    return tool is not None and tool.family in PLAN_FAMILIES
