"""The live text of a model's answer, for subscribers."""

from typing import Any, Final

from headway.agents.loop.context import RunContext
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.ledger.parsing.writ_parser import WritParser
from headway.ledger.text import to_storable

RESTART_DELTA: Final[dict[str, Any]] = {"text": "", "restart": True}  # withdraws the streamed part of an answer
# The answer is stored next, or was given up. No subscriber gets this. Interrupted: the process stops, or the run was canceled.
END_OF_TEXT: Final[dict[str, Any]] = {"text": "", "end": True}
INTERRUPTED_TEXT: Final[dict[str, Any]] = {**END_OF_TEXT, "interrupted": True}
MAX_PIECE = 1_000  # characters, so that a piece fits into a notification of Postgres in any encoding


class AnswerStream:
    """Streams a model's text to subscribers as it arrives, without writs that will run.

    Chunks of an answer are numbered, so that a subscriber who joins late can tell which ones are new.
    """

    def __init__(self, context: RunContext, entries: list[TranscriptEntry]) -> None:
        self.context = context
        self.index = len(entries)  # index of the answer in the transcript
        self.is_quoted = context.quotations.judge(entries)
        self.parser = WritParser(self.is_quoted)
        self.chunk_count = 0

    def on_text(self, text: str) -> None:
        self.emit(self.parser.feed(to_storable(text)).visible)

    def on_end(self) -> None:
        self.emit(self.parser.finish().visible)

    def on_withdrawn(self) -> None:
        self.parser = WritParser(self.is_quoted)
        if self.chunk_count:
            self.chunk_count = 0
            self.context.runtime.stream(self.context.run, RESTART_DELTA)

    def close(self) -> None:
        self.context.runtime.stream(self.context.run, END_OF_TEXT)

    def interrupt(self) -> None:
        self.context.runtime.stream(self.context.run, INTERRUPTED_TEXT)

    def emit(self, text: str) -> None:
        for start in range(0, len(text), MAX_PIECE):
            self.chunk_count += 1
            piece = {"text": text[start : start + MAX_PIECE], "n": self.chunk_count, "step": self.index}
            self.context.runtime.stream(self.context.run, piece)
