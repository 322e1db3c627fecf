"""The checks a plain answer must pass: its writs, the drain gate, and in queue mode the assessor's verdict."""

from hashlib import blake2b

from pydantic_ai.messages import ModelRequest, UserPromptPart

from headway.actions.todos.turn_state import load_queue_state
from headway.actions.turns import plan
from headway.agents.instructions import prompts
from headway.agents.loop import items
from headway.agents.loop.calls import proofs, writ_calls
from headway.agents.loop.items import is_active
from headway.agents.loop.requests import Assess, RunChecks, Sleep, Stop, Verdict
from headway.agents.loop.step import Step, list_open_items
from headway.agents.models.text_calls import QUOTED_CALLS, looks_like_call
from headway.agents.transcripts.quotations import compute_call_digest
from headway.agents.transcripts.transcript import Facts, TranscriptEntry, build_runtime_message, get_text, to_metadata
from headway.ledger.text import TEXT_LIMIT
from headway.ledger.todo import Todo
from headway.storage.transaction import act_as


def check_answer(step: Step, entry: TranscriptEntry, text: str) -> Assess | RunChecks | Sleep | Stop | None:
    writ_output = writ_calls.run_writs(step, entry, text)
    if isinstance(writ_output, Sleep | RunChecks | Stop):
        return writ_output
    question, facts = ask_about_calls(entry)
    if writ_output or question:  # an answer with writs never ends a turn: the agent sees their output first
        step.say(text)
        step.append(ModelRequest([*writ_output, *question], metadata=to_metadata(facts)))
        return None
    if looks_like_call(text) and step.context.offer.has_tools and "json" not in step.run.task.lower():
        return return_call(step, entry)
    if is_active(step) and (text.strip() or items.has_proof(step)):
        return items.check_answer(step, entry, text)
    if not text.strip():
        return reject_answer(step, prompts.EMPTY_ANSWER, prompts.EMPTY_ANSWER_NUDGE, prompts.EMPTY_ANSWERS)
    if step.context.mode == "queue":
        current = load_queue_state(step.tx, step.run.tenant_id, step.turn_id).current
        if current and current.checks:
            return prove_item(step, entry, current, text)
        if current:
            return Assess(current, text, step.is_last_attempt)
    plan = step.plan()
    if open_items := list_open_items(plan):
        refusal = prompts.render_open_items_refusal(open_items, has_tools=step.context.offer.has_tools)
        return reject_answer(step, prompts.describe_open_items(open_items), refusal)
    return step.finish("drained" if plan else "answered", text)


def ask_about_calls(entry: TranscriptEntry) -> tuple[list[UserPromptPart], Facts]:
    """Return the question whether the model means the calls that it quoted, if there are any. Nothing was called."""
    quoted = (entry.message.metadata or {}).get(QUOTED_CALLS, [])
    if not quoted:
        return [], {}
    names = ", ".join(sorted({tool for tool, _ in quoted}))
    return [UserPromptPart(prompts.QUOTED_CALLS_QUESTION.format(tools=names))], {
        "returned_calls": [compute_call_digest(tool, arguments) for tool, arguments in quoted]
    }


def return_call(step: Step, entry: TranscriptEntry) -> RunChecks | Sleep | Stop | None:
    """Handle a call that could not be read. If calls can prove items, a new context helps more than the mistake in view."""
    if is_active(step) and items.has_proof(step):
        return items.check_answer(step, entry, "")
    names = ", ".join(tool.name for tool in step.context.offer.parameters.function_tools)
    return reject_answer(step, prompts.UNREAD_CALL, prompts.UNREAD_CALL_NUDGE.format(tools=names), prompts.UNREAD_CALLS)


def prove_item(step: Step, entry: TranscriptEntry, item: Todo, text: str) -> RunChecks | Sleep | Stop | None:
    """Run the checks of the current queue item in place of the assessor."""
    found = proofs.complete_with_proof(step, entry.n, item, step.parse(text).visible[:TEXT_LIMIT])
    if isinstance(found, RunChecks | Sleep | Stop):
        return found
    apply_verdict(step, Verdict(item, ok=found is None, reason=found or "All checks passed.", call=None))
    return None


def reject_answer(step: Step, reason: str, message: str, closing: str = prompts.STAGNATION) -> Stop | None:
    """Return an answer to the model with the reason.

    The turn ends after `limits.refusals` rejections in a row without a change to the plan, so that it cannot loop. Its last words
    are then the runtime's, and the rejected answer is not shown.
    """
    plan = step.plan()
    mark = fingerprint_plan(plan)
    refusals = step.run.refusals + 1 if step.run.plan_mark == mark else 1
    step.run = step.run._replace(refusals=refusals, plan_mark=mark)
    step.emit("refused", {"remaining": len(list_open_items(plan)), "reason": reason})
    if refusals >= step.limits.refusals and not step.run.unread:
        return step.give_up(closing, "incomplete")
    step.append(build_runtime_message(message))
    return None


def fingerprint_plan(plan: list[Todo]) -> str:
    """Hash the plan, so that any change to an item shows."""
    return blake2b(repr([(todo.id, todo.status, todo.subject) for todo in plan]).encode(), digest_size=12).hexdigest()


def apply_verdict(step: Step, verdict: Verdict) -> None:
    """Apply the assessor's verdict: complete the current queue item and present the next, or return the answer to the model."""
    answer = step.parse(get_text(step.entries[-1].message)).visible
    step.emit("todos_assessed", {"ok": verdict.ok, "reason": verdict.reason})
    if not verdict.ok:
        message = prompts.render_rejection(verdict.item.subject, verdict.reason)
        reject_answer(step, verdict.reason, message, prompts.REJECTED_ANSWER)
        return
    with act_as(step.tx, "the assessor"):
        state = plan.complete_queue_item(step.tx, step.context.scope, step.turn_id, verdict.item.id, answer[:TEXT_LIMIT])
    if state.current is None:
        step.finish("drained", answer)
        return
    step.say(answer)
    cap = step.limits.resubmissions
    if step.run.resubmissions >= cap and not step.run.unread:
        reason = prompts.describe_resubmission_limit(cap)
        step.emit("todos_limit", {"max": cap, "remaining": state.remaining, "message": reason})
        step.give_up(reason, "limit")
        return
    step.run = step.run._replace(resubmissions=step.run.resubmissions + 1)
    step.emit_after_list("todos_resubmitting", {"next": state.current.subject, "state": state.as_json()})
    step.append(build_runtime_message(prompts.render_next_item(state.current.subject)))
