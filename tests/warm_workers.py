"""`pytest --warm-workers`, as in `make test`: the workers of xdist are forked from one process that has loaded every module.

Otherwise each worker loads all modules, and its fork server once more: eight seconds of processor time per worker.
"""

import os
import shlex
from typing import Any

import pytest

from tests.warm_start import FOR_WORKERS, WORKER, build_command


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--warm-workers", action="store_true", help="fork the workers of -n from one process that has loaded all modules"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    if config.getoption("warm_workers"):
        os.environ[FOR_WORKERS] = "1"
        command = ["env", f"{WORKER}=1", *build_command()]
        del os.environ[FOR_WORKERS]
        for spec in specs:
            spec.python = shlex.join(command)
