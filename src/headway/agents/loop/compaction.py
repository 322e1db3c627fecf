"""Compaction: when a run's window is large, old tool results become stubs. When it nearly fills the model's context and stubs are
not enough, the cheap model tier writes a note that replaces the oldest messages.

Each compaction is a message of the run's transcript, so that a process that resumes the run sends the same window.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from headway.agents.instructions import guide, prompts
from headway.agents.loop.requests import Compact, NoteWritten
from headway.agents.loop.step import Step
from headway.agents.tools.arguments import parse_json_text
from headway.agents.transcripts.history import find_compactions, get_handle, is_long, is_tool_result, shrink
from headway.agents.transcripts.transcript import (
    CHARACTERS_PER_TOKEN,
    CompactionFacts,
    Facts,
    TranscriptEntry,
    build_runtime_message,
    find_facts,
)
from headway.ledger.framing import escape_frames
from headway.ledger.run import RunEnd

FULL_SHARE: Final = 0.85  # the share of the budget at which a compaction starts
ROOMY_SHARE: Final = 0.7  # the share of the limit that stubs alone must reach; otherwise a note is written
WORTHWHILE_SHARE: Final = 0.3  # or the share of the window that they must save, before the budget is used
KEPT_SHARE: Final = 0.25  # the share of the limit that the newest messages may fill, which stay as they are
WORKING_TOKENS: Final = 48_000  # old results become stubs beyond this size, unless the context size is set
REFUSED_SHARE: Final = 0.6  # the share of a refused request's size that the run uses from then on
OPENING_SHARE: Final = 0.2  # of the budget, for the task that a note repeats
MIN_GAIN: Final = 0.1  # a note must replace at least this share of the window
RESULTS_LIMIT: Final = 100  # handles in a note
TOKENS_PER_LISTED_RESULT: Final = 100  # of the budget
LABEL_LIMIT: Final = 80
MAX_REFUSALS: Final = 2  # by the provider, of one request


def make_room(step: Step) -> Compact | None:
    """Compact the window if it is large. Returns the request for a note if one has to be written.

    Stubs come early, because every request pays for what it repeats and a stub loses nothing. A note comes only when the budget
    is nearly used.
    """
    budget, size = get_budget(step), step.size
    full = budget * FULL_SHARE
    limit = min(full, get_working_tokens(step))
    if size.tokens <= limit:
        return None
    window = step.window
    boundary = find_boundary(window, int(limit * KEPT_SHARE / size.scale))
    older = [entry for entry in window if entry.n < boundary]
    saved = sum(entry.tokens - shrink(entry).tokens for entry in older) * size.scale
    if saved and (size.tokens - saved <= limit * ROOMY_SHARE or (size.tokens <= full and saved >= size.tokens * WORTHWHILE_SHARE)):
        append_compaction(step, boundary)
        return None
    if size.tokens <= full:
        return None
    replaced = [entry for entry in older if not is_note(entry)]
    if sum(entry.tokens for entry in replaced) * size.scale < size.tokens * MIN_GAIN:
        return None  # nothing that could be left out; the provider decides
    characters = step.context.runtime.models.describe("cheap").context_tokens * CHARACTERS_PER_TOKEN // 2
    return Compact(boundary, render_stretch(older, characters), step.is_last_attempt)


def get_budget(step: Step) -> int:
    """Return how many tokens a request may have. A provider's refusal of a shorter one lowers it."""
    info = step.context.models.describe(step.context.role.tier)
    refused = (entry.facts["refused_tokens"] for entry in step.entries if "refused_tokens" in entry.facts)
    return min([info.context_tokens - info.max_output_tokens, *(int(tokens * REFUSED_SHARE) for tokens in refused)])


def get_working_tokens(step: Step) -> int:
    """Return the size beyond which old results become stubs. A size that the installation sets is used up first."""
    info = step.context.models.describe(step.context.role.tier)
    return info.context_tokens if info.is_context_set else WORKING_TOKENS


def find_boundary(window: Sequence[TranscriptEntry], kept_tokens: int) -> int:
    """Return the number of the first message to keep. It is never a tool result, which would lose its call."""
    index = len(window) - 1
    tokens = window[index].tokens
    while index > 0 and (is_tool_result(window[index].message) or tokens + window[index - 1].tokens <= kept_tokens):
        index -= 1
        tokens += window[index].tokens
    return window[index].n


def is_note(entry: TranscriptEntry) -> bool:
    return "compaction" in entry.facts


def append_note(step: Step, note: NoteWritten) -> None:
    """Record the note that replaces the messages before the boundary."""
    step.charge(note.call)
    if not any(entry.n < note.boundary and not is_note(entry) for entry in step.window):
        return  # a commit without acknowledgement has already recorded it
    append_compaction(step, note.boundary, note.text)


def append_compaction(step: Step, boundary: int, summary: str | None = None) -> None:
    before = step.size
    results = list_noted_results(step)
    facts: CompactionFacts = {"shrunk_before": boundary, "noted_before": None, "results": results, "scale": before.scale}
    if summary is None:
        step.append(build_runtime_message("", {"compaction": facts}))
    else:
        replaced = [entry for entry in step.window if entry.n < boundary]
        limit = min(RESULTS_LIMIT, get_budget(step) // TOKENS_PER_LISTED_RESULT)
        facts |= {"noted_before": boundary, "results": [*results, *list_results(replaced)][-limit:]}
        step.append(repeat_guide(step, boundary, build_note(step, facts, summary)))
    step.emit("compacted", {"run_id": step.run.id, "tokens_before": before.tokens, "tokens_after": step.size.tokens})


def build_note(step: Step, facts: CompactionFacts, summary: str) -> ModelRequest:
    plan = step.plan()
    if step.turn_id:
        opening_lines = prompts.render_request_and_plan(step.run.task, plan, step.list_messages())
        text = prompts.render_note(opening_lines, summary, facts["results"])
        return build_runtime_message(
            text, {"compaction": facts, "request": escape_frames(step.run.task), **prompts.to_plan_facts(plan)}
        )
    opening, messages = step.entries[0].message, prompts.render_messages(step.list_messages())
    limit = int(get_budget(step) * OPENING_SHARE * CHARACTERS_PER_TOKEN)
    text = f"{render_prompt(opening.parts)[:limit]}\n\n{prompts.render_note(messages, summary, facts['results'])}"
    opening_facts: Facts = find_facts(opening) or {}
    return build_runtime_message(text, {**opening_facts, "compaction": facts})


def repeat_guide(step: Step, boundary: int, note: ModelRequest) -> ModelRequest:
    """Add the workspace's AGENTS.md to a note that replaces the message with it, unless it takes too much of a small budget."""
    body = guide.find_shown(step.window)
    is_kept = guide.find_shown([entry for entry in step.window if entry.n >= boundary]) is not None
    if body is None or is_kept or len(body) > get_budget(step) * OPENING_SHARE * CHARACTERS_PER_TOKEN:
        return note
    facts: Facts = {**(find_facts(note) or {}), "guide": True}
    return build_runtime_message(f"{render_prompt(note.parts)}\n\n{guide.render_frame(body)}", facts)


def list_noted_results(step: Step) -> list[tuple[str, str]]:
    """List the results that earlier notes replaced, of this run or of the turn before it."""
    last = next((compaction.facts for compaction in find_compactions(step.entries)), None)
    first_facts = step.window[0].facts
    inherited = first_facts["compaction"]["results"] if "compaction" in first_facts else []
    return last["results"] if last else inherited


def list_results(entries: Iterable[TranscriptEntry]) -> Iterator[tuple[str, str]]:
    """Yield the call and the handle of each long result in the messages."""
    calls: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry.message, ModelResponse):
            calls |= {call.tool_call_id: render_label(call) for call in entry.message.tool_calls}
        for part in entry.message.parts:
            if isinstance(part, ToolReturnPart) and (handle := get_handle(part)) and is_long(part):
                yield calls.get(part.tool_call_id, part.tool_name), handle


def render_label(call: ToolCallPart) -> str:
    """Render a call in a few words: the tool and the values of its arguments."""
    arguments = parse_json_text(call.args)
    values = arguments.values() if isinstance(arguments, dict) else [call.args]
    return f"{call.tool_name} {', '.join(map(str, values))}"[:LABEL_LIMIT]


def render_stretch(entries: Sequence[TranscriptEntry], limit: int) -> str:
    """Render messages for the model that writes the note. Long parts are cut, so that the whole stays within the limit."""
    pieces = [piece for entry in entries for piece in render_message(entry)]
    share = max(200, limit // max(1, len(pieces)))
    spare = sum(max(0, share - len(piece)) for piece in pieces)
    long_pieces = sum(len(piece) > share for piece in pieces)
    cut = share + spare // max(1, long_pieces)
    return "\n".join(piece if len(piece) <= cut else f"{piece[:cut]} …" for piece in pieces)[:limit]


def render_message(entry: TranscriptEntry) -> Iterator[str]:
    message = entry.message
    if isinstance(message, ModelResponse):
        yield from (f"Agent: {part.content}" for part in message.parts if isinstance(part, TextPart) and part.content)
        yield from (f"Call: {call.tool_name} {call.args}" for call in message.tool_calls)
        return
    facts = find_facts(message)
    speaker = "User" if facts is None or "steering" in facts else "Runtime"
    if prompt := guide.strip_frame(render_prompt(message.parts)):
        yield f"{speaker}: {prompt}"
    yield from (f"Result of {part.tool_name}: {part.content}" for part in message.parts if isinstance(part, ToolReturnPart))


def render_prompt(parts: Sequence[Any]) -> str:
    contents = [part.content for part in parts if isinstance(part, UserPromptPart)]
    return "\n".join(
        piece for content in contents for piece in ([content] if isinstance(content, str) else content) if isinstance(piece, str)
    )


def handle_refusal(step: Step, message: str) -> None:
    """Lower the budget after the provider refused a request as too long, so that the next attempt is preceded by a compaction."""
    refusals = 0
    for entry in reversed(step.entries):
        if isinstance(entry.message, ModelResponse):
            break
        refusals += "refused_tokens" in entry.facts
    if refusals >= MAX_REFUSALS or not can_compact(step):
        step.end(RunEnd.fail(f"{message} Nothing more can be left out of the request.", "context_too_long"))
        return
    step.append(build_runtime_message("", {"refused_tokens": step.size.tokens}))


def can_compact(step: Step) -> bool:
    """Whether anything before the last exchange can be shortened or replaced."""
    window = step.window
    boundary = find_boundary(window, 0)
    return any(entry.n < boundary and not is_note(entry) for entry in window)
