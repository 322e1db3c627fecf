"""SQL for the requests to people, and for what a turn or a goal waits for."""

from headway.ledger.inbox import PersonRequest, RequestKind, RequestState
from headway.storage import logged_transaction
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

REQUESTS = Columns(
    PersonRequest,
    fixed=(
        *("id", "tenant_id", "kind", "conversation_id", "turn_id", "run_id", "goal_id", "role"),
        *("n", "call_index", "call_id", "tool"),
        *("why", "question", "choices", "created_at", "expires_at"),
    ),
)
SELECT = f"SELECT {REQUESTS.selected} FROM requests"
UPDATE = f"UPDATE requests SET {REQUESTS.assignments} WHERE tenant_id = ? AND id = ?"


def insert_request(tx: Transaction, request: PersonRequest) -> PersonRequest:
    return logged_transaction.insert(tx, request.tenant_id, "requests", REQUESTS, request)


def find(tx: Transaction, tenant_id: int, request_id: int) -> PersonRequest | None:
    return REQUESTS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, request_id)


def find_by_call(tx: Transaction, tenant_id: int, run_id: str, n: int, call_index: int) -> PersonRequest | None:
    """Return the approval of one call of a run."""
    sql = f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND n = ? AND call_index = ? AND kind = 'approval'"
    return REQUESTS.one(tx, sql, tenant_id, run_id, n, call_index)


def list_of_answer(tx: Transaction, tenant_id: int, run_id: str, n: int) -> list[PersonRequest]:
    """List the approvals of the calls that one answer of a model requested."""
    sql = f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND n = ? AND kind = 'approval' ORDER BY call_index"
    return REQUESTS.all(tx, sql, tenant_id, run_id, n)


def list_open_of_run(tx: Transaction, tenant_id: int, run_id: str) -> list[PersonRequest]:
    return REQUESTS.all(tx, f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND state = 'open' ORDER BY id", tenant_id, run_id)


def list_open_of_turn(tx: Transaction, tenant_id: int, turn_id: str) -> list[PersonRequest]:
    return REQUESTS.all(tx, f"{SELECT} WHERE tenant_id = ? AND state = 'open' AND turn_id = ? ORDER BY id", tenant_id, turn_id)


def find_open_decision(tx: Transaction, tenant_id: int, goal_id: int) -> PersonRequest | None:
    """Return the decision that a paused goal waits for."""
    sql = f"{SELECT} WHERE tenant_id = ? AND goal_id = ? AND kind = 'decision' AND state = 'open'"
    return REQUESTS.one(tx, sql, tenant_id, goal_id)


def list_page(
    tx: Transaction, tenant_id: int, kind: RequestKind | None, state: RequestState | None, limit: int, before: int
) -> list[PersonRequest]:
    """List requests, newest first, with an id below `before`."""
    chosen = {"kind": kind, "state": state}
    conditions = "".join(f" AND {name} = ?" for name, value in chosen.items() if value)
    sql = f"{SELECT} WHERE tenant_id = ? {conditions} AND id < ? ORDER BY id DESC LIMIT ?"
    return REQUESTS.all(tx, sql, tenant_id, *filter(None, chosen.values()), before, limit)


def save(tx: Transaction, request: PersonRequest) -> None:
    tx.run(UPDATE, *REQUESTS.dump_changed(request), request.tenant_id, request.id)


def is_person_needed(tx: Transaction, tenant_id: int, run_id: str) -> bool:
    """Whether the run has an open request."""
    sql = "SELECT 1 FROM requests WHERE tenant_id = ? AND run_id = ? AND state = 'open' LIMIT 1"
    return tx.one(sql, tenant_id, run_id) is not None


def list_waiting_goals(tx: Transaction, tenant_id: int, limit: int) -> list[tuple[str, int, int]]:
    """List (kind, id, goal) of the open requests of the agents of goals, oldest first."""
    sql = """SELECT kind, id, goal_id FROM requests
        WHERE tenant_id = ? AND state = 'open' AND goal_id IS NOT NULL AND kind <> 'decision' ORDER BY id LIMIT ?"""
    return [(str(kind), int(request_id), int(goal_id)) for kind, request_id, goal_id in tx.all(sql, tenant_id, limit)]


def count_open(tx: Transaction, tenant_id: int) -> dict[str, int]:
    """Count the open requests of the tenant, by kind."""
    sql = "SELECT kind, COUNT(*) FROM requests WHERE tenant_id = ? AND state = 'open' GROUP BY kind"
    return {str(kind): int(number) for kind, number in tx.all(sql, tenant_id)}


def count_all_open(tx: Transaction) -> dict[str, int]:
    """Count the open requests of all tenants, by kind. The join with tenants lets both databases use the index."""
    sql = "SELECT r.kind, COUNT(*) FROM tenants t JOIN requests r ON r.tenant_id = t.id AND r.state = 'open' GROUP BY r.kind"
    return {str(kind): int(number) for kind, number in tx.all(sql)}


def count_waiting(tx: Transaction, tenant_id: int, turn_id: str, change: int) -> None:
    """Change the number of requests that a turn waits for."""
    tx.run("UPDATE turns SET waiting = waiting + ? WHERE tenant_id = ? AND id = ?", change, tenant_id, turn_id)
