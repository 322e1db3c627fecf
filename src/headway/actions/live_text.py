"""What models are saying at this moment, for whoever joins in the middle. Kept in memory: once it is said, it is a message."""

from typing import Any, NamedTuple

MAX_RUNS = 1_000  # runs


class PartialAnswer(NamedTuple):
    """What was said so far of an answer, and how many pieces that was."""

    step: int  # the place that the answer will have in the transcript
    n: int
    text: str


class LiveText:
    def __init__(self) -> None:
        self.by_run: dict[str, PartialAnswer] = {}

    def hear(self, run_id: str, told: dict[str, Any]) -> None:
        before = self.by_run.pop(run_id, None)
        if told.get("restart"):
            return
        earlier = before.text if before and before.step == told["step"] and told["n"] > 1 else ""
        self.by_run[run_id] = PartialAnswer(told["step"], told["n"], earlier + told["text"])
        if len(self.by_run) > MAX_RUNS:
            del self.by_run[next(iter(self.by_run))]

    def of(self, run_id: str, step: int) -> PartialAnswer | None:
        """Of the answer that is to come at this place. One that is there already is not being said any more."""
        words = self.by_run.get(run_id)
        return words if words and words.step == step else None
