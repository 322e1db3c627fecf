"""A schedule: recurring work and when it runs."""

import json
from typing import Any, NamedTuple

from headway.ledger.errors import Invalid
from headway.ledger.text import check_name


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
