"""A disk that is full, read-only or not writable: failed writes are reported, reads continue, and writes resume after recovery.

Where this machine permits mounts, the test mounts a small private disk. Elsewhere a limit on file sizes blocks every write; only
SQLite's error differs. Both ways test all cases, and the proof table names the one used.
"""

import ctypes
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.proofs import Proof

HERE = Path(__file__).parent
NAMESPACE = ("unshare", "--map-root-user", "--mount")
DROP_CAPABILITY, DAC_OVERRIDE = 24, 1  # constants of prctl(2)


@cache
def can_mount() -> bool:
    with TemporaryDirectory() as folder:
        command = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", folder]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except FileNotFoundError:
            return False


def run_trials(folder: Path, kinds: str, cycles: int, namespace: tuple[str, ...] = ()) -> None:
    run = subprocess.run(
        [*namespace, sys.executable, str(HERE / "disk_trials.py"), kinds, str(folder), str(cycles)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        preexec_fn=None if namespace else obey_permissions,
    )
    assert run.returncode == 0, run.stderr


def obey_permissions() -> None:
    """Respect file permissions even as root, who may otherwise write anywhere."""
    ctypes.CDLL(None).prctl(DROP_CAPABILITY, DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.proof
def test_a_full_or_read_only_disk_is_reported_and_writes_resume(tmp_path: Path, proof: Proof) -> None:
    means = "a small disk of our own" if can_mount() else "no mounts here: by limits and permissions"
    cycles = proof.trials(f"disk full, and space again ({means})", share=1, whole=20)
    proof.trials(f"file system read-only, and writable again ({means})", share=1, whole=20)
    if can_mount():
        run_trials(tmp_path, "full,read_only", cycles, NAMESPACE)
    else:
        run_trials(tmp_path, "refusing,unwritable", cycles)


@pytest.mark.torture
@pytest.mark.proof
def test_refused_writes_and_an_unwritable_folder_are_reported_and_writes_resume(tmp_path: Path, proof: Proof) -> None:
    cycles = proof.trials("disk refuses every write, and takes them again", share=20, whole=20)
    proof.trials("unwritable folder, and writable again", share=20, whole=20)
    run_trials(tmp_path, "refusing,unwritable", cycles)
