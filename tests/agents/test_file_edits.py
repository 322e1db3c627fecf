"""Edits of files in a workspace: exact, whole or not at all, and errors from which a model can repair its call."""

import os
import stat
import threading
import tracemalloc
from pathlib import Path

import pytest

from headway.agents.instructions.roles import Roles
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller, build_caller
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, text
from tests.tables import each_row

CODE = "def area(r):\n    return 3 * r * r\n\n\ndef volume(r):\n    return 4 * r\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "spaces" / "acme"
    folder.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "a.py").write_text(CODE)
    return folder


@pytest.fixture
def caller(sqlite_agent: Agent, workspace: Path) -> ToolCaller:
    return build_caller(sqlite_agent, workspace)


def test_text_that_occurs_once_is_replaced(caller: ToolCaller, workspace: Path) -> None:
    assert caller("edit_file", path="a.py", old="3 * r", new="3.14 * r") == {"path": "a.py", "replaced": 1, "size": len(CODE) + 3}
    assert (workspace / "a.py").read_text() == CODE.replace("3 * r", "3.14 * r")
    caller("edit_file", path="a.py", old="\n\ndef volume(r):\n    return 4 * r\n", new="")
    assert (workspace / "a.py").read_text() == "def area(r):\n    return 3.14 * r * r\n"
    assert os.listdir(workspace) == ["a.py"]


def test_text_that_occurs_more_often_is_replaced_only_if_all_is_set(caller: ToolCaller, workspace: Path) -> None:
    error = caller.refused("edit_file", path="a.py", old="return", new="yield")

    assert "occurs 2 times in a.py, so nothing was changed" in error
    assert (workspace / "a.py").read_text() == CODE
    assert caller("edit_file", path="a.py", old="return", new="yield", all=True)["replaced"] == 2
    assert (workspace / "a.py").read_text() == CODE.replace("return", "yield")


def test_occurrences_that_overlap_are_ambiguous(caller: ToolCaller) -> None:
    caller("write_file", path="b", content="aaa")

    assert "occurs 2 times" in caller.refused("edit_file", path="b", old="aa", new="b")


@each_row(
    ("old", "shown"),
    [
        ("def area(r):\n\treturn 3 * r * r", "only in whitespace:\n1: def area(r):\n2:     return 3 * r * r"),
        ("return 4*r", "only in whitespace:\n6:     return 4 * r"),
        ("    return 3 * r * s\n\nand more", "The most similar lines are:\n2:     return 3 * r * r\n3: \n4: "),
        ("class Animal:\n    legs = 4", "No line is similar to its first line. Read the file again."),
        (" \t ", "No line is similar"),
    ],
)
def test_text_that_does_not_occur_is_answered_with_the_closest_lines(
    caller: ToolCaller, workspace: Path, old: str, shown: str
) -> None:
    error = caller.refused("edit_file", path="a.py", old=old, new="x")

    assert error.startswith("old does not occur in a.py, so nothing was changed.")
    assert shown in error
    assert (workspace / "a.py").read_text() == CODE


def test_an_edit_that_changes_nothing_or_creates_a_file_is_refused(caller: ToolCaller, workspace: Path) -> None:
    assert "use write_file" in caller.refused("edit_file", path="new.py", old="", new="x")
    assert "use write_file" in caller.refused("edit_file", path="a.py", old="", new="x", all=True)
    assert "the same" in caller.refused("edit_file", path="a.py", old="r", new="r")
    assert "the same" in caller.refused("edit_file", path="a.py", old="\n\n", new="\r\n\r\n")
    assert caller.refused("edit_file", path="new.py", old="x", new="y") == "There is no new.py in the workspace."
    assert caller.refused("edit_file", path=".", old="x", new="y") == "path does not name a file."
    assert sorted(os.listdir(workspace)) == ["a.py"]


@each_row(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\n", b"1\r\nII\r\n"),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", b"\xef\xbb\xbf1\r\nII\r\n"),
        (b"\xef\xbb\xbfone\ntwo", b"\xef\xbb\xbf1\nII"),
        (b"\rone\ntwo\r", b"\r1\nII\r"),
        (b"one\ntwo\r\n", b"1\nII\r\n"),  # mixed: taken literally
    ],
)
def test_line_endings_and_the_byte_order_mark_are_kept(caller: ToolCaller, workspace: Path, before: bytes, after: bytes) -> None:
    (workspace / "b").write_bytes(before)
    caller("edit_file", path="b", old="one\ntwo", new="1\nII")

    assert (workspace / "b").read_bytes() == after


def test_text_with_other_line_endings_than_the_file_adopts_its_own(caller: ToolCaller, workspace: Path) -> None:
    caller("edit_file", path="a.py", old="def area(r):\r\n", new="def area(radius):\r\n    r = radius\r\n")

    assert (workspace / "a.py").read_bytes().startswith(b"def area(radius):\n    r = radius\n    return")


def test_permissions_are_kept_without_those_that_lend_rights(caller: ToolCaller, workspace: Path) -> None:
    for mode, kept in ((0o755, 0o755), (0o444, 0o444), (0o4755, 0o755)):
        (workspace / "run.sh").write_text("echo a\n")
        (workspace / "run.sh").chmod(mode)
        caller("edit_file", path="run.sh", old="a", new="b")
        assert stat.S_IMODE((workspace / "run.sh").stat().st_mode) == kept
        (workspace / "run.sh").unlink()


def test_no_path_and_no_link_leads_outside(caller: ToolCaller, workspace: Path, tmp_path: Path) -> None:
    (workspace / "file").symlink_to(tmp_path / "secret.txt")
    (workspace / "folder").symlink_to(tmp_path)
    os.mkfifo(workspace / "pipe")

    for path in ("../secret.txt", "../../secret.txt", "/etc/passwd", "file", "folder/secret.txt", "pipe", "a\0b", "\ud800"):
        assert caller.refused("edit_file", path=path, old="secret", new="x")
    assert (tmp_path / "secret.txt").read_text() == "secret"
    assert (workspace / "file").is_symlink()


@each_row("data", [b"x\xff", b"x\0", b"x\xc3", b"x" * 1_000_001])
def test_a_file_that_cannot_be_kept_exactly_is_not_edited(caller: ToolCaller, workspace: Path, data: bytes) -> None:
    (workspace / "data").write_bytes(data)

    assert caller.refused("edit_file", path="data", old="x", new="y", all=True)
    assert (workspace / "data").read_bytes() == data


def test_an_edit_does_not_grow_a_file_beyond_the_limit(caller: ToolCaller, workspace: Path) -> None:
    (workspace / "b").write_text("a" * 1_000)

    assert "at most 1,000,000" in caller.refused("edit_file", path="b", old="a", new="é" * 501, all=True)
    assert caller.refused("edit_file", path="b", old="a", new="\ud800", all=True)
    assert (workspace / "b").read_text() == "a" * 1_000


def test_an_edit_that_would_grow_a_file_beyond_the_limit_takes_no_memory(caller: ToolCaller, workspace: Path) -> None:
    (workspace / "b").write_text("a" * 20_000)

    tracemalloc.start()
    try:
        error = caller.refused("edit_file", path="b", old="a", new="b" * 5_000, all=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "would have 100,000,000 characters" in error
    assert peak < 10_000_000
    assert (workspace / "b").read_text() == "a" * 20_000


def test_edits_at_the_same_time_are_all_kept(sqlite_agent: Agent, workspace: Path) -> None:
    (workspace / "b").write_text("".join(f"<{number}>\n" for number in range(40)))

    def edit(numbers: range) -> None:
        for number in numbers:
            build_caller(sqlite_agent, workspace)("edit_file", path="b", old=f"<{number}>", new=f"{number} is done")

    threads = [threading.Thread(target=edit, args=(range(start, 40, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (workspace / "b").read_text() == "".join(f"{number} is done\n" for number in range(40))


def test_hostile_text_is_compared_within_limits(caller: ToolCaller, workspace: Path) -> None:
    for content, old in (
        ("a\n" * 400_000, "b\n" * 200_000),
        ("ab" * 500_000, "ab" * 200_000 + "c"),
        (" " * 900_000, " \t" * 9_000),
    ):
        (workspace / "b").write_text(content)
        assert len(caller.refused("edit_file", path="b", old=old, new="x")) < 3_000


def test_a_model_edits_a_file_without_asking(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "1"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(CODE)
    edit = calls(("edit_file", {"path": "a.py", "old": "4 * r", "new": "4 / 3 * r"}))
    find = calls(("search_files", {"pattern": r"\breturn 4\b", "path": "."}))
    with open_talk(sqlite_url, tmp_path, in_order(edit, find, text("Done."))) as talk:
        talk.say("Correct the volume.")
        assert [(effect.tool, effect.state) for effect in talk.effects()] == [
            ("edit_file", "succeeded"),
            ("search_files", "succeeded"),
        ]
        assert "a.py:6:     return 4 / 3 * r" in talk.requests[2].tool_results[-1].content
    assert (folder / "a.py").read_text() == CODE.replace("4 * r", "4 / 3 * r")


def test_every_role_can_edit_without_a_detour_and_those_that_work_on_code_can_search() -> None:
    roles = Roles().by_name
    assert not any(role.is_on_demand("builtin", "edit_file") for role in roles.values())
    searching = {name for name, role in roles.items() if not role.is_on_demand("builtin", "search_files")}
    assert searching == {"coder", "reviewer"}
