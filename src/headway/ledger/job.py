"""Jobs and schedules: their states, and whose jobs a process takes next."""

import heapq
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.errors import Invalid
from headway.ledger.limits import Limits
from headway.ledger.text import check_name

JobState = Literal["queued", "running", "delayed", "completed", "canceled", "dead"]

MAX_ATTEMPTS: Final = 5
MAX_DELAY_MS: Final = 300_000
JITTER: Final = 0.25
NEVER: Final = 2**62  # not due until something wakes it
LEASE_MS: Final = 5_000  # a process without a heartbeat for this long counts as dead
SESSION_LEASE_MS: Final = 2_000  # the same, for a process whose session with the Postgres server has ended

OUTAGE_GRACE_MS: Final = 10_000  # how long processes have to renew their leases after an outage of the database


class LeaseWatch:
    """Decides when a process may judge others by their leases. While it could not reach the database, perhaps the others could not
    either, and did not renew their leases. So they get OUTAGE_GRACE_MS. If it stood still for a lease itself, perhaps the whole
    machine did, which may have slept, and they get one more lease. Times are steady times in milliseconds."""

    def __init__(self) -> None:
        self.is_blind = False
        self.stood_still = False
        self.looked_at: int | None = None
        self.waits_until = 0

    def record_outage(self) -> None:
        """Record that the leases could not be read."""
        self.is_blind = True

    def may_judge(self, now: int) -> bool:
        """Return whether leases that were read just now say who is alive."""
        if self.is_blind:
            self.is_blind = False
            self.waits_until = now + OUTAGE_GRACE_MS
        stands_still = self.looked_at is not None and now - self.looked_at >= LEASE_MS
        if stands_still and not self.stood_still:  # a machine that is always this slow has to judge at some time
            self.waits_until = max(self.waits_until, now + LEASE_MS)
        self.stood_still, self.looked_at = stands_still, now
        return now >= self.waits_until


class Halt(NamedTuple):
    """The kill switch while it is on: why, since when and by whom nothing runs."""

    why: str
    since: int
    by: str


class Job(NamedTuple):
    id: str
    tenant_id: int
    kind: str
    state: JobState
    payload: str  # JSON: the work, the same at each attempt
    family: str  # jobs of one family share a number of slots
    attempts: int  # consecutive failures
    max_attempts: int
    errors: str  # JSON: the error of each failed attempt
    result: str  # JSON
    owner: str  # the process that runs it
    due_at: int
    created_at: int
    updated_at: int

    @property
    def over(self) -> bool:
        """Whether the job has ended. Only a dead job can still be revived."""
        return self.state in ("completed", "canceled", "dead")

    @property
    def retry_at(self) -> int:
        """Return when a failed job is retried, in epoch seconds, or 0 if it is not waiting for a retry."""
        return self.due_at // 1000 if self.state == "delayed" and self.attempts and self.due_at < NEVER else 0

    def count_trailing_failures(self, error: str) -> int:
        """Count how many times in a row, up to now, the job failed with this error."""
        others = (index for index, earlier_error in enumerate(reversed(json.loads(self.errors))) if earlier_error != error)
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


def compute_backoff_ms(attempts: int, limits: Limits, chance: float, retry_after_s: float | None = None) -> int:
    """Compute the delay before the next attempt. A delay that the provider asked for is used up to `retry_after_max_ms`; otherwise
    the delay doubles with each attempt, with 25% jitter. `chance` is a random number from 0 to 1."""
    if retry_after_s is not None:
        return int(min(max(retry_after_s, 0.0) * 1000, limits.retry_after_max_ms))
    delay = min(limits.retry_delay_ms * 2 ** min(attempts - 1, 30), MAX_DELAY_MS)
    return int(delay * (1 - JITTER + 2 * JITTER * chance))


def choose_jobs(due_jobs: Iterable[Job], running: Mapping[int, int], slots: int, per_tenant: int) -> list[Job]:
    """Choose the due jobs that start now. `running` counts the jobs of each tenant that this process runs already.

    Slots are handed out in turn: the next one goes to the tenant with the fewest running jobs. An equal share of the slots belongs
    to each tenant that has a job. A tenant may use more than its share while slots are free. Slots beyond its share do not
    count against the others, so a tenant below its share never waits for the long jobs of another one.
    """
    counts = Counter(running)
    queues: dict[int, deque[Job]] = {}
    for job in due_jobs:
        queues.setdefault(job.tenant_id, deque()).append(job)
    tenants = {tenant_id for tenant_id, count in counts.items() if count} | set(queues)
    share = max(1, slots // max(1, len(tenants)))
    used, used_within_shares = counts.total(), sum(min(count, share) for count in counts.values())
    order = [(counts[tenant_id], index, tenant_id) for index, tenant_id in enumerate(queues)]
    heapq.heapify(order)
    chosen: list[Job] = []
    while order:
        count, index, tenant_id = heapq.heappop(order)
        is_within_share = count < share and used_within_shares < slots
        if count >= per_tenant or not (used < slots or is_within_share):
            break  # every other tenant runs at least as many jobs
        chosen.append(queues[tenant_id].popleft())
        used += 1
        used_within_shares += count < share
        if queues[tenant_id]:
            heapq.heappush(order, (count + 1, index, tenant_id))
    return chosen


# A schedule: recurring work and when it runs.


class Schedule(NamedTuple):
    id: int
    tenant_id: int
    name: str
    cron: str  # empty: runs every `every_ms` instead
    timezone: str
    every_ms: int
    work: str  # JSON: {"goal": …}, {"message": …} or {"tool": …}
    paused: int
    next_at: int
    last_at: int
    last_job: str
    skipped: int  # times it was due while the previous run was still active
    created_at: int
    updated_at: int

    def as_json(self) -> dict[str, Any]:
        timing = {"cron": self.cron, "timezone": self.timezone} if self.cron else {"every_s": self.every_ms / 1000}
        return {
            "name": self.name,
            **timing,
            **json.loads(self.work),
            "paused": bool(self.paused),
            "next_at": 0 if self.paused else self.next_at // 1000,
            "last_at": self.last_at // 1000,
            "last_job": self.last_job or None,
            "skipped": self.skipped,
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
        }


def check_schedule_name(name: str) -> str:
    name = check_name(name, "name")
    if "/" in name or name in (".", ".."):
        raise Invalid("A schedule's name is part of a URL: it must not contain a slash, or be . or .. itself.")
    if name == "preview":
        raise Invalid("A schedule cannot be named 'preview': this is the URL of the times that a new schedule would have.")
    return name
