"""Applies the policy to tool calls, and a person's decisions to proposed ones."""

import json
import os
import shlex
from collections.abc import Callable
from glob import escape
from typing import Any, Final, NamedTuple

from headway.actions.access import audit
from headway.actions.runs import inbox
from headway.actions.runs.inbox import ApprovalDecision
from headway.agents.policy_file import PolicyFile
from headway.agents.tools.arguments import Arguments
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Tool, Toolbox, parse_arguments, validate_call
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.inbox import PersonRequest
from headway.ledger.permission import ALLOW_RULING, PolicyCall, Rule, Ruling
from headway.ledger.text import to_storable
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction, act_as

RULE_LENGTH: Final = 1_000  # characters of an argument in a rule that Headway writes


def rule_on_call(
    tx: Transaction, tool: Tool, arguments: dict[str, Any], execution: Execution, *, needs_approval: bool = False
) -> Ruling:
    """Decide whether a call may be made. A call that would be refused anyway raises Invalid, and no person is asked.

    With `needs_approval`, the call needs approval unless a rule allows it, even if the tool does not always need it.
    """
    policy, asks_by_default = execution.policy.current, needs_approval or tool.needs_approval
    if not asks_by_default and not policy.concerns(PolicyCall(tool.name, execution.role.name, server=tool.server)):
        return ALLOW_RULING
    execution, parsed_arguments = validate_call(tool, arguments, execution)
    tenant = find_tenant_name(tx, execution.scope.tenant_id)
    call = describe_call(tool, parsed_arguments, execution.role.name, tenant, execution.workspace)
    return policy.decide(call, asks_by_default=asks_by_default)


def find_refusal(tx: Transaction, tool: Tool, arguments: dict[str, Any], execution: Execution) -> str:
    """Return why an agent that Headway does not run may not make a call; empty if it may. Such a call cannot wait for approval."""
    try:
        ruling = rule_on_call(tx, tool, arguments, execution)
    except Invalid:
        return ""  # the tool itself says what is wrong
    if ruling.decision == "ask":
        return f"{tool.name} needs a person's approval, which this agent cannot wait for ({ruling.why})."
    return f"The policy does not allow this call ({ruling.why})." if ruling.decision == "deny" else ""


def find_denial(tx: Transaction, tool: Tool, arguments: dict[str, Any], execution: Execution) -> str:
    """Return why the policy denies the call, if it does. To schedule a call, or to retry a dead one, is to approve it."""
    try:
        ruling = rule_on_call(tx, tool, arguments, execution)
    except Invalid:
        return ""  # the call itself says what is wrong
    return f"The policy does not allow {tool.name} ({ruling.why})." if ruling.decision == "deny" else ""


def find_writ_refusal(tx: Transaction, word: str, rest: str, execution: Execution) -> str:
    """Return why the policy does not let a writ run; empty if it does. A writ is a tool named like its first word: `/todo`."""
    policy = execution.policy.current
    call = PolicyCall(f"/{word}", execution.role.name, arguments={"text": (rest,)})
    if not policy.concerns(call):
        return ""
    tenant = find_tenant_name(tx, execution.scope.tenant_id)
    ruling = policy.decide(call._replace(tenant=tenant), asks_by_default=False)
    if ruling.decision == "ask":
        return f"a writ cannot wait for a person's approval ({ruling.why}); call the tool instead"
    return f"the policy does not allow this ({ruling.why})" if ruling.decision == "deny" else ""


def find_tenant_name(tx: Transaction, tenant_id: int) -> str:
    tenant = tenant_store.find_tenant(tx, tenant_id)
    return tenant.name if tenant else ""


def describe_call(tool: Tool, arguments: Arguments, role: str, tenant: str, workspace: str) -> PolicyCall:
    """Describe a call to the policy. The arguments are what the tool will receive, whatever the model wrote."""
    values = {**dict.fromkeys(tool.key_arguments), **arguments.model_dump(mode="json", by_alias=True)}
    return PolicyCall(tool.name, role, tenant, tool.server, spell_arguments(tool, values, workspace))


def spell_arguments(tool: Tool, values: dict[str, Any], workspace: str) -> dict[str, tuple[str, ...]]:
    return {
        name: list_path_spellings(value, workspace)
        if name in tool.path_arguments and isinstance(value, str)
        else (format_value(value),)
        for name, value in values.items()
    }


def format_value(value: Any) -> str:
    """Format an argument as one text: a list of texts as a command line, anything else that is not text as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return shlex.join(value)
    return json.dumps(value, ensure_ascii=False)


def list_path_spellings(path: str, workspace: str) -> tuple[str, ...]:
    """Return the path relative to the workspace, without `..`: as written, and with links resolved if that is another path."""
    try:
        root = os.path.abspath(workspace)
        written = os.path.relpath(os.path.normpath(os.path.join(root, path)), root)
        resolved = os.path.relpath(os.path.realpath(os.path.join(root, path)), os.path.realpath(root))
    except (OSError, ValueError):  # not a path that any tool accepts
        return (path,)
    return tuple(dict.fromkeys((written, resolved)))


class Permission(NamedTuple):
    """Applies people's decisions about proposed calls."""

    policy: PolicyFile
    toolbox: Toolbox
    find_workspace: Callable[[int], str]

    def decide(
        self, tx: Transaction, tenant_id: int, approval_id: int, decision: ApprovalDecision, *, always: bool = False
    ) -> PersonRequest:
        """Apply a person's decision. With `always`, calls like this one are allowed from now on, by a new rule of the policy."""
        approval = inbox.get(tx, tenant_id, approval_id, "approval")
        if decision.answer == "reject" and (decision.arguments is not None or always):
            raise Invalid("arguments and always apply to approve only.")
        if decision.answer == "reject" or (decision.arguments is None and not always):
            return inbox.decide(tx, tenant_id, approval_id, decision)
        given = parse_object(approval.arguments if decision.arguments is None else decision.arguments)
        arguments = to_storable(json.dumps(given, ensure_ascii=False))
        is_edited = sort_keys(arguments) != sort_keys(approval.arguments)
        tool = self.find_tool(approval)
        parsed_arguments = parse_arguments(tool, given)
        decided = inbox.decide(tx, tenant_id, approval_id, decision._replace(arguments=arguments if is_edited else None))
        if always and approval.is_open:  # only once the decision holds: the file is not part of the transaction
            with act_as(tx, tx.actor or decision.decided_by):
                self.allow_always(tx, approval, tool, parsed_arguments)
        return decided

    def find_tool(self, approval: PersonRequest) -> Tool:
        tool = self.toolbox.tools.get(approval.tool)
        if tool is None:
            raise NotFound(f"There is no tool named {approval.tool[:80]!r} any more.")
        return tool

    def allow_always(self, tx: Transaction, approval: PersonRequest, tool: Tool, arguments: Arguments) -> None:
        call, rule = self.build_rule(tx, approval, tool, arguments)
        self.policy.add_allow_rule(call, rule)
        audit.record_in_audit(tx, approval.tenant_id, "policy.allow", f"approval:{approval.id}", new={"rule": rule.as_json()})

    def preview_rule(self, tx: Transaction, approval: PersonRequest) -> Rule | None:
        """Return the rule that `always` would add, if one can be written."""
        try:
            tool = self.find_tool(approval)
            return self.build_rule(tx, approval, tool, parse_arguments(tool, json.loads(approval.arguments)))[1]
        except (Conflict, Invalid, NotFound):
            return None

    def build_rule(self, tx: Transaction, approval: PersonRequest, tool: Tool, arguments: Arguments) -> tuple[PolicyCall, Rule]:
        """Return the call as the policy sees it, and the rule that allows it from now on."""
        if tool.no_rule:
            raise Conflict(tool.no_rule)
        tenant = find_tenant_name(tx, approval.tenant_id)
        call = describe_call(tool, arguments, approval.role, tenant, self.find_workspace(approval.tenant_id))
        rule = build_allow_rule(call, tool)._replace(approval=approval.id)
        if not rule.matches(call) or any(len(glob) > RULE_LENGTH for _, glob in rule.arguments):
            raise Conflict(f"No rule can be written for this call of {tool.name}. Approve it without `always`.")
        return call, rule

    def forget_always(self, tx: Transaction, tenant_id: int, approval_id: int) -> list[Rule]:
        """Remove the rule that a decision with `always` has added for this tenant, so that such calls need approval again."""
        removed = self.policy.remove_always_rules(find_tenant_name(tx, tenant_id), approval_id)
        if not removed:
            raise NotFound(f"No rule of this tenant comes from approval {approval_id}.")
        rules = [rule.as_json() for rule in removed]
        audit.record_in_audit(tx, tenant_id, "policy.forget", f"approval:{approval_id}", old={"rules": rules})
        return removed

    def try_call(self, tx: Transaction, tenant_id: int, tool: Tool, role: str, arguments: dict[str, Any]) -> "TriedCall":
        """Return what the policy would decide about a call, and by which rule. Nothing is called. Arguments that are missing or
        wrong are reported, and the policy is asked about the ones that were given."""
        tenant, workspace = find_tenant_name(tx, tenant_id), self.find_workspace(tenant_id)
        try:
            call, problem = describe_call(tool, parse_arguments(tool, arguments), role, tenant, workspace), ""
        except Invalid as error:
            spellings = spell_arguments(tool, {**dict.fromkeys(tool.key_arguments), **arguments}, workspace)
            call, problem = PolicyCall(tool.name, role, tenant, tool.server, spellings), str(error)
        policy = self.policy.current
        return TriedCall(policy.decide(call, asks_by_default=tool.needs_approval), policy.find(call), problem)


class TriedCall(NamedTuple):
    """The decision that the policy would make about a call."""

    ruling: Ruling
    rule: Rule | None  # if no rule matches, the tool's default applies
    problem: str  # what is wrong with the arguments, so that the call itself would be refused; empty: nothing


def parse_object(arguments: str) -> dict[str, Any]:
    try:
        document = json.loads(arguments)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Invalid("Invalid arguments: they must be one JSON object.")
    return document


def sort_keys(arguments: str) -> str:
    return json.dumps(json.loads(arguments), sort_keys=True)


def build_allow_rule(call: PolicyCall, tool: Tool) -> Rule:
    """Build the rule that allows a call from now on: the same tool, role and tenant, with the same key arguments."""
    named = tuple((name, escape(call.arguments[name][0])) for name in tool.key_arguments if name in call.arguments)
    return Rule("allow", escape(call.tool), escape(call.role), tenant=escape(call.tenant), arguments=named)
