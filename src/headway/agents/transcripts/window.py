"""The window: the messages that the next request of a run contains.

A request is the previous request with new messages appended, so that providers can cache the beginning. Only a compaction changes
what was sent before. It is a message of the transcript, too, and therefore survives a crash.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelRequestPart, ModelResponse, TextPart, ToolReturnPart

from headway.agents.transcripts.facts import CompactionFacts
from headway.agents.transcripts.tokens import count_fewest_tokens
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.ledger.text import to_one_line

STUB_LIMIT: Final = 600  # characters; shorter results are never replaced by a stub
STUB_EXCERPT: Final = 200
STUB_PREFIX: Final = "(Shortened from "
LEAST_SCALE: Final = 0.5  # of a report that is believed without a look at the texts
MAX_SCALE: Final = 4.0


class Compaction(NamedTuple):
    entry: TranscriptEntry
    facts: CompactionFacts


def select_window(history: Sequence[TranscriptEntry], entries: Sequence[TranscriptEntry]) -> list[TranscriptEntry]:
    """Select what is sent: the last note, then the messages that it does not replace. A tool result never loses its call."""
    start = find_context(entries)
    if start:  # a new context, which keeps only the workspace's AGENTS.md
        history, entries = (), [*(entry for entry in entries[:start] if "guide" in entry.facts), *entries[start:]]
    own = [entry for entry in entries if entry.sent and not (entry.facts and is_marker(entry))]
    visible = [to_sendable(entry) if entry.is_cut_off else entry for entry in chain(history, own)]
    compactions = [*find_compactions(entries)]
    if not compactions:
        return visible
    note = next((compaction for compaction in compactions if compaction.facts["noted_before"] is not None), None)
    first = note.facts["noted_before"] if note else None
    shrunk_before = compactions[0].facts["shrunk_before"]
    kept = (entry for entry in visible if first is None or entry.n >= first)
    return [*([note.entry] if note else []), *(shrink(entry) if entry.n < shrunk_before else entry for entry in kept)]


def find_context(entries: Sequence[TranscriptEntry]) -> int:
    """Return the index of the message that began the current context."""
    return next((index for index in range(len(entries) - 1, 0, -1) if "focus" in entries[index].facts), 0)


def find_compactions(entries: Sequence[TranscriptEntry]) -> Iterator[Compaction]:
    """Yield the run's compactions, newest first."""
    for entry in reversed(entries):
        if "compaction" in entry.facts:
            yield Compaction(entry, entry.facts["compaction"])


def is_marker(entry: TranscriptEntry) -> bool:
    """Whether an entry describes the window instead of being a part of it."""
    return "compaction" in entry.facts or "refused_tokens" in entry.facts


def to_sendable(entry: TranscriptEntry) -> TranscriptEntry:
    """Replace a cut-off response with its text. As a tool call it would need a result, and its arguments are not valid JSON."""
    assert isinstance(entry.message, ModelResponse)
    message = ModelResponse([TextPart(render_partial_answer(entry.message))])
    return entry._replace(message=message, reported_tokens=0, is_cut_off=False)


def render_partial_answer(response: ModelResponse) -> str:
    return "\n".join([*([response.text] if response.text else []), *(str(call.args) for call in response.tool_calls)])


def shrink(entry: TranscriptEntry) -> TranscriptEntry:
    """Replace long tool results with stubs that name a handle for reading them again."""
    if not isinstance(entry.message, ModelRequest) or not any(map(can_shrink, entry.message.parts)):
        return entry
    parts = [shrink_part(part) for part in entry.message.parts]
    return TranscriptEntry.of(entry.n, replace(entry.message, parts=parts), sent=entry.sent)


def can_shrink(part: ModelRequestPart) -> bool:
    is_long = isinstance(part, ToolReturnPart) and isinstance(part.content, str) and len(part.content) > STUB_LIMIT
    return is_long and get_handle(part) is not None


def shrink_part(part: ModelRequestPart) -> ModelRequestPart:
    if not can_shrink(part):
        return part
    assert isinstance(part, ToolReturnPart)
    stub = render_stub(str(part.content), get_handle(part) or "")
    return ToolReturnPart(part.tool_name, stub, part.tool_call_id, metadata=part.metadata, timestamp=part.timestamp)


def is_long(part: ToolReturnPart) -> bool:
    """Whether a result is long, or the stub of a long one."""
    content = str(part.content)
    return len(content) > STUB_LIMIT or content.startswith(STUB_PREFIX)


def render_stub(content: str, handle: str) -> str:
    return (
        f"{STUB_PREFIX}{len(content):,} characters. read_result with handle {handle} returns them.)\n"
        f"{to_one_line(content[:STUB_EXCERPT])} …"
    )


def get_handle(part: ModelRequestPart) -> str | None:
    """Return the handle with which read_result finds a tool's whole result."""
    metadata = part.metadata if isinstance(part, ToolReturnPart) else None
    return metadata.get("handle") if isinstance(metadata, dict) else None


class Size(NamedTuple):
    tokens: int
    scale: float  # reported tokens per estimated token


def measure(window: Sequence[TranscriptEntry], overhead: int, last: Compaction | None = None) -> Size:
    """Estimate the tokens of a request. `overhead` is the estimate for the instructions and the tools.

    The estimate is scaled by what the provider last reported. Responses before the `last` compaction answered another request. A
    report of fewer tokens than the text can have is ignored, because requests would otherwise grow beyond the context.
    """
    estimated = overhead + sum([entry.tokens for entry in window])
    counted, scale = estimated, last.facts["scale"] if last else 1.0
    for index in reversed(range(len(window))):
        entry = window[index]
        if last and entry.n < last.entry.n:
            break
        if entry.reported_tokens:
            reported = entry.reported_tokens / counted
            is_credible = reported >= LEAST_SCALE or entry.reported_tokens >= LEAST_SCALE * overhead + count_fewest_tokens(
                to_messages(window[: index + 1])
            )
            scale = min(reported, MAX_SCALE) if is_credible else 1.0
            break
        counted -= entry.tokens
    return Size(int(estimated * scale), scale)


def is_tool_result(message: ModelMessage) -> bool:
    return any(isinstance(part, ToolReturnPart) for part in message.parts)


def to_messages(window: Iterable[TranscriptEntry]) -> list[ModelMessage]:
    return [entry.message for entry in window]
