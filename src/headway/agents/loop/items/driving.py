"""What a turn does next: ask the model again, turn to the next open items, or end with what is done and what is not.

A run first tries the whole request. Items that are open when the model stops, or no longer gets anywhere, are taken up in new
contexts. All of this is derived from the transcript, so that it survives a crash.
"""

from typing import Final

from pydantic_ai.messages import ToolReturnPart

from headway.actions import todos, turn_items
from headway.actions.turn_items import NO_TODO, RUNTIME_ACTOR, Item
from headway.agents.instructions import prompts
from headway.agents.loop.calls import proofs
from headway.agents.loop.items.contexts import (
    is_stuck,
    list_answers,
    list_focus,
    open_context,
    show_files,
)
from headway.agents.loop.items.plan_items import get_task, is_active, list_items, settle
from headway.agents.loop.requests import RunChecks, Sleep, Stop
from headway.agents.loop.step import Step, list_open_items
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.transcripts.facts import build_runtime_message
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.agents.transcripts.window import find_context
from headway.ledger.run import RunEnd
from headway.ledger.text import TEXT_LIMIT
from headway.ledger.todo import Todo
from headway.storage.transaction import act_as

PATIENCE: Final = 2  # answers with calls to the whole request before the first item is done
PASS_TOKENS: Final = 4_000  # a longer context of the whole request costs more than one for each item


def begin(step: Step) -> None:
    """Prepare a run that begins: make the plan of a turn, and show the files that the request names."""
    if is_active(step):
        if step.turn_id and not step.plan():
            turn_items.plan_request(step.tx, step.context.scope, step.turn_id, step.run.task)
        show_files(step, get_task(step))


def steer(step: Step) -> Stop | bool:
    """Look at what the last calls did, before the model is asked again. Returns whether the run turned to another context."""
    if not is_active(step) or not isinstance(step.entries[-1].message.parts[0], ToolReturnPart) or not list_answers(step):
        return False
    had = len(list_open_items(step.plan()))
    items = settle(step, list_focus(step))
    if not items:
        return not has_programs(step) and (finish(step) or True)
    focus = list_focus(step)
    made_progress = len(items) < had
    if all(item.is_impossible for item in items):
        is_over = True
    elif not focus:
        is_over = is_pass_over(step, made_progress=made_progress)
    else:
        is_over = is_stuck(step) or made_progress or not any(item.id in focus for item in items)
    return is_over and (take_next(step, items) or True)


def is_pass_over(step: Step, *, made_progress: bool) -> bool:
    """Whether the context of the whole request has done what it can."""
    plan = step.plan()
    if not plan:
        return is_stuck(step)
    if made_progress:
        return step.size.tokens > PASS_TOKENS
    return any(todo.ended for todo in plan) or len(list_answers(step)) >= PATIENCE or is_stuck(step)


def has_programs(step: Step) -> bool:
    """Whether the agent can run programs. It then looks itself at what it wrote before it ends the turn."""
    return any(tool.name in PROGRAM_TOOLS for tool in step.context.offer.parameters.function_tools)


def has_proof(step: Step) -> bool:
    """Whether calls can prove any item, so that an empty answer is as good as another."""
    return any(item.finding for item in list_items(step))


def check_answer(step: Step, entry: TranscriptEntry, text: str) -> RunChecks | Sleep | Stop | None:
    """Accept an answer, send the model back to work, or turn to the next open item."""
    for todo in list_open_items(step.plan()):
        if todo.checks and isinstance(found := prove(step, entry.n, todo, text), RunChecks | Sleep | Stop):
            return found
    items = settle(step, list_focus(step), text)
    if not items:
        has_own_words = not list_focus(step) and not step.run.is_main
        return step.finish("drained" if step.plan() else "answered", text) if has_own_words else finish(step, text)
    current = [item for item in items if item.id in list_focus(step) or not item.todo]
    return None if len(current) == 1 and nudge(step, current[0]) else take_next(step, items)


def prove(step: Step, n: int, todo: Todo, text: str) -> proofs.Requirement:
    """Run the checks of an item. It is completed if they pass."""
    found = proofs.complete_with_proof(step, n, todo, step.parse(text).visible[:TEXT_LIMIT])
    if found is None:
        with act_as(step.tx, RUNTIME_ACTOR):
            todos.end(step.tx, step.run.tenant_id, todo.id, "completed", "All checks passed.")
    return found


def nudge(step: Step, item: Item) -> bool:
    """Ask for the missing call, once and only if the model has begun to work. A fresh context helps more than a second reminder."""
    has_begun = any(call.succeeded for calls in list_answers(step) for call in calls)
    was_nudged = any("nudge" in entry.facts for entry in step.entries[find_context(step.entries) :])
    if item.finding is None or item.is_impossible or not has_begun or was_nudged:
        return False
    step.emit("refused", {"remaining": len(list_open_items(step.plan())), "reason": prompts.to_sentence(item.finding.reason)})
    step.append(build_runtime_message(prompts.render_missing(item.finding.reason), {"nudge": True}))
    return True


def take_next(step: Step, items: list[Item]) -> Stop | None:
    """Open a context for what is next among the open items; if nothing can succeed any more, end the turn."""
    chosen = turn_items.choose_next(items, [entry.facts["focus"] for entry in step.entries if "focus" in entry.facts])
    if not chosen:
        return give_up(step, items)
    open_context(step, chosen)
    return None


def finish(step: Step, answer: str = "") -> Stop | None:
    """End the run in the runtime's words: everything is done. A goal learns that this is proven."""
    plan = step.plan()
    if plan:
        return step.finish("drained", prompts.render_report(plan, {}))
    [item] = list_items(step)
    if item.finding is None:
        return step.finish("answered", answer)
    text = prompts.render_done(item.finding.reason)
    if step.run.is_main and not step.run.unread:
        return step.end(RunEnd.report(text, turn_items.PROVEN, success=True))
    return step.finish("answered", text)


def give_up(step: Step, items: list[Item]) -> Stop | None:
    """End the turn in the runtime's words: what is done, and what is not and why."""
    if step.run.unread:
        step.read_on("")
        return None
    reasons = {item.id: item.finding.reason if item.finding else "" for item in items}
    report = prompts.render_report(step.plan(), reasons) if step.plan() else prompts.render_undone(reasons[NO_TODO])
    return step.end(RunEnd.finish("incomplete", "", report))
