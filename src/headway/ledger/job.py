"""What keeps a thing running until it has ended: queued, tried again later when something passes, kept when it is dead."""

import json
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.run import Limits

JobState = Literal["queued", "running", "delayed", "completed", "canceled", "dead"]

MAX_ATTEMPTS: Final = 5
MAX_DELAY_MS: Final = 300_000
JITTER: Final = 0.25
NEVER: Final = 2**62  # due when somebody wakes it
LEASE_MS: Final = 5_000  # a process that was not heard of for so long is no more


class Job(NamedTuple):
    id: str
    tenant_id: int
    kind: str
    state: JobState
    payload: str  # JSON: what to do, the same at every attempt
    family: str  # those of one family share a number of slots
    attempts: int  # that failed in a row
    max_attempts: int
    errors: str  # JSON: what went wrong each time
    result: str  # JSON: what came of it
    owner: str  # the process that works on it
    due_at: int
    created_at: int
    updated_at: int

    @property
    def over(self) -> bool:
        """Nobody works on it any more, unless somebody revives a dead one."""
        return self.state in ("completed", "canceled", "dead")

    @property
    def retry_at(self) -> int:
        """When it is tried again after a failure, in epoch seconds; 0 if it does not wait for that."""
        return self.due_at // 1000 if self.state == "delayed" and self.attempts and self.due_at < NEVER else 0

    def count_trailing_failures(self, error: str) -> int:
        """How often in a row this was the last that happened to it."""
        others = (place for place, one in enumerate(reversed(json.loads(self.errors))) if one != error)
        return next(others, len(json.loads(self.errors)))

    def as_json(self) -> dict[str, Any]:
        errors = json.loads(self.errors)
        return {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "attempts": self.attempts,
            "max_attempts": self.max_attempts,
            "error": errors[-1] if errors else None,
            "errors": errors,
            "payload": json.loads(self.payload),
            "result": json.loads(self.result),
            "due_at": 0 if self.due_at >= NEVER else self.due_at // 1000,
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
        }


def compute_backoff_ms(attempts: int, limits: Limits, chance: float, asked_s: float | None = None) -> int:
    """How long to wait after so many failures: as long as the provider asked, up to the cap of the settings; without its word twice
    as long each time, give or take a quarter. `chance` is from 0 to 1."""
    if asked_s is not None:
        return int(min(max(asked_s, 0.0) * 1000, limits.retry_after_max_ms))
    delay = min(limits.retry_delay_ms * 2 ** min(attempts - 1, 30), MAX_DELAY_MS)
    return int(delay * (1 - JITTER + 2 * JITTER * chance))
