"""While a tenant is moved, the source refuses every change of its rows, and of nothing else."""

import threading
from functools import partial

import psycopg
import pytest

from headway.actions.access import idempotency
from headway.actions.engine import schedules
from headway.actions.runs import jobs
from headway.cells import move_steps as moves
from headway.cells import moving
from headway.cells.moving import move_tenant, undo_move
from headway.cells.rules import Move
from headway.ledger.errors import Conflict, TenantMoving
from headway.storage.postgres.fence import fence_new_tables
from headway.storage.stores import jobs as job_store
from headway.storage.stores.retention import list_tables
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, run_sql
from tests.tenant_rows import fill_tenant


def fence(cells: Cells) -> Move:
    """Do what a process does that is killed when the fence is up."""
    route = cells.route()
    move = moving.begin(route, "acme")
    moving.fence(route, move)
    return move


def test_no_table_of_the_tenant_can_be_changed_and_all_of_others_can(cells: Cells) -> None:
    desk, other = TenantHarness(cells.databases["a"]), TenantHarness(cells.databases["a"], "other")
    fill_tenant(desk)
    fill_tenant(other)
    tables = set(cells.databases["a"].read(list_tables))

    fence(cells)

    assert cells.list_writable("a", desk.tenant.id) == []
    assert set(cells.list_writable("a", other.tenant.id)) == tables
    with pytest.raises(TenantMoving):
        desk.add("refused")
    with pytest.raises(TenantMoving):
        run_sql(cells.databases["a"], "DELETE FROM conversations WHERE tenant_id = ? RETURNING 1", desk.tenant.id)
    with pytest.raises(TenantMoving):
        run_sql(cells.databases["a"], "DELETE FROM tenants WHERE id = ? RETURNING 1", desk.tenant.id)
    with pytest.raises(TenantMoving):  # into the tenant
        run_sql(
            cells.databases["a"],
            "UPDATE notices SET tenant_id = ? WHERE tenant_id = ? RETURNING 1",
            desk.tenant.id,
            other.tenant.id,
        )
    assert desk.subjects()
    assert other.add("accepted").subject == "accepted"


def test_a_connection_that_has_prepared_its_statements_is_refused_too(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    with psycopg.connect(cells.urls.a, autocommit=True) as writer:
        writer.execute("SET headway.tenant = 'all'")
        add = "UPDATE tenants SET created_at = created_at + 1 WHERE id = %s"
        for _ in range(3):
            writer.execute(add, (desk.tenant.id,), prepare=True)
        fence(cells)

        with pytest.raises(psycopg.DatabaseError) as refusal:
            writer.execute(add, (desk.tenant.id,), prepare=True)
    assert refusal.value.sqlstate == "HW421"


def test_a_transaction_that_began_before_the_fence_is_waited_for_or_refused(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    todo = desk.add("as it was")
    with psycopg.connect(cells.urls.a) as early, psycopg.connect(cells.urls.a) as late:
        for writer in (early, late):
            writer.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            writer.execute("SELECT set_config('headway.tenant', 'all', true)")
            writer.execute("SELECT COUNT(*) FROM todos")  # the snapshot is older than the move
        early.execute("UPDATE todos SET subject = 'changed in time' WHERE tenant_id = %s", (desk.tenant.id,))
        mover = threading.Thread(target=fence, args=(cells,))
        mover.start()
        wait_for_fence(cells, "jobs")  # the mover has begun, and will wait for the table of the first writer
        early.commit()
        mover.join()

        with pytest.raises(psycopg.DatabaseError) as refusal:
            late.execute("UPDATE tenants SET created_at = 5 WHERE id = %s", (desk.tenant.id,))
    assert refusal.value.sqlstate == "HW421"
    move_tenant(cells.route(), "acme")
    assert cells.desk("b", "acme").get(todo).subject == "changed in time"


def wait_for_fence(cells: Cells, table: str) -> None:
    with psycopg.connect(cells.urls.a, autocommit=True) as observer:
        found = "SELECT 1 FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal"
        while not observer.execute(found, (table,)).fetchone():
            pass


def test_workers_and_housekeeping_pass_over_the_tenant(cells: Cells) -> None:
    desk, other = TenantHarness(cells.databases["a"]), TenantHarness(cells.databases["a"], "other")
    fill_tenant(desk)
    fill_tenant(other)
    database = cells.databases["a"]
    run_sql(database, "UPDATE schedules SET next_at = 5 RETURNING 1")
    run_sql(database, "UPDATE idempotency_keys SET at = 5 RETURNING 1")
    for each in (desk, other):
        each.write(jobs.create_job, "tool", {}, job_id=f"old {each.tenant.name}")
        run_sql(database, "UPDATE jobs SET state = 'completed', updated_at = 5 WHERE id = ? RETURNING 1", f"old {each.tenant.name}")
    fence(cells)

    due = database.write(lambda tx: job_store.lock_due(tx, ["run", "tool", "pursuit", "turn", "goal"], 4, 100))
    database.write(schedules.tick)
    database.write(schedules.realign)
    database.write(idempotency.delete_expired)
    database.write(jobs.delete_old)

    assert {job.tenant_id for job in due} <= {other.tenant.id}
    assert [tenant for (tenant,) in run_sql(database, "SELECT tenant_id FROM idempotency_keys")] == [desk.tenant.id]
    assert run_sql(database, "SELECT id FROM jobs WHERE id LIKE 'old %'") == [("old acme",)]


def test_a_table_that_a_migration_creates_is_fenced(new_cells: Cells) -> None:
    cells = new_cells
    desk = TenantHarness(cells.databases["a"])
    fence(cells)

    def migrate(tx: Transaction) -> None:
        tx.run("CREATE TABLE novelties (tenant_id BIGINT NOT NULL)")
        fence_new_tables(tx)

    cells.databases["a"].write(migrate)

    with pytest.raises(TenantMoving):
        run_sql(cells.databases["a"], "INSERT INTO novelties (tenant_id) VALUES (?) RETURNING 1", desk.tenant.id)
    assert run_sql(cells.databases["a"], "INSERT INTO novelties (tenant_id) VALUES (?) RETURNING 1", 0) == [(1,)]


# Undoing


def test_an_undone_move_leaves_everything_as_it_was(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    before = cells.read_rows("a", desk.tenant.id)
    fence(cells)
    assert cells.read_rows("a", desk.tenant.id) != before  # jobs and schedules are parked

    assert undo_move(cells.route(), "acme").state == "undone"

    assert cells.read_rows("a", desk.tenant.id) == before
    assert cells.count_rows("b", desk.tenant.id) == 0
    assert cells.list_triggers("a") == []
    assert desk.add("accepted").subject == "accepted"


def test_a_process_that_was_suspended_changes_nothing_after_an_undo(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    before = cells.read_rows("a", desk.tenant.id)
    move = fence(cells)
    undo_move(cells.route(), "acme")
    source = cells.databases["a"]

    for step in (
        partial(moves.drain, move=move),
        partial(moves.fence_table, move=move, table="todos", wait_ms=200),
        partial(moves.depart, move=move),
    ):
        with pytest.raises(Conflict, match="is undone by now"):
            source.write(step)
    moving.copy_rows(cells.route(), move)
    with pytest.raises(Conflict, match="is being undone"):
        moving.check_arrival(cells.route(), move)
    source.write(partial(moves.delete_part, move=move, table="todos"))
    source.write(partial(moves.finish, move=move))
    moving.record_placement(cells.route(), move)

    assert cells.read_rows("a", desk.tenant.id) == before
    assert cells.find_place("acme") is None
    assert cells.count_rows("b", desk.tenant.id) == 0


def test_a_process_that_was_suspended_changes_nothing_when_the_tenant_has_come_back(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    before = cells.read_rows("a", desk.tenant.id)
    move = fence(cells)
    move_tenant(cells.route(), "acme")
    move_tenant(cells.route("b", "a"), "acme")
    source = cells.databases["a"]

    source.write(partial(moves.depart, move=move))
    source.write(partial(moves.delete_part, move=move, table="todos"))
    source.write(partial(moves.finish, move=move))
    moving.record_placement(cells.route(), move)

    assert cells.read_rows("a", desk.tenant.id) == before
    assert cells.find_place("acme") == "a"
    assert cells.desk("a", "acme").add("accepted").subject == "accepted"


def test_a_move_that_has_arrived_can_only_be_completed(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    route = cells.route()
    move = fence(cells)
    moving.copy_rows(route, move)

    with pytest.raises(Conflict, match="Complete the move with `headway admin tenant move acme --to b`"):
        undo_move(route, "acme")
    assert cells.list_writable("a", desk.tenant.id) == []

    move_tenant(route, "acme")
    assert cells.list_writable("b", desk.tenant.id)


def test_a_move_that_is_being_undone_cannot_be_completed(cells: Cells) -> None:
    TenantHarness(cells.databases["a"])
    move = fence(cells)
    cells.databases["b"].write(partial(moves.cancel_arrival, move=move))

    with pytest.raises(Conflict, match="is being undone"):
        move_tenant(cells.route(), "acme")
    assert undo_move(cells.route(), "acme").state == "undone"


def test_a_move_to_a_third_cell_waits_for_the_first_one(cells: Cells) -> None:
    TenantHarness(cells.databases["a"])
    fence(cells)

    with pytest.raises(Conflict, match="is being moved to cell b"):
        cells.databases["a"].write(partial(moves.begin_move, tenant_name="acme", target="c"))
