"""`headway admin cell …`, and commands for tenants that are placed on several cells."""

import re
import tarfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import settings
from headway.cells import membership as cell_actions
from headway.cells.directory import Directory
from headway.cells.registry import CellDraft, add_cell
from headway.cells.rules import TENANT_IDS_PER_CELL, Cell
from headway.storage.direct import DirectDatabase
from headway.surfaces.cli.context import act_as_sender
from tests.surfaces.shell import Shell, get_error_line

PUBLIC_URLS = ("https://eu1.example.org", "https://eu2.example.org")
AWAY = "postgresql://headway:hidden-password@127.0.0.1:1/headway"  # no server listens there


@pytest.fixture
def eu1(headway: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell with the settings of the first of two cells, which is the directory. It had a tenant before."""
    monkeypatch.setenv("HEADWAY_DATABASE_URL", cell_urls[0])
    headway.ok("tenant", "add", "first")
    headway.ok("cell", "add", "eu1", "--public-url", PUBLIC_URLS[0])
    headway.ok("cell", "add", "eu2", "--url", cell_urls[1], "--public-url", PUBLIC_URLS[1])
    return headway


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        connection.execute("SET headway.tenant = 'all'")
        return connection.execute(sql.encode()).fetchall()


def use_settings_of(monkeypatch: pytest.MonkeyPatch, url: str, directory_url: str = "") -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", url)
    monkeypatch.setenv("HEADWAY_DIRECTORY_URL", directory_url)


def take_down(directory_url: str, cell: str) -> None:
    with psycopg.connect(directory_url, autocommit=True) as connection:
        connection.execute("UPDATE cells SET url = %s WHERE name = %s", (AWAY, cell))


def list_findings(shell: Shell) -> list[str]:
    return [check["detail"] for check in shell.json("doctor")["checks"] if check["name"] == "cells"]


# Cells


@pytest.mark.parametrize("command", [["add", "eu1"], ["list"], ["show", "eu1"], ["rm", "eu1"]])
def test_cells_need_postgres(headway: Shell, command: list[str]) -> None:
    assert "Cells need Postgres" in get_error_line(headway("cell", *command), 2)


def test_without_cells_a_tenant_cannot_be_given_one(headway: Shell) -> None:
    assert "there are no cells" in get_error_line(headway("tenant", "add", "acme", "--cell", "eu1"), 3)
    assert headway.json("tenant", "list") == {"tenants": []}


def test_cells_know_each_other_and_only_the_directory_has_their_urls(eu1: Shell, cell_urls: list[str]) -> None:
    listed = eu1.json("cell", "list")["cells"]
    assert [(cell["name"], cell["public_url"], cell["tenants"], cell["ok"]) for cell in listed] == [
        ("eu1", PUBLIC_URLS[0], 1, True),
        ("eu2", PUBLIC_URLS[1], 0, True),
    ]
    assert query(cell_urls[0], "SELECT name, is_self, url <> '' FROM cells ORDER BY name") == [("eu1", 1, True), ("eu2", 0, True)]
    assert query(cell_urls[1], "SELECT name, is_self, url <> '' FROM cells ORDER BY name") == [("eu1", 0, False), ("eu2", 1, False)]
    shown = [eu1("cell", *command) for command in (["list"], ["list", "--json"], ["show", "eu2"], ["show", "eu2", "--json"])]
    assert not [ran for ran in shown if ran.code or "headway_tests" in ran.out + ran.err or "postgresql://" in ran.out]
    assert eu1.ok("cell", "list").splitlines()[1].startswith(f"✔ eu2\t{PUBLIC_URLS[1]}\t0 tenants\t0 processes")


def test_every_cell_gives_its_tenants_ids_that_no_other_one_has(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("cell", "add", "eu3", "--url", cell_urls[2])
    ids = [eu1.json("tenant", "add", f"tenant of {cell}", "--cell", cell)["tenant"]["id"] for cell in ("eu1", "eu2", "eu3")]
    assert [number // TENANT_IDS_PER_CELL for number in ids] == [0, 1, 2]

    eu1.ok("tenant", "rm", "tenant of eu3", "--yes")
    eu1.ok("cell", "rm", "eu3")
    eu1.ok("cell", "add", "eu4", "--url", cell_urls[2])
    assert eu1.json("tenant", "add", "later", "--cell", "eu4")["tenant"]["id"] == 3 * TENANT_IDS_PER_CELL + 1


def test_only_one_cell_may_have_had_tenants_before(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("tenant", "add", "elsewhere", "--database-url", cell_urls[2])

    assert "has tenants" in get_error_line(eu1("cell", "add", "eu3", "--url", cell_urls[2]), 4)
    assert [cell["name"] for cell in eu1.json("cell", "list")["cells"]] == ["eu1", "eu2"]
    assert query(cell_urls[2], "SELECT name FROM cells") == []


def test_bad_input_is_explained_without_secrets(eu1: Shell) -> None:
    for arguments, sentence in (
        (["Eu 3"], "cannot be the name of a cell"),
        (["eu3", "--url", "sqlite:///other.db"], "must start with postgresql://"),
        (["eu3", "--url", "postgresql://u:pa@ss/w@host/db"], "not a valid URL"),
        (["eu2", "--public-url", "javascript:alert(1)"], "must be a URL like"),
        (["eu2", "--public-url", "https://user:secret@example.org"], "must be a URL like"),
        (["eu2", "--cell-home", "files"], "must be an absolute path"),
    ):
        line = get_error_line(eu1("cell", "add", *arguments), 2)
        assert sentence in line
        assert not re.search("ss/w|secret", line)


def test_names_and_databases_of_cells_are_not_confused(eu1: Shell, cell_urls: list[str]) -> None:
    assert "is the cell eu2 already" in get_error_line(eu1("cell", "add", "eu3", "--url", cell_urls[1]), 4)
    assert "has another database" in get_error_line(eu1("cell", "add", "eu2", "--url", cell_urls[2]), 4)
    assert "No cell named 'eu9'" in get_error_line(eu1("cell", "show", "eu9"), 3)
    assert "No cell named 'eu9'" in get_error_line(eu1("tenant", "add", "acme", "--cell", "eu9"), 3)


def test_a_cell_is_changed_by_adding_it_again(eu1: Shell, cell_urls: list[str]) -> None:
    changed = eu1.json("cell", "add", "eu2", "--public-url", "https://new.example.org/")["cell"]
    assert changed["public_url"] == "https://new.example.org"
    assert query(cell_urls[0], "SELECT public_url FROM cells WHERE name = 'eu2'") == [("https://new.example.org",)]
    assert query(cell_urls[1], "SELECT public_url FROM cells WHERE name = 'eu2'") == [("https://new.example.org",)]
    actions = [entry["action"] for entry in eu1.json("audit")["entries"] if entry["action"].startswith("cell")]
    assert actions == ["cell.change", "cell.add", "cell.add"]


def test_a_cell_is_removed_only_when_it_has_no_tenants(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    assert "'acme'" in get_error_line(eu1("cell", "rm", "eu2"), 4)
    eu1.ok("tenant", "rm", "acme", "--yes")
    with DirectDatabase(cell_urls[0]) as directory:  # as if `tenant add` had been interrupted
        directory.write(partial(cell_actions.reserve_name, tenant_name="begun", cell="eu2"))
    assert "'begun'" in get_error_line(eu1("cell", "rm", "eu2"), 4)
    eu1.ok("tenant", "rm", "begun", "--yes")

    assert eu1.ok("cell", "rm", "eu2") == "removed cell eu2\n"
    assert query(cell_urls[1], "SELECT name FROM cells") == []
    assert [cell["name"] for cell in eu1.json("cell", "list")["cells"]] == ["eu1"]
    assert "'first'" in get_error_line(eu1("cell", "rm", "eu1"), 4)


def test_adding_a_cell_continues_after_an_interruption(eu1: Shell, cell_urls: list[str]) -> None:
    with DirectDatabase(cell_urls[0]) as directory, DirectDatabase(cell_urls[2]) as member:
        facts = member.read(cell_actions.read_facts)
        new = Cell("eu3", cell_urls[2], "", "", 0, is_self=False, added_at=0)
        directory.write(partial(cell_actions.register, new=new, facts=facts))
    eu1.ok("cell", "add", "eu3", "--url", cell_urls[2])

    assert query(cell_urls[2], "SELECT name, is_self FROM cells ORDER BY name") == [("eu1", 0), ("eu2", 0), ("eu3", 1)]
    assert eu1.json("tenant", "add", "acme", "--cell", "eu3")["tenant"]["id"] == 2 * TENANT_IDS_PER_CELL + 1


def test_cells_that_are_added_at_once_get_different_numbers(headway: Shell, cell_urls: list[str]) -> None:
    loaded = settings.load({"home": str(headway.folder), "database_url": cell_urls[0]})

    def add(number: int) -> int:
        with Directory(loaded) as directory:
            return add_cell(directory, CellDraft(f"eu{number}", cell_urls[number], None, None), print, act_as_sender).number

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(add, range(3))) == [1, 2, 3]
    for number, url in enumerate(cell_urls):
        known = [(f"eu{each}", int(each == number)) for each in range(3)]
        assert query(url, "SELECT name, is_self FROM cells ORDER BY name") == known
    assert query(cell_urls[0], "SELECT url FROM cells ORDER BY name") == [(url,) for url in cell_urls]


def test_adding_a_cell_leaves_those_alone_that_have_not_joined_yet(
    headway: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings_of(monkeypatch, cell_urls[0])
    with DirectDatabase(cell_urls[0]) as directory:  # as if two other commands were about to continue
        for number in (1, 2):
            new = Cell(f"eu{number}", cell_urls[number - 1], "", "", 0, is_self=False, added_at=0)
            with DirectDatabase(new.url) as member:
                directory.write(partial(cell_actions.register, new=new, facts=member.read(cell_actions.read_facts)))
    headway.ok("cell", "add", "eu3", "--url", cell_urls[2])

    assert query(cell_urls[0], "SELECT url FROM cells ORDER BY name") == [(url,) for url in cell_urls]
    assert query(cell_urls[1], "SELECT name FROM cells") == []
    headway.ok("cell", "add", "eu1")
    headway.ok("cell", "add", "eu2")
    assert headway.json("tenant", "add", "acme", "--cell", "eu2")["tenant"]["id"] == 2 * TENANT_IDS_PER_CELL + 1


# The directory


def test_the_directory_can_be_a_database_that_is_no_cell(
    headway: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings_of(monkeypatch, cell_urls[0], cell_urls[2])
    headway.ok("cell", "add", "eu1")
    headway.ok("cell", "add", "eu2", "--url", cell_urls[1])
    headway.ok("tenant", "add", "here")
    headway.ok("tenant", "add", "there", "--cell", "eu2")

    listed = headway.json("tenant", "list")["tenants"]
    assert [(tenant["name"], tenant["cell"]) for tenant in listed] == [("here", "eu1"), ("there", "eu2")]
    assert query(cell_urls[2], "SELECT tenant_name, cell FROM placements ORDER BY 1") == [("here", "eu1"), ("there", "eu2")]
    use_settings_of(monkeypatch, cell_urls[2])
    assert "name the cell" in get_error_line(headway("tenant", "add", "nowhere"), 2)


def test_a_lost_directory_is_repaired_from_the_cells(eu1: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    use_settings_of(monkeypatch, cell_urls[0], cell_urls[2])  # an empty database
    eu1.ok("cell", "add", "eu2", "--url", cell_urls[1], "--public-url", PUBLIC_URLS[1])
    eu1.ok("cell", "add", "eu1", "--public-url", PUBLIC_URLS[0])

    assert query(cell_urls[2], "SELECT tenant_name, cell FROM placements ORDER BY 1") == [("acme", "eu2"), ("first", "eu1")]
    numbers = query(cell_urls[2], f"SELECT name, first_tenant_id / {TENANT_IDS_PER_CELL} FROM cells ORDER BY 1")
    assert numbers == [("eu1", 0), ("eu2", 1)]
    assert query(cell_urls[2], "SELECT MAX(block) FROM id_blocks WHERE kind = 'cells'") == [(1,)]
    assert query(cell_urls[0], "SELECT COUNT(*) FROM cells WHERE url <> ''") == [(0,)]  # it is the directory no more


def test_a_cell_that_is_not_the_directory_says_what_to_set(
    eu1: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    use_settings_of(monkeypatch, cell_urls[1])
    for command in (["cell", "list"], ["tenant", "add", "x"], ["tenant", "rm", "acme", "--yes"]):
        line = get_error_line(eu1(*command), 2)
        assert "This database is the cell eu2, not the directory. Set HEADWAY_DIRECTORY_URL" in line
    assert [tenant["name"] for tenant in eu1.json("tenant", "list")["tenants"]] == ["acme"]


def test_a_name_whose_tenant_was_not_created_is_reported_and_completed(eu1: Shell, cell_urls: list[str]) -> None:
    with DirectDatabase(cell_urls[0]) as directory:
        directory.write(partial(cell_actions.reserve_name, tenant_name="acme", cell="eu2"))
        directory.write(partial(cell_actions.release_name, tenant_name="first"))
    details = list_findings(eu1)
    assert details[0] == "2: eu1, eu2; this database is the cell eu1"
    assert len(details) == 3
    assert "'first'" in details[1]
    assert "`headway admin cell add eu1`" in details[1]
    assert details[2].startswith("reserved in the cell eu2, but not created: 'acme'.")

    assert "already exists in the cell eu2" in get_error_line(eu1("tenant", "add", "acme", "--cell", "eu1"), 4)
    assert eu1.json("tenant", "add", "acme", "--cell", "eu2")["tenant"]["cell"] == "eu2"
    assert "already exists" in get_error_line(eu1("tenant", "add", "acme", "--cell", "eu2"), 4)
    eu1.ok("cell", "add", "eu1")
    assert list_findings(eu1) == details[:1]


def test_a_cell_that_is_down_does_not_hide_the_others(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    take_down(cell_urls[0], "eu2")

    listed = eu1("tenant", "list")
    assert (listed.code, listed.out) == (1, "1\tfirst\teu1\n?\tacme\teu2\n")
    assert listed.err.startswith("headway: The cell eu2 cannot be used. Postgres cannot be reached")
    cells = eu1("cell", "list")
    assert (cells.code, [line[:5] for line in cells.out.splitlines()]) == (1, ["✔ eu1", "✕ eu2"])
    assert "The cell eu2 cannot be used" in get_error_line(eu1("todo", "list", "--tenant", "acme"), 1)
    assert "hidden-password" not in listed.err + cells.out + cells.err

    assert eu1.ok("cell", "rm", "eu2", "--lost", "--yes") == "removed cell eu2\n"
    assert eu1.json("tenant", "list") == {"tenants": [{**eu1.json("tenant", "show", "first")["tenant"], "cell": "eu1"}]}


# Tenants


def test_commands_follow_a_tenant_to_its_cell(eu1: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert eu1.ok("tenant", "add", "acme", "--cell", "eu2") == f"tenant acme ({TENANT_IDS_PER_CELL + 1}) in the cell eu2\n"
    assert "already exists" in get_error_line(eu1("tenant", "add", "acme"), 4)
    eu1.ok("todo", "add", "from the other cell", "--tenant", "acme")
    use_settings_of(monkeypatch, cell_urls[1], cell_urls[0])
    eu1.ok("todo", "add", "from its own cell", "--tenant", "acme")
    eu1.ok("todo", "add", "for the first one", "--tenant", "first")

    assert query(cell_urls[0], "SELECT subject FROM todos") == [("for the first one",)]
    assert query(cell_urls[1], "SELECT subject FROM todos ORDER BY id") == [("from the other cell",), ("from its own cell",)]
    assert "No tenant named 'unknown'" in get_error_line(eu1("todo", "list", "--tenant", "unknown"), 3)


def test_a_tenant_of_another_cell_is_shown_exported_and_deleted(eu1: Shell, cell_urls: list[str], tmp_path: Path) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    eu1.ok("todo", "add", "one", "--tenant", "acme")
    assert eu1.json("tenant", "show", "acme")["tenant"]["cell"] == "eu2"
    eu1.ok("tenant", "export", "acme", "--out", str(tmp_path / "acme.tar.gz"))
    with tarfile.open(tmp_path / "acme.tar.gz") as archive:
        assert any(name.endswith("todos.jsonl") for name in archive.getnames())

    eu1.ok("tenant", "rm", "acme", "--yes")
    assert query(cell_urls[1], "SELECT COUNT(*) FROM todos") == [(0,)]
    assert query(cell_urls[0], "SELECT tenant_name FROM placements") == [("first",)]
    assert "No tenant named 'acme'" in get_error_line(eu1("tenant", "rm", "acme", "--yes"), 3)
    eu1.ok("tenant", "add", "acme")


def test_agents_work_in_the_tenants_cell(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    assert "84" in eu1.ok("chat", "Calculate 12*7", "--tenant", "acme")
    assert query(cell_urls[0], "SELECT COUNT(*) FROM turns") == [(0,)]
    assert query(cell_urls[1], "SELECT COUNT(*) FROM turns") == [(1,)]


def test_a_token_names_the_cell_that_created_it(eu1: Shell) -> None:
    eu1.ok("tenant", "add", "acme", "--cell", "eu2")
    assert re.fullmatch(r"hw_eu2_[A-Za-z0-9_-]{43}\n", eu1.ok("token", "new", "--tenant", "acme"))
    assert re.fullmatch(r"hw_eu1_[A-Za-z0-9_-]{43}\n", eu1.ok("token", "new"))
