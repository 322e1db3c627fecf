"""The contexts of a turn: first that of the whole request, then new ones for items that are still open.

Each begins with a message of the transcript, so that a process that resumes the run sends the same window.
"""

from typing import Final

from pydantic_ai.messages import ModelResponse, ToolCallPart

from headway.actions.turn_items import Item, get_item_text
from headway.agents.instructions import prompts
from headway.agents.loop.items.plan_items import get_task, is_active, list_calls, load_work
from headway.agents.loop.step import Step
from headway.agents.tools.files import contents
from headway.agents.tools.results import USE_TOOL
from headway.agents.transcripts.facts import build_runtime_message
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.agents.transcripts.window import find_context
from headway.ledger.items.evidence import COMPUTING, MadeCall, get_field
from headway.ledger.items.request_items import changes_file, list_paths, list_sources, refers_back, strip_lead_in

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
    focus = list_focus(step)
    limit = FOCUS_CALLS if len(focus) == 1 else BATCH_CALLS
    return is_doubted or repeated >= REPEATED_LIMIT or (bool(focus) and len(answers) >= limit)


def open_context(step: Step, items: list[Item]) -> None:
    """Open a context for a few items: their words, what earlier attempts taught, and the files that they name."""
    request = get_task(step) if any(refers_back(item.text) for item in items) and items[0].todo else ""
    hints = collect_hints(step, items[0]) if len(items) == 1 else []
    texts = [strip_lead_in(item.text) for item in items]
    lines = [*prompts.render_messages(step.list_messages()), *hints]
    step.append(build_runtime_message(prompts.render_focus(request, texts, lines), {"focus": [item.id for item in items]}))
    show_files(step, " ".join(texts))


def collect_hints(step: Step, item: Item) -> list[str]:
    """Collect what the last context showed about an item: calculations, and why nothing was written."""
    hints = []
    paths = list_paths(item.text)
    for calls in list_answers(step):
        for call in calls:
            if call.tool == "calculate" and call.succeeded and list_focus(step) == [item.id]:
                hints.append(f"{call.arguments.get('expression')} = {get_field(call.result, 'result')}.")
            elif NOTHING_WRITTEN in call.result and str(call.arguments.get("path", "")).removeprefix("./") in paths:
                hints.append(get_field(call.result, "error").removeprefix(NOTHING_WRITTEN).strip())
    return list(dict.fromkeys(hints))[-HINTS:]


def show_files(step: Step, text: str) -> None:
    """Read the existing files that a text names, with calls in the agent's name, so that the model begins with their contents."""
    workspace = step.context.execution.workspace
    sizes = {path: size for path in list_paths(text) if (size := contents.measure(workspace, path))}
    tool = step.context.tools.get("read_file")
    is_granted = tool is not None and step.context.role.grants(tool.family, tool.name)
    if not sizes or len(sizes) > SHOWN_FILES or sum(sizes.values()) > SHOWN_BYTES or not is_granted:
        return
    calls = [ToolCallPart("read_file", {"path": path}, f"runtime-{step.next_number}-{index}") for index, path in enumerate(sizes)]
    step.append(ModelResponse(calls, model_name=RUNTIME_MODEL, finish_reason="tool_call"))


def list_tools(step: Step) -> frozenset[str] | None:
    """List the tools for the context of one item: the simple ones that its words need. None: all."""
    focus = list_focus(step) if is_active(step) else []
    texts = [get_item_text(todo) for todo in step.plan() if todo.id in focus]
    if not texts or not all(map(changes_file, texts)):
        return None
    text = "\n".join(texts)
    offered = {tool.name for tool in step.context.offer.parameters.function_tools}
    unneeded = {"list_files", "now", "delegate", USE_TOOL}
    if not COMPUTING.search(text) and not refers_back(text):
        unneeded.add("calculate")
    existing = [path for path in list_paths(text) if contents.exists(step.context.execution.workspace, path)]
    sources = {path for each in texts for path in list_sources(each)}
    if not set(existing) - sources:
        unneeded |= {"edit_file"}
    if not set(existing) - load_work(step).read:
        unneeded |= {"read_file"}
    return frozenset(offered - unneeded)
