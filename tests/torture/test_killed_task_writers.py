"""Eight processes write one task list and are killed at random: the file is never torn, and no acknowledged write is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs import Proof


@pytest.mark.proof
def test_a_task_list_survives_killed_writers(tmp_path: Path, proof: Proof) -> None:
    kills = proof.trials("task file: one of 8 writers is killed at any moment", share=20, whole=1_000)
    script = Path(__file__).with_name("task_writers.py")
    run = subprocess.run([sys.executable, str(script), str(tmp_path / "tasks"), str(kills)], capture_output=True, text=True)

    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > kills, "a list that nobody wrote shows nothing"
