"""Migrations run at every start, and exactly once, even if several processes start at the same time."""

import runpy
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from headway.actions import memory, spending, todos, turns
from headway.actions.access import tokens
from headway.ledger.errors import DatabaseTooNew, OperatorOnly, StorageError, Unauthorized
from headway.ledger.run import Limits
from headway.ledger.scope import Scope
from headway.ledger.todo import Change
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase, connect
from headway.storage.migrate import SCHEMA_FOLDER, SCHEMA_NAME, apply_missing, list_migrations
from headway.storage.stores.memory import MemoryOrigin
from headway.storage.transaction import Row, Transaction, across_tenants, within_tenant
from headway.testing import FixedClock, TenantHarness

OPEN = """
import sys
from headway.storage.direct import DirectDatabase

print("ready", flush=True)
input()
with DirectDatabase(sys.argv[1]) as database:
    print(database.read(lambda tx: tx.all("SELECT number FROM migrations ORDER BY number")))
"""


def list_tables(tx: Transaction) -> list[str]:
    rows = tx.all(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        if tx.dialect.name == "sqlite"
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    return sorted(str(row[0]) for row in rows)


def read_all_rows(tx: Transaction) -> dict[str, list[Row]]:
    """Return every row of every table."""
    return {table: sorted(tx.all(f"SELECT * FROM {table}"), key=repr) for table in list_tables(tx)}


def test_eight_processes_that_start_at_once_on_an_empty_database_all_find_it_ready(
    new_database_url: str, at_once: Callable[..., list[str]]
) -> None:
    printed = at_once(OPEN, new_database_url)

    assert printed == [f"{[(number,) for number, _ in list_migrations()]}\n"] * 8
    with DirectDatabase(new_database_url) as database:
        assert TenantHarness(database).add("first").position == 1


def test_opening_an_up_to_date_database_changes_nothing(new_database_url: str, clock: FixedClock) -> None:
    with DirectDatabase(new_database_url, clock) as database:
        TenantHarness(database).add("kept")
        before = database.read(read_all_rows)
    clock.advance(3600)

    with DirectDatabase(new_database_url, clock) as database:
        assert database.read(read_all_rows) == before
    Database(new_database_url, clock).close()
    with DirectDatabase(new_database_url, clock) as database:
        assert database.read(read_all_rows) == before


@pytest.mark.parametrize("kind", [DirectDatabase, Database])
def test_a_newer_database_is_refused_in_clear_words_and_left_as_it_is(
    new_database_url: str, clock: FixedClock, kind: type[DirectDatabase] | type[Database]
) -> None:
    with DirectDatabase(new_database_url, clock) as database:
        TenantHarness(database).add("from the future")
        database.write(lambda tx: tx.run("INSERT INTO migrations VALUES (9000, '9000_telepathy.sql', 1)"))
        before = database.read(read_all_rows)

    with pytest.raises(DatabaseTooNew, match=r"schema version 9000; this Headway knows versions up to \d+. Upgrade Headway"):
        kind(new_database_url, clock)

    with closing(connect(new_database_url)) as connection:
        assert connection.read(across_tenants(read_all_rows)) == before


def test_a_newer_sqlite_file_is_left_byte_for_byte(tmp_path: Path, sqlite_url: str) -> None:
    with DirectDatabase(sqlite_url) as database:
        database.write(lambda tx: tx.run("INSERT INTO migrations VALUES (9000, '9000_telepathy.sql', 1)"))
    before = (tmp_path / "headway.db").read_bytes()

    with pytest.raises(DatabaseTooNew):
        DirectDatabase(sqlite_url)

    assert (tmp_path / "headway.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["headway.db"]


def test_a_migration_that_fails_half_way_leaves_nothing_behind(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        # A table of another program conflicts with one of the last statements.
        connection.write(lambda tx: tx.run("CREATE TABLE events (ours INTEGER)"))

    with pytest.raises(StorageError, match="events"):
        DirectDatabase(new_database_url)

    with closing(connect(new_database_url)) as connection:
        assert connection.read(list_tables) == ["events"]


def test_goals_from_before_their_sub_goals_were_counted_are_counted(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:5]))
        connection.write(add_older_goal)

    with DirectDatabase(new_database_url) as database:
        assert database.read(lambda tx: tx.all("SELECT pending, in_progress, completed, failed, skipped FROM goals")) == [
            (3, 1, 2, 1, 0)
        ]
        assert database.read(lambda tx: tx.all("SELECT in_plan, done FROM goals")) == [(7, 2)]
        waits = database.read(lambda tx: tx.all("SELECT waits_for, waits_in_vain FROM sub_goals ORDER BY id"))
        assert waits == [(0, 0)] * 4 + [(0, 0), (2, 1), (1, 0)]
        assert database.read(lambda tx: tx.all("SELECT DISTINCT tenant_id FROM sub_goal_edges")) == [(1,)]


def test_sub_goals_from_before_they_knew_their_last_plan_learn_it(new_database_url: str) -> None:
    before = next(index for index, (_, name) in enumerate(list_migrations()) if name.endswith("_goal_plans.sql"))
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:before]))
        connection.write(across_tenants(add_goal_with_three_plans))

    with DirectDatabase(new_database_url) as database:
        rows = database.read(
            across_tenants(lambda tx: tx.all("SELECT id, plan_no, superseded_by, title FROM sub_goals ORDER BY id"))
        )
        assert rows == [(1, 1, 0, ""), (2, 1, 2, ""), (3, 1, 2, ""), (4, 2, 3, ""), (5, 3, 0, ""), (6, 3, 0, "")]
        assert database.read(across_tenants(lambda tx: tx.all("SELECT in_plan, done, repeat_of FROM goals"))) == [(3, 1, 0)]


def add_goal_with_three_plans(tx: Transaction) -> None:
    """Store a goal of an older version. Plan 1: one sub-goal is done, one failed, one is dropped. Plan 2: one diverged. Plan 3: one
    failed, one is open."""
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    tx.run("INSERT INTO goals (id, tenant_id, source, description, status, plan_no, created_at, updated_at) "
           "VALUES (1, 1, 'operator-injected', 'x', 'active', 3, 1, 1)")  # fmt: skip
    rows = [
        (1, 10, "completed", "none", 11),
        (1, 10, "failed", "major", 12),
        (1, 10, "skipped", None, 20),
        (2, 20, "completed", "major", 21),
        (3, 30, "failed", "major", 31),
        (3, 30, "pending", None, 0),
    ]
    for number, (plan_no, created_at, status, divergence, ended_at) in enumerate(rows, 1):
        tx.run(
            """INSERT INTO sub_goals (id, tenant_id, goal_id, plan_no, description, expected_outcome, kind, mode, role, priority,
               expected_value, created_at, updated_at, status, divergence, ended_at)
               VALUES (?, 1, 1, ?, 'x', 'y', 'work', 'inline', 'index', 5, 0.5, ?, 1, ?, ?, ?)""",
            number,
            plan_no,
            created_at,
            status,
            divergence,
            ended_at,
        )


def add_older_goal(tx: Transaction) -> None:
    """Store a goal of an older version.

    Sub-goals 1 to 4: evaluated, not evaluated, failed, started. 5 depends on 1, 6 on 1 to 3, and 7 on 6.
    """
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    tx.run("INSERT INTO goals (id, tenant_id, source, description, status, created_at, updated_at) "
           "VALUES (1, 1, 'operator-injected', 'x', 'active', 1, 1)")  # fmt: skip
    rows = [("completed", "none", 1), ("completed", None, 1), ("failed", "major", 1), ("in-progress", None, 0)]
    for number, row in enumerate([*rows, *[("pending", None, 0)] * 3], 1):
        tx.run(
            """INSERT INTO sub_goals (id, tenant_id, goal_id, plan_no, description, expected_outcome, kind, mode, role, priority,
               expected_value, created_at, updated_at, status, divergence, ended_at)
               VALUES (?, 1, 1, 1, 'x', 'y', 'work', 'inline', 'index', 5, 0.5, 1, 1, ?, ?, ?)""",
            number,
            *row,
        )
    for above, below in [(5, 1), (6, 1), (6, 2), (6, 3), (7, 6)]:
        tx.run("INSERT INTO sub_goal_edges (sub_goal_id, depends_on) VALUES (?, ?)", above, below)


def test_calls_from_before_cached_tokens_were_recorded_count_none(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:7]))
        connection.write(add_older_call)

    with DirectDatabase(new_database_url, FixedClock(10)) as database:
        (row,) = database.read(lambda tx: spending.build_costs(tx, 1, 0))["by_model"]
        expected = {"input_tokens": 100, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 10, "cost_usd": 2.0}
        assert row == {"model": "a:b", "calls": 1, **expected}


def add_older_call(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    tx.run("""INSERT INTO runs (id, tenant_id, role, task, status, iteration_limit, created_at, updated_at)
              VALUES ('r', 1, 'index', 'x', 'running', 10, 1, 1)""")
    tx.run("""INSERT INTO model_calls (tenant_id, run_id, tier, model, input_tokens, output_tokens, cost, at)
              VALUES (1, 'r', 'strong', 'a:b', 100, 10, 2000000000, 1)""")


def test_memory_from_before_origins_were_stored_keeps_an_empty_one(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:12]))
        connection.write(add_older_memory)

    with DirectDatabase(new_database_url) as database:
        entry = database.read(lambda tx: memory.get(tx, 1, 7))
        assert (entry.text, entry.revision, entry.created_at, entry.updated_at) == ("It is dark.", 0, 5, 5)
        assert entry.origin == MemoryOrigin(agent_id="index")
        assert database.write(lambda tx: memory.remember(tx, Scope(1), "It is bright.")).id == 8  # ids continue


def test_an_upgrade_says_what_it_did_and_keeps_a_copy_of_an_sqlite_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with closing(connect(url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:12]))
        connection.write(add_older_memory)

    newest = len(list_migrations())
    copy = tmp_path / f"old.db.before-{newest}"
    for _ in range(2):
        DirectDatabase(url).close()
    assert caplog.messages == [
        f"the database was changed from schema version 12 to {newest}; an older Headway cannot open it any more; "
        f"a copy from before is {copy}"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.db", copy.name]
    with closing(connect(f"sqlite:///{copy}")) as connection:
        rows = "SELECT (SELECT MAX(number) FROM migrations), (SELECT text FROM memory_entries)"
        assert connection.read(lambda tx: tx.one(rows)) == (12, "It is dark.")


def add_older_memory(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    tx.run("""INSERT INTO memory_entries (id, tenant_id, conversation_id, agent_id, kind, text, created_at)
              VALUES (7, 1, 0, 'index', 'note', 'It is dark.', 5)""")


def test_todos_and_plans_from_before_it_was_recorded_do_not_say_who_completed_or_made_them(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:43]))
        connection.write(across_tenants(add_older_plan))

    with DirectDatabase(new_database_url) as database:
        limits = Limits()
        assert database.read(within_tenant(1, lambda tx: todos.get(tx, 1, 7).as_json()))["completed_by"] is None
        assert database.read(within_tenant(1, lambda tx: turns.show(tx, 1, "t", limits)))["plan_source"] is None
        reopened = database.write(within_tenant(1, lambda tx: todos.change(tx, 1, 7, Change(status="pending"))))
        assert database.write(within_tenant(1, lambda tx: todos.end(tx, 1, reopened.id, "completed"))).completed_by == "person"


def add_older_plan(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    tx.run("""INSERT INTO conversations (id, uuid, tenant_id, key, created_at, updated_at)
              VALUES (3, 'c', 1, 'c', 1, 1)""")
    tx.run("INSERT INTO turns (id, tenant_id, conversation_id, status, started_at) VALUES ('t', 1, 3, 'running', 1)")
    tx.run("""INSERT INTO todos (id, uuid, tenant_id, conversation_id, turn_id, agent_id, subject, description,
                  completion_criteria, status, position, created_at, updated_at, completed_at)
              VALUES (7, 'u', 1, 3, 't', 'index', 'old', '', '', 'completed', 0, 5, 5, 5)""")
    tx.run("""INSERT INTO todo_lists (tenant_id, conversation_id, turn_id, next_position, completed)
              VALUES (1, 3, 't', 0, 1)""")


def test_events_of_sub_goals_from_before_they_had_a_subject_name_their_goal(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=[one for one in list_migrations() if one[0] < 18]))
        connection.write(add_older_events)

    with DirectDatabase(new_database_url) as database:
        subjects = database.read(lambda tx: tx.all("SELECT subject FROM events ORDER BY seq"))
    assert [subject for (subject,) in subjects] == ["goal:7", "goal:1234567890123", None]


def add_older_events(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    for kind, data in (
        ("sub_goal_changed", '{"goal_id":7,"sub_goal":{"id":1,"description":"a, b"}}'),
        ("sub_goal_changed", '{"goal_id":1234567890123,"sub_goal":{"id":2}}'),
        ("recovered", '{"goal_id":7,"runs":1}'),
    ):
        tx.run("INSERT INTO events (tenant_id, kind, data, at) VALUES (1, ?, ?, 1)", kind, data)


def test_the_schema_of_new_sqlite_databases_is_the_result_of_the_migrations() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "write_schema.py"))
    written = Path(SCHEMA_FOLDER, SCHEMA_NAME).read_text(encoding="utf-8")

    assert written == script["describe_schema"](), "run `make schema`"


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in list_migrations()] == list(range(1, len(list_migrations()) + 1))


def test_tokens_from_before_scopes_keep_their_rights_and_sessions_from_then_end(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:17]))
        connection.write(add_older_tokens)

    with DirectDatabase(new_database_url, FixedClock(10)) as database:
        listed = database.read(lambda tx: tokens.list_all(tx, 1))
        assert [(token.label, token.scopes) for token in listed] == [("plain", "read,write"), ("ops", "read,write,admin")]
        assert database.read(lambda tx: tokens.authenticate(tx, "plain")).id == 1
        with pytest.raises(Unauthorized):
            database.read(lambda tx: tokens.authenticate(tx, "browser session"))


def test_the_operator_scope_of_other_tenants_becomes_that_of_an_administrator(new_database_url: str) -> None:
    """Sessions and login links are rows of the same table."""
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:44]))
        connection.write(add_operators)

    with DirectDatabase(new_database_url, FixedClock(10)) as database:
        rows = database.read(lambda tx: [(token.tenant_id, token.scopes) for id_ in (1, 2) for token in tokens.list_all(tx, id_)])
        everything = "read,write,admin,operator"
        assert rows == [
            (1, everything),
            (1, everything),
            (1, "read"),
            (2, "read,write,admin"),
            (2, "read,write,admin"),
            (2, "read"),
        ]
        assert database.read(lambda tx: tokens.authenticate_for("halt")(tx, "1 operator")).tenant_id == 1
        for digest in ("2 operator", "2 session"):
            assert database.read(partial(tokens.authenticate_for("manage_tokens"), secret_digest=digest)).tenant_id == 2
            with pytest.raises(OperatorOnly):
                database.read(partial(tokens.authenticate_for("halt"), secret_digest=digest))


def add_operators(tx: Transaction) -> None:
    """Add the tenant `local` and another one, each with an operator's token, its session and a token that may only read."""
    tx.enter_all_tenants()
    tokens_of_each = (("operator", "read,write,operator", 0), ("session", "read,write,operator", 1), ("reader", "read", 0))
    for tenant_id, name in ((1, "local"), (2, "other")):
        tx.run("INSERT INTO tenants (id, name, created_at) VALUES (?, ?, 1)", tenant_id, name)
        for number, (label, scopes, session_of) in enumerate(tokens_of_each):
            tx.run(
                "INSERT INTO tokens (id, tenant_id, hash, label, scopes, session_of, created_at) VALUES (?, ?, ?, ?, ?, ?, 1)",
                tenant_id * 10 + number,
                tenant_id,
                f"{tenant_id} {label}",
                label,
                scopes,
                session_of * tenant_id * 10,
            )


def add_older_tokens(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    for number, (label, operator, expires_at) in enumerate([("plain", 0, 0), ("ops", 1, 0), ("browser session", 1, 99)], 1):
        tx.run(
            "INSERT INTO tokens (id, tenant_id, hash, label, operator, created_at, expires_at) VALUES (?, 1, ?, ?, ?, 1, ?)",
            number,
            label,
            label,
            operator,
            expires_at,
        )


def test_notices_about_what_was_decided_before_the_update_are_done(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:41]))
        connection.write(across_tenants(add_older_notices))

    with DirectDatabase(new_database_url) as database:
        rows = database.read(lambda tx: tx.all("SELECT text, done_at FROM notices ORDER BY id"))
    assert rows == [
        ("answered", 5),
        ("asked", 0),
        ("approved", 6),
        ("half of the calls approved", 0),
        ("resumed", 7),
        ("paused", 0),
        ("resumed after a crash", 0),
    ]


def add_older_notices(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    for run in ("r", "s"):
        tx.run(
            """INSERT INTO runs (id, tenant_id, role, task, status, iteration_limit, created_at, updated_at)
               VALUES (?, 1, 'index', 'x', 'waiting', 10, 1, 1)""",
            run,
        )
    for goal_id, status in ((1, "active"), (2, "paused")):
        tx.run(
            """INSERT INTO goals (id, tenant_id, source, description, success_criteria, status, created_at, updated_at)
               VALUES (?, 1, 'operator-injected', 'x', 'y', ?, 1, 7)""",
            goal_id,
            status,
        )
    for question_id, state, answered_at in ((1, "answered", 5), (2, "open", 0)):
        tx.run(
            """INSERT INTO questions (id, tenant_id, conversation_id, run_id, role, question, choices, state, created_at,
                   answered_at) VALUES (?, 1, 0, 'r', 'index', 'x', '[]', ?, 1, ?)""",
            *(question_id, state, answered_at),
        )
    for approval in ((1, "r", 0, "approved", 6), (2, "s", 0, "approved", 6), (3, "s", 1, "proposed", 0)):
        tx.run(
            """INSERT INTO approvals (id, tenant_id, conversation_id, run_id, n, place, call_id, role, tool, arguments, digest, why,
                   state, created_at, expires_at, decided_at)
               VALUES (?, 1, 0, ?, 0, ?, 'c', 'index', 'x', '{}', '', '', ?, 1, 1, ?)""",
            *approval,
        )
    for number, notice in enumerate(
        (
            ("question", "answered", None, "/questions/1"),
            ("question", "asked", None, "/questions/2"),
            ("approval", "approved", None, "/approvals/1"),
            ("approval", "half of the calls approved", None, "/approvals/2"),
            ("decision", "resumed", 1, ""),
            ("fault", "paused", 2, ""),
            ("recovered", "resumed after a crash", 1, ""),
        ),
        1,
    ):
        tx.run(
            "INSERT INTO notices (id, tenant_id, kind, text, goal_id, url, created_at) VALUES (?, 1, ?, ?, ?, ?, 1)",
            *(number, *notice),
        )
