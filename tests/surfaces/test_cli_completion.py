"""`headway completion`, run in a real bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.shell import Shell, get_error_line

# What bash does at the Tab key: passes the words so far, and the one to complete.
TAB = """
eval "$(headway completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_headway_completion headway
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(folder: Path, words: str) -> set[str]:
    bash = shutil.which("bash")
    assert bash
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = TAB.format(words=words)
    ran = subprocess.run([bash, "--norc", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    return set(ran.stdout.split())


def test_bash_completes_commands_verbs_and_options(headway: Shell) -> None:
    assert complete(headway.folder, "headway go") == {"goal"}
    assert complete(headway.folder, "headway todo re") == {"ready", "reopen"}
    assert complete(headway.folder, "headway todo list --st") == {"--status"}
    assert {"todo", "goal", "serve", "completion"} <= complete(headway.folder, "headway ''")
    assert not headway.ledger.exists(), "nobody who presses Tab wants a database"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_of_its_own(headway: Shell, shell: str) -> None:
    script = headway.ok("completion", shell)
    assert f"_HEADWAY_COMPLETE={shell}_complete" in script
    assert headway.json("completion", shell) == {"completion": {"shell": shell, "script": script.removesuffix("\n")}}
    assert f"headway completion {shell} >" in headway.ok("completion", "--help")


def test_a_shell_that_is_not_known_is_refused_with_those_that_are(headway: Shell) -> None:
    assert "'bash', 'zsh', 'fish'" in get_error_line(headway("completion", "tcsh"), 2)
