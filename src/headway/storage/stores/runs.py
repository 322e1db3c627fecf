"""SQL for runs, their transcripts and their tool calls."""

from collections.abc import Sequence
from itertools import chain

from headway.ledger.cursors import NEWEST
from headway.ledger.run import Effect, Run
from headway.ledger.text import count_bytes
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Query, Transaction

RUNS = Columns(
    Run,
    limit=Column("iteration_limit"),
    # `unread` is counted up by people, between the steps.
    fixed=(
        *("id", "tenant_id", "conversation_id", "turn_id", "parent_run_id", "goal_id", "role", "task", "depth", "created_at"),
        *("unread", "repository", "base", "changes", "model", "replays"),
    ),
)
SELECT = f"SELECT {RUNS.selected} FROM runs"
SELECT_WITH_HALT = f"""SELECT {RUNS.selected}, EXISTS (SELECT 1 FROM halts WHERE lifted_at = 0) FROM runs
    WHERE tenant_id = ? AND id = ?"""
INSERT = f"INSERT INTO runs ({RUNS.stored}) VALUES ({RUNS.marks}) ON CONFLICT DO NOTHING RETURNING id"
UPDATE = f"UPDATE runs SET {RUNS.assignments} WHERE tenant_id = ? AND id = ?"

EARLIER_TURNS_LIMIT = 1_000


def insert_run(tx: Transaction, run: Run) -> bool:
    """Insert a run and return whether it was accepted. A conversation with a running turn accepts no second one."""
    return tx.one(INSERT, *run) is not None


def find_run(tx: Transaction, tenant_id: int, run_id: str) -> Run | None:
    return RUNS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, run_id)


def build_find_with_halt(tenant_id: int, run_id: str) -> Query:
    """Build the query for the run and whether Headway is halted, because each step needs both."""
    return Query(SELECT_WITH_HALT, (tenant_id, run_id))


def find_by_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Run | None:
    """Return the run that answers the turn. Turns driven by an external loop have none."""
    rows = tx.fetch(build_find_by_turn(tenant_id, turn_id))[0]
    return RUNS.load(rows[0]) if rows else None


def build_find_by_turn(tenant_id: int, turn_id: str) -> Query:
    return Query(f"{SELECT} WHERE tenant_id = ? AND turn_id = ? AND parent_run_id IS NULL", (tenant_id, turn_id))


def find_running_turn(tx: Transaction, tenant_id: int, conversation_id: int) -> Run | None:
    """Return the run that answers the conversation's unfinished turn."""
    sql = f"""{SELECT} WHERE tenant_id = ? AND conversation_id = ? AND turn_id IS NOT NULL
        AND parent_run_id IS NULL AND ended_at = 0"""
    return RUNS.one(tx, sql, tenant_id, conversation_id)


def list_earlier_turns(tx: Transaction, run: Run) -> list[Run]:
    """List the runs that answered the conversation's turns before this run's, newest first."""
    return RUNS.all(
        tx,
        f"""{SELECT} WHERE tenant_id = ? AND conversation_id = ? AND turn_id IS NOT NULL
            AND parent_run_id IS NULL AND ended_at <> 0 AND created_at <= ? AND id <> ?
            ORDER BY created_at DESC, ended_at DESC LIMIT ?""",
        run.tenant_id,
        run.conversation_id,
        run.created_at,
        run.id,
        EARLIER_TURNS_LIMIT,
    )


def save_run(tx: Transaction, run: Run) -> None:
    """Save what the run's own steps change."""
    query = build_save(run)
    tx.run(query.sql, *query.parameters)


def build_save(run: Run) -> Query:
    return Query(UPDATE, (*RUNS.dump_changed(run), run.tenant_id, run.id))


# Work in a repository


def save_repository(tx: Transaction, run: Run) -> None:
    tx.run("UPDATE runs SET repository = ? WHERE tenant_id = ? AND id = ?", run.repository, run.tenant_id, run.id)


def save_base(tx: Transaction, run: Run, base: str) -> str:
    """Save the commit that the run's work starts from, unless one is saved, and return the saved one."""
    sql = "UPDATE runs SET base = CASE base WHEN '' THEN ? ELSE base END WHERE tenant_id = ? AND id = ? RETURNING base"
    row = tx.one(sql, base, run.tenant_id, run.id)
    return str(row[0]) if row else base


def save_changes(tx: Transaction, run: Run, diff: str) -> None:
    sql = "UPDATE runs SET changes = ?, diff = ? WHERE tenant_id = ? AND id = ?"
    tx.run(sql, run.changes, diff, run.tenant_id, run.id)


def find_diff(tx: Transaction, tenant_id: int, run_id: str) -> str:
    row = tx.one("SELECT diff FROM runs WHERE tenant_id = ? AND id = ?", tenant_id, run_id)
    return str(row[0]) if row else ""


def has_branch(tx: Transaction, run: Run) -> bool:
    """Whether another turn of the run's conversation has worked in the same repository."""
    row = tx.one(
        """SELECT 1 FROM runs WHERE tenant_id = ? AND conversation_id = ? AND turn_id IS NOT NULL AND parent_run_id IS NULL
            AND repository = ? AND base <> '' AND id <> ? LIMIT 1""",
        run.tenant_id,
        run.conversation_id,
        run.repository,
        run.id,
    )
    return row is not None


def list_run_page(
    tx: Transaction, tenant_id: int, turn_id: str | None, limit: int, goal_id: int | None = None, before: tuple[int, str] = NEWEST
) -> list[Run]:
    """List runs, newest first. `before` is the creation time and id of the last run of the previous page."""
    columns = {"turn_id": turn_id, "goal_id": goal_id}
    filters = {column: value for column, value in columns.items() if value is not None}
    where = "".join(f" AND {column} = ?" for column in filters)
    sql = f"{SELECT} WHERE tenant_id = ?{where} AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?"
    return RUNS.all(tx, sql, tenant_id, *filters.values(), *before, limit)


def list_children(tx: Transaction, tenant_id: int, run_id: str, limit: int) -> list[Run]:
    """List the sub-agents that a run has started itself, oldest first."""
    sql = f"{SELECT} WHERE tenant_id = ? AND parent_run_id = ? ORDER BY created_at, id LIMIT ?"
    return RUNS.all(tx, sql, tenant_id, run_id, limit)


def count_sub_agents(tx: Transaction, parent: Run) -> tuple[int, int]:
    """Count the sub-agents that the run's turn (or its sub-goal) has started, and how many have not ended."""
    column, value = ("turn_id", parent.turn_id) if parent.turn_id else ("sub_goal_id", parent.sub_goal_id)
    row = tx.one(
        f"""SELECT COUNT(*), SUM(CASE ended_at WHEN 0 THEN 1 ELSE 0 END) FROM runs
            WHERE tenant_id = ? AND {column} = ? AND parent_run_id IS NOT NULL""",
        parent.tenant_id,
        value,
    )
    return (int(row[0]), int(row[1] or 0)) if row else (0, 0)


def sum_goal_cost(tx: Transaction, tenant_id: int, goal_id: int) -> int:
    row = tx.one("SELECT SUM(cost) FROM runs WHERE tenant_id = ? AND goal_id = ?", tenant_id, goal_id)
    return int(row[0] or 0) if row else 0


def sum_goal_costs(tx: Transaction, tenant_id: int, goal_ids: Sequence[int]) -> dict[int, int]:
    """Sum the cost of goals, by goal. A goal without runs is not in the result."""
    marks = ", ".join("?" * len(goal_ids)) or "NULL"
    sql = f"SELECT goal_id, SUM(cost) FROM runs WHERE tenant_id = ? AND goal_id IN ({marks}) GROUP BY goal_id"
    return {int(goal_id): int(cost) for goal_id, cost in tx.all(sql, tenant_id, *goal_ids)}


def sum_sub_goal_cost(tx: Transaction, tenant_id: int, sub_goal_id: int) -> int:
    """Sum the cost of the sub-goal's sub-agents. The main agent's own share is not included."""
    sql = "SELECT SUM(cost) FROM runs WHERE tenant_id = ? AND sub_goal_id = ? AND parent_run_id IS NOT NULL"
    row = tx.one(sql, tenant_id, sub_goal_id)
    return int(row[0] or 0) if row else 0


def count_succeeded_effects(tx: Transaction, tenant_id: int, run_id: str) -> int:
    """Count the run's successful tool calls."""
    sql = "SELECT COUNT(*) FROM effects WHERE tenant_id = ? AND run_id = ? AND state = 'succeeded'"
    row = tx.one(sql, tenant_id, run_id)
    return int(row[0]) if row else 0


def list_unfinished_descendants(tx: Transaction, tenant_id: int, run_id: str) -> list[Run]:
    """List the run's unfinished sub-agents at any depth, deepest first. An ended sub-agent may have left its own running."""
    sql = f"""{SELECT} WHERE tenant_id = ? AND ended_at = 0 AND id IN (
                  WITH RECURSIVE below (id) AS (
                      SELECT id FROM runs WHERE tenant_id = ? AND parent_run_id = ?
                      UNION ALL SELECT runs.id FROM runs JOIN below ON runs.tenant_id = ? AND runs.parent_run_id = below.id)
                  SELECT id FROM below)
              ORDER BY depth DESC, created_at, id"""
    return RUNS.all(tx, sql, tenant_id, tenant_id, run_id, tenant_id)


def list_unfinished_workers(tx: Transaction, tenant_id: int, sub_goal_id: int) -> list[Run]:
    """List the unfinished sub-agents of a sub-goal, at any depth."""
    sql = f"""{SELECT} WHERE tenant_id = ? AND sub_goal_id = ? AND parent_run_id IS NOT NULL AND ended_at = 0
              ORDER BY depth, created_at, id"""
    return RUNS.all(tx, sql, tenant_id, sub_goal_id)


# The transcript

INSERT_MESSAGE = "INSERT INTO transcript (run_id, n, tenant_id, message, at) VALUES (?, ?, ?, ?, ?)"
ANOTHER_MESSAGE = ", (?, ?, ?, ?, ?)"


def list_messages(tx: Transaction, tenant_id: int, run_id: str, begins_at: int = 0) -> list[tuple[int, str, bool]]:
    """List (number, message, whether it is still sent to the model) in order, starting at a number."""
    sql = "SELECT n, message, sent FROM transcript WHERE tenant_id = ? AND run_id = ? AND n >= ? ORDER BY n"
    rows = tx.all(sql, tenant_id, run_id, begins_at)
    return [(int(n), str(message), bool(sent)) for n, message, sent in rows]


def list_transcripts(tx: Transaction, tenant_id: int, run_ids: list[str]) -> dict[str, list[tuple[int, str, bool]]]:
    """Return the messages of several runs, each as `list_messages` does."""
    sql = f"""SELECT run_id, n, message, sent FROM transcript WHERE tenant_id = ? AND run_id IN ({", ".join("?" * len(run_ids))})
        ORDER BY run_id, n"""
    transcripts: dict[str, list[tuple[int, str, bool]]] = {}
    for run_id, n, message, sent in tx.all(sql, tenant_id, *run_ids):
        transcripts.setdefault(str(run_id), []).append((int(n), str(message), bool(sent)))
    return transcripts


def get_next_message_number(tx: Transaction, tenant_id: int, run_id: str) -> int:
    row = tx.one("SELECT MAX(n) FROM transcript WHERE tenant_id = ? AND run_id = ?", tenant_id, run_id)
    return int(row[0]) + 1 if row and row[0] is not None else 0


def append_messages(tx: Transaction, tenant_id: int, run_id: str, n: int, *messages: str) -> None:
    """Append messages, numbered from `n`."""
    query = build_append(tx, tenant_id, run_id, n, messages)
    tx.run(query.sql, *query.parameters)


def append_and_save(tx: Transaction, run: Run, n: int, *messages: str) -> None:
    """Append messages, numbered from `n`, and save the run."""
    tx.run_together(build_append(tx, run.tenant_id, run.id, n, messages), build_save(run))


def build_append(tx: Transaction, tenant_id: int, run_id: str, n: int, messages: Sequence[str]) -> Query:
    """Build the statement that appends messages, and count their bytes."""
    tx.count_stored(tenant_id, count_bytes(*messages))
    rows = ((run_id, number, tenant_id, message, tx.now) for number, message in enumerate(messages, n))
    return Query(INSERT_MESSAGE + ANOTHER_MESSAGE * (len(messages) - 1), tuple(chain.from_iterable(rows)))


def withdraw_message(tx: Transaction, tenant_id: int, run_id: str, n: int) -> None:
    """Stop sending a message to the model. It stays in the transcript."""
    tx.run("UPDATE transcript SET sent = 0 WHERE tenant_id = ? AND run_id = ? AND n = ?", tenant_id, run_id, n)


# Effects

EFFECTS = Columns(Effect)
EFFECT_KEY = ("n", "call_index", "call_id", "tool")
SAVED_AGAIN = ", ".join(f"{name} = excluded.{name}" for name in (*EFFECTS.names, "ended_at") if name not in EFFECT_KEY)


def load_effects(tx: Transaction, tenant_id: int, run_id: str, n: int) -> dict[int, Effect]:
    """Return the recorded tool calls of one message, by their index in it."""
    sql = f"SELECT {EFFECTS.selected} FROM effects WHERE tenant_id = ? AND run_id = ? AND n = ?"
    return {effect.call_index: effect for effect in EFFECTS.all(tx, sql, tenant_id, run_id, n)}


def find_result(tx: Transaction, tenant_id: int, conversation_id: int, run_id: str, n: int, call_index: int) -> str | None:
    """Return the result of an ended tool call. `run_id` may be the beginning of the id of a run in the conversation."""
    row = tx.one(
        """SELECT e.result FROM runs r JOIN effects e ON e.tenant_id = r.tenant_id AND e.run_id = r.id
            WHERE r.tenant_id = ? AND r.conversation_id = ? AND r.id >= ? AND r.id < ?
            AND e.n = ? AND e.call_index = ? AND e.state NOT IN ('proposed', 'started') ORDER BY r.id LIMIT 1""",
        tenant_id,
        conversation_id,
        run_id,
        f"{run_id}g",  # sorts after every hexadecimal digit
        n,
        call_index,
    )
    return str(row[0]) if row else None


def save_effect(tx: Transaction, tenant_id: int, run_id: str, effect: Effect) -> None:
    ended_at = 0 if effect.state in ("proposed", "started") else tx.now
    if ended_at:
        tx.count_stored(tenant_id, count_bytes(effect.arguments, effect.result, effect.images))
    tx.run(
        f"""INSERT INTO effects (run_id, tenant_id, {EFFECTS.stored}, ended_at) VALUES (?, ?, {EFFECTS.marks}, ?)
            ON CONFLICT ({tx.dialect.tenant_in_key}run_id, n, call_index) DO UPDATE SET {SAVED_AGAIN}""",
        run_id,
        tenant_id,
        *effect._replace(started_at=effect.started_at or tx.now),
        ended_at,
    )
