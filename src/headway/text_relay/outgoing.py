"""The text that this process writes for readers of other processes."""

import asyncio
from itertools import count
from time import monotonic
from typing import Any
from uuid import uuid4

from headway.ledger.run import Run
from headway.ledger.scope import TENANT_WIDE
from headway.text_relay.payloads import Notification, ReaderKey, ReaderNotice, TextNotice, encode_text

INTERVAL_S = 0.1  # at least this long between two notifications to one process about one answer
MAX_BATCH = 20  # notifications per interval, of all answers together
EXPIRES_S = 12.0  # readers that were not announced again within this time are gone
MAX_READERS = 10_000  # announced readers of other processes that are kept
NO_STEP = -1  # of a withdrawal


class OutgoingAnswer:
    """An answer that a model is writing. One without pieces says that the answer so far was withdrawn."""

    __slots__ = ("is_finished", "pieces", "run", "sent", "source", "step")

    def __init__(self, source: str, run: Run, step: int) -> None:
        self.source = source
        self.run = run
        self.step = step
        self.pieces: list[str] = []
        self.sent: dict[str, int] = {}  # the number of pieces that were sent, by channel
        self.is_finished = False


class OutgoingText:
    """All answers that models are writing in this process, and the readers of other processes. Used on the event loop only."""

    def __init__(self) -> None:
        self.name = uuid4().hex[:12]
        self.numbers = count(1)  # of the answers
        self.readers: dict[ReaderKey, dict[str, float]] = {}  # when each channel's readers expire
        self.answers: dict[str, OutgoingAnswer] = {}  # by run
        self.due: dict[tuple[str, str], OutgoingAnswer] = {}  # what to send, by run and channel, in order
        self.has_due = asyncio.Event()
        self.next_cleanup = 0.0

    def hear(self, run: Run, data: dict[str, Any]) -> None:
        """Take the next piece of an answer, or the withdrawal of what was written."""
        answer = self.answers.get(run.id)
        if data.get("restart"):
            self.finish(run.id)
            answer = self._create_answer(run, NO_STEP)
        else:
            if answer is None or data["n"] == 1:
                answer = self.answers[run.id] = self._create_answer(run, data["step"])
            answer.pieces.append(data["text"])
        if self.readers:
            self._set_due(answer)

    def finish(self, run_id: str) -> None:
        """Forget an answer that is complete. Pieces that were not sent yet are part of the message that is stored now."""
        answer = self.answers.pop(run_id, None)
        if answer:
            answer.is_finished = True

    def update_readers(self, notice: ReaderNotice) -> None:
        """Take an announcement of another process. Readers that join during an answer get it from its beginning."""
        now = monotonic()
        if len(self.readers) >= MAX_READERS:
            self._remove_expired(now)
        for key in notice.follows:
            if key in self.readers or len(self.readers) < MAX_READERS:
                self.readers.setdefault(key, {})[notice.channel] = now + EXPIRES_S
        for key in notice.left:
            channels = self.readers.get(key, {})
            channels.pop(notice.channel, None)
            if not channels:
                self.readers.pop(key, None)
        for answer in self.answers.values():
            self._set_due(answer)

    def find_channels(self, run: Run) -> set[str]:
        """Return the channels of the processes that have readers of this run's conversation."""
        now = monotonic()
        keys = ((run.tenant_id, run.conversation_id), (run.tenant_id, TENANT_WIDE))
        return {channel for key in keys for channel, expires in self.readers.get(key, {}).items() if expires > now}

    def collect(self) -> list[Notification]:
        """Return what is to be sent now: at most one notification per answer and channel, and at most MAX_BATCH of them."""
        if (now := monotonic()) >= self.next_cleanup:
            self._remove_expired(now)
        batch: list[Notification] = []
        for key in list(self.due):
            if len(batch) == MAX_BATCH:
                break
            answer, channel = self.due.pop(key), key[1]
            if not answer.is_finished and channel in self.find_channels(answer.run):
                batch.append(Notification(channel, self._take_payload(answer, channel)))
                if answer.sent[channel] < len(answer.pieces):
                    self.due[key] = answer  # the rest, after the other answers
        if not self.due:
            self.has_due.clear()
        return batch

    def _create_answer(self, run: Run, step: int) -> OutgoingAnswer:
        return OutgoingAnswer(f"{self.name}.{next(self.numbers)}", run, step)

    def _take_payload(self, answer: OutgoingAnswer, channel: str) -> str:
        run, sent = answer.run, answer.sent.get(channel, 0)
        place = (answer.source, run.tenant_id, run.conversation_id, run.turn_id or "", run.id, answer.step)
        payload, added = encode_text(TextNotice(*place, sent + 1, answer.pieces[sent:]))
        answer.sent[channel] = sent + added
        return payload

    def _set_due(self, answer: OutgoingAnswer) -> None:
        for channel in self.find_channels(answer.run):
            if not answer.pieces or answer.sent.get(channel, 0) < len(answer.pieces):
                self.due[answer.run.id, channel] = answer
                self.has_due.set()

    def _remove_expired(self, now: float) -> None:
        self.next_cleanup = now + EXPIRES_S
        for key, channels in list(self.readers.items()):
            self.readers[key] = {channel: expires for channel, expires in channels.items() if expires > now}
            if not self.readers[key]:
                del self.readers[key]
