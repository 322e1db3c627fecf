"""The context tools run in: whose work it is, where it belongs, who does it. Set by the runtime, never by a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from headway.actions import conversations
from headway.agents.roles import Role, Roles
from headway.ledger import text
from headway.ledger.errors import Conflict
from headway.ledger.goal import GoalLimits
from headway.ledger.redaction import Redactor
from headway.ledger.run import Limits
from headway.ledger.scope import TENANT_WIDE, Scope
from headway.storage.database import Database
from headway.storage.transaction import Transaction


class Execution(NamedTuple):
    """Everything a tool may know about its caller."""

    database: Database
    task_folder: str
    scope: Scope
    role: Role
    conversation_uuid: str | None = None
    workspace: str = ""  # the tenant's own folder; empty: none
    run_id: str | None = None  # of the agent that calls; none: somebody else's loop
    roles: Roles = Roles()  # whom it could hand work to,
    limits: Limits = Limits()  # and how far that may go
    goals: GoalLimits = GoalLimits()
    hush: Redactor = Redactor()  # cuts secrets out of what it says when it fails
    effect_key: str | None = None  # of this very call, the same when it is repeated after a crash; none: in somebody else's loop


class ResolvedScope(NamedTuple):
    """A scope whose references were looked up in the caller's own tenant."""

    scope: Scope
    conversation_uuid: str | None


def resolve_scope(tx: Transaction, wanted: Scope) -> ResolvedScope:
    """A turn names its conversation; a conversation that is unknown or somebody else's is not found."""
    conversation_id = wanted.conversation_id
    wanted = wanted._replace(agent_id=text.check_name(wanted.agent_id, "agent_id"))
    if wanted.turn_id is not None:
        owner = conversations.get_turn(tx, wanted.tenant_id, wanted.turn_id).conversation_id
        if conversation_id not in (TENANT_WIDE, owner):
            raise Conflict(f"Turn {wanted.turn_id} belongs to conversation {owner}, not to {conversation_id}.")
        conversation_id = owner
    if conversation_id == TENANT_WIDE:
        return ResolvedScope(wanted, None)
    conversation = conversations.get(tx, wanted.tenant_id, conversation_id)
    return ResolvedScope(wanted._replace(conversation_id=conversation_id), conversation.uuid)


_current: ContextVar[Execution | None] = ContextVar("headway_execution", default=None)


@contextmanager
def use_execution(execution: Execution) -> Iterator[None]:
    """For the time of a run, whatever happens in it. Other tasks and requests see nothing of it."""
    token = _current.set(execution)
    try:
        yield
    finally:
        _current.reset(token)


def find_current_execution() -> Execution | None:
    return _current.get()
