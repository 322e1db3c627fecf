"""The context in which tools run: tenant, conversation, turn and role. Set by the runtime, never by a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headway.actions.history import files
from headway.actions.todos import finding
from headway.agents.instructions.roles import Role, Roles
from headway.agents.policy_file import PolicyFile
from headway.ledger import text
from headway.ledger.errors import Conflict
from headway.ledger.file_versions import FileOrigin, WrittenFiles
from headway.ledger.limits import GoalLimits, Limits, Sandbox
from headway.ledger.permission import PolicyCall
from headway.ledger.run import Run
from headway.ledger.scope import TENANT_WIDE, Scope
from headway.ledger.tenancy import Turn
from headway.ledger.text import Redactor
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import AgentRights, Transaction

if TYPE_CHECKING:  # a process that makes one call of a ledger tool needs neither
    from headway.agents.instructions.skills import Skill
    from headway.storage.database import DatabaseAccess

DROP_CHECKS: Final = "drop_checks"

NO_WORKSPACE: Final = "No workspace is available here."


class Execution(NamedTuple):
    """Everything that a tool can know about its caller."""

    database: "DatabaseAccess"
    task_folder: str
    scope: Scope
    role: Role
    conversation_uuid: str | None = None
    workspace: str = ""  # the tenant's folder, or the run's worktree of a repository; empty if there is none
    sandbox: Sandbox = Sandbox()  # for the programs that it runs
    run_id: str | None = None  # the calling agent's run; None in an external loop
    roles: Roles = Roles()  # roles that it can delegate to
    limits: Limits = Limits()  # limits on delegation
    goals: GoalLimits = GoalLimits()
    policy: PolicyFile = PolicyFile()  # without a file: no rules
    redact: Redactor = Redactor()  # removes secrets from error messages
    result_limit: int = 50_000  # characters of a result that the calling model gets
    skills: "tuple[Skill, ...]" = ()  # of the tenant
    tenant_workspace: str = ""  # the tenant's folder, if the workspace is a worktree
    workspace_name: str = ""  # names the workspace in the record of files; empty: the tenant's folder
    effect_key: str | None = None  # identifies this call, also when it is repeated after a crash; None in an external loop


def has_workspace(execution: Execution) -> bool:
    return bool(execution.workspace)


class ResolvedScope(NamedTuple):
    """A scope whose references were resolved within the caller's tenant."""

    scope: Scope
    conversation_uuid: str | None
    turn: Turn | None = None
    folder: str = ""  # where agents work; empty: in the tenant's workspace


def resolve_scope(tx: Transaction, scope: Scope) -> ResolvedScope:
    """Resolve a scope. A turn implies its conversation; an unknown conversation, or another tenant's, is not found."""
    conversation_id = scope.conversation_id
    scope = scope._replace(agent_id=text.check_name(scope.agent_id, "agent_id"))
    turn = None if scope.turn_id is None else finding.get_turn(tx, scope.tenant_id, scope.turn_id)
    if turn is not None:
        owner = turn.conversation_id
        if conversation_id not in (TENANT_WIDE, owner):
            raise Conflict(f"Turn {scope.turn_id} belongs to conversation {owner}, not to {conversation_id}.")
        conversation_id = owner
    if conversation_id == TENANT_WIDE:
        return ResolvedScope(scope, None)
    conversation = finding.get_conversation(tx, scope.tenant_id, conversation_id)
    return ResolvedScope(scope._replace(conversation_id=conversation_id), conversation.uuid, turn, conversation.folder)


def build_agent_rights(tx: Transaction, execution: Execution) -> AgentRights:
    """Return what the calling agent may do to work that has checks. The policy knows dropping them as a call of drop_checks."""

    def find_drop_refusal() -> str:
        call = PolicyCall(DROP_CHECKS, execution.role.name)
        if not execution.policy.current.concerns(call):
            return ""
        tenant = tenant_store.find_tenant(tx, execution.scope.tenant_id)
        ruling = execution.policy.current.decide(call._replace(tenant=tenant.name if tenant else ""), asks_by_default=False)
        return "" if ruling.decision == "allow" else f"the policy does not allow it ({ruling.why})."

    return AgentRights(find_drop_refusal)


def record_files(tx: Transaction, execution: Execution, tool: str, written: WrittenFiles, run: Run | None = None) -> dict[str, Any]:
    """Record the files that a call wrote, and return what its event says about them. Without a run, the scope tells who called."""
    scope = execution.scope
    origin = FileOrigin(tool, scope.agent_id, turn_id=scope.turn_id or "", conversation_id=scope.conversation_id)
    if run is not None:
        origin = FileOrigin(
            *(tool, run.role, run.id, run.turn_id or "", run.goal_id or 0, run.sub_goal_id or 0, run.conversation_id)
        )
    return files.record_files(tx, scope.tenant_id, execution.workspace_name, written, origin)


_current: ContextVar[Execution | None] = ContextVar("headway_execution", default=None)


@contextmanager
def use_execution(execution: Execution) -> Iterator[None]:
    """Set the current execution for the duration of the context. Other tasks and requests do not see it."""
    token = _current.set(execution)
    try:
        yield
    finally:
        _current.reset(token)


def find_current_execution() -> Execution | None:
    return _current.get()
