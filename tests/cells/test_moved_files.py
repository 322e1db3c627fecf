"""The files of a tenant move with it, if its cells have different homes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cells import moving
from headway.cells.moving import mirror_folder, move_tenant
from headway.ledger.errors import Conflict
from headway.storage.home_files import TaskFile
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, CellUrls, open_cells


def list_files(home: Path) -> dict[str, str]:
    """The paths of all files below a home, with their contents. Links are shown by their targets."""
    return {
        str(path.relative_to(home)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(home.rglob("*"))
        if (path.is_symlink() or path.is_file()) and ".locks" not in path.parts and path.name != ".tenant-moves.lock"
    }


def test_files_move_to_the_other_home_and_back(cell_pair: CellUrls, tmp_path: Path) -> None:
    homes = (tmp_path / "a", tmp_path / "b")
    for home in homes:
        home.mkdir()
    with open_cells(cell_pair, homes[0], (str(homes[0]), str(homes[1]))) as cells:
        desk = TenantHarness(cells.databases["a"])
        conversation = desk.conversation()
        write_files(cells, homes[0], desk.tenant.id)
        task_file = TaskFile(cells.settings.task_folder, conversation.uuid, conversation.id)
        task_file.change(lambda tasks: tasks.append({"id": "1", "title": "one"}))
        others = homes[0] / "workspace" / "999" / "note.txt"
        others.parent.mkdir()
        others.write_text("of another tenant")
        before = list_files(homes[0])

        move_tenant(cells.route(), "acme")

        assert list_files(homes[0]) == {"workspace/999/note.txt": "of another tenant"}
        moved = list_files(homes[1])
        assert moved | {"workspace/999/note.txt": "of another tenant"} == before
        (homes[1] / "workspace" / str(desk.tenant.id) / "report.txt").write_text("changed in the other cell")

        move_tenant(cells.route("b", "a"), "acme")

        assert list_files(homes[1]) == {}
        changed = {f"workspace/{desk.tenant.id}/report.txt": "changed in the other cell"}
        assert list_files(homes[0]) == before | changed


def write_files(cells: Cells, home: Path, tenant_id: int) -> None:
    workspace = home / "workspace" / str(tenant_id)
    (workspace / "drafts").mkdir(parents=True)
    (workspace / "report.txt").write_text("a report")
    (workspace / "drafts" / "run.sh").write_text("true")
    (workspace / "drafts" / "run.sh").chmod(0o755)
    (workspace / "outside").symlink_to("/etc")
    skill = home / "tenants" / str(tenant_id) / "skills" / "greet" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Say hello.")


def test_files_that_were_deleted_since_the_first_copy_do_not_arrive(cell_pair: CellUrls, tmp_path: Path) -> None:
    homes = (tmp_path / "a", tmp_path / "b")
    for home in homes:
        home.mkdir()
    with open_cells(cell_pair, homes[0], (str(homes[0]), str(homes[1]))) as cells:
        desk = TenantHarness(cells.databases["a"])
        write_files(cells, homes[0], desk.tenant.id)
        moving.begin(cells.route(), "acme")
        workspace = homes[0] / "workspace" / str(desk.tenant.id)
        (workspace / "report.txt").unlink()
        (workspace / "drafts" / "run.sh").write_text("false, and longer")

        move_tenant(cells.route(), "acme")

        arrived = homes[1] / "workspace" / str(desk.tenant.id)
        assert not (arrived / "report.txt").exists()
        assert (arrived / "drafts" / "run.sh").read_text() == "false, and longer"
        assert (arrived / "drafts" / "run.sh").stat().st_mode & 0o777 == 0o755
        assert os.readlink(arrived / "outside") == "/etc"


def test_files_are_never_copied_over_those_of_a_tenant_that_has_arrived(cell_pair: CellUrls, tmp_path: Path) -> None:
    homes = (tmp_path / "a", tmp_path / "b")
    for home in homes:
        home.mkdir()
    with open_cells(cell_pair, homes[0], (str(homes[0]), str(homes[1]))) as cells:
        desk = TenantHarness(cells.databases["a"])
        write_files(cells, homes[0], desk.tenant.id)
        route = cells.route()
        move = moving.begin(route, "acme")
        moving.carry_over(route, move)  # a process is killed here
        report = homes[1] / "workspace" / str(desk.tenant.id) / "report.txt"
        report.write_text("changed in the other cell")

        moving.carry_over(route, move)  # one that was suspended in the middle continues
        move_tenant(route, "acme")

        assert report.read_text() == "changed in the other cell"


def test_rules_that_the_other_home_does_not_have_are_named(cell_pair: CellUrls, tmp_path: Path) -> None:
    shared = '[[rule]]\ntool = "http_get"\ndecision = "ask"\n'
    own = '[[rule]]\ntool = "write_*"\ntenant = "acme"\ndecision = "deny"\n'
    others = '[[rule]]\ntool = "write_*"\ntenant = "other"\ndecision = "deny"\n'
    homes = (tmp_path / "a", tmp_path / "b")
    for home, rules in zip(homes, (shared + own + others, shared), strict=True):
        home.mkdir()
        (home / "policy.toml").write_text(rules)
    with open_cells(cell_pair, homes[0], (str(homes[0]), str(homes[1]))) as cells:
        TenantHarness(cells.databases["a"])

        move_tenant(cells.route(), "acme")
        (named,) = [line for line in cells.lines if "policy.toml" in line]
        own_path, other_path = (home / "policy.toml" for home in homes)
        assert named == f"rules for the tenant that {other_path} does not have, and that are not moved: {own_path}:4. Copy them."
        assert (homes[1] / "policy.toml").read_text() == shared

        cells.lines.clear()
        move_tenant(cells.route("b", "a"), "acme")
        assert not [line for line in cells.lines if "policy.toml" in line]


def test_a_home_that_is_not_mounted_is_named_before_anything_changes(cell_pair: CellUrls, tmp_path: Path) -> None:
    with open_cells(cell_pair, tmp_path, ("", str(tmp_path / "missing"))) as cells:
        desk = TenantHarness(cells.databases["a"])

        with pytest.raises(Conflict, match="is not a folder on this machine"):
            move_tenant(cells.route(), "acme")
        assert desk.add("accepted").subject == "accepted"


EXCHANGE = """
import ctypes, sys
pairs = [(a.encode(), b.encode()) for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
while True:
    for first, second in pairs:
        ctypes.CDLL(None).renameat2(-100, first, -100, second, 2)  # exchanges them
"""


def test_a_link_that_a_program_puts_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    """A program of the tenant exchanges a file and a folder for links, while the files are copied."""
    home, workspace, target = tmp_path / "home", tmp_path / "workspace", tmp_path / "target"
    for folder in (home, workspace / "folder"):
        folder.mkdir(parents=True)
    for file in (home / "secret", workspace / "file", workspace / "folder" / "file"):
        file.write_text("secret" if file.parent == home else "own")
    (workspace / "link").symlink_to(home / "secret")
    (workspace / "links").symlink_to(home)
    paths = [str(workspace / name) for name in ("file", "link", "folder", "links")]
    with subprocess.Popen([sys.executable, "-c", EXCHANGE, *paths]) as program:
        try:
            for _ in range(500):
                mirror_folder(str(workspace), str(target))
                assert not [
                    path for path in target.rglob("*") if path.is_file() and not path.is_symlink() and path.read_text() == "secret"
                ]
                shutil.rmtree(target)
        finally:
            program.kill()
