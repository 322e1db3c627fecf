"""Answers that models are writing right now, for readers that join midway. Kept in memory; finished answers become messages."""

from typing import Any, NamedTuple

MAX_RUNS = 1_000  # runs kept at once


class PartialAnswer(NamedTuple):
    """The text of an unfinished answer, and the number of chunks it came in."""

    step: int  # the number that the answer will have in the transcript
    n: int
    text: str


class LiveText:
    def __init__(self) -> None:
        self.by_run: dict[str, PartialAnswer] = {}

    def hear(self, run_id: str, chunk: dict[str, Any]) -> None:
        before = self.by_run.pop(run_id, None)
        if chunk.get("restart"):
            return
        earlier = before.text if before and before.step == chunk["step"] and chunk["n"] > 1 else ""
        self.by_run[run_id] = PartialAnswer(chunk["step"], chunk["n"], earlier + chunk["text"])
        if len(self.by_run) > MAX_RUNS:
            del self.by_run[next(iter(self.by_run))]

    def of(self, run_id: str, step: int) -> PartialAnswer | None:
        """Return the answer being written at this step of the run. Finished answers are not returned."""
        answer = self.by_run.get(run_id)
        return answer if answer and answer.step == step else None
