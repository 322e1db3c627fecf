"""`headway demo`, run offline from start to end, and goals that the command that adds them also pursues.

One command of the second demo starts a Python of its own: it imports nothing from the folder, and nothing was imported before.
"""

import json
from pathlib import Path

from tests.surfaces.shell import Shell
from tests.warm_start import install_python, install_python_that_starts_once


def test_the_story_is_told_to_its_end(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    ran = shell.process("demo", env={"WARM_START_PYTHON": str(install_python(tmp_path))}, patience_s=240)
    assert ran.code == 0, ran.err
    for words in (
        "needs no key",
        "$ headway chat",
        "8 * 45 = 360",
        "$ headway goal add",
        "✕ Killed.",
        "6 sub-goals ended, 0 of them twice: no friend was invited twice.",
        "What to try next",
        "headway serve",
    ):
        assert words in ran.out, words
    assert not (tmp_path / ".headway").exists(), "the demo has a folder of its own"


def test_a_script_gets_one_document_and_can_keep_the_results(tmp_path: Path) -> None:
    shell, kept = Shell(tmp_path), tmp_path / "shared" / "kept"
    kept.parent.mkdir()
    (kept.parent / "click.py").write_text("raise SystemExit('modules beside the kept folder must not be imported')")
    python = install_python_that_starts_once(tmp_path)
    ran = shell.process("demo", "--json", "--keep", str(kept), env={"WARM_START_PYTHON": str(python)}, patience_s=240)
    assert ran.code == 0, ran.err
    demo = json.loads(ran.out)["demo"]
    assert demo["goal"]["status"] == demo["survivor"]["status"] == "completed"
    assert demo["survivor"]["repeated"] == 0
    assert (kept / "workspace" / "1" / "budget.txt").read_text() == "360"
    assert len(demo["files"]) == 9
    second = shell.process("demo", "--keep", str(kept))
    assert (second.code, second.out) == (2, "")
    assert "already contains a ledger" in second.err


def test_a_goal_is_pursued_by_the_command_that_set_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    ran = shell.process("goal", "add", "Write a.txt: hello; write b.txt: world; list the files", "--json", patience_s=120)
    assert ran.code == 0, ran.err
    goal = json.loads(ran.out)["goal"]
    assert goal["status"] == "completed"
    assert [sub_goal["status"] for sub_goal in goal["sub_goals"]] == ["completed"] * 3
    workspace = tmp_path / ".headway" / "workspace" / "1"
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {"a.txt": "hello", "b.txt": "world"}


def test_a_goal_that_was_given_up_is_no_success(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    ran = shell.process("goal", "add", "Read missing.txt; read gone.txt", "--criteria", "Both were read", patience_s=120)
    assert ran.code == 1
    assert "abandoned" in ran.out
