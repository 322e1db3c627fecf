"""Calls that a person must approve. A proposed call is an effect that has not started; its run waits without a process."""

from typing import Any

from headway.actions.people import inbox
from headway.agents.loop.requests import Sleep
from headway.agents.loop.step import Step
from headway.agents.permission import rule_on_call
from headway.agents.tools.toolbox import Tool
from headway.ledger.errors import Invalid
from headway.ledger.inbox import PersonRequest, compute_digest
from headway.ledger.permission import ALLOW_RULING, Ruling
from headway.ledger.run import Effect
from headway.storage.stores import runs as run_store

DENIED_MESSAGE = "The policy does not allow this call ({}). Find another way, or say that you could not do it."
REJECTED_MESSAGE = "A person rejected this call{}. It was not made."
EXPIRED_MESSAGE = "No person decided about this call in time, so it was not made."
CHANGED_MESSAGE = "The call was not made: it is not the call that was approved."


def rule(step: Step, tool: Tool, arguments: dict[str, Any]) -> Ruling:
    """Apply the policy. A call with bad arguments passes, because the tool itself then says what is wrong."""
    try:
        return rule_on_call(step.tx, tool, arguments, step.context.execution)
    except Invalid:
        return ALLOW_RULING


def propose(step: Step, effect: Effect, ruling: Ruling) -> Sleep:
    """Store the call as proposed, and wait for the decision or until it expires."""
    proposed = effect._replace(state="proposed")
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, proposed)
    approval = inbox.propose_call(step.tx, step.run, proposed, ruling.why, step.tx.now + step.limits.approval_ms)
    step.proposed.append(approval)
    return wait_for(approval)


def wait_for(approval: PersonRequest) -> Sleep:
    return Sleep(approval.expires_at)


def load_decision(step: Step, effect: Effect) -> PersonRequest:
    """Return the approval of a proposed call. One that was not decided in time expires here."""
    approval = inbox.find_by_call(step.tx, step.run, effect)
    assert approval is not None
    return inbox.expire(step.tx, approval) if approval.is_open and step.tx.now >= approval.expires_at else approval


def find_refusal(approval: PersonRequest, effect: Effect) -> str:
    """Return why the call may not be made; empty if it may."""
    if approval.state == "rejected":
        return REJECTED_MESSAGE.format(f": {approval.reason.rstrip('.')}" if approval.reason else "")
    if approval.state != "approved":
        return EXPIRED_MESSAGE
    return "" if approval.digest == compute_digest(effect.tool, approval.arguments) else CHANGED_MESSAGE
