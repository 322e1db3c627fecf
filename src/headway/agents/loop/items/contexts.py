"""The contexts of a turn: first that of the whole request, then new ones for items that are still open.

Each begins with a message of the transcript, so that a process that resumes the run sends the same window.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pydantic_ai.messages import ModelResponse, ToolCallPart

from headway.actions.turn_items import Item, get_item_text
from headway.agents.instructions import prompts
from headway.agents.loop.context import WANTED_BY, list_wanted
from headway.agents.loop.items.plan_items import get_task, is_active, list_calls, load_work
from headway.agents.loop.step import Step
from headway.agents.tools.files import contents
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.transcripts.facts import build_runtime_message
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.agents.transcripts.window import find_context
from headway.ledger.items.doubts import CALCULATE_FIRST, is_calculation_for, wants_calculation
from headway.ledger.items.evidence import find_item
from headway.ledger.items.request_items import (
    changes_file,
    list_paths,
    list_sources,
    needs_existing,
    refers_back,
)
from headway.ledger.items.work import MadeCall, get_field

SEVERAL_FILES: Final = re.compile(r"\b(?:files|folders?|director(?:y|ies)|workspace)\b", re.IGNORECASE)
RUNTIME_MODEL: Final = "runtime"  # the author of calls that the runtime makes for an agent
NOTHING_WRITTEN: Final = "Nothing was written."  # the beginning of a doubt
BATCH_CALLS: Final = 2  # model calls in a context of several items
FOCUS_CALLS: Final = 6  # and in that of a single item
REPEATED_LIMIT: Final = 2  # answers in a row that do nothing new
HINTS: Final = 4
SHOWN_FILES: Final = 4
SHOWN_BYTES: Final = 8_000


def list_focus(step: Step) -> list[int]:
    """List the todos that the current context is about, NO_TODO for a request without a plan; empty: the whole request."""
    return step.entries[find_context(step.entries)].facts.get("focus", [])


def list_answers(step: Step) -> list[list[MadeCall]]:
    """List the calls of each answer in the current context. Those that the runtime made itself are not the model's."""
    entries = step.entries[find_context(step.entries) :]
    indexes = [index for index, entry in enumerate(entries) if is_answer(entry)]
    return [[*list_calls(step, entries[index : index + 2])] for index in indexes]


def makes_single_calls(step: Step) -> bool:
    """Whether the model makes one call per answer, so that it gains nothing from seeing several items at once."""
    counts = [
        len(entry.message.tool_calls) for entry in step.entries if isinstance(entry.message, ModelResponse) and is_answer(entry)
    ]
    return max(counts, default=0) == 1


def is_answer(entry: TranscriptEntry) -> bool:
    return isinstance(entry.message, ModelResponse) and entry.message.model_name != RUNTIME_MODEL


def is_stuck(step: Step) -> bool:
    """Whether the current context no longer gets anywhere: a write was doubted, or the last calls failed or repeat earlier ones."""
    answers = list_answers(step)
    seen: set[str] = set()
    repeated = 0
    for calls in answers:
        made = {repr(call[:2]) for call in calls if call.succeeded}
        repeated = 0 if made - seen else repeated + 1
        seen |= made
    is_doubted = bool(answers) and any(NOTHING_WRITTEN in call.result for call in answers[-1])
    return is_doubted or repeated >= REPEATED_LIMIT or is_out_of_calls(step, len(answers))


def is_out_of_calls(step: Step, answers: int) -> bool:
    """Whether a context has had enough answers with calls. The only request of a turn, and work with programs, may take more."""
    items = list_focus(step) or step.plan()
    if len(items) > 1:
        return answers >= BATCH_CALLS
    return bool(items) and not has_programs(step) and answers >= FOCUS_CALLS


def has_programs(step: Step) -> bool:
    return any(tool.name in PROGRAM_TOOLS for tool in step.context.offer.parameters.function_tools)


def open_context(step: Step, items: list[Item]) -> None:
    """Open a context for a few items: their words, what earlier attempts taught, and the files that they name."""
    request = get_task(step) if any(refers_back(item.text) for item in items) and items[0].todo else ""
    hints = collect_hints(step, items[0].text) if len(items) == 1 else []
    texts = [item.text for item in items]
    lines = [*prompts.render_messages(step.list_messages()), *hints]
    step.append(build_runtime_message(prompts.render_focus(request, texts, lines), {"focus": [item.id for item in items]}))
    show_files(step, texts)


def collect_hints(step: Step, item: str) -> list[str]:
    """Collect what earlier contexts showed about an item: calculations with its numbers, and why nothing was written."""
    hints = []
    texts = [get_item_text(todo) for todo in step.plan()] or [item]
    for call in list_calls(step, step.entries):
        if is_calculation_for(item, call):
            result = get_field(call.result, "result")
            hints.append(f"{call.arguments['expression']} = {result}. Write only {result}.")
        elif NOTHING_WRITTEN in call.result and is_about(item, call, find_item(texts, call.arguments)):
            hint = get_field(call.result, "error").removeprefix(NOTHING_WRITTEN).strip()
            hints.append(CALCULATE_FIRST if hint.endswith(CALCULATE_FIRST) else hint)  # a wrong number would be calculated with
    return list(dict.fromkeys(hints))[-HINTS:]


def is_about(item: str, call: MadeCall, found: str) -> bool:
    """Whether a refused write was meant for an item: it belongs to it, or to no item, and the refusal names one of its files."""
    return found == item or (not found and any(path in call.result for path in list_paths(item)))


def list_existing(step: Step, texts: Sequence[str]) -> list[str]:
    """List the existing files that items name, without those that an earlier attempt at the same item made."""
    workspace, written = step.context.execution.workspace, load_work(step).written
    naming = Counter(path for todo in step.plan() for path in list_paths(get_item_text(todo)))
    named = {path: text for text in texts for path in list_paths(text) if contents.exists(workspace, path)}
    return [
        path
        for path, text in named.items()
        if path not in written or naming[path] > 1 or needs_existing(text, path) or path in list_sources(text)
    ]


def show_files(step: Step, texts: Sequence[str]) -> None:
    """Read the existing files that items name, with calls in the agent's name, so that the model begins with their contents."""
    workspace = step.context.execution.workspace
    sizes = {path: size for path in list_existing(step, texts) if (size := contents.measure(workspace, path))}
    tool = step.context.tools.get("read_file")
    is_granted = tool is not None and step.context.role.grants(tool.family, tool.name)
    if not sizes or len(sizes) > SHOWN_FILES or sum(sizes.values()) > SHOWN_BYTES or not is_granted:
        return
    calls = [ToolCallPart("read_file", {"path": path}, f"runtime-{step.next_number}-{index}") for index, path in enumerate(sizes)]
    step.append(ModelResponse(calls, model_name=RUNTIME_MODEL, finish_reason="tool_call"))


def list_tools(step: Step) -> frozenset[str] | None:
    """List the tools for a context whose items all change files: the simple ones that their words need. None: all."""
    if not is_active(step):
        return None
    focus, plan = list_focus(step), step.plan()
    texts = [get_item_text(todo) for todo in plan if todo.id in focus or not focus] if plan else [get_task(step)]
    if not texts or not all(map(changes_file, texts)):
        return None
    text = "\n".join(texts)
    unneeded = set(WANTED_BY) - list_wanted(text)
    is_calculated = len(texts) == 1 and any(is_calculation_for(text, call) for call in list_calls(step, step.entries))
    if is_calculated or (not any(map(wants_calculation, texts)) and not any(map(refers_back, texts))):
        unneeded.add("calculate")
    existing = set(list_existing(step, texts))
    sources = {path for each in texts for path in list_sources(each)}
    if existing <= sources:
        unneeded.add("edit_file")
    if not SEVERAL_FILES.search(text):
        unneeded |= {"list_files"} if existing - load_work(step).read else {"list_files", "read_file"}
    return frozenset(tool.name for tool in step.context.offer.parameters.function_tools if tool.name not in unneeded)
