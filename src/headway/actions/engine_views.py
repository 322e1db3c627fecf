"""Paged lists of jobs and agents, newest first."""

from typing import Any, NamedTuple

from headway.actions import jobs as job_actions
from headway.actions import runs
from headway.ledger import text
from headway.ledger.job import Job, JobState
from headway.ledger.run import Run
from headway.storage import newest_first
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction


class JobPage(NamedTuple):
    jobs: list[Job]
    next_cursor: str | None

    def as_json(self) -> dict[str, Any]:
        return {"jobs": [job.as_json() for job in self.jobs], "next_cursor": self.next_cursor}


class AgentPage(NamedTuple):
    agents: list[Run]
    next_cursor: str | None
    retry_times: dict[str, int]  # for those that wait to retry a model call

    def as_json(self) -> dict[str, Any]:
        shown = [runs.as_json(run, self.retry_times.get(run.id, 0)) for run in self.agents]
        return {"agents": shown, "next_cursor": self.next_cursor}


class RunFilter(NamedTuple):
    """Selects the runs of a turn or of a goal; all runs if neither is given."""

    turn_id: str | None = None
    goal_id: int | None = None


def list_jobs(tx: Transaction, tenant_id: int, state: JobState | None, limit: int, cursor: str | None = None) -> JobPage:
    found = job_store.list_page(tx, tenant_id, state, limit + 1, newest_first.decode_cursor(cursor))
    return JobPage(found[:limit], newest_first.encode_next_cursor(found, limit))


def list_agents(tx: Transaction, tenant_id: int, whose: RunFilter, limit: int, cursor: str | None = None) -> AgentPage:
    turn_id = None if whose.turn_id is None else text.check_name(whose.turn_id, "turn_id")
    found = run_store.list_page(tx, tenant_id, turn_id, limit + 1, whose.goal_id, newest_first.decode_cursor(cursor))
    retry_times = job_actions.retry_times(tx, tenant_id, [run.id for run in found if not run.ended])
    return AgentPage(found[:limit], newest_first.encode_next_cursor(found, limit), retry_times)
