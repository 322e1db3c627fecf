"""The runtime keeps the books of small models: it drives them item by item, each in its own context, and doubts claims."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart

from headway.actions.todos import todos
from headway.actions.turns import plan as plan_turn
from headway.actions.turns.plan import NO_TODO, RUNTIME_ACTOR, Item, get_item_text
from headway.agents.instructions import prompts
from headway.agents.loop.calls import proofs
from headway.agents.loop.calls.proposals import parse_arguments, resolve_tool
from headway.agents.loop.context import WANTED_BY, list_wanted
from headway.agents.loop.requests import RunChecks, Sleep, Stop
from headway.agents.loop.step import Step, list_open_items
from headway.agents.tools import builtin
from headway.agents.tools.files import contents
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.transcripts.history import find_context
from headway.agents.transcripts.transcript import TranscriptEntry, build_runtime_message
from headway.ledger.errors import HeadwayError
from headway.ledger.items.advice import advise_call, correct_path, list_results, states_content
from headway.ledger.items.doubts import CALCULATE_FIRST, find_doubts, find_item, is_calculation_for, judge_item, wants_calculation
from headway.ledger.items.request_items import changes_file, list_paths, list_sources, needs_existing, normalise, refers_back
from headway.ledger.items.work import WRITING_TOOLS, MadeCall, Work, collect_work, get_field, join_names
from headway.ledger.run import RunEnd
from headway.ledger.text import TEXT_LIMIT
from headway.ledger.todo import Todo
from headway.storage.stores import files as file_store
from headway.storage.transaction import act_as

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
    return plan_turn.judge_plan(plan, work, exists) if plan else [Item(None, task, judge_item(task, work, exists))]


def settle(step: Step, focus: list[int], answer: str = "") -> list[Item]:
    """Complete what is done, and return the open items."""
    return plan_turn.settle_item(step.tx, step.run.tenant_id, list_items(step), focus, answer)


# The contexts of a turn: first that of the whole request, then new ones for items that are still open.


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
    texts = [item.text for item in items]
    shown = list_shown(step, texts)
    advice = "" if shown else advise(step, texts)
    hints = collect_hints(step, texts[0]) if len(texts) == 1 and not states_content(advice) else []
    hints += [advice] if advice and not (hints and advice == CALCULATE_FIRST) else []
    lines = [*hints, *prompts.render_messages(step.list_messages())]
    step.append(build_runtime_message(prompts.render_focus(request, texts, lines), {"focus": [item.id for item in items]}))
    show_files(step, shown)


def advise(step: Step, texts: Sequence[str]) -> str:
    """Say which call a single item needs next. Work with programs and with several files finds its own way."""
    tools = {tool.name for tool in step.context.offer.parameters.function_tools}
    offered = choose_tools(step, texts) or tools
    if len(texts) != 1 or has_programs(step) or "list_files" in offered:
        return ""
    return advise_call(texts[0], load_work(step), list(list_calls(step, step.entries)), offered)


def append_advice(step: Step) -> None:
    """Say it again after results, because a small model continues from the last text it has seen."""
    if advice := advise(step, list_texts(step)):
        step.append(build_runtime_message(prompts.render_advice(advice)))


def collect_hints(step: Step, item: str) -> list[str]:
    """Collect what earlier contexts showed about an item: calculations with its numbers, and why nothing was written."""
    hints = []
    texts = [get_item_text(todo) for todo in step.plan()] or [item]
    work, calls = load_work(step), list(list_calls(step, step.entries))
    hints = [f"{expression} = {result}. Write only {result}." for expression, result in list_results(item, work, calls)]
    for call in calls:
        if NOTHING_WRITTEN in call.result and is_about(item, call, find_item(texts, call.arguments)):
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


def list_shown(step: Step, texts: Sequence[str]) -> list[str]:
    """List the existing files that items name, if they are few and short and the agent may read them."""
    workspace = step.context.execution.workspace
    sizes = {path: size for path in list_existing(step, texts) if (size := contents.measure(workspace, path))}
    tool = step.context.tools.get("read_file")
    is_granted = tool is not None and step.context.role.grants(tool.family, tool.name)
    return [*sizes] if len(sizes) <= SHOWN_FILES and sum(sizes.values()) <= SHOWN_BYTES and is_granted else []


def show_files(step: Step, paths: Sequence[str]) -> None:
    """Read files with calls in the agent's name, so that the model begins with their contents."""
    calls = [ToolCallPart("read_file", {"path": path}, f"runtime-{step.next_number}-{index}") for index, path in enumerate(paths)]
    if calls:
        step.append(ModelResponse(calls, model_name=RUNTIME_MODEL, finish_reason="tool_call"))


def list_texts(step: Step) -> list[str]:
    """List the items that the current context is about."""
    focus, plan = list_focus(step), step.plan()
    return [get_item_text(todo) for todo in plan if todo.id in focus or not focus] if plan else [get_task(step)]


def list_tools(step: Step) -> frozenset[str] | None:
    return choose_tools(step, list_texts(step)) if is_active(step) else None


def choose_tools(step: Step, texts: Sequence[str]) -> frozenset[str] | None:
    """Choose the tools for a context whose items all change files: the simple ones that their words need, or None for all."""
    if not texts or not all(map(changes_file, texts)):
        return None
    text = "\n".join(texts)
    work = load_work(step)
    unneeded = set(WANTED_BY) - list_wanted(text)
    is_calculated = len(texts) == 1 and any(is_calculation_for(text, call, work) for call in list_calls(step, step.entries))
    if is_calculated or (not any(map(wants_calculation, texts)) and not any(map(refers_back, texts))):
        unneeded.add("calculate")
    existing = set(list_existing(step, texts))
    sources = {path for each in texts for path in list_sources(each)}
    if existing <= sources:
        unneeded.add("edit_file")
    if not SEVERAL_FILES.search(text):
        unneeded |= {"list_files"} if existing - work.read else {"list_files", "read_file"}
    return frozenset(tool.name for tool in step.context.offer.parameters.function_tools if tool.name not in unneeded)


# The next move of a turn: ask the model again, turn to the next open items, or end with a list of the done and the open ones.


def begin(step: Step) -> None:
    """Prepare a run that begins: make the plan of a turn, and show the files that the request names."""
    if is_active(step):
        if step.turn_id and not step.plan():
            plan_turn.plan_request(step.tx, step.context.scope, step.turn_id, step.run.task)
        show_files(step, shown := list_shown(step, [get_task(step)]))
        if not shown and not step.plan():
            append_advice(step)


def steer(step: Step) -> Stop | bool:
    """Look at what the last calls did, before the model is asked again. Returns whether the run turned to another context."""
    if not is_active(step) or not isinstance(step.entries[-1].message.parts[0], ToolReturnPart):
        return False
    if not list_answers(step):  # the runtime has shown files
        append_advice(step)
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
    if is_over:
        return take_next(step, items) or True
    append_advice(step)
    return False


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
            todos.end_todo(step.tx, step.run.tenant_id, todo.id, "completed", "All checks passed.")
    return found


def take_next(step: Step, items: list[Item]) -> Stop | None:
    """Open a context for what is next among the open items; if nothing can succeed any more, end the turn.

    Items share a context if the model makes several calls at once, and if they need no files, of which each needs a look.
    """
    tried = [entry.facts["focus"] for entry in step.entries if "focus" in entry.facts]
    gains_nothing = makes_single_calls(step) or bool(list_existing(step, [item.text for item in items]))
    chosen = plan_turn.choose_next(items, tried, in_batches=not gains_nothing)
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
        return step.end(RunEnd.report(text, plan_turn.PROVEN, success=True))
    return step.finish("answered", text)


def give_up(step: Step, items: list[Item]) -> Stop | None:
    """End the turn in the runtime's words: what is done, and what is not and why."""
    if step.run.unread:
        step.read_on("")
        return None
    reasons = {item.id: item.finding.reason if item.finding else "" for item in items}
    report = prompts.render_report(step.plan(), reasons) if step.plan() else prompts.render_undone(reasons[NO_TODO])
    return step.end(RunEnd.finish("incomplete", "", report))


def correct_paths(step: Step, response: ModelResponse) -> ModelResponse:
    """Remove folders that a small model put before the name of an item's file."""
    texts = list_texts(step)
    parts = list(response.parts)
    for index, part in enumerate(parts):
        if not isinstance(part, ToolCallPart) or part.tool_name not in WRITING_TOOLS:
            continue
        arguments = parse_arguments(part)
        path = arguments.get("path") if isinstance(arguments, dict) else None
        meant = correct_path(texts, normalise(path)) if isinstance(path, str) else ""
        if meant and meant != normalise(str(path)):
            parts[index] = ToolCallPart(part.tool_name, {**arguments, "path": meant}, part.tool_call_id)
    return response if parts == response.parts else replace(response, parts=parts)


# Doubts about what an agent is about to write. A doubted call is refused with a hint.


def find_doubt(step: Step, tool: str, arguments: dict[str, Any]) -> str:
    """Return why a file should not be written like this. Each doubt is raised once, except if the write would do harm."""
    path, content = arguments.get("path"), arguments.get("content" if tool == "write_file" else "new")
    if tool not in ("write_file", "edit_file") or not is_active(step) or not isinstance(path, str) or not isinstance(content, str):
        return ""
    path = normalise(path.strip())
    texts = [get_item_text(todo) for todo in step.plan()] or [get_task(step)]
    focused = [get_item_text(todo) for todo in step.plan() if todo.id in list_focus(step)]
    item = find_item(focused, arguments) or find_item(texts, arguments)
    raised = "".join(call.result for call in list_calls(step, step.entries) if not call.succeeded)
    if not item or path not in list_paths(item):
        doubt = doubt_path([item] if item else focused, path)
        return doubt if doubt not in raised or item else ""
    if focused and item not in focused:
        return f"{NOTHING_WRITTEN} {path} belongs to another item, which is not to be done now."
    exists = partial(contents.exists, step.context.execution.workspace)
    for kind, reason in find_doubts(item, tool, path, content, load_work(step), exists):
        explained = explain_expression(content) if kind == "expression" else ""
        if kind in ("absent", "source", "lost") or (explained or reason) not in raised:
            return f"{NOTHING_WRITTEN} {explained or reason}"
    return ""


def doubt_path(texts: list[str], path: str) -> str:
    """Doubt a file that no item names, if all items name the files that they change."""
    meant = [name for text in texts if changes_file(text) for name in list_paths(text) if name not in list_sources(text)]
    return f"{NOTHING_WRITTEN} The path is {join_names(meant)}, not {path}." if meant else ""


def explain_expression(content: str) -> str:
    """Say the value of a calculation that was written instead of its result."""
    expression = content.partition("=")[0].replace("×", "*").replace("^", "**").strip()
    try:
        value = builtin.evaluate_expression(expression)
    except HeadwayError:
        return ""
    return f"{expression} = {value}. Write only {value}."
