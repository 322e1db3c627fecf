"""A disk that is full, read-only or closed to us: what cannot be done is said, reads go on, and all is well when it is well.

Where this machine lets us mount, the disk is a small one of our own. Where it does not, a limit on the size of files is in the way
of every write instead: the same, but for how SQLite calls it. Nothing is left out: the table of the programme says which it was.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from proofs import Proof

HERE = Path(__file__).parent
NAMESPACE = ("unshare", "--map-root-user", "--mount")
DROP_CAPABILITY, DAC_OVERRIDE = 24, 1  # of prctl(2)


@cache
def can_mount() -> bool:
    with TemporaryDirectory() as folder:
        command = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", folder]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except FileNotFoundError:
            return False


def survives(kind: str, folder: Path, cycles: int, before: Callable[[], None] | None = None) -> None:
    namespace = NAMESPACE if kind in ("full", "read_only") else ()
    run = subprocess.run(
        [*namespace, sys.executable, str(HERE / "disk_trials.py"), kind, str(folder), str(cycles)],
        env={**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE.parent / 'surfaces'}"},
        capture_output=True,
        text=True,
        preexec_fn=before,
    )
    assert run.returncode == 0, run.stderr


def obey_permissions() -> None:
    """Also if we are root, who may otherwise write anywhere."""
    ctypes.CDLL(None).prctl(DROP_CAPABILITY, DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.proof
def test_a_full_disk(tmp_path: Path, proof: Proof) -> None:
    kind = "full" if can_mount() else "refusing"
    survives(kind, tmp_path, proof.trials(f"disk full, and space again ({'tmpfs' if can_mount() else 'file size limit'})", 20, 20))


@pytest.mark.proof
def test_a_disk_that_refuses_every_write_of_a_running_server(tmp_path: Path, proof: Proof) -> None:
    survives("refusing", tmp_path, proof.trials("disk refuses every write, and takes them again", 20, 20))


@pytest.mark.proof
def test_a_file_system_that_is_mounted_read_only(tmp_path: Path, proof: Proof) -> None:
    if can_mount():
        survives("read_only", tmp_path, proof.trials("read-only file system, and writable again (tmpfs)", 20, 20))
    else:
        survives(
            "unwritable",
            tmp_path,
            proof.trials("read-only file system: no mounts here, unwritable folder", 20, 20),
            obey_permissions,
        )


@pytest.mark.proof
def test_a_folder_that_cannot_be_written(tmp_path: Path, proof: Proof) -> None:
    survives("unwritable", tmp_path, proof.trials("unwritable folder, and writable again", 20, 20), obey_permissions)
