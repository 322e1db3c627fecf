"""What people and other commands do while a tenant is being moved."""

from functools import partial

import pytest

from headway.actions.installation import halts, tenants
from headway.actions.runs import jobs
from headway.cells import moving
from headway.cells.moving import move_tenant, undo_move
from headway.ledger.errors import TenantMoving
from headway.storage.stores import jobs as job_store
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, run_sql


def test_a_job_that_is_canceled_when_the_move_has_begun_stays_canceled(cells: Cells) -> None:
    desk, route = TenantHarness(cells.databases["a"]), cells.route()
    for name in ("first", "second"):
        desk.write(jobs.create_job, "tool", {}, job_id=name)
    moving.drain(route, moving.begin(route, "acme"))
    desk.write(jobs.cancel_job, "first")

    undo_move(route, "acme")

    assert list_states(desk) == ["canceled", "queued"]

    moving.drain(route, moving.begin(route, "acme"))
    desk.write(jobs.cancel_job, "second")
    move_tenant(route, "acme")

    assert list_states(cells.desk("b", "acme")) == ["canceled", "canceled"]


def list_states(desk: TenantHarness) -> list[str]:
    found = [desk.read(job_store.find_job, name) for name in ("first", "second")]
    return [job.state for job in found if job]


def test_everything_can_be_halted_while_a_tenant_is_being_moved(cells: Cells) -> None:
    desk, other = TenantHarness(cells.databases["a"]), TenantHarness(cells.databases["a"], "other")
    before, route = desk.events(), cells.route()
    moving.fence(route, moving.begin(route, "acme"))

    cells.databases["a"].write(partial(halts.halt, why="stop"))
    cells.databases["a"].write(halts.unhalt)

    assert [kind for kind, _ in other.events()] == ["halted", "unhalted"]
    assert desk.events() == before


def test_a_tenant_whose_move_has_begun_cannot_be_deleted(cells: Cells) -> None:
    desk, route = TenantHarness(cells.databases["a"]), cells.route()
    desk.add("kept")
    moving.begin(route, "acme")

    with pytest.raises(TenantMoving):
        cells.databases["a"].write(partial(tenants.shut_out, tenant=desk.tenant))

    move_tenant(route, "acme")
    assert cells.desk("b", "acme").subjects() == ["kept"]


def test_a_view_in_the_schema_is_no_obstacle(new_cells: Cells) -> None:
    cells = new_cells
    TenantHarness(cells.databases["a"]).add("seen")
    for name in ("a", "b"):
        cells.databases[name].write(lambda tx: tx.run("CREATE VIEW all_subjects AS SELECT tenant_id, subject FROM todos"))

    move_tenant(cells.route(), "acme")

    assert run_sql(cells.databases["b"], "SELECT subject FROM all_subjects") == [("seen",)]
