"""A tenant moves to another cell with everything that it owns, and back."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway.actions import idempotency, jobs
from headway.actions.access import tenants, tokens
from headway.actions.idempotency import Answer, IdempotentRequest
from headway.cells.moving import Route, move_tenant, undo_move
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.job import NEVER, Job, JobState
from headway.storage.direct import DirectDatabase
from headway.storage.stores import cells as cell_store
from headway.storage.stores import events as event_store
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction, Work, act_as
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, run_sql
from tests.lost_commits import lose_commit_answer
from tests.tenant_rows import fill_tenant


def test_everything_of_a_tenant_moves_and_comes_back(cells: Cells) -> None:
    desk, other = TenantHarness(cells.databases["a"]), TenantHarness(cells.databases["a"], "other")
    fill_tenant(desk)
    fill_tenant(other)
    fill_tenant(TenantHarness(cells.databases["b"], "resident"))
    before, others = cells.read_rows("a", desk.tenant.id), cells.read_rows("a", other.tenant.id)
    assert all(before.values())

    move_tenant(cells.route(), "acme")

    assert cells.read_rows("b", desk.tenant.id) == before
    assert cells.count_rows("a", desk.tenant.id) == 0
    assert cells.read_rows("a", other.tenant.id) == others
    assert cells.find_place("acme") == "b"
    assert cells.list_triggers("a") == []

    move_tenant(cells.route("b", "a"), "acme")

    assert cells.read_rows("a", desk.tenant.id) == before
    assert cells.count_rows("b", desk.tenant.id) == 0
    assert cells.find_place("acme") == "a"


def test_the_tenant_continues_in_the_other_cell(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    created = desk.write(tokens.create, "laptop")
    todo = desk.add("before the move")
    last = desk.read(event_store.get_bounds).last_seq

    move_tenant(cells.route(), "acme")
    moved = cells.desk("b", "acme")
    later = moved.add("after the move")

    assert later.id == todo.id + 1
    assert moved.read(event_store.get_bounds).last_seq == last + 1
    digest = tokens.hash_secret(created.secret)
    assert cells.databases["b"].read(partial(tokens.authenticate, secret_digest=digest)).id == created.token.id
    assert cells.databases["a"].read(partial(cell_store.find_departed, digest=digest)) == "b"

    move_tenant(cells.route("b", "a"), "acme")

    assert cells.databases["a"].read(partial(cell_store.find_departed, digest=digest)) is None
    assert cells.databases["b"].read(partial(cell_store.find_departed, digest=digest)) == "a"


def test_an_idempotency_key_replays_its_answer_in_the_other_cell(cells: Cells) -> None:
    request = IdempotentRequest("POST /v1/todos", "a key", "a hash")
    TenantHarness(cells.databases["a"]).write(idempotency.run_once, request, lambda _: Answer(201, "first"))

    move_tenant(cells.route(), "acme")

    assert cells.desk("b", "acme").write(idempotency.run_once, request, lambda _: Answer(201, "second")) == Answer(201, "first")


def add_job(desk: TenantHarness, name: str, state: JobState, due_at: int, owner: str = "") -> Job:
    """Store a job in a given state."""

    def add(tx: Transaction, tenant_id: int) -> Job:
        job = jobs.create(tx, tenant_id, "tool", {}, job_id=name)._replace(state=state, due_at=due_at, owner=owner)
        job_store.save(tx, job)
        return job

    return desk.write(add)


def test_jobs_continue_as_after_a_crash_and_others_stay_as_they_are(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    later = 4_000_000_000_000
    add_job(desk, "running", "running", 5, owner="worker-1")
    waiting = [
        add_job(desk, "due", "queued", 7),
        add_job(desk, "later", "delayed", later),
        add_job(desk, "until woken", "delayed", NEVER),
        add_job(desk, "dead", "dead", 9),
        add_job(desk, "completed", "completed", 11),
    ]

    move_tenant(cells.route(), "acme")
    moved = cells.desk("b", "acme")

    assert [moved.read(job_store.find, job.id) for job in waiting] == waiting
    running = moved.read(job_store.find, "running")
    assert running is not None
    assert (running.state, running.owner, running.attempts) == ("queued", "", 0)
    assert 5 < running.due_at < later  # due when it arrived


def test_times_are_converted_between_two_servers_whose_clocks_were_set_back(cells: Cells) -> None:
    run_sql(cells.databases["a"], "INSERT INTO machine_clocks (boot_id, ahead_ms) VALUES ('server', 90000) RETURNING 1")
    run_sql(cells.databases["b"], "INSERT INTO machine_clocks (boot_id, ahead_ms) VALUES ('server', 20000) RETURNING 1")
    with DirectDatabase(cells.urls.a) as a, DirectDatabase(cells.urls.b) as b:
        desk = TenantHarness(a)
        ids = fill_tenant(desk)
        add_job(desk, "later", "delayed", 4_000_000_000_000)
        wait = "UPDATE effects SET result = '[\"child\", 1000000]' WHERE tenant_id = ? AND state = 'started' RETURNING 1"
        run_sql(a, wait, desk.tenant.id)
        expiry = "SELECT expires_at FROM leases WHERE tenant_id = ? AND todo_id = ?"
        [(before,)] = run_sql(a, expiry, desk.tenant.id, ids.todo)
        route = cells.route()
        move_tenant(route._replace(source=route.source._replace(database=a), target=route.target._replace(database=b)), "acme")

        assert run_sql(b, expiry, desk.tenant.id, ids.todo) == [(before - 70_000,)]
        assert run_sql(b, "SELECT due_at FROM jobs WHERE id = 'later'") == [(4_000_000_020_000,)]
        assert run_sql(b, "SELECT result FROM effects WHERE state = 'started'") == [('["child", 930000]',)]


def test_a_schedule_that_is_due_during_the_move_fires_in_one_cell(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    run_sql(cells.databases["a"], "UPDATE schedules SET next_at = 5 WHERE tenant_id = ? RETURNING 1", desk.tenant.id)
    find_due = "SELECT COUNT(*) FROM schedules WHERE paused = 0 AND next_at <= 5"

    move_tenant(cells.route(), "acme")

    assert run_sql(cells.databases["a"], find_due) == [(0,)]
    assert run_sql(cells.databases["b"], find_due) == [(1,)]


def test_rows_from_before_there_were_id_ranges_keep_their_ids_apart(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    todo = desk.add("old")
    run_sql(
        cells.databases["a"],
        "DELETE FROM id_ranges WHERE tenant_id = ? AND kind IN ('todos', 'events') RETURNING 1",
        desk.tenant.id,
    )

    move_tenant(cells.route(), "acme")
    moved = cells.desk("b", "acme")

    assert moved.add("new").id > todo.id
    assert moved.subjects() == ["old", "new"]


def test_rows_that_the_database_numbers_do_not_collide_after_a_move(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    run_sql(cells.databases["a"], "UPDATE model_calls SET id = 5000 WHERE tenant_id = ? RETURNING 1", desk.tenant.id)

    move_tenant(cells.route(), "acme")

    [(next_id,)] = run_sql(cells.databases["b"], "SELECT nextval(pg_get_serial_sequence('model_calls', 'id'))")
    assert next_id > 5000
    added = cells.databases["b"].write(partial(tenants.add, name="native"))
    assert added.id == cells.access("b").cell.first_tenant_id


def test_both_cells_record_who_moved_the_tenant(cells: Cells) -> None:
    TenantHarness(cells.databases["a"])

    def sign(work: Work[Any]) -> Work[Any]:
        def act(tx: Transaction) -> Any:
            with act_as(tx, "ada"):
                return work(tx)

        return act

    move_tenant(cells.route()._replace(sign=sign), "acme")

    entries = "SELECT who, action FROM audit WHERE action = 'tenant.move'"
    assert run_sql(cells.databases["a"], entries) == [("ada", "tenant.move")]
    assert run_sql(cells.databases["b"], entries) == [("ada", "tenant.move")]


def test_a_lost_answer_to_the_commit_in_the_target_is_looked_up(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    before = cells.read_rows("a", desk.tenant.id)

    with lose_commit_answer(cells.urls.b, b"id_blocks") as proxy, DirectDatabase(proxy.url) as target:
        route = cells.route()
        move_tenant(route._replace(target=route.target._replace(database=target)), "acme")

        assert proxy.lost == 1
    assert cells.read_rows("b", desk.tenant.id) == before
    assert cells.count_rows("a", desk.tenant.id) == 0


def test_two_processes_that_move_the_same_tenant_do_it_once(cells: Cells, tmp_path: Path) -> None:
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    before = cells.read_rows("a", desk.tenant.id)
    second = Cells(cells.urls, tmp_path)
    outcomes: list[str] = []

    def move(route: Route) -> None:
        try:
            outcomes.append(move_tenant(route, "acme").state)
        except (Conflict, NotFound) as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=move, args=(each.route(),)) for each in (cells, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.close()

    assert "done" in outcomes
    assert cells.read_rows("b", desk.tenant.id) == before
    assert cells.count_rows("a", desk.tenant.id) == 0
    assert cells.find_place("acme") == "b"


# What is refused


def test_a_tenant_whose_name_is_taken_stays_where_it_is(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    TenantHarness(cells.databases["b"])

    with pytest.raises(Conflict, match="has a tenant named 'acme'"):
        move_tenant(cells.route(), "acme")

    assert desk.add("still here").subject == "still here"


def test_the_local_tenant_cannot_be_moved(cells: Cells) -> None:
    cells.databases["a"].write(tenants.ensure_local)

    with pytest.raises(Invalid, match="exists in every cell"):
        move_tenant(cells.route(), "local")


def test_a_role_that_does_not_own_the_tables_is_refused_before_anything_changes(cells: Cells, postgres_server: str) -> None:
    TenantHarness(cells.databases["a"])
    role = "headway_cells_guest"
    name = str(psycopg.conninfo.conninfo_to_dict(cells.urls.b)["dbname"])
    with psycopg.connect(postgres_server, dbname=name, autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {role}".encode())
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'".encode())
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}".encode())
    parts = psycopg.conninfo.conninfo_to_dict(cells.urls.b)
    with DirectDatabase(f"postgresql://{role}:{role}@/{name}?host={parts['host']}") as guest:
        route = cells.route()
        with pytest.raises(Conflict, match=f"the role {role} does not own the table"):
            move_tenant(route._replace(target=route.target._replace(database=guest)), "acme")
    with psycopg.connect(postgres_server, dbname=name, autocommit=True) as admin:
        admin.execute(f"DROP OWNED BY {role}".encode())
        admin.execute(f"DROP ROLE {role}".encode())

    assert run_sql(cells.databases["a"], "SELECT COUNT(*) FROM moves") == [(0,)]


def test_cells_with_different_schemas_do_not_exchange_tenants(cells: Cells) -> None:
    TenantHarness(cells.databases["a"])
    run_sql(cells.databases["b"], "DELETE FROM migrations WHERE number = (SELECT MAX(number) FROM migrations) RETURNING 1")

    with pytest.raises(Conflict, match="schema versions"):
        move_tenant(cells.route(), "acme")


def test_there_is_nothing_to_undo_without_a_move(cells: Cells) -> None:
    TenantHarness(cells.databases["a"])

    with pytest.raises(NotFound, match="under way"):
        undo_move(cells.route(), "acme")
