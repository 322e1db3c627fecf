"""Follows what Headway says and stores, and compares. It uses plain HTTP and plain SQL, and nothing of Headway."""

import http.client
import json
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import psycopg

NAME = re.compile(r"\bt(\d+)(?:s|g|d|h|l)\d+")  # everything that a tenant writes carries its number
TURN_ENDS = ("turn_finished", "turn_failed", "turn_canceled")
RECONNECT_S = 10
PAUSE_S = 0.3
Row = tuple[Any, ...]


class Reader:
    """Reads one tenant's event stream as a browser does: it reconnects after the last event, whatever ended the stream."""

    def __init__(self, url: str, secret: str, number: int) -> None:
        self.url, self.secret, self.number = urlsplit(url), secret, number
        self.received: list[tuple[int, str]] = []
        self.violations: list[str] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def list_seqs(self) -> list[int]:
        return [seq for seq, _ in self.received]

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.read_for(RECONNECT_S)
            except (OSError, http.client.HTTPException):
                self.stopped.wait(PAUSE_S)

    def read_for(self, seconds: float) -> None:
        place = self.received[-1][0] if self.received else 0
        with closing(http.client.HTTPConnection(self.url.hostname or "", self.url.port, timeout=30)) as connection:
            headers = {"Authorization": f"Bearer {self.secret}", "Last-Event-ID": str(place), "Accept": "text/event-stream"}
            connection.request("GET", "/v1/events", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                if answer.status not in (429, 503):
                    self.violations.append(f"a stream of tenant {self.number} is {answer.status}: {answer.read()[:200]!r}")
                self.stopped.wait(PAUSE_S)
                return
            until = time.monotonic() + seconds
            for frame in read_frames(answer):
                self.take(frame)
                if self.stopped.is_set() or time.monotonic() > until:
                    return

    def take(self, frame: dict[str, str]) -> None:
        if "id" not in frame or frame.get("event") == "ping":
            return
        seq, kind = int(frame["id"]), frame["event"]
        if self.received and seq <= self.received[-1][0]:
            self.violations.append(f"tenant {self.number} got event {seq} after {self.received[-1][0]}")
        if strangers := set(NAME.findall(frame["data"])) - {str(self.number)}:
            self.violations.append(f"tenant {self.number} got an event about tenant {strangers}: {frame['data'][:300]}")
        self.received.append((seq, kind))


def read_frames(answer: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    frame: dict[str, str] = {}
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name:
            frame[name] = value
        elif frame:
            yield frame
            frame = {}


class Mailbox(ThreadingHTTPServer):
    """Receives webhooks. Every tenth message is refused once, so that it is sent again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MailSlot)
        self.received: dict[str, list[int]] = {}  # the numbers of the events, in the order of their arrival, by path
        self.refused: set[tuple[str, int]] = set()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def take(self, path: str, seq: int) -> int:
        if seq % 10 == 0 and (path, seq) not in self.refused:
            self.refused.add((path, seq))
            return 503
        self.received.setdefault(path, []).append(seq)
        return 204

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class MailSlot(BaseHTTPRequestHandler):
    server: Mailbox

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the access log."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.take(self.path, int(message["seq"])))
        self.send_header("Content-Length", "0")
        self.end_headers()


class Ledger:
    """The rows, read with plain SQL."""

    def __init__(self, database_url: str) -> None:
        self.is_postgres = database_url.startswith("postgres")
        path = database_url.removeprefix("sqlite:///")
        self.connection: Any = (
            psycopg.connect(database_url, autocommit=True) if self.is_postgres else sqlite3.connect(path, timeout=60)
        )

    def close(self) -> None:
        self.connection.close()

    def change(self, sql: str) -> None:
        self.connection.execute(sql)
        self.connection.commit()

    def rows(self, sql: str) -> list[Row]:
        cursor = self.connection.execute(sql)
        found: list[Row] = cursor.fetchall()
        return found

    def list_tenant_tables(self) -> list[str]:
        if self.is_postgres:
            found = self.rows("SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id'")
        else:
            found = self.rows(
                """SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
                   WHERE m.type = 'table' AND c.name = 'tenant_id'"""
            )
        return sorted(name for (name,) in found)


# True at every moment, also in a copy that was made while everything ran.

ALWAYS = {
    "a todo has an end time exactly if it ended": """
        SELECT id, status, completed_at FROM todos WHERE (completed_at = 0) <> (status IN ('pending', 'in_progress'))""",
    "the counters of a list match its todos": """
        SELECT l.tenant_id, l.conversation_id, l.turn_id, l.pending, l.in_progress, l.completed, l.canceled FROM todo_lists l
        WHERE (l.pending, l.in_progress, l.completed, l.canceled) <> (
            SELECT COUNT(CASE WHEN t.status = 'pending' THEN 1 END), COUNT(CASE WHEN t.status = 'in_progress' THEN 1 END),
                COUNT(CASE WHEN t.status = 'completed' THEN 1 END), COUNT(CASE WHEN t.status = 'canceled' THEN 1 END)
            FROM todos t WHERE t.tenant_id = l.tenant_id AND t.conversation_id = l.conversation_id
                AND COALESCE(t.turn_id, '') = COALESCE(l.turn_id, ''))""",
    "a journal has no gap": "SELECT goal_id FROM journal GROUP BY goal_id HAVING MIN(n) <> 1 OR MAX(n) <> COUNT(*)",
    "a transcript has no gap": "SELECT run_id FROM transcript GROUP BY run_id HAVING MAX(n) - MIN(n) + 1 <> COUNT(*)",
    "a turn has an end time exactly if it ended": """
        SELECT id, status FROM turns WHERE (ended_at = 0) <> (status IN ('running', 'paused', 'waiting'))""",
    "a run costs the sum of its calls": """
        SELECT r.id, r.cost FROM runs r
        WHERE r.cost <> COALESCE((SELECT SUM(c.cost) FROM model_calls c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id), 0)""",
    "a pool has spent what the calls cost": """
        SELECT p.tenant_id, p.spent FROM pools p
        WHERE p.spent <> COALESCE((SELECT SUM(c.cost) FROM model_calls c WHERE c.tenant_id = p.tenant_id), 0)""",
    "a day costs the sum of its calls": """
        SELECT d.tenant_id, SUM(d.cost) FROM spending_days d GROUP BY d.tenant_id
        HAVING SUM(d.cost) <> COALESCE((SELECT SUM(c.cost) FROM model_calls c WHERE c.tenant_id = d.tenant_id), 0)""",
    "a pool has reserved what its runs have": """
        SELECT p.tenant_id, p.reserved FROM pools p
        WHERE p.reserved <> COALESCE((SELECT SUM(r.reserved) FROM runs r WHERE r.tenant_id = p.tenant_id), 0)""",
    "a turn waits for its open requests": """
        SELECT t.id, t.waiting FROM turns t WHERE t.waiting <> (
            SELECT COUNT(*) FROM requests q WHERE q.tenant_id = t.tenant_id AND q.turn_id = t.id AND q.state = 'open')""",
    "a todo with checks is completed by a receipt": """
        SELECT t.id FROM todos t WHERE t.checks <> '' AND t.proof = 'proven' AND NOT EXISTS (
            SELECT 1 FROM receipts r
            WHERE r.tenant_id = t.tenant_id AND r.subject = 'todo' AND r.subject_id = t.id AND r.ok = 1)""",
    "a todo with checks is not completed without them": """
        SELECT id, proof FROM todos
        WHERE checks <> '' AND status = 'completed' AND proof <> 'proven'""",
    "a call has one effect": """
        SELECT run_id, n, call_index FROM effects GROUP BY run_id, n, call_index HAVING COUNT(*) > 1""",
}

# True once all work is done.

AT_THE_END = {
    "no job is left": """
        SELECT id, kind, state, errors FROM jobs WHERE owner <> '' OR state NOT IN ('completed', 'canceled')
            AND NOT (kind = 'webhook' AND state = 'delayed')""",
    "no turn is left": """
        SELECT id, status FROM turns
        WHERE ended_at = 0 AND conversation_id NOT IN (SELECT id FROM conversations WHERE client <> '')""",
    "no run is left": "SELECT id, status, role FROM runs WHERE ended_at = 0",
    "no goal is left": "SELECT id, status, pause_kind, pause_reason FROM goals WHERE ended_at = 0",
    "no request is left": "SELECT id, kind, state FROM requests WHERE state = 'open'",
    "no call is left": """
        SELECT e.run_id, e.tool, e.state FROM effects e JOIN runs r ON r.tenant_id = e.tenant_id AND r.id = e.run_id
        WHERE e.state IN ('started', 'proposed') AND r.status <> 'canceled'""",
    "no notice about money is open": "SELECT tenant_id, id, text FROM notices WHERE kind = 'budget' AND done_at = 0",
    "no money is reserved": "SELECT tenant_id, reserved FROM pools WHERE reserved <> 0",
    "no turn failed": "SELECT t.id, t.status, r.result FROM turns t JOIN runs r ON r.turn_id = t.id WHERE t.status = 'failed'",
}


def list_violations(ledger: Ledger, rules: dict[str, str]) -> list[str]:
    return [f"not so: {rule}: {rows[:5]}" for rule, sql in rules.items() if (rows := ledger.rows(sql))]


def is_done(ledger: Ledger) -> bool:
    return not any(ledger.rows(AT_THE_END[rule]) for rule in ("no job is left", "no turn is left", "no goal is left"))


def check_tenants(ledger: Ledger, numbers: dict[int, int]) -> Iterator[str]:
    """Check that rows are about their own tenant, and that deleted tenants have none. `numbers`: number by tenant id."""
    for table, column in (
        ("events", "data"),
        ("messages", "content"),
        ("todos", "subject"),
        ("effects", "arguments"),
        ("transcript", "message"),
    ):
        for tenant_id, said in ledger.rows(f"SELECT tenant_id, {column} FROM {table}"):
            own = numbers.get(tenant_id)
            if own is not None and set(NAME.findall(said)) - {str(own)}:
                yield f"a row of {table} of tenant {own} is about another one: {said[:300]}"
    for table in ledger.list_tenant_tables():
        for (tenant_id,) in ledger.rows(f"SELECT DISTINCT tenant_id FROM {table} WHERE tenant_id NOT IN (SELECT id FROM tenants)"):
            if tenant_id:
                yield f"{table} has rows of tenant {tenant_id}, which was deleted"


def check_events(ledger: Ledger, tenant_id: int, received: list[tuple[int, str]]) -> Iterator[str]:
    """Check that a reader got exactly the log."""
    floor = find_floor(ledger, tenant_id)
    log = ledger.rows(f"SELECT seq, kind FROM events WHERE tenant_id = {tenant_id} AND seq > {floor} ORDER BY seq")
    yield from compare(f"tenant {tenant_id}: a reader", log, [event for event in received if event[0] > floor])


def compare(name: str, log: list[Any], received: list[Any]) -> Iterator[str]:
    if received != log:
        missing, extra = sorted(set(log) - set(received))[:5], sorted(set(received) - set(log))[:5]
        yield f"{name} got {len(received)} of {len(log)} events; missing {missing}, extra {extra}"


def find_floor(ledger: Ledger, tenant_id: int) -> int:
    """The number up to which events may have been deleted because of their age. Events of open work are kept."""
    ((floor,),) = ledger.rows(f"SELECT log_pruned FROM tenants WHERE id = {tenant_id}")
    return int(floor)


def check_turn_ends(ledger: Ledger, tenant_id: int) -> Iterator[str]:
    """Check that the log has one beginning and one end of each turn of an agent."""
    is_pruned = find_floor(ledger, tenant_id) > 0
    kinds: dict[str, Counter[str]] = {}
    for turn_id, kind in ledger.rows(f"SELECT turn_id, kind FROM events WHERE tenant_id = {tenant_id} AND turn_id IS NOT NULL"):
        kinds.setdefault(turn_id, Counter())[kind] += 1
    answered = f"SELECT id, status FROM turns WHERE tenant_id = {tenant_id} AND id IN (SELECT turn_id FROM runs)"
    for turn_id, status in ledger.rows(answered):
        counts = kinds.get(turn_id, Counter())
        ends = sum(counts[kind] for kind in TURN_ENDS)
        is_whole = counts["turn_started"] == 1 or not is_pruned  # the beginning of an older turn may have been deleted
        if ends > 1 or (is_whole and (counts["turn_started"], ends) != (1, 1)):
            yield f"turn {turn_id} ({status}) has {counts['turn_started']} beginnings and {ends} ends"


def check_webhook(ledger: Ledger, tenant_id: int, received: list[int]) -> Iterator[str]:
    """Check that a webhook got every event since its first one, in order; some of them more than once."""
    floor = max(find_floor(ledger, tenant_id), received[0] - 1 if received else 0)
    log = [seq for (seq,) in ledger.rows(f"SELECT seq FROM events WHERE tenant_id = {tenant_id} AND seq > {floor} ORDER BY seq")]
    yield from compare(f"tenant {tenant_id}: a webhook", log, [seq for seq in dict.fromkeys(received) if seq > floor])


def check_turns(ledger: Ledger, tenant_id: int, requested: dict[str, str]) -> Iterator[str]:
    """Check that what was acknowledged is there once, and nothing else is. `requested`: the name of each turn by its id."""
    own = f"tenant_id = {tenant_id} AND conversation_id NOT IN (SELECT conversation_id FROM turns WHERE forked_from <> '')"
    stored: dict[str, str] = dict(ledger.rows(f"SELECT id, request FROM turns WHERE {own}"))
    for turn_id, name in requested.items():
        if f"Steps of {name}:" not in stored.get(turn_id, ""):
            yield f"turn {turn_id} of {name} is lost: {stored.get(turn_id)}"
    names = Counter(found[0] for request in stored.values() if (found := re.findall(r"Steps of (\w+):", request)))
    for name, times in names.items():
        if times > 1:
            yield f"{name} was sent once and is {times} turns"
    said = Counter(
        (turn_id, content)
        for turn_id, content in ledger.rows(
            f"SELECT turn_id, content FROM messages WHERE tenant_id = {tenant_id} AND role = 'assistant' AND kind = 'text'"
        )
    )
    users = f"SELECT turn_id, COUNT(*) FROM messages WHERE tenant_id = {tenant_id} AND role = 'user' GROUP BY turn_id"
    heard: dict[str, int] = dict(ledger.rows(users))  # an agent that has answered answers again if it reads another message then
    for turn_id, outcome in ledger.rows(f"SELECT id, outcome FROM turns WHERE {own} AND status = 'finished'"):
        sent = requested.get(turn_id)
        if sent and not 1 <= said[turn_id, f"Finished {sent}."] <= heard[turn_id]:
            yield f"{sent} ended as {outcome} with {said[turn_id, f'Finished {sent}.']} answers"


def check_names(ledger: Ledger, tenant_id: int, names: list[str]) -> Iterator[str]:
    """Check that each todo and goal that was acknowledged is there, and that no name is there twice."""
    said = [
        subject for (subject,) in ledger.rows(f"SELECT subject FROM todos WHERE tenant_id = {tenant_id} AND conversation_id = 0")
    ]
    goals = ledger.rows(f"SELECT description FROM goals WHERE tenant_id = {tenant_id}")
    said += [found[0] for (description,) in goals if (found := re.findall(r"Goal (\w+) with", description))]
    stored = Counter(said)
    yield from (f"{name} was acknowledged and is lost" for name in names if not stored[name])
    yield from (f"{name} was sent once and is there {stored[name]} times" for name in names if stored[name] > 1)


def check_effects(ledger: Ledger, tenant_id: int, number: int, notes: Counter[str]) -> Iterator[str]:
    """Check that what Headway says about each call is what happened outside of it."""
    states: dict[str, list[str]] = {}
    tools = "('note', 'sign', 'frail__mcp', 'frail__die')"
    sql = f"SELECT arguments, state FROM effects WHERE tenant_id = {tenant_id} AND tool IN {tools} AND replayed = 0"
    for arguments, state in ledger.rows(sql):
        states.setdefault(json.loads(arguments)["name"], []).append(state)
    for name, found in states.items():
        expected = {"succeeded": (1,), "unknown": (0, 1), "started": (0, 1)}.get(found[0], (0,))
        if len(found) != 1:
            yield f"the call of {name} is stored {len(found)} times: {found}"
        elif notes[name] not in expected:
            yield f"the call of {name} is {found[0]}, and it happened {notes[name]} times"
    pruned = ledger.rows(f"SELECT task FROM runs WHERE tenant_id = {tenant_id} AND pruned_at > 0")
    gone = {name for (task,) in pruned for name in re.findall(r"(?:Steps of|Goal) (\w+)", task)}
    for name, times in notes.items():
        if gone & {name, *re.findall(r"^t\d+[sg]\d+", name)}:
            continue
        if name.startswith((f"t{number}s", f"t{number}g")) and name not in states:
            yield f"{name} happened {times} times, and no call is stored"
