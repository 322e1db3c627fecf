"""The items of a run: what its calls show about each."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from pydantic_ai.messages import ModelResponse, ToolReturnPart

from headway.actions import turn_items
from headway.actions.turn_items import Item
from headway.agents.loop.calls.call_arguments import resolve_tool
from headway.agents.loop.step import Step
from headway.agents.tools.files import contents
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.ledger.items.evidence import judge_item
from headway.ledger.items.work import MadeCall, Work, collect_work
from headway.storage.stores.files import versions as file_store

# Tools whose effects on files only the record of files shows.
INDIRECT_TOOLS: Final = frozenset((*PROGRAM_TOOLS, "delegate", "await_agent", "check_agent"))


def is_active(step: Step) -> bool:
    """Whether the runtime keeps the books of this run, which answers a turn or works on a sub-goal.

    Attached files would be lost in a new context.
    """
    return step.context.drives_items and (bool(step.turn_id) or step.run.is_main) and not step.context.attachments


def get_task(step: Step) -> str:
    """Return what the run was asked for: the turn's request, or the sub-goal without what surrounds it."""
    return step.entries[0].facts.get("task") or step.run.task


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


def list_items(step: Step) -> list[Item]:
    """List the open items with what is known about each. A request without a plan is one item."""
    work, exists = load_work(step), partial(contents.exists, step.context.execution.workspace)
    plan, task = step.plan(), get_task(step)
    return turn_items.judge_plan(plan, work, exists) if plan else [Item(None, task, judge_item(task, work, exists))]


def settle(step: Step, focus: list[int], answer: str = "") -> list[Item]:
    """Complete what is done, and return the open items."""
    return turn_items.settle(step.tx, step.run.tenant_id, list_items(step), focus, answer)
