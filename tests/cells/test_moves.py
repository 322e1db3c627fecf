"""A tenant moves to another cell with everything that it owns, and back."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway.actions.access import idempotency, local_tenant, tokens
from headway.actions.access.idempotency import Answer, IdempotentRequest
from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.installation import tenants
from headway.actions.runs import jobs
from headway.cells import move_steps as leaving
from headway.cells import rows as cell_store
from headway.cells.moving import Route, move_tenant, undo_move
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.job import NEVER, Job, JobState
from headway.storage.direct import DirectDatabase
from headway.storage.stores import events as event_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction, Work, act_as
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, run_sql
from tests.lost_commits import lose_commit_answer
from tests.tenant_rows import fill_tenant, message_work


def sign(work: Work[Any]) -> Work[Any]:
    def act(tx: Transaction) -> Any:
        with act_as(tx, "ada"):
            return work(tx)

    return act


def test_everything_of_a_tenant_moves_and_comes_back(cells: Cells) -> None:
    desk, other = TenantHarness(cells.databases["a"]), TenantHarness(cells.databases["a"], "other")
    fill_tenant(desk)
    fill_tenant(other)
    fill_tenant(TenantHarness(cells.databases["b"], "resident"))
    before, others = cells.read_rows("a", desk.tenant.id), cells.read_rows("a", other.tenant.id)
    assert all(before.values())

    move_tenant(cells.route()._replace(sign=sign), "acme")

    assert cells.read_rows("b", desk.tenant.id) == before
    assert cells.count_rows("a", desk.tenant.id) == 0
    assert cells.read_rows("a", other.tenant.id) == others
    assert cells.find_place("acme") == "b"
    assert cells.list_triggers("a") == []
    for name in ("a", "b"):
        assert run_sql(cells.databases[name], "SELECT who FROM audit WHERE action = 'tenant.move'") == [("ada",)]

    move_tenant(cells.route("b", "a"), "acme")

    assert cells.read_rows("a", desk.tenant.id) == before
    assert cells.count_rows("b", desk.tenant.id) == 0
    assert cells.find_place("acme") == "a"


def test_the_tenant_continues_in_the_other_cell(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    created = desk.write(tokens.create_token, "laptop")
    todo = desk.add("before the move")
    request = IdempotentRequest("POST /v1/todos", "a key", "a hash")
    desk.write(idempotency.run_once, request, lambda _: Answer(201, "first"))
    last = desk.read(event_store.get_bounds).last_seq

    move_tenant(cells.route(), "acme")
    moved = cells.desk("b", "acme")
    later = moved.add("after the move")

    assert later.id == todo.id + 1
    assert moved.read(event_store.get_bounds).last_seq == last + 1
    assert moved.write(idempotency.run_once, request, lambda _: Answer(201, "second")) == Answer(201, "first")
    digest = tokens.hash_secret(created.secret)
    assert cells.databases["b"].read(partial(tokens.authenticate, secret_digest=digest)).id == created.token.id
    assert cells.databases["a"].read(partial(cell_store.find_departed, digest=digest)) == "b"

    move_tenant(cells.route("b", "a"), "acme")

    assert cells.databases["a"].read(partial(cell_store.find_departed, digest=digest)) is None
    assert cells.databases["b"].read(partial(cell_store.find_departed, digest=digest)) == "a"


def add_job(desk: TenantHarness, name: str, state: JobState, due_at: int, owner: str = "") -> Job:
    """Store a job in a given state."""

    def add(tx: Transaction, tenant_id: int) -> Job:
        job = jobs.create_job(tx, tenant_id, "tool", {}, job_id=name)._replace(state=state, due_at=due_at, owner=owner)
        job_store.save_job(tx, job)
        return job

    return desk.write(add)


def test_jobs_and_schedules_continue_and_others_stay_as_they_are(cells: Cells) -> None:
    desk = TenantHarness(cells.databases["a"])
    desk.write(schedules.put, "daily", Timing(every_ms=60_000), message_work(desk.conversation().id))
    run_sql(cells.databases["a"], "UPDATE schedules SET next_at = 5 WHERE tenant_id = ? RETURNING 1", desk.tenant.id)
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

    assert [moved.read(job_store.find_job, job.id) for job in waiting] == waiting
    running = moved.read(job_store.find_job, "running")
    assert running is not None
    assert (running.state, running.owner, running.attempts) == ("queued", "", 0)
    assert 5 < running.due_at < later  # due when it arrived
    assert [schedule.name for schedule in cells.databases["b"].write(lambda tx: schedule_store.lock_due(tx, 9))] == ["daily"]
    assert cells.databases["a"].write(lambda tx: schedule_store.lock_due(tx, 9)) == []


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


def test_new_rows_get_ids_that_no_other_row_of_the_tenant_has(cells: Cells) -> None:
    """Ids come from ranges, which continue in the target. Rows that the database numbers are not met again either."""
    desk = TenantHarness(cells.databases["a"])
    fill_tenant(desk)
    source, target = cells.databases["a"], cells.databases["b"]
    run_sql(source, "UPDATE model_calls SET id = 5000 WHERE tenant_id = ? RETURNING 1", desk.tenant.id)
    [(last_todo, last_event)] = run_sql(source, "SELECT (SELECT MAX(id) FROM todos), (SELECT MAX(seq) FROM events)")

    move_tenant(cells.route(), "acme")

    assert cells.desk("b", "acme").add("new").id > last_todo
    [(new_event, next_call)] = run_sql(
        target, "SELECT (SELECT MAX(seq) FROM events), nextval(pg_get_serial_sequence('model_calls', 'id'))"
    )
    assert new_event > last_event
    assert next_call > 5000
    assert target.write(partial(tenants.add_tenant, name="native")).id == cells.access("b").cell.first_tenant_id


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


def test_a_tenant_that_cannot_be_moved_stays_where_it_is(new_cells: Cells) -> None:
    cells = new_cells
    desk = TenantHarness(cells.databases["a"])
    TenantHarness(cells.databases["b"])
    cells.databases["a"].write(local_tenant.ensure_local)

    with pytest.raises(Conflict, match="has a tenant named 'acme'"):
        move_tenant(cells.route(), "acme")
    with pytest.raises(Invalid, match="exists in every cell"):
        cells.databases["a"].write(partial(leaving.begin_move, tenant_name="local", target="b"))
    with pytest.raises(NotFound, match="under way"):
        undo_move(cells.route(), "acme")
    run_sql(cells.databases["b"], "DELETE FROM migrations WHERE number = (SELECT MAX(number) FROM migrations) RETURNING 1")
    with pytest.raises(Conflict, match="schema versions"):
        move_tenant(cells.route(), "acme")

    assert desk.add("still here").subject == "still here"


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
