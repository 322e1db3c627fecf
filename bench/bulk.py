"""Creates large ledgers quickly: raw SQL without durability, with the counters and events that the actions would have written."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw

from bench import bare
from headway.actions.installation import tenants
from headway.storage.direct import DirectDatabase

# :n conversations with :each todos. The first :ended of each have ended, the others are pending.
CONVERSATIONS = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :n)
    INSERT INTO conversations (id, uuid, tenant_id, key, created_at, updated_at)
    SELECT :first + i, printf('%032x', :first + i), :tenant, printf('%032x', :first + i), :now, :now FROM n"""
TODOS = """
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < :n * :each - 1)
    INSERT INTO todos (id, uuid, tenant_id, conversation_id, agent_id, subject, description, completion_criteria, status, position,
        created_at, updated_at, completed_at)
    SELECT :first_todo + 1 + i, lower(hex(randomblob(16))), :tenant, :first + 1 + i / :each, 'index',
        'write the quarterly report', '', '',
        iif(i % :each < :ended, 'completed', 'pending'), 1 + i % :each, :now + i, :now + i, iif(i % :each < :ended, :now + i, 0)
    FROM n"""
LISTS = """
    INSERT INTO todo_lists (tenant_id, conversation_id, next_position, pending, completed)
    SELECT :tenant, id, :each + 1, :each - :ended, :ended FROM conversations WHERE id > :first"""
EVENTS = """
    INSERT INTO events (seq, tenant_id, conversation_id, kind, data, at)
    SELECT id, tenant_id, conversation_id, 'todo_changed', hex(zeroblob(190)), created_at
    FROM todos WHERE tenant_id = :tenant AND conversation_id > :first"""
LAST_IDS = """SELECT (SELECT next - 1 FROM id_ranges WHERE tenant_id = :tenant AND kind = 'conversations'),
    (SELECT next - 1 FROM id_ranges WHERE tenant_id = :tenant AND kind = 'todos')"""
# The tenant continues after these rows.
RANGES = """
    UPDATE id_ranges SET next = CASE kind WHEN 'conversations' THEN :first + :n + 1 ELSE :first_todo + :n * :each + 1 END
    WHERE tenant_id = :tenant AND kind IN ('conversations', 'todos', 'events')"""


class Ledger(NamedTuple):
    """A filled database and its conversations."""

    path: str
    tenant_id: int
    conversations: list[int]

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"


def new_ledger(path: Path) -> Ledger:
    with DirectDatabase(f"sqlite:///{path}") as database:
        tenant_id = database.write(partial(tenants.add_tenant, name="acme")).id
        database.write(partial(bare.reserve_ids, tenant_id=tenant_id))
        return Ledger(str(path), tenant_id, [])


def filled(ledger: Ledger, conversations: int, each: int, ended: int = 0) -> Ledger:
    """Add this many conversations with this many todos each, and return the larger ledger."""
    raw = apsw.Connection(ledger.path)
    raw.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-1000000")
    first, first_todo = raw.execute(LAST_IDS, {"tenant": ledger.tenant_id}).get
    values = {
        "n": conversations,
        "each": each,
        "ended": ended,
        "tenant": ledger.tenant_id,
        "first": first,
        "first_todo": first_todo,
        "now": 1_700_000_000_000,
    }
    raw.execute("BEGIN")
    for sql in (CONVERSATIONS, TODOS, LISTS, EVENTS, RANGES):
        raw.execute(sql, values)
    raw.execute("COMMIT")
    raw.execute("PRAGMA journal_mode=WAL")
    raw.close()
    return ledger._replace(conversations=[*ledger.conversations, *range(first + 1, first + conversations + 1)])
