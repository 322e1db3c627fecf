"""Read-only views for the surfaces, straight from queries."""

from typing import Any, NamedTuple

from headway.actions.runs import jobs, runs
from headway.actions.todos import todo_lists
from headway.ledger import text
from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.job import Job, JobState
from headway.ledger.run import Run
from headway.ledger.tenancy import Conversation
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.transaction import Transaction

JOB_CURSORS = CursorCodec("jobs", NEWEST)
AGENT_CURSORS = CursorCodec("agents", NEWEST)


def find_log_position(tx: Transaction, tenant_id: int) -> int:
    """Return the number of the last event."""
    return event_store.get_last_seq(tx, tenant_id)


def list_conversations(tx: Transaction, tenant_id: int, limit: int = 50, before: int = text.MAX_INTEGER) -> list[Conversation]:
    return conversation_store.list_conversation_page(tx, tenant_id, before, todo_lists.check_limit(limit))


# Jobs and agents, newest first


class JobPage(NamedTuple):
    jobs: list[Job]
    next_cursor: str | None

    def as_json(self) -> dict[str, Any]:
        return {"jobs": [job.as_json() for job in self.jobs], "next_cursor": self.next_cursor}


class AgentPage(NamedTuple):
    agents: list[Run]
    next_cursor: str | None
    retry_times: dict[str, int]  # of turns that wait to retry a model call

    def as_json(self) -> dict[str, Any]:
        agents = [runs.as_json(run, self.retry_times.get(run.id, 0)) for run in self.agents]
        return {"agents": agents, "next_cursor": self.next_cursor}


class RunFilter(NamedTuple):
    """Selects the runs of a turn or of a goal; all runs if neither is given."""

    turn_id: str | None = None
    goal_id: int | None = None


def list_jobs(
    tx: Transaction,
    tenant_id: int,
    state: JobState | None,
    limit: int,
    cursor: str | None = None,
    kind: str | None = None,
) -> JobPage:
    kind = None if kind is None else text.check_name(kind, "kind")
    rows = job_store.list_job_page(tx, tenant_id, state, limit + 1, JOB_CURSORS.decode(cursor), kind)
    next_cursor = JOB_CURSORS.encode_next(rows, limit, lambda job: (job.created_at, job.id))
    return JobPage(rows[:limit], next_cursor)


def list_all_dead_jobs(tx: Transaction, limit: int) -> list[tuple[str, Job]]:
    """List the dead jobs of all tenants with their tenants' names, newest first. On Postgres only, for operators."""
    return spending_store.list_all_dead_jobs(tx, limit)


def list_agents(tx: Transaction, tenant_id: int, run_filter: RunFilter, limit: int, cursor: str | None = None) -> AgentPage:
    turn_id = None if run_filter.turn_id is None else text.check_name(run_filter.turn_id, "turn_id")
    rows = run_store.list_run_page(tx, tenant_id, turn_id, limit + 1, run_filter.goal_id, AGENT_CURSORS.decode(cursor))
    retry_times = jobs.retry_times(tx, tenant_id, [run.id for run in rows if not run.ended])
    next_cursor = AGENT_CURSORS.encode_next(rows, limit, lambda run: (run.created_at, run.id))
    return AgentPage(rows[:limit], next_cursor, retry_times)


# Checks
