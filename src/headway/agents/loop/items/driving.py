"""What a turn does next: ask the model again, turn to the next open items, or end with what is done and what is not.

A run first tries the whole request. Items that are open when the model stops, or no longer gets anywhere, are taken up in new
contexts. All of this is derived from the transcript, so that it survives a crash.
"""

from pydantic_ai.messages import ToolReturnPart

from headway.actions import todos, turn_items
from headway.actions.turn_items import NO_TODO, RUNTIME_ACTOR, Item
from headway.agents.instructions import prompts
from headway.agents.loop.calls import proofs
from headway.agents.loop.items.contexts import (
    has_programs,
    is_stuck,
    list_answers,
    list_focus,
    makes_single_calls,
    open_context,
    show_files,
)
from headway.agents.loop.items.plan_items import get_task, is_active, list_items, settle
from headway.agents.loop.requests import RunChecks, Sleep, Stop
from headway.agents.loop.step import Step, list_open_items
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.ledger.run import RunEnd
from headway.ledger.text import TEXT_LIMIT
from headway.ledger.todo import Todo
from headway.storage.transaction import act_as


def begin(step: Step) -> None:
    """Prepare a run that begins: make the plan of a turn, and show the files that the request names."""
    if is_active(step):
        if step.turn_id and not step.plan():
            turn_items.plan_request(step.tx, step.context.scope, step.turn_id, step.run.task)
        show_files(step, [get_task(step)])


def steer(step: Step) -> Stop | bool:
    """Look at what the last calls did, before the model is asked again. Returns whether the run turned to another context."""
    if not is_active(step) or not isinstance(step.entries[-1].message.parts[0], ToolReturnPart) or not list_answers(step):
        return False
    had = len(list_open_items(step.plan()))
    items = settle(step, list_focus(step))
    if not items:
        return not has_programs(step) and (finish(step) or True)  # with programs, the agent looks at what it wrote first
    focus = list_focus(step)
    is_over = (
        len(items) < had
        or all(item.is_impossible for item in items)
        or (bool(focus) and not any(item.id in focus for item in items))
        or is_stuck(step)
    )
    return is_over and (take_next(step, items) or True)


def has_proof(step: Step) -> bool:
    """Whether calls can prove any item, so that an empty answer is as good as another."""
    return any(item.finding for item in list_items(step))


def expects_calls(step: Step) -> bool:
    """Whether the current context can only succeed by calls, so that the rest of a long text would be of no use."""
    focus = list_focus(step)
    return is_active(step) and all(item.finding for item in list_items(step) if not focus or item.id in focus)


def check_answer(step: Step, entry: TranscriptEntry, text: str) -> RunChecks | Sleep | Stop | None:
    """Accept an answer, or turn to the next open items."""
    for todo in list_open_items(step.plan()):
        if todo.checks and isinstance(found := prove(step, entry.n, todo, text), RunChecks | Sleep | Stop):
            return found
    items = settle(step, list_focus(step), text)
    if not items:
        has_own_words = not list_focus(step) and not step.run.is_main
        return step.finish("drained" if step.plan() else "answered", text) if has_own_words else finish(step, text)
    return take_next(step, items)


def prove(step: Step, n: int, todo: Todo, text: str) -> proofs.Requirement:
    """Run the checks of an item. It is completed if they pass."""
    found = proofs.complete_with_proof(step, n, todo, step.parse(text).visible[:TEXT_LIMIT])
    if found is None:
        with act_as(step.tx, RUNTIME_ACTOR):
            todos.end(step.tx, step.run.tenant_id, todo.id, "completed", "All checks passed.")
    return found


def take_next(step: Step, items: list[Item]) -> Stop | None:
    """Open a context for what is next among the open items; if nothing can succeed any more, end the turn."""
    tried = [entry.facts["focus"] for entry in step.entries if "focus" in entry.facts]
    chosen = turn_items.choose_next(items, tried, in_batches=not makes_single_calls(step))
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
