"""The state that a turn left in the database, as plain data, and a normal form in which two runs of one scenario compare equal."""

import json
import re
from typing import Any

from headway.agents.transcripts import transcript
from headway.storage.direct import DirectDatabase
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

TABLES = {
    "turns": "status, outcome, ended_at, waiting",
    "runs": "id, role, sub_goal_id, status, result, iterations, iteration_limit, refusals, reserved, cost, unread, ended_at",
    "effects": "n, call_index, call_id, tool, arguments, state, result",
    "messages": "id, role, content",
    "steering": "id, content",
    "model_calls": "id, tier, model, input_tokens, cached_tokens, cache_write_tokens, output_tokens, cost",
    "todos": "id, uuid, turn_id, subject, status, outcome, position",
    "events": "seq, kind, data",
    "pools": "spent, reserved",
    "notices": "id, kind, text",
    "goals": "id, description, status, pause_kind, plan_no, replan_count, run_id, journaled, ended_at",
    "sub_goals": "id, goal_id, description, mode, status, divergence, run_id, interrupted, ended_at",
    "journal": "goal_id, n, kind, data",
    "planning_cycles": "id, goal_id, status, started_at, ended_at",
    "requests": "id, kind, n, call_index, call_id, role, tool, arguments, digest, state, reason, question, choices, answer,"
    " decided_by",
}
FIRST_RUN = "(SELECT depth FROM runs WHERE runs.id = effects.run_id), (SELECT created_at FROM runs WHERE runs.id = effects.run_id)"
ORDER = {"runs": "depth, created_at, id", "effects": f"{FIRST_RUN}, run_id, n, call_index", "journal": "goal_id, n"}
Snapshot = dict[str, Any]


def read_snapshot(database_url: str, tenant_id: int) -> Snapshot:
    with DirectDatabase(database_url) as database:
        return database.read(lambda tx: {"transcript": read_transcripts(tx, tenant_id), **read_tables(tx, tenant_id)})


def read_tables(tx: Transaction, tenant_id: int) -> Snapshot:
    snapshot: Snapshot = {}
    for table, columns in TABLES.items():
        names = columns.split(", ")
        order = ORDER.get(table, names[0])
        rows = tx.all(f"SELECT {columns} FROM {table} WHERE tenant_id = ? ORDER BY {order}", tenant_id)
        snapshot[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return snapshot


def read_transcripts(tx: Transaction, tenant_id: int) -> list[Snapshot]:
    """The journaled messages, decoded as the loop decodes them."""
    ids = [run_id for (run_id,) in tx.all("SELECT id FROM runs WHERE tenant_id = ? ORDER BY depth, created_at, id", tenant_id)]
    entries = [entry for run_id in ids if (run := run_store.find_run(tx, tenant_id, run_id)) for entry in transcript.load(tx, run)]
    return [{"n": entry.n, "sent": entry.sent, **json.loads(transcript.encode(entry.message))[0]} for entry in entries]


# The normal form

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ACCIDENTAL = re.compile(
    r"chatcmpl-\w+|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|(?<=#)\d+|(?<=/inbox/)\d+"
    r"|\d+(?= \[(?:pending|in_progress|completed|canceled)\])"
)
HANDLE = re.compile(r"\b[0-9a-f]{8}(?=\.\d+\.\d+)")  # begins with the id of a run
NUMBERED = {"id", "todoId", "seq", "created_at", "updated_at", "started_at", "completed_at", "ended_at", "conversation_id"}
NUMBERED |= {"expires_at", "decided_at", "answered_at", "at", "duration_s"}


DERIVED = {"plan_digest", "item_digests", "tokens_before", "tokens_after", "scale"}  # from texts that contain random ids


def normalize(snapshot: Any) -> Any:
    """The same data without timestamps, and with random ids replaced by numbers in order of appearance."""
    names: dict[str, str] = {}

    def number_uuid(uuid: re.Match[str]) -> str:
        return names.setdefault(uuid[0], f"<{len(names) + 1}>")

    def simplify(value: Any) -> Any:
        match value:
            case dict():
                return {name: None if is_volatile(name, item) else simplify(item) for name, item in value.items()}
            case list():
                return [simplify(item) for item in value]
            case str() if value.startswith("{"):
                return simplify(json.loads(value))
            case str():
                return UUID.sub(number_uuid, HANDLE.sub("…", ACCIDENTAL.sub("…", value)))
        return value

    return simplify(snapshot)


def is_volatile(name: str, value: Any) -> bool:
    """Whether a value differs between runs: a timestamp, a row's number, or a digest of such numbers."""
    is_number = isinstance(value, int | float) or (isinstance(value, str) and value.isdigit())
    is_list_of_numbers = isinstance(value, list) and bool(value) and all(isinstance(item, int) for item in value)
    return name in DERIVED or (name in NUMBERED and is_number) or (name == "messages" and is_list_of_numbers)
