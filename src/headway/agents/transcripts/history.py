"""The conversation before a turn, as the earlier turns sent it, so that a request continues the last one of the previous turn."""

from dataclasses import replace
from typing import Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelRequestPart, ModelResponse, TextPart, UserPromptPart

from headway.agents.instructions import prompts
from headway.agents.transcripts.attachments import CanRead
from headway.agents.transcripts.facts import build_runtime_message
from headway.agents.transcripts.transcript import TranscriptEntry, attach_to_first, build_user_message, decode
from headway.agents.transcripts.window import Compaction, find_compactions, select_window
from headway.ledger.framing import escape_frames
from headway.ledger.run import Message, Run
from headway.storage.stores import attachments as attachment_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

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
