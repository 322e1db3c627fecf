"""The history of a conversation, and how much of it a request has room for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)

from headway.agents.instructions import prompts
from headway.agents.transcripts.transcript import (
    CanRead,
    CompactionFacts,
    TranscriptEntry,
    attach_to_first,
    build_runtime_message,
    build_user_message,
    count_fewest_tokens,
    decode,
)
from headway.ledger.framing import escape_frames
from headway.ledger.run import Message, Run
from headway.ledger.text import to_one_line
from headway.storage.stores import files as attachment_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

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


# The conversation before a turn, as the earlier turns sent it, so that a request continues the last one of the previous
# turn.


BATCH_SIZE: Final = 20  # runs per query
LAST_WORDS_BATCH: Final = 500
FAILED_REQUEST_LIMIT: Final = 4_000  # characters of a request that failed, perhaps because of its length


class History(NamedTuple):
    window: list[TranscriptEntry]  # what is sent; the messages have negative numbers, the last one -1
    messages: list[ModelMessage]  # the whole transcripts, with what compactions have shortened since


def load_history(tx: Transaction, run: Run, can_read: CanRead) -> History:
    """Load the earlier turns back to the last note."""
    window: list[TranscriptEntry] = []
    transcripts: list[ModelMessage] = []
    loaded = load_runs_since_note(tx, run, can_read)
    last_words = load_last_words(tx, run.tenant_id, [earlier for earlier, _ in loaded])
    for earlier, entries in reversed(loaded):
        own_words = last_words.get(earlier.turn_id or "")
        messages = end_with_answer(tx, earlier, [entry.message for entry in select_window(window, entries)], own_words)
        window = [TranscriptEntry.of(index - len(messages), message) for index, message in enumerate(messages)]
        transcripts += (entry.message for entry in entries)
    return History(window, transcripts)


def load_runs_since_note(tx: Transaction, run: Run, can_read: CanRead) -> list[tuple[Run, list[TranscriptEntry]]]:
    """Load the ended turns' runs with their transcripts, newest first, down to one whose note replaces everything before it."""
    loaded: list[tuple[Run, list[TranscriptEntry]]] = []
    earlier_runs = run_store.list_earlier_turns(tx, run)
    for start in range(0, len(earlier_runs), BATCH_SIZE):
        batch = earlier_runs[start : start + BATCH_SIZE]
        rows = run_store.list_transcripts(tx, run.tenant_id, [earlier.id for earlier in batch])
        files = attachment_store.list_by_turns(tx, run.tenant_id, [earlier.turn_id or "" for earlier in batch])
        for earlier in batch:
            entries = load_entries(earlier, rows.get(earlier.id, []))
            entries = attach_to_first(entries, files.get(earlier.turn_id or "", ()), can_read)
            loaded.append((earlier, entries))
            if any(replaces_history(compaction) for compaction in find_compactions(entries)):
                return loaded
    return loaded


def load_last_words(tx: Transaction, tenant_id: int, runs: list[Run]) -> dict[str, Message]:
    """Load the runtime's closing words, or the part of a stopped answer, of the runs' turns, by turn."""
    turn_ids = [run.turn_id or "" for run in runs]
    found: dict[str, Message] = {}
    for start in range(0, len(turn_ids), LAST_WORDS_BATCH):
        found |= message_store.list_last_words(tx, tenant_id, turn_ids[start : start + LAST_WORDS_BATCH])
    return found


def load_entries(run: Run, rows: list[tuple[int, str, bool]]) -> list[TranscriptEntry]:
    """Load a transcript. Of one that was deleted because of its age, the request is left, and the answer in the run's row."""
    if run.status == "completed" and (not rows or rows[0][0] > 0):
        return [TranscriptEntry.of(0, build_user_message(escape_frames(run.task)))]
    return [TranscriptEntry.of(n, decode(message), sent=sent) for n, message, sent in rows]


def replaces_history(compaction: Compaction) -> bool:
    """Whether a note replaces everything before its run. History has negative numbers."""
    noted_before = compaction.facts["noted_before"]
    return noted_before is not None and noted_before >= 0


def end_with_answer(tx: Transaction, run: Run, messages: list[ModelMessage], last_words: Message | None) -> list[ModelMessage]:
    """Complete an ended turn's messages: no call without a result, and at the end the answer that the user saw, and what the
    runtime said after it or instead of it. An answer that was refused when the turn ended is left out.

    A turn that failed or was canceled may have unread messages of the user.
    """
    while messages and isinstance(messages[-1], ModelResponse) and messages[-1].tool_calls:
        messages = messages[:-1]
    if run.status != "completed":
        unread = message_store.list_unread_steering(tx, run) if run.unread else []
        said = [ModelResponse([TextPart(escape_frames(last_words.content))])] if last_words else []
        messages = [*messages, *said, *(prompts.build_steering_message(message.content) for message in unread)]
        ending = build_runtime_message(prompts.describe_unanswered(run.status, is_partial=bool(said)))
        return [*map(shorten_request, messages), ending]
    closing = last_words.content if last_words else ""
    answer = (run.result or "").removesuffix(closing).strip() if closing else run.result or ""
    if messages and isinstance(messages[-1], ModelResponse) and (messages[-1].text or "").strip() != answer.strip():
        messages = messages[:-1]
    if answer and not (messages and isinstance(messages[-1], ModelResponse)):
        messages = [*messages, ModelResponse([TextPart(escape_frames(answer))])]
    return [*messages, build_runtime_message(prompts.describe_closing(closing))] if closing else messages


def shorten_request(message: ModelMessage) -> ModelMessage:
    """Shorten long prompts, because one that the model refused must not fail all turns after it."""
    if not isinstance(message, ModelRequest):
        return message
    return replace(message, parts=[shorten_prompt(part) for part in message.parts])


def shorten_prompt(part: ModelRequestPart) -> ModelRequestPart:
    if not isinstance(part, UserPromptPart):
        return part
    texts = [part.content] if isinstance(part.content, str) else [piece for piece in part.content if isinstance(piece, str)]
    text = "\n".join(texts)
    if isinstance(part.content, str) and len(text) <= FAILED_REQUEST_LIMIT:
        return part
    return replace(part, content=f"{text[:FAILED_REQUEST_LIMIT]}\n… ({max(0, len(text) - FAILED_REQUEST_LIMIT):,} more characters)")
