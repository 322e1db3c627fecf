"""`pytest -p tests.warm_workers`, as in `make test`: xdist's workers are forked from one process that has loaded every module.

Otherwise each worker loads all modules, and its fork server once more: eight seconds of processor time per worker. That process
loads them while this one loads the plugins of the tests.
"""

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from tests.warm_start import FOR_WORKERS, WORKER, build_command, get_fork_server

ROOT = Path(__file__).parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        hatch_build.refresh(ROOT)  # the process loads what is generated
        os.environ[FOR_WORKERS] = "1"
        get_fork_server()
        del os.environ[FOR_WORKERS]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    for spec in specs:
        spec.python = shlex.join(["env", f"{WORKER}=1", *build_command()])
