"""Postgres faults: lost connections, deadlocks, an unreachable server. Each change is still applied exactly once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import psycopg
import pytest
from psycopg import errors

from headway.actions.access import audit
from headway.actions.engine import dead_letters, run_ends
from headway.actions.runs import jobs
from headway.actions.todos import claims, todos
from headway.actions.turns import turns
from headway.ledger.errors import (
    CommitUncertain,
    DatabaseBusy,
    DatabaseUnreachable,
    DependencyCycle,
    NotFound,
    SettingsError,
    StorageError,
    TurnRunning,
)
from headway.ledger.todo import Change, Draft, Todo
from headway.storage.direct import DirectDatabase, connect
from headway.storage.transaction import Transaction, across_tenants
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

WAITING_FOR_A_LOCK = """
    SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid = %s"""


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def database(postgres_url: str, clock: FixedClock) -> Iterator[DirectDatabase]:
    with DirectDatabase(postgres_url, clock) as opened:
        yield opened


def get_backend_pid(tx: Transaction) -> int:
    row = tx.one("SELECT pg_backend_pid()")
    assert row is not None
    return int(row[0])


class Helper:
    """A concurrent client: a thread with a separate connection."""

    def __init__(self, url: str, work: Callable[[Transaction], object], start: threading.Barrier | None = None) -> None:
        self.pid = 0
        self.error: Exception | None = None
        self.connected = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(url, work, start or threading.Barrier(1)))
        self.thread.start()

    def _run(self, url: str, work: Callable[[Transaction], object], start: threading.Barrier) -> None:
        with closing(connect(url)) as connection:
            self.pid = connection.read(get_backend_pid)
            self.connected.set()
            try:
                start.wait(30)
                connection.write(across_tenants(work))
            except Exception as error:  # noqa: BLE001  a thread would swallow it
                self.error = error

    def wait_for_lock(self, admin: psycopg.Connection) -> None:
        """Wait until the helper waits for a lock or has ended."""
        self.connected.wait(30)
        while self.thread.is_alive() and admin.execute(WAITING_FOR_A_LOCK, (self.pid,)).fetchone() == (0,):
            pass

    def join(self) -> Exception | None:
        self.thread.join()
        return self.error


# Lost connections


def test_a_connection_killed_between_two_transactions_is_replaced(admin: psycopg.Connection, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    admin.execute("SELECT pg_terminate_backend(%s)", (database.read(get_backend_pid),))
    desk.add("written all the same")
    admin.execute("SELECT pg_terminate_backend(%s)", (database.read(get_backend_pid),))

    assert desk.subjects() == ["written all the same"]


def test_a_connection_killed_between_two_statements_is_replaced_and_the_work_runs_exactly_once(
    admin: psycopg.Connection, database: DirectDatabase
) -> None:
    desk = TenantHarness(database)
    attempts = []

    def work(tx: Transaction, tenant_id: int) -> Todo:
        todo = todos.add_todo(tx, tenant_id, Draft("once"))
        attempts.append(todo.id)
        if len(attempts) == 1:
            admin.execute("SELECT pg_terminate_backend(%s)", (get_backend_pid(tx),))
        return todos.change_todo(tx, tenant_id, todo.id, Change(status="in_progress"))

    added = desk.write(work)

    assert len(attempts) == 2
    assert (desk.subjects(), desk.get(added)) == (["once"], added)
    assert [change for change, _ in desk.changes()] == ["created", "updated"]


@pytest.mark.parametrize("then", ["another statement", "the commit"])
def test_work_frozen_in_a_transaction_until_the_server_aborted_it_runs_exactly_once(
    admin: psycopg.Connection, database: DirectDatabase, then: str
) -> None:
    desk = TenantHarness(database)
    attempts = []

    def work(tx: Transaction, tenant_id: int) -> None:
        attempts.append(get_backend_pid(tx))
        if then == "the commit":
            todos.add_todo(tx, tenant_id, Draft("once"))
        if len(attempts) == 1:
            tx.run("SET LOCAL idle_in_transaction_session_timeout = 10")
            while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", attempts).fetchone():
                pass
        if then == "another statement":
            todos.add_todo(tx, tenant_id, Draft("once"))

    desk.write(work)

    assert len(attempts) == 2
    assert desk.subjects() == ["once"]


def test_transactions_in_which_nothing_is_said_are_given_up_by_the_server(database: DirectDatabase) -> None:
    assert database.read(lambda tx: tx.one("SHOW idle_in_transaction_session_timeout")) == ("5s",)


def test_a_connection_killed_while_reading_is_replaced(admin: psycopg.Connection, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    desk.add("there")
    killed: list[int] = []

    def look(tx: Transaction) -> int:
        if not killed:
            killed.append(get_backend_pid(tx))
            admin.execute("SELECT pg_terminate_backend(%s)", killed)
        return len(tx.all("SELECT id FROM todos"))

    assert database.read(look) == 1


def test_a_connection_killed_while_committing_is_reported_as_uncertain_and_the_work_is_not_repeated(new_postgres_url: str) -> None:
    with DirectDatabase(new_postgres_url) as database:
        desk = TenantHarness(database)
        database.write(
            lambda tx: tx.run(
                """CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
                   'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"""
            )
        )
        database.write(
            lambda tx: tx.run(
                """CREATE CONSTRAINT TRIGGER die_at_commit AFTER INSERT ON todos DEFERRABLE INITIALLY DEFERRED
                   FOR EACH ROW EXECUTE FUNCTION die()"""
            )
        )
        attempts = []

        def work(tx: Transaction, tenant_id: int) -> None:
            attempts.append(todos.add_todo(tx, tenant_id, Draft("perhaps")))

        with pytest.raises(CommitUncertain, match="may or may not be stored"):
            desk.write(work)

        assert len(attempts) == 1
        assert desk.conversation(title="the connection is mended").title == "the connection is mended"


def test_a_connection_killed_right_after_the_commit_does_not_repeat_the_work(admin: psycopg.Connection, postgres_url: str) -> None:
    pids: list[int] = []

    def kill(_tenants: frozenset[int]) -> None:
        admin.execute("SELECT pg_terminate_backend(%s)", (pids[-1],))

    with DirectDatabase(postgres_url, on_commit=kill) as database:
        desk = TenantHarness(database)
        pids.append(database.read(get_backend_pid))
        desk.add("once")

        assert desk.subjects() == ["once"]
        assert len(desk.events()) == 1


# Deadlocks


def test_the_loser_of_a_deadlock_is_tried_again_and_both_succeed(postgres_url: str, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    first, second = desk.add("first"), desk.add("second")
    both_hold_one = threading.Barrier(2)
    attempts: list[str] = []

    def change_both(tx: Transaction, name: str, first_todo: Todo, second_todo: Todo) -> None:
        attempts.append(name)
        todos.change_todo(tx, desk.tenant.id, first_todo.id, Change(description=name))
        if attempts.count(name) == 1:
            both_hold_one.wait(30)
        todos.change_todo(tx, desk.tenant.id, second_todo.id, Change(outcome=name))

    left = Helper(postgres_url, partial(change_both, name="left", first_todo=first, second_todo=second))
    right = Helper(postgres_url, partial(change_both, name="right", first_todo=second, second_todo=first))

    assert (left.join(), right.join()) == (None, None)
    assert len(attempts) == 3
    assert {todo.description for todo in (desk.get(first), desk.get(second))} == {"left", "right"}
    assert [change for change, _ in desk.changes()] == ["created"] * 2 + ["updated"] * 4


def test_a_repeated_deadlock_is_reported_as_busy(database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    attempts = []

    def unlucky(tx: Transaction, tenant_id: int) -> None:
        attempts.append(todos.add_todo(tx, tenant_id, Draft("never")))
        raise errors.DeadlockDetected("deadlock detected")

    with pytest.raises(DatabaseBusy, match=r"gave up waiting for other transactions \(deadlock detected\); nothing was changed"):
        desk.write(unlucky)

    assert len(attempts) > 1
    assert (desk.subjects(), desk.events()) == ([], [])


# Locks


def test_a_retry_that_a_new_message_overtakes_finds_the_conversation_busy(
    admin: psycopg.Connection, postgres_url: str, database: DirectDatabase
) -> None:
    desk = TenantHarness(database)
    conversation = desk.conversation()
    dead = desk.write(turns.start_turn, conversation.id, turns.TurnRequest("first"))
    database.write(lambda tx: run_ends.fail_turn(tx, dead, "It broke.", "internal"))
    helpers: list[Helper] = []

    def overtake(tx: Transaction, tenant_id: int) -> None:
        turns.start_turn(tx, tenant_id, conversation.id, turns.TurnRequest("second"))
        helpers.append(Helper(postgres_url, lambda other: dead_letters.retry(other, tenant_id, dead.id)))
        helpers[0].wait_for_lock(admin)

    desk.write(overtake)

    assert isinstance(helpers[0].join(), TurnRunning)
    assert desk.read(jobs.get_job, dead.id).state == "dead"


def test_two_processes_that_notice_the_same_policy_record_it_once(
    admin: psycopg.Connection, postgres_url: str, database: DirectDatabase
) -> None:
    helpers: list[Helper] = []

    def record(tx: Transaction) -> None:
        audit.record_policy(tx, "a", 1)
        helpers.append(Helper(postgres_url, lambda other: audit.record_policy(other, "a", 1)))
        helpers[0].wait_for_lock(admin)

    database.write(record)

    assert helpers[0].join() is None
    assert len(database.read(lambda tx: audit.list_audit_entries(tx, None))["entries"]) == 1


def test_a_lock_timeout_is_reported_as_busy(postgres_url: str, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    todo = desk.add("held")

    def impatient(tx: Transaction, tenant_id: int) -> None:
        tx.run("SET LOCAL lock_timeout = 10")  # as an operator may set it for the whole server
        todos.get_locked_todo(tx, tenant_id, todo.id)

    with psycopg.connect(postgres_url, options="-c headway.tenant=all") as other:
        other.execute("SELECT 1 FROM todos WHERE id = %s FOR UPDATE", (todo.id,))
        with pytest.raises(DatabaseBusy, match="nothing was changed"):
            desk.write(impatient)


# An unreachable server


@each_row(
    "url",
    [
        "postgresql://somebody:s3cret@127.0.0.1:1,127.0.0.1:2/headway",
        "postgresql://somebody:s3cret@/headway?host=/nowhere/at/all",
        "postgres://somebody@127.0.0.1:1/headway?password=s3cret",
    ],
)
def test_a_server_that_is_not_there_is_named_without_the_password(url: str) -> None:
    with pytest.raises(DatabaseUnreachable, match=r"Postgres cannot be reached since [-\d]+ [:\d]+ UTC: ") as refusal:
        DirectDatabase(url)

    assert "s3cret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@each_row(
    "url",
    [
        "postgresql://somebody:before@s3cret@127.0.0.1:1/headway",
        "postgresql://somebody:before/s3cret@127.0.0.1:1/headway",
        "postgresql://somebody:before%s3cret@127.0.0.1:1/headway",
        "postgresql://somebody:before?s3cret@127.0.0.1:1/headway",
    ],
)
def test_a_password_that_is_not_escaped_is_never_quoted(url: str) -> None:
    with pytest.raises((SettingsError, DatabaseUnreachable)) as refusal:
        DirectDatabase(url)

    assert "s3cret" not in str(refusal.value)
    assert "before" not in str(refusal.value)


def test_a_database_that_does_not_exist_is_named(postgres_url: str) -> None:
    head, mark, options = postgres_url.partition("?")

    with pytest.raises(DatabaseUnreachable, match='database "nowhere" does not exist'):
        DirectDatabase(f"{head.rpartition('/')[0]}/nowhere{mark}{options}")


def test_a_statement_the_server_refuses_is_an_internal_error_and_leaves_nothing(database: DirectDatabase) -> None:
    desk = TenantHarness(database)

    def work(tx: Transaction, tenant_id: int) -> None:
        todos.add_todo(tx, tenant_id, Draft("half done"))
        tx.run("SELECT 1 / 0")

    with pytest.raises(StorageError, match="division by zero"):
        desk.write(work)
    assert desk.subjects() == []


# Concurrent changes


def test_two_changes_that_would_close_a_cycle_together_never_both_succeed(
    admin: psycopg.Connection, postgres_url: str, database: DirectDatabase
) -> None:
    """The two changes share no todo, so a lock on a todo could not serialize them."""
    desk = TenantHarness(database)
    north, south = desk.add("north"), desk.add("south")
    east, west = desk.add("east", depends_on=(south.id,)), desk.add("west", depends_on=(north.id,))
    helpers: list[Helper] = []

    def wait_for_east(tx: Transaction, tenant_id: int) -> None:
        todos.change_todo(tx, tenant_id, north.id, Change(depends_on=(east.id,)))
        helpers.append(
            Helper(postgres_url, lambda other: todos.change_todo(other, tenant_id, south.id, Change(depends_on=(west.id,))))
        )
        helpers[0].wait_for_lock(admin)

    desk.write(wait_for_east)

    assert isinstance(helpers[0].join(), DependencyCycle)
    assert (desk.get(north).depends_on, desk.get(south).depends_on) == ((east.id,), ())


def test_of_two_concurrent_mutual_dependencies_at_most_one_succeeds(postgres_url: str, database: DirectDatabase) -> None:
    desk = TenantHarness(database)

    def depend(tx: Transaction, todo: Todo, on: Todo) -> None:
        todos.change_todo(tx, desk.tenant.id, todo.id, Change(depends_on=(on.id,)))

    for _ in range(10):
        first, second = desk.add(), desk.add()
        together = threading.Barrier(2)
        left = Helper(postgres_url, partial(depend, todo=first, on=second), together)
        right = Helper(postgres_url, partial(depend, todo=second, on=first), together)
        refused = [error for error in (left.join(), right.join()) if error]

        assert [type(error) for error in refused] == [DependencyCycle]
        assert sorted([desk.get(first).depends_on, desk.get(second).depends_on]) in ([(), (first.id,)], [(), (second.id,)])


def test_a_dependency_that_ends_while_it_is_being_removed_is_counted_once(
    admin: psycopg.Connection, postgres_url: str, database: DirectDatabase
) -> None:
    desk = TenantHarness(database)
    ending, staying = desk.add("ending"), desk.add("staying")
    waiting = desk.add("waiting", depends_on=(ending.id, staying.id))
    helpers: list[Helper] = []

    def stop_waiting(tx: Transaction, tenant_id: int) -> None:
        todos.get_locked_todo(tx, tenant_id, waiting.id)
        if not helpers:
            helpers.append(Helper(postgres_url, lambda other: todos.end_todo(other, tenant_id, ending.id, "completed")))
            helpers[0].wait_for_lock(admin)
        todos.change_todo(tx, tenant_id, waiting.id, Change(depends_on=(staying.id,)))

    desk.write(stop_waiting)

    assert helpers[0].join() is None
    assert (desk.get(ending).status, desk.get(waiting).depends_on) == ("completed", (staying.id,))
    assert database.read(lambda tx: tx.one("SELECT blocked_by FROM todos WHERE id = ?", waiting.id)) == (1,)


def test_a_dependency_deleted_while_it_is_being_added_is_not_found(
    admin: psycopg.Connection, postgres_url: str, database: DirectDatabase
) -> None:
    desk = TenantHarness(database)
    going = desk.add("going")
    helpers: list[Helper] = []

    def remove(tx: Transaction, tenant_id: int) -> None:
        todos.remove_todo(tx, tenant_id, going.id)
        helpers.append(Helper(postgres_url, lambda other: todos.add_todo(other, tenant_id, Draft("late", depends_on=(going.id,)))))
        helpers[0].wait_for_lock(admin)

    desk.write(remove)

    assert isinstance(helpers[0].join(), NotFound)
    assert desk.subjects() == []


def test_a_todo_that_is_being_claimed_is_passed_over_not_waited_for(
    admin: psycopg.Connection, postgres_url: str, database: DirectDatabase
) -> None:
    desk = TenantHarness(database)
    first, second = desk.add("first"), desk.add("second")
    helpers: list[Helper] = []

    def hold_first(tx: Transaction, tenant_id: int) -> None:
        todos.get_locked_todo(tx, tenant_id, first.id)
        helpers.append(Helper(postgres_url, lambda other: claims.claim(other, tenant_id, "bob")))
        helpers[0].wait_for_lock(admin)

    desk.write(hold_first)

    assert helpers[0].join() is None
    assert (desk.get(first).status, desk.get(second).status) == ("pending", "in_progress")
