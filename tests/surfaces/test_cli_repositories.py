"""Repositories on the command line: goals that name one, turns that worked in one, and what doctor says about git."""

from pathlib import Path

import pytest

from tests.agents.repository_harness import git, make_repository, name_repository
from tests.surfaces.shell import Shell, get_error_line


@pytest.fixture
def workspace(headway: Shell) -> Path:
    """The workspace of the local tenant."""
    headway.ok("todo", "list")
    return headway.ledger.parent / "workspace" / "1"


def test_a_goal_names_a_repository_in_the_workspace(headway: Shell, workspace: Path) -> None:
    make_repository(workspace / "app")
    goal = headway.json("goal", "add", "Tidy up.", "--repository", f"{workspace}/app/", "--no-wait")["goal"]
    assert (goal["repository"], goal["changes"]) == ("app", None)


def test_a_goal_whose_repository_cannot_be_used_is_refused(headway: Shell, workspace: Path) -> None:
    (workspace / "plain").mkdir(parents=True)
    (workspace / "empty").mkdir()
    git(workspace / "empty", "init", "-q")
    (workspace / "link").symlink_to(make_repository(workspace.parent / "another tenant"))
    for path, complaint in {
        "../2": "is not inside the workspace",
        "/etc": "is not inside the workspace",
        "link": "is not inside the workspace",
        "plain": "is not a git repository",
        "missing": "is not a git repository",
        "empty": "has no commit yet. Make one first",
    }.items():
        ran = headway("goal", "add", "Tidy up.", "--repository", path, "--no-wait")
        assert f"repository: {path} {complaint}." in get_error_line(ran, 2)
    assert headway.json("goal", "list")["goals"] == []


def test_a_turn_shows_what_it_changed(headway: Shell) -> None:
    home = headway.ledger.parent
    home.mkdir()
    name_repository(home, make_repository(headway.folder / "app"))
    headway.trust()
    headway.ok("chat", "Calculate 12*7, then write the result to notes.txt")
    (run,) = headway.json("agents", "list")["agents"]
    branch = run["changes"]["branch"]
    lines = headway.ok("turn", "show", run["turn_id"], "--diff").splitlines()
    place = lines.index(f"  {branch}: 1 file, +1 −0 (git merge {branch})")
    assert lines[place + 1] == "    notes.txt  +1 −0"
    assert any(line.startswith("+") and "84" in line for line in lines)
    assert headway.json("turn", "show", run["turn_id"])["turn"]["changes"]["diff"].startswith("diff --git a/notes.txt")
    (finding,) = (check for check in headway.json("doctor")["checks"] if check["name"] == "git")
    assert finding["ok"]
    assert "index works in" in finding["detail"]
