"""The power fails at any point while SQLite writes a ledger: no acknowledged write is lost, and nothing is torn."""

import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.proofs import Proof
from tests.warm_start import build_command

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")  # faster than a disk; only the simulated disk loses power


def run_trials(synchronous: str, trials: int) -> dict[int, str]:
    """The result of each trial, by seed."""
    with TemporaryDirectory(prefix="hw-power-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        command = build_command(str(HERE / "power_trials.py"), folder, synchronous, "0", str(trials))
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])})
    assert run.returncode == 0, run.stderr
    results = dict(json.loads(line) for line in run.stdout.splitlines())
    assert sorted(results) == list(range(trials))
    return results


def list_failures(results: dict[int, str], kind: str = "") -> dict[int, str]:
    return {seed: result for seed, result in results.items() if result != "held" and result.startswith(kind)}


@pytest.mark.proof
def test_nothing_acknowledged_is_lost_and_nothing_is_torn_when_the_power_fails(proof: Proof) -> None:
    trials = proof.trials("power loss at any moment of a ledger's life (SQLite)", share=40, whole=20_000)

    assert list_failures(run_trials("FULL", trials)) == {}


@pytest.mark.proof
def test_a_ledger_that_synced_only_its_checkpoints_would_lose_what_it_acknowledged_and_stay_whole(proof: Proof) -> None:
    """A control: with less syncing than Headway uses, the simulated power loss does lose writes."""
    results = run_trials("NORMAL", proof.trials("power loss, control: synchronous=NORMAL must lose", 30, 2_000))

    assert list_failures(results, "lost")
    assert list_failures(results, "torn") == {}


@pytest.mark.proof
def test_a_ledger_that_never_synced_would_lose_what_it_acknowledged_and_be_torn(proof: Proof) -> None:
    results = run_trials("OFF", proof.trials("power loss, control: synchronous=OFF must lose and tear", 30, 2_000))

    assert list_failures(results, "lost")
    assert list_failures(results, "torn")
