"""Operator commands over all cells: `halt`, `unhalt`, `costs`, `audit`, `jobs list --dead` and `doctor`."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headway.actions.access import audit
from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.storage.direct import DirectDatabase
from headway.storage.stores import spending as spending_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction
from tests.surfaces.shell import CommandResult, Shell, get_error_line
from tests.surfaces.test_cli_cells import query, take_down, use_settings_of
from tests.surfaces.test_cli_engine_jobs import create_dead_job
from tests.warm_start import Program

IN_CELLS = {"first": "eu1", "acme": "eu2"}


@pytest.fixture
def eu1(headway: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell with the settings of the first of two cells, which is the directory. Each cell has a tenant."""
    use_settings_of(monkeypatch, cell_urls[0])
    headway.ok("cell", "add", "eu1")
    headway.ok("cell", "add", "eu2", "--url", cell_urls[1])
    for name, cell in IN_CELLS.items():
        headway.ok("tenant", "add", name, "--cell", cell)
    return headway


def write(url: str, tenant: str, work: Callable[[Transaction, int], Any]) -> Any:
    with DirectDatabase(url) as database:
        return database.write(lambda tx: work(tx, tenants.get_by_name(tx, tenant).id))


def list_halts(urls: list[str]) -> list[list[tuple[str]]]:
    return [query(url, "SELECT why FROM halts WHERE lifted_at = 0") for url in urls[:2]]


def check_failed(ran: CommandResult) -> None:
    """The cell eu2 is down: that is said without the URL of its database."""
    assert ran.code == 1
    assert "✕ eu2: The cell eu2 cannot be used. Postgres cannot be reached" in ran.err
    assert "hidden-password" not in ran.out + ran.err


def test_a_halt_and_its_end_are_for_all_cells(eu1: Shell, cell_urls: list[str]) -> None:
    halted = eu1.ok("halt", "--why", "lunch").splitlines()
    assert [line.partition(" Resume")[0] for line in halted] == ["eu1: Halted: lunch.", "eu2: Halted: lunch."]
    assert list_halts(cell_urls) == [[("lunch",)], [("lunch",)]]
    again = eu1.json("halt")["cells"]
    assert [(cell["cell"], cell["ok"], cell["error"], cell["halt"]["why"]) for cell in again] == [
        ("eu1", True, None, "lunch"),
        ("eu2", True, None, "lunch"),
    ]
    assert eu1.ok("unhalt") == "eu1: The halt is lifted.\neu2: The halt is lifted.\n"
    assert list_halts(cell_urls) == [[], []]


def test_a_cell_that_is_down_does_not_keep_the_others_from_being_halted(eu1: Shell, cell_urls: list[str]) -> None:
    take_down(cell_urls[0], "eu2")
    halted = eu1("halt")
    check_failed(halted)
    assert halted.out == "eu1: Halted. Resume with `headway unhalt`.\n"
    assert [len(found) for found in list_halts(cell_urls)] == [1, 0]

    lifted = eu1("unhalt", "--json")
    check_failed(lifted)
    first, second = json.loads(lifted.out)["cells"]
    assert (first["cell"], first["ok"], first["halt"]["halted"]) == ("eu1", True, False)
    assert (second["cell"], second["ok"], "halt" in second) == ("eu2", False, False)
    assert second["error"].startswith("The cell eu2 cannot be used.")


def test_while_the_directory_is_down_the_own_cell_is_halted(
    eu1: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings_of(monkeypatch, cell_urls[1], "postgresql://headway:hidden-password@127.0.0.1:1/headway")
    halted = eu1("halt")
    assert (halted.code, halted.out) == (1, "eu2: Halted. Resume with `headway unhalt`.\n")
    assert halted.err.startswith("✕ eu1: The directory cannot be used. Postgres cannot be reached")
    assert "hidden-password" not in halted.err
    assert [len(found) for found in list_halts(cell_urls)] == [0, 1]


def test_a_cell_without_the_directory_says_that_it_is_alone(
    eu1: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings_of(monkeypatch, cell_urls[1])
    halted = eu1("halt")
    assert (halted.code, halted.out) == (0, "eu2: Halted. Resume with `headway unhalt`.\n")
    assert halted.err == "This is the cell eu2 alone. The other cell is not used: set HEADWAY_DIRECTORY_URL for that.\n"
    assert [len(found) for found in list_halts(cell_urls)] == [0, 1]


def spend(tx: Transaction, tenant_id: int, nanos: int) -> None:
    run = turns.start_turn(tx, tenant_id, conversations.add_conversation(tx, tenant_id).id, turns.TurnRequest("hello"))
    tx.run_together(spending_store.build_insert_call(tx, tenant_id, run.id, ModelCall("large", "rehearsal", 100, 10, nanos)))


def test_costs_of_all_tenants_are_shown_by_cell(eu1: Shell, cell_urls: list[str]) -> None:
    for url, name, nanos in zip(cell_urls, IN_CELLS, (1_000_000_000, 500_000_000), strict=False):
        write(url, name, partial(spend, nanos=nanos))
    lines = eu1.ok("costs").splitlines()
    assert (lines[0], lines[2]) == ("eu1: $1.0000 in the last 24 hours", "eu1:\ttenant first\t$1.0000 of $5.00")
    assert (lines[3], lines[5]) == ("eu2: $0.5000 in the last 24 hours", "eu2:\ttenant acme\t$0.5000 of $5.00")
    assert lines[1] == "eu1:\trehearsal\t$1.0000\t1 call\t100 tokens in, 10 out"
    assert lines[6:] == ["$1.5000 in the last 24 hours in 2 cells"]

    document = eu1.json("costs")
    assert (document["costs"]["spent_usd"], [cell["costs"]["spent_usd"] for cell in document["cells"]]) == (1.5, [1.0, 0.5])
    take_down(cell_urls[0], "eu2")
    costs = eu1("costs")
    check_failed(costs)
    assert costs.out.splitlines()[-1] == "$1.0000 in the last 24 hours in 1 of 2 cells"


def test_dead_jobs_of_all_tenants_are_listed_with_their_cell(eu1: Shell, cell_urls: list[str]) -> None:
    ids = [write(url, name, create_dead_job).id for url, name in zip(cell_urls, IN_CELLS, strict=False)]
    listed = eu1.json("jobs", "list", "--dead")
    assert [(job["cell"], job["tenant"], job["id"]) for job in listed["jobs"]] == [
        ("eu2", "acme", ids[1]),
        ("eu1", "first", ids[0]),
    ]
    assert (listed["has_more"], [cell["ok"] for cell in listed["cells"]]) == (False, [True, True])
    shorter = eu1("jobs", "list", "--dead", "--limit", "1")
    assert shorter.out.startswith(f"eu2\tacme\t{ids[1]}\ttool\tdead\t")
    assert "1 shown, more exist" in shorter.err
    assert [job["id"] for job in eu1.json("jobs", "list", "--dead", "--tenant", "acme")["jobs"]] == [ids[1]]
    assert eu1.ok("jobs", "list") == "no jobs\n"  # the local tenant's

    take_down(cell_urls[0], "eu2")
    rest = eu1("jobs", "list", "--dead")
    check_failed(rest)
    assert rest.out.startswith(f"eu1\tfirst\t{ids[0]}")


def test_the_audit_log_of_all_cells_is_one_list(eu1: Shell, cell_urls: list[str]) -> None:
    entries = eu1.json("audit", "--action", "tenant.add")["entries"]
    assert sorted((entry["cell"], entry["new"]["name"]) for entry in entries) == [("eu1", "first"), ("eu2", "acme")]
    assert [entry["at"] for entry in entries] == sorted((entry["at"] for entry in entries), reverse=True)
    assert "eu2\t" in eu1.ok("audit", "--action", "tenant.add")
    limited = eu1.json("audit", "--limit", "1")
    assert (len(limited["entries"]), limited["has_more"]) == (1, True)
    assert {entry["cell"] for entry in map(json.loads, eu1.ok("audit", "--json-lines").splitlines())} == {"eu1", "eu2"}
    assert eu1.json("audit", "--tenant", "acme")["cell"] == "eu2"

    take_down(cell_urls[0], "eu2")
    rest = eu1("audit", "--action", "tenant.add")
    check_failed(rest)
    assert len(rest.out.splitlines()) == 1


def test_follow_prints_the_new_entries_of_all_cells(eu1: Shell, cell_urls: list[str]) -> None:
    with Program(("audit", "--follow", "--json-lines", "--limit", "1"), eu1.folder) as program:
        assert program.stdout is not None
        program.stdout.readline()  # the newest entry that there was
        eu1.ok("halt")
        found = [json.loads(program.stdout.readline()) for _ in range(2)]
        assert {(entry["cell"], entry["action"]) for entry in found} == {("eu1", "halt.set"), ("eu2", "halt.set")}
        write(cell_urls[1], "acme", partial(audit.record_in_audit, action="test.change", target="later"))
        entry = json.loads(program.stdout.readline())
        assert (entry["cell"], entry["target"]) == ("eu2", "later")
        program.terminate()


def test_doctor_inspects_the_database_of_every_cell(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("halt")
    checks = [check for check in eu1.json("doctor")["checks"] if "cell" in check]
    assert {(check["cell"], check["name"]) for check in checks} == {
        (cell, name) for cell in ("eu1", "eu2") for name in ("database", "engine", "halt")
    }
    take_down(cell_urls[0], "eu2")
    found = eu1("doctor")
    assert found.code == 1
    assert [line for line in found.out.splitlines() if line.startswith("✕ database") and "The cell eu2 cannot be used" in line]
    assert [line for line in found.out.splitlines() if line.startswith("✔ database") and "eu1: " in line]
    assert "hidden-password" not in found.out


def test_a_tenant_of_no_cell_is_not_found(eu1: Shell) -> None:
    for command in (["costs"], ["audit"], ["jobs", "list", "--dead"]):
        assert "No tenant named 'unknown'" in get_error_line(eu1(*command, "--tenant", "unknown"), 3)
