"""`headway admin tenant export` and `headway admin tenant rm`: everything that a tenant owns, in one file or gone."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.actions.access import tokens
from headway.actions.todos import todos
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.surfaces.shell import Shell, get_error_line
from tests.tenant_rows import fill_tenant, list_tenant_tables, read_tenant_rows

MARKER = "quokka-7319"


@pytest.fixture
def acme(headway: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TenantHarness]:
    """A tenant with a row in every table and files in every place, all with the marker, next to another tenant."""
    url = f"sqlite:///{headway.ledger}" if database_url.startswith("sqlite") else database_url
    monkeypatch.setenv("HEADWAY_DATABASE_URL", url)
    monkeypatch.setenv("HEADWAY_HOME", str(headway.ledger.parent))
    with DirectDatabase(url) as database:
        TenantHarness(database, "umbrella").add("theirs", description="x" * 5_000)
        desk = TenantHarness(database, "acme")
        write_everywhere(desk, headway)
        yield desk


def write_everywhere(desk: TenantHarness, headway: Shell) -> None:
    ids = fill_tenant(desk)
    for number in range(20):  # moved about in the file, so that copies of it are left in free space
        todo = desk.add(f"{MARKER} {number}", description=f"{MARKER} " * 500 * (number % 3), conversation_id=ids.conversation)
        if number % 2:
            desk.change(todo, description=f"{MARKER} again")
            desk.write(todos.remove_todo, todo.id)
    desk.database.write(lambda tx: mark_rows(tx, desk.tenant.id))
    home = headway.ledger.parent
    for folder in ("workspace", "worktrees", "tenants"):
        path = home / folder / str(desk.tenant.id) / "skills" / f"{MARKER}.txt"
        path.parent.mkdir(parents=True)
        path.write_text(MARKER)
    (home / "workspace" / str(desk.tenant.id) / "link").symlink_to("skills")
    conversation = headway.json("conversation", "list", "--tenant", "acme")["conversations"][0]
    task_file = home / conversation["task_file"]
    task_file.parent.mkdir(parents=True, exist_ok=True)
    task_file.write_text(json.dumps({"tasks": [{"id": "1", "title": MARKER}]}))
    rules = '[[rule]]\ntool = "now"\ntenant = "{}"\ndecision = "allow"\n'
    (home / "policy.toml").write_text("# ours\n" + rules.format("acme") + f"# {MARKER}\n" + rules.format("umb*"))


def mark_rows(tx: Transaction, tenant_id: int) -> None:
    """Write the marker into a text column of every table that has one to spare."""
    columns = {"messages": "content", "transcript": "message", "memory_entries": "text", "runs": "task", "tokens": "label"}
    columns |= {"goals": "description", "journal": "data", "attachments": "data", "notices": "text", "effects": "result"}
    for table, column in columns.items():
        value = MARKER.encode() if table == "attachments" else json.dumps({"marker": MARKER})
        tx.run(f"UPDATE {table} SET {column} = ? WHERE tenant_id = ?", value, tenant_id)


def find_marker(folder: Path) -> list[str]:
    """List the files with the marker in their name or in their bytes, free pages of the database included."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if MARKER in path.name or MARKER.encode() in path.read_bytes()]


def read_archive(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {
            member.name: file.read() if (file := archive.extractfile(member)) else b""
            for member in archive.getmembers()
            if not member.issym()
        }


def parse_rows(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def test_nothing_of_a_deleted_tenant_remains(headway: Shell, acme: TenantHarness) -> None:
    result = headway("tenant", "rm", "acme", "--yes", "--json")
    assert result.json == {"deleted": True}, result.err

    def list_rows(tx: Transaction) -> dict[str, int]:
        tables = list_tenant_tables(tx)
        return {table: len(tx.all(f"SELECT 1 FROM {table} WHERE tenant_id = ?", acme.tenant.id)) for table in tables}

    assert not any(acme.database.read(list_rows).values())
    assert acme.database.read(lambda tx: tx.all("SELECT 1 FROM sub_goal_edges")) == []
    home = headway.ledger.parent
    assert find_marker(home) == []
    assert not [path for path in home.rglob(str(acme.tenant.id)) if path.is_dir()]
    assert (home / "policy.toml").read_text() == '# ours\n[[rule]]\ntool = "now"\ntenant = "umb*"\ndecision = "allow"\n'
    assert [todo["subject"] for todo in headway.json("todo", "list", "--tenant", "umbrella")["todos"]] == ["theirs"]


def test_an_interrupted_deletion_continues(headway: Shell, acme: TenantHarness) -> None:
    blocked = headway.ledger.parent / "workspace" / str(acme.tenant.id)
    for path in sorted(blocked.rglob("*"), reverse=True):
        path.unlink() if not path.is_dir() or path.is_symlink() else path.rmdir()
    blocked.rmdir()
    blocked.write_text("a file, which cannot be deleted as a folder")
    assert "cannot be deleted" in get_error_line(headway("tenant", "rm", "acme", "--yes"), 4)
    assert acme.read(tokens.list_all_tokens) == []  # nobody can use it any more
    blocked.unlink()
    headway.ok("tenant", "rm", "acme", "--yes")
    assert [tenant["name"] for tenant in headway.json("tenant", "list")["tenants"]] == ["umbrella"]


def test_an_export_has_every_row_and_file_of_the_tenant(headway: Shell, acme: TenantHarness, tmp_path: Path) -> None:
    path = tmp_path / "acme.tar.gz"
    result = headway("tenant", "export", "acme", "--out", str(path), "--json")
    manifest = result.json["manifest"]
    files = read_archive(path)
    assert json.loads(files["manifest.json"]) == manifest
    assert manifest["tenant"]["name"] == "acme"
    assert path.stat().st_mode & 0o777 == 0o600

    stored = read_tenant_rows(acme)
    exported = {name[5:-6]: parse_rows(content) for name, content in files.items() if name.startswith("rows/")}
    assert {table: len(rows) for table, rows in exported.items()} == manifest["tables"]
    del stored["idempotency_keys"]
    assert {table: len(exported[table]) for table in stored} == {table: len(rows) for table, rows in stored.items()}
    assert len(exported["sub_goal_edges"]) == len(acme.database.read(lambda tx: tx.all("SELECT 1 FROM sub_goal_edges")))
    assert exported["attachments"][0]["data"] == {"base64": "cXVva2thLTczMTk="}
    assert "hash" not in exported["tokens"][0]
    assert b"theirs" not in b"".join(files.values())
    tenant = acme.tenant.id
    assert {name for name in files if not name.startswith(("rows/", "manifest"))} == {
        *(f"{folder}/skills/{MARKER}.txt" for folder in ("workspace", "worktrees", "tenants")),
        f"tasks/{exported['conversations'][0]['id']}.json",
    }
    assert f"todos: {len(exported['todos'])} rows" in result.err
    assert tenant == exported["tenants"][0]["id"]


def test_an_export_never_overwrites_a_file(headway: Shell, tmp_path: Path) -> None:
    headway.ok("tenant", "add", "acme")
    path = tmp_path / "acme.tar.gz"
    path.write_text("mine")
    assert "exists already" in get_error_line(headway("tenant", "export", "acme", "--out", str(path)), 4)
    assert path.read_text() == "mine"
    missing = tmp_path / "missing" / "acme.tar.gz"
    assert "cannot be written" in get_error_line(headway("tenant", "export", "acme", "--out", str(missing)), 2)
    assert [file.name for file in tmp_path.glob("*.partial")] == []
