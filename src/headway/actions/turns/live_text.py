"""Answers that models are writing right now, for readers that join midway. Kept in memory; finished answers become messages."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

MAX_RUNS = 1_000  # runs kept at once
HERE: Final = ""  # the source of answers that this process writes


class PartialAnswer(NamedTuple):
    """The text of an unfinished answer, and the number of chunks it came in."""

    step: int  # the number that the answer will have in the transcript
    n: int
    text: str


class RemotePieces(NamedTuple):
    """Consecutive pieces of an answer that another process writes, numbered from `first`. No pieces: the answer is withdrawn."""

    source: str  # names the process and its attempt to answer
    run_id: str
    step: int
    first: int
    pieces: Sequence[str]


class RemoteNews(NamedTuple):
    """Return the pieces that are new to the readers of this process."""

    withdrawn: PartialAnswer | None  # what they have received and must forget
    first: int
    pieces: Sequence[str]


NO_NEWS: Final = RemoteNews(None, 0, ())


class LiveText:
    def __init__(self) -> None:
        self.by_run: dict[str, tuple[str, PartialAnswer]] = {}  # with the source of the answer

    def hear(self, run_id: str, chunk: dict[str, Any]) -> None:
        _, before = self.by_run.pop(run_id, (HERE, None))
        if chunk.get("restart"):
            return
        earlier = before.text if before and before.step == chunk["step"] and chunk["n"] > 1 else ""
        self._keep(run_id, HERE, PartialAnswer(chunk["step"], chunk["n"], earlier + chunk["text"]))

    def hear_remote(self, heard: RemotePieces) -> RemoteNews:
        """Take pieces that another process has sent. They are taken from the first one on and up to a gap. After a gap, the readers
        get the stored message only."""
        source, known = self.by_run.get(heard.run_id, (HERE, None))
        if known and source == HERE:
            return NO_NEWS  # this process has taken over the run
        if not heard.pieces:
            self.by_run.pop(heard.run_id, None)
            return RemoteNews(known, 0, ())
        if known and source == heard.source:  # some may come twice, because sending is repeated after a lost connection
            pieces = heard.pieces[known.n + 1 - heard.first :] if heard.first <= known.n + 1 else ()
            text, withdrawn = known.text, None
        elif heard.first == 1 and (known is None or known.step <= heard.step):
            pieces, text = heard.pieces, ""
            withdrawn = known if known and known.step == heard.step else None
        else:
            return NO_NEWS
        n = heard.first + len(heard.pieces) - 1
        if pieces:
            self.by_run.pop(heard.run_id, None)
            self._keep(heard.run_id, heard.source, PartialAnswer(heard.step, n, text + "".join(pieces)))
        return RemoteNews(withdrawn, n - len(pieces) + 1, pieces)

    def finish(self, run_id: str) -> PartialAnswer | None:
        """Forget an answer that is complete or was given up, and return what was known of it."""
        return self.by_run.pop(run_id, (HERE, None))[1]

    def of(self, run_id: str, step: int) -> PartialAnswer | None:
        """Return the answer being written at this step of the run. Finished answers are not returned."""
        _, answer = self.by_run.get(run_id, (HERE, None))
        return answer if answer and answer.step == step else None

    def _keep(self, run_id: str, source: str, answer: PartialAnswer) -> None:
        self.by_run[run_id] = source, answer
        if len(self.by_run) > MAX_RUNS:
            del self.by_run[next(iter(self.by_run))]
