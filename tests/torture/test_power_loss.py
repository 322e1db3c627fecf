"""The power fails at any point while SQLite writes a ledger: no acknowledged write is lost, and nothing is torn."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.proofs import Proof

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")  # faster than a disk; only the simulated disk loses power


def after_power_loss(synchronous: str, trials: int) -> dict[int, str]:
    """The result of each trial, by seed."""
    with TemporaryDirectory(prefix="hw-power-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        command = [sys.executable, str(HERE / "power_trials.py"), folder, synchronous, "0", str(trials)]
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])})
    assert run.returncode == 0, run.stderr
    became = dict(json.loads(line) for line in run.stdout.splitlines())
    assert sorted(became) == list(range(trials))
    return became


def failed(became: dict[int, str], how: str = "") -> dict[int, str]:
    return {seed: said for seed, said in became.items() if said != "held" and said.startswith(how)}


@pytest.mark.proof
def test_nothing_acknowledged_is_lost_and_nothing_is_torn_when_the_power_fails(proof: Proof) -> None:
    trials = proof.trials("power loss at any moment of a ledger's life (SQLite)", share=200, whole=20_000)

    assert failed(after_power_loss("FULL", trials)) == {}


@pytest.mark.proof
def test_a_ledger_that_synced_only_its_checkpoints_would_lose_what_it_acknowledged_and_stay_whole(proof: Proof) -> None:
    """A control: with less syncing than Headway uses, the simulated power loss does lose writes."""
    became = after_power_loss("NORMAL", proof.trials("power loss, control: synchronous=NORMAL must lose", 300, 2_000))

    assert failed(became, "lost")
    assert failed(became, "torn") == {}


@pytest.mark.proof
def test_a_ledger_that_never_synced_would_lose_what_it_acknowledged_and_be_torn(proof: Proof) -> None:
    became = after_power_loss("OFF", proof.trials("power loss, control: synchronous=OFF must lose and tear", 300, 2_000))

    assert failed(became, "lost")
    assert failed(became, "torn")
