"""Read-only views for the surfaces, straight from queries."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from headway.actions.runs import jobs, runs
from headway.actions.todos import conversations
from headway.ledger import text
from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.errors import Invalid
from headway.ledger.job import Job, JobState
from headway.ledger.run import Run
from headway.ledger.scope import Selection
from headway.ledger.tenancy import Conversation
from headway.ledger.todo import STATUSES, Status, Todo
from headway.ledger.wording import parse_words
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as usage_store
from headway.storage.stores import todo_pages
from headway.storage.stores.todo_pages import TodoListPage
from headway.storage.stores.todos import IDS_PER_QUERY
from headway.storage.transaction import Transaction

PAGE_LIMIT = 500
JOB_CURSORS = CursorCodec("jobs", NEWEST)
AGENT_CURSORS = CursorCodec("agents", NEWEST)


class TodoListView(NamedTuple):
    todos: list[Todo]
    next_cursor: str | None
    counts: dict[Status, int]


def find_log_position(tx: Transaction, tenant_id: int) -> int:
    """Return the number of the last event."""
    return event_store.get_last_seq(tx, tenant_id)


def list_todos(tx: Transaction, tenant_id: int, selection: Selection, limit: int = 50, cursor: str | None = None) -> TodoListPage:
    check_selection(tx, tenant_id, selection)
    check_limit(limit)
    if is_contradictory(tx, tenant_id, selection):
        return TodoListPage([], None)
    return todo_pages.list_todo_page(tx, tenant_id, selection, limit, cursor)


def search_todos(
    tx: Transaction, tenant_id: int, selection: Selection, query: str, limit: int = 50, cursor: str | None = None
) -> TodoListPage:
    """List the selected todos that contain every word of the query, in any case; without one, all selected todos."""
    words = parse_words(query)
    if not words:
        return list_todos(tx, tenant_id, selection, limit, cursor)
    check_selection(tx, tenant_id, selection)
    if is_contradictory(tx, tenant_id, selection):
        return TodoListPage([], None)
    return todo_pages.search_page(tx, tenant_id, selection, words, check_limit(limit), cursor)


def list_open_dependencies(tx: Transaction, tenant_id: int, todos: Sequence[Todo]) -> list[int]:
    """Return the ids of those todos that the open ones among these wait for."""
    waited_for = sorted({todo_id for todo in todos if not todo.ended for todo_id in todo.depends_on})
    starts = range(0, len(waited_for), IDS_PER_QUERY)
    return [one for at in starts for one in todo_pages.list_open_ids(tx, tenant_id, waited_for[at : at + IDS_PER_QUERY])]


def count_todos(tx: Transaction, tenant_id: int, selection: Selection) -> dict[Status, int]:
    """Count the selected todos by status."""
    check_selection(tx, tenant_id, selection)
    if is_contradictory(tx, tenant_id, selection):
        return dict.fromkeys(STATUSES, 0)
    if selection.is_list:
        return todo_pages.count_by_status(tx, tenant_id, selection)
    return todo_pages.count_rows_by_status(tx, tenant_id, selection)


def is_contradictory(tx: Transaction, tenant_id: int, selection: Selection) -> bool:
    """Whether the selection names a turn that is not in the conversation it names, so that nothing can match."""
    if selection.turn_id is None or selection.conversation_id is None:
        return False
    return conversations.get_turn(tx, tenant_id, selection.turn_id).conversation_id != selection.conversation_id


def get_todo_list(tx: Transaction, tenant_id: int, selection: Selection, limit: int) -> TodoListView:
    """Return up to `limit` todos with the counts of the whole list, all from one snapshot."""
    page = list_todos(tx, tenant_id, selection, min(limit, PAGE_LIMIT))
    rows, cursor = page.todos, page.next_cursor
    while cursor and len(rows) < limit:
        page = todo_pages.list_todo_page(tx, tenant_id, selection, min(limit - len(rows), PAGE_LIMIT), cursor)
        rows, cursor = rows + page.todos, page.next_cursor
    return TodoListView(rows, cursor, todo_pages.count_by_status(tx, tenant_id, selection))


def count_all_todos(tx: Transaction) -> dict[Status, int]:
    """Count todos by status across all tenants, for the operator."""
    return todo_pages.count_all_by_status(tx)


def list_ready_todos(tx: Transaction, tenant_id: int, conversation_id: int | None = None, limit: int = 50) -> list[Todo]:
    check_selection(tx, tenant_id, Selection(conversation_id))
    return todo_pages.list_ready_todos(tx, tenant_id, conversation_id, check_limit(limit))


def list_conversations(tx: Transaction, tenant_id: int, limit: int = 50, before: int = text.MAX_INTEGER) -> list[Conversation]:
    return conversation_store.list_conversation_page(tx, tenant_id, before, check_limit(limit))


# Jobs and agents, newest first


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
    """List the dead jobs of all tenants with their tenants' names, newest first. On Postgres only, for the operator of cells."""
    return usage_store.list_all_dead_jobs(tx, limit)


def list_agents(tx: Transaction, tenant_id: int, run_filter: RunFilter, limit: int, cursor: str | None = None) -> AgentPage:
    turn_id = None if run_filter.turn_id is None else text.check_name(run_filter.turn_id, "turn_id")
    rows = run_store.list_run_page(tx, tenant_id, turn_id, limit + 1, run_filter.goal_id, AGENT_CURSORS.decode(cursor))
    retry_times = jobs.retry_times(tx, tenant_id, [run.id for run in rows if not run.ended])
    next_cursor = AGENT_CURSORS.encode_next(rows, limit, lambda run: (run.created_at, run.id))
    return AgentPage(rows[:limit], next_cursor, retry_times)


# Checks


def check_selection(tx: Transaction, tenant_id: int, selection: Selection) -> None:
    """Raise an error if the selected conversation or turn does not exist, instead of showing an empty list."""
    if selection.conversation_id:
        conversations.get_conversation(tx, tenant_id, selection.conversation_id)
    if selection.turn_id is not None:
        conversations.get_turn(tx, tenant_id, selection.turn_id)
    if selection.agent_id is not None:
        text.check_name(selection.agent_id, "agent_id")


def check_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_LIMIT:
        raise Invalid(f"limit must be between 1 and {PAGE_LIMIT}.")
    return limit
