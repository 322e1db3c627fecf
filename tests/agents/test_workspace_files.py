"""Files in a workspace: written files can be read and are listed, and no path leads outside."""

import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller, build_caller
from tests.tables import each_row

SECRET = "the secret of the house"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    return tmp_path / "spaces" / "acme"


@pytest.fixture
def caller(sqlite_agent: Agent, workspace: Path) -> ToolCaller:
    return build_caller(sqlite_agent, workspace)


def test_a_written_file_is_read_back_and_listed(caller: ToolCaller, workspace: Path) -> None:
    assert not workspace.exists()
    assert caller("write_file", path="notes/today.md", content="Grüße\n") == {"path": "notes/today.md", "size": 8}
    caller("write_file", path="./notes/../a.txt", content="")

    assert caller("read_file", path="notes/today.md") == {"content": "Grüße\n"}
    assert caller("list_files") == {
        "files": [{"path": "a.txt", "size": 0}, {"path": "notes/"}, {"path": "notes/today.md", "size": 8}]
    }
    assert caller("list_files", path="notes") == {"files": [{"path": "notes/today.md", "size": 8}]}


def test_a_workspace_belongs_to_one_tenant(caller: ToolCaller, workspace: Path) -> None:
    caller("write_file", path="notes/a", content="x")

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (workspace, workspace / "notes", workspace / "notes" / "a")]
    assert modes == [0o700, 0o700, 0o600]


def test_writing_again_replaces_the_whole_file(caller: ToolCaller, workspace: Path) -> None:
    caller("write_file", path="a", content="a long text")
    caller("write_file", path="a", content="short")

    assert caller("read_file", path="a") == {"content": "short"}
    assert os.listdir(workspace) == ["a"]


def test_readers_see_the_old_file_or_the_new_one_and_nothing_between(caller: ToolCaller, workspace: Path) -> None:
    versions = {"a" * 300_000, "b" * 300_000}
    caller("write_file", path="a", content="a" * 300_000)
    stop = threading.Event()
    contents = set()

    def poll() -> None:
        while not stop.is_set():
            contents.add((workspace / "a").read_text())

    watcher = threading.Thread(target=poll)
    watcher.start()
    for content in sorted(versions) * 5:
        caller("write_file", path="a", content=content)
    stop.set()
    watcher.join()
    assert contents <= versions


OUTSIDE = [
    "../secret.txt",
    "../../secret.txt",
    "a/../../../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    "a\0b",
    "\ud800",
    "x" * 300,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_outside(caller: ToolCaller, tmp_path: Path, path: str) -> None:
    caller("write_file", path="a/b", content="x")
    before = sorted(tmp_path.rglob("*"))

    assert caller.refused("read_file", path=path)
    assert caller.refused("write_file", path=path, content="x")
    assert caller.refused("list_files", path=path)
    assert sorted(tmp_path.rglob("*")) == before


def test_no_link_leads_outside(caller: ToolCaller, workspace: Path, tmp_path: Path) -> None:
    caller("write_file", path="a", content="x")
    (workspace / "file").symlink_to(tmp_path / "secret.txt")
    (workspace / "folder").symlink_to(tmp_path)
    (workspace / "up").symlink_to("..")

    for path in ("file", "folder/secret.txt", "up/../../secret.txt", "folder"):
        assert SECRET not in caller.refused("read_file", path=path)
    for path in ("folder/new.txt", "folder/outside/new.txt", "up/new.txt"):
        assert "Links are not followed" in caller.refused("write_file", path=path, content="x")
    assert caller.refused("list_files", path="folder")
    assert caller("list_files") == {"files": [{"path": "a", "size": 1}]}
    assert not list(tmp_path.rglob("new.txt"))


def test_writing_over_a_link_replaces_the_link_and_not_its_target(caller: ToolCaller, workspace: Path, tmp_path: Path) -> None:
    caller("write_file", path="a", content="x")
    (workspace / "link").symlink_to(tmp_path / "secret.txt")
    caller("write_file", path="link", content="mine")

    assert (tmp_path / "secret.txt").read_text() == SECRET
    assert caller("read_file", path="link") == {"content": "mine"}


def test_pipes_sockets_and_folders_are_refused_without_blocking(caller: ToolCaller, workspace: Path, monkeypatch: Any) -> None:
    caller("write_file", path="folder/a", content="x")
    os.mkfifo(workspace / "pipe")
    monkeypatch.chdir(workspace)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for path in ("pipe", "socket", "folder", "."):
            assert caller.refused("read_file", path=path)
    assert [entry["path"] for entry in caller("list_files")["files"]] == ["folder/", "folder/a"]


def test_a_device_is_not_read(sqlite_agent: Agent) -> None:
    assert build_caller(sqlite_agent, "/dev").refused("read_file", path="zero") == "zero is not a file."


def test_a_file_is_no_folder_and_a_folder_no_file(caller: ToolCaller) -> None:
    caller("write_file", path="folder/a", content="x")

    assert caller.refused("write_file", path="folder", content="x")
    assert caller.refused("write_file", path="folder/a/b", content="x")
    assert caller.refused("write_file", path=".", content="x") == "path does not name a file."
    assert caller.refused("list_files", path="folder/a")
    assert [entry["path"] for entry in caller("list_files")["files"]] == ["folder/", "folder/a"]


def test_a_missing_file_is_reported_as_missing(caller: ToolCaller) -> None:
    assert caller("list_files") == {"files": []}
    assert caller.refused("read_file", path="a.txt") == "There is no a.txt in the workspace."
    caller("write_file", path="b", content="")
    assert caller.refused("list_files", path="folder") == "There is no folder in the workspace."


@each_row("data", [b"\xff\xfe\x00", b"text\0text", b"cut \xc3"])
def test_a_file_that_is_not_text_is_not_shown(caller: ToolCaller, workspace: Path, data: bytes) -> None:
    caller("write_file", path="a", content="x")
    (workspace / "data").write_bytes(data)

    assert caller.refused("read_file", path="data")


@each_row("character", ["x", "é", "\N{GRINNING FACE}"])
def test_a_long_file_is_shown_from_its_beginning_and_says_so(caller: ToolCaller, workspace: Path, character: str) -> None:
    caller("write_file", path="a", content="x")
    (workspace / "long").write_text("x" + character * 250_000, encoding="utf-8")
    result = caller("read_file", path="long")

    assert result["content"] == "x" + character * 199_999
    assert "first 200,000 characters" in result["truncated"]


def test_more_than_a_megabyte_is_not_written(caller: ToolCaller, workspace: Path) -> None:
    assert caller.refused("write_file", path="a", content="x" * 1_000_001)
    assert caller.refused("write_file", path="a", content="é" * 500_001)
    assert not workspace.exists()
    assert caller("write_file", path="a", content="x" * 1_000_000)["size"] == 1_000_000


def test_a_long_list_ends_and_says_so(caller: ToolCaller, workspace: Path) -> None:
    caller("write_file", path="many/a", content="")
    for number in range(501):
        (workspace / f"f{number:03}").touch()
    result = caller("list_files")

    assert [entry["path"] for entry in result["files"]] == [f"f{number:03}" for number in range(500)]
    assert "more than 500" in result["truncated"]
    assert len(caller("list_files", path="many")["files"]) == 1


def test_paths_are_sorted_and_strange_names_can_be_shown(caller: ToolCaller, workspace: Path) -> None:
    for path in ("a.txt", "a/z", "a/b/c", "B", "é"):
        caller("write_file", path=path, content="")
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xff")).touch()
    paths = [entry["path"] for entry in caller("list_files")["files"]]

    assert paths[:-1] == ["B", "a.txt", "a/", "a/b/", "a/b/c", "a/z", "é"]
    assert paths[-1] == "\N{REPLACEMENT CHARACTER}"


def test_very_deep_folders_are_listed_down_to_a_limit(caller: ToolCaller, workspace: Path) -> None:
    caller("write_file", path="/".join(["d"] * 300), content="")

    assert len(caller("list_files")["files"]) == 41


@each_row("call", [("read_file", {"path": "a"}), ("write_file", {"path": "a", "content": ""}), ("list_files", {})])
def test_without_a_workspace_the_tools_say_so(sqlite_agent: Agent, call: tuple[str, dict[str, str]]) -> None:
    tool, arguments = call

    assert build_caller(sqlite_agent).refused(tool, **arguments) == "No workspace is available here."
