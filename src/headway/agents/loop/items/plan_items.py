"""The items of a turn: made from its request, and completed by what the calls show."""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from pydantic_ai.messages import ModelResponse, ToolReturnPart

from headway.actions import todos, turn_plan
from headway.agents.loop.calls.call_arguments import resolve_tool
from headway.agents.loop.step import Step, list_open_items
from headway.agents.tools.files import contents
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.ledger.items.evidence import ItemFinding, MadeCall, Work, collect_work, judge_item
from headway.ledger.items.request_items import asks_for_words, list_paths, says_how, says_what_to_do, split_request
from headway.ledger.text import SUBJECT_LIMIT, TEXT_LIMIT
from headway.ledger.todo import CompletedBy, Todo
from headway.storage.stores.files import versions as file_store
from headway.storage.transaction import act_as

RUNTIME_ACTOR: Final = "the runtime"
NO_TODO: Final = 0
CUT_MARK: Final = "…"
# Tools whose effects on files only the record of files shows.
INDIRECT_TOOLS: Final = frozenset((*PROGRAM_TOOLS, "delegate", "await_agent", "check_agent"))


class Item(NamedTuple):
    """One piece of work: an open item of the plan, or the whole request of a run without a plan."""

    todo: Todo | None
    text: str
    finding: ItemFinding | None  # None: only the agent's word can tell

    @property
    def id(self) -> int:
        return self.todo.id if self.todo else NO_TODO


def is_active(step: Step) -> bool:
    """Whether the runtime keeps the books of this run. Attached files would be lost in a new context."""
    return step.context.drives_items and bool(step.turn_id) and not step.context.attachments


# The plan


def make_plan(step: Step) -> None:
    """Make the plan of a turn that begins, if its request clearly has several items and it has no plan yet."""
    if step.plan():
        return
    introduction, items = split_request(step.run.task)
    if not items:
        return
    plan = [turn_plan.PlanItem(to_subject(text), context=to_context(introduction, text)) for text in items]
    with act_as(step.tx, RUNTIME_ACTOR):
        turn_plan.create(step.tx, step.context.scope, step.turn_id, plan, source="request")


def to_subject(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SUBJECT_LIMIT else text[: SUBJECT_LIMIT - 1] + CUT_MARK


def to_context(introduction: str, text: str) -> str:
    """Return what an item needs beside its subject: the rest of a long text, or an introduction that says how to do it."""
    if len(text) > SUBJECT_LIMIT:
        return text
    return introduction.rstrip(":") if says_how(introduction) or not says_what_to_do(text) else ""


def get_item_text(todo: Todo) -> str:
    if not todo.description:
        return todo.subject
    return todo.description if todo.subject.endswith(CUT_MARK) else f"{todo.description}:\n{todo.subject}"


# What the calls show


def list_calls(step: Step, entries: list[TranscriptEntry]) -> Iterator[MadeCall]:
    made = {}
    for entry in entries:
        if isinstance(entry.message, ModelResponse):
            made = {call.tool_call_id: resolve_tool(step, call) for call in entry.message.tool_calls}
            continue
        for part in entry.message.parts:
            if isinstance(part, ToolReturnPart) and (call := made.get(part.tool_call_id)):
                result = str(part.content)
                arguments = call.arguments if isinstance(call.arguments, dict) else {}
                yield MadeCall(call.name, arguments, result, succeeded=not result.startswith('{"error"'))


def load_work(step: Step) -> Work:
    calls = list(list_calls(step, step.entries))
    is_indirect = any(call.tool in INDIRECT_TOOLS for call in calls)
    changed = file_store.list_changed_paths(step.tx, step.run.tenant_id, step.turn_id) if is_indirect else ()
    return collect_work(calls, changed)


def list_items(step: Step, work: Work) -> list[Item]:
    """List the open items with what is known about each."""
    exists = partial(contents.exists, step.context.execution.workspace)
    plan = step.plan()
    if not plan:
        return [Item(None, step.run.task, judge_item(step.run.task, work, exists))]
    texts = {todo.id: get_item_text(todo) for todo in plan if todo.status != "canceled"}
    named = [path for text in texts.values() for path in list_paths(text)]
    shared = {path for path in named if named.count(path) > 1}
    return [Item(todo, texts[todo.id], judge_item(texts[todo.id], work, exists, shared)) for todo in list_open_items(plan)]


def settle(step: Step, focus: list[int], answer: str = "") -> list[Item]:
    """Complete the items that the calls prove, and with an answer also those in focus that only words complete.

    Returns the open ones.
    """
    items = list_items(step, load_work(step))
    open_items = []
    for item in items:
        is_done = item.finding.is_done if item.finding else bool(answer) and (not focus or item.id in focus)
        needs_words = item.finding is not None and asks_for_words([item.text]) and not answer
        has_checks = item.todo is not None and bool(item.todo.checks)
        if is_done and not needs_words and not has_checks:
            complete(step, item, item.finding.reason if item.finding else answer)
        else:
            open_items.append(item)
    return open_items


def complete(step: Step, item: Item, outcome: str) -> None:
    if item.todo:
        completed_by: CompletedBy = "effect" if item.finding else "agent"
        with act_as(step.tx, RUNTIME_ACTOR):
            todos.end(step.tx, step.run.tenant_id, item.todo.id, "completed", outcome[:TEXT_LIMIT], completed_by=completed_by)
