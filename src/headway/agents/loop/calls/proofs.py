"""Checks that must pass before an agent completes a todo.

Each run of a todo's checks is an effect of the message that wants to complete it: it is made once, survives a crash, and may need
approval.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from headway.actions.todos import proof, todos
from headway.agents.checks.rulings import CheckCaller, rule_on_checks
from headway.agents.checks.runner import CheckedSubject, CheckSubject, Opinion
from headway.agents.loop.assessor import judge
from headway.agents.loop.calls import proposals
from headway.agents.loop.calls.proposals import JSON_ENCODER
from headway.agents.loop.context import RunContext, Runtime
from headway.agents.loop.requests import ChecksRan, RunChecks, Sleep, Stop
from headway.agents.loop.step import Step, pay_late
from headway.agents.models.client import ModelFailed, Models
from headway.agents.tools.execution import Execution
from headway.ledger.check import Check, decode_checks, decode_draft, describe_failures
from headway.ledger.errors import ChecksRequired
from headway.ledger.permission import Ruling
from headway.ledger.run import Effect
from headway.ledger.todo import Todo
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall

RUN_CHECKS: Final = "run_checks"  # the name under which people see it, for example in an approval
FIRST_CHECK_INDEX: Final = (
    1_000_000  # indexes of effects that run checks, above all indexes of calls and sub-agents; the todo's id is added
)


Requirement = RunChecks | Sleep | Stop | str | None


def require(step: Step, n: int, required: ChecksRequired) -> Requirement:
    """Make the results of a todo's checks available to this transaction.

    Returns None if they are there, what the run has to wait for, or a text that says why the checks may not run.
    """
    todo = todos.get_todo(step.tx, step.run.tenant_id, required.todo_id)
    return require_results(step, n, todo, required.outcome)


def require_results(step: Step, n: int, todo: Todo, outcome: str | None) -> Requirement:
    subject = CheckSubject("todo", todo.id, todo.subject, decode_checks(todo.checks), outcome)
    arguments = {"todo": todo.id, "subject": todo.subject, "checks": subject.checks, "outcome": outcome}
    encoded = JSON_ENCODER.encode(arguments)
    call_index = FIRST_CHECK_INDEX + todo.id
    effect = run_store.load_effects(step.tx, step.run.tenant_id, step.run.id, n).get(call_index)
    if effect is None or effect.arguments != encoded:
        effect = Effect(n, call_index, "", RUN_CHECKS, encoded, "started", started_at=step.tx.now)
        if step.run.replays and reaches_outside(subject.checks):
            return serve_recorded(step, effect, todo)
        if denial := find_denial(step, subject):
            return denial
        if (ruling := rule(step, subject)).decision == "ask":
            return proposals.propose(step, effect, ruling)
    if effect.state == "proposed":
        approval = proposals.load_decision(step, effect)
        if approval.is_open:
            return proposals.wait_for(approval)
        if refusal := proposals.find_refusal(approval, effect) or find_denial(step, subject):  # the policy may have changed
            ended = effect._replace(state="failed", result=JSON_ENCODER.encode({"error": refusal}))
            run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, ended)
            return refusal
        effect = effect._replace(state="started", started_at=step.tx.now)
    if effect.state == "started":
        run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, effect)
        return RunChecks(effect, subject, step.is_last_attempt)
    result: dict[str, Any] = json.loads(effect.result)
    if "error" in result:
        return str(result["error"])
    step.tx.receipts[todo.id] = decode_draft(result)
    return None


def reaches_outside(checks: Sequence[Check]) -> bool:
    return any(check["kind"] not in ("outcome", "judge") for check in checks)


def serve_recorded(step: Step, effect: Effect, todo: Todo) -> Requirement:
    """Let a fork that makes no new calls rely on what the original's checks found, or stop it."""
    recorded = proposals.find_recorded(step, effect)
    if recorded is None or recorded.state != "succeeded":
        return proposals.stop(step, f"{RUN_CHECKS} {effect.arguments}")
    draft = decode_draft(json.loads(recorded.result))._replace(subject_id=todo.id, run_id=step.run.id)
    draft = draft._replace(versions={**draft.versions, "replayed": "true"})
    served = effect._replace(state="succeeded", result=JSON_ENCODER.encode(draft.as_json()), replayed=1)
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, served)
    proof.store_receipts(step.tx, step.run.tenant_id, [draft])
    return None


def rule(step: Step, subject: CheckSubject) -> Ruling:
    caller = CheckCaller(step.context.execution, is_run=True)
    return rule_on_checks(step.tx, step.context.runtime.checks, subject.checks, caller)


def find_denial(step: Step, subject: CheckSubject) -> str:
    """Return why the agent may not run the checks; empty if it may, perhaps with approval."""
    ruling = rule(step, subject)
    return f"Todo {subject.id} is not done: {ruling.why}" if ruling.decision == "deny" else ""


async def run_checks(work: RunContext, request: RunChecks) -> ChecksRan:
    checked = await run_with_judge(work.runtime, work.execution, request.subject, is_last_attempt=request.is_last_attempt)
    return ChecksRan(request.effect, checked)


async def run_with_judge(runtime: Runtime, execution: Execution, subject: CheckSubject, *, is_last_attempt: bool) -> CheckedSubject:
    """Run checks, with the cheap tier as the judge. If it fails, the opinions before are paid for, and ModelFailed is raised."""
    calls: list[ModelCall] = []

    async def give_opinion(rubric: str, subject: CheckSubject) -> Opinion:
        opinion = await ask_opinion(runtime.models, rubric, subject, is_last_attempt=is_last_attempt)
        calls.extend([opinion.call] if opinion.call else [])
        return opinion

    try:
        return await runtime.checks.run(subject, execution, execution.role.name, give_opinion)
    except ModelFailed:
        await pay_late(runtime, execution.scope.tenant_id, execution.run_id or "", calls)
        raise


async def ask_opinion(models: Models, rubric: str, subject: CheckSubject, *, is_last_attempt: bool) -> Opinion:
    """Ask the cheap tier whether the outcome meets a rubric, as `judge` does."""
    outcome = subject.outcome if isinstance(subject.outcome, str) else json.dumps(subject.outcome, ensure_ascii=False)
    opinion = await judge(models, (subject.title, rubric), outcome or "", is_last_attempt=is_last_attempt)
    return opinion._replace(reason=opinion.reason or ("It meets the rubric." if opinion.ok else "It does not."))


def record_results(step: Step, reply: ChecksRan) -> None:
    """Store the receipt. The step then continues with the call, the writ or the answer that wanted to complete the todo."""
    effect = run_store.load_effects(step.tx, step.run.tenant_id, step.run.id, reply.effect.n)[reply.effect.call_index]
    if effect.state != "started":  # already stored and paid by a commit whose acknowledgement was lost
        return
    for call in reply.checked.calls:
        step.charge(call)
    draft = reply.checked.receipt
    ended = effect._replace(state="succeeded", result=JSON_ENCODER.encode(draft.as_json()))
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, ended)
    proof.store_receipts(step.tx, step.run.tenant_id, [draft])


def complete_with_proof(step: Step, n: int, todo: Todo, outcome: str) -> Requirement:
    """Run the checks of a queue item, with the agent's answer as its outcome. Returns None if all passed, or what failed."""
    waiting = require_results(step, n, todo, outcome)
    if waiting is not None:
        return waiting
    draft = step.tx.receipts[todo.id]
    return None if draft.ok else describe_failures(draft.list_failures())
