"""A worker is killed with SIGKILL while an agent's program runs in the sandbox: the program ends too, and the turn goes on."""

import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import build_environment, enqueue, expire_leases, read_rows, run_worker, wait_until_all_end
from tests.model_server import run_model_process
from tests.surfaces.server_harness import wait_until


def build_rules(tool: str, script: str) -> list[dict[str, Any]]:
    arguments = {
        "run_command": {"command": ["sh", "-c", script]},
        "run_python": {"code": f"import subprocess\nsubprocess.run(['sh', '-c', {script!r}])"},
    }[tool]
    call = {"calls": [{"name": tool, "arguments": arguments}]}
    return [{"when": {"tool_results": 0}, "reply": call}, {"when": {"tool_results": 1}, "reply": {"text": "I do not know."}}]


def is_running(mark: str) -> bool:
    return any(mark in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"]))


@pytest.mark.proof
@pytest.mark.parametrize("tool", ["run_command", pytest.param("run_python", marks=pytest.mark.torture)])
def test_a_program_dies_with_its_worker_and_is_not_run_again(tool: str, sqlite_url: str, tmp_path: Path) -> None:
    mark = uuid4().hex
    # The inner process has left the session and the group of its parent.
    script = f"echo x >> begun; setsid sh -c 'sleep 300' {mark} & wait"
    (tmp_path / "home").mkdir()
    with run_model_process(build_rules(tool, script), tmp_path) as model, DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database)
        env = build_environment(tmp_path, model, restart_stagger_s="0", commands="sh,python3", sandbox="required")
        begun = tmp_path / "home" / "workspace" / str(desk.tenant.id) / "begun"
        with run_worker(sqlite_url, tmp_path, env) as worker:
            enqueue(desk, ["x"])
            wait_until(lambda: is_running(mark), "the program runs")
            worker.send(signal.SIGKILL)
            wait_until(lambda: not is_running(mark), "the program has ended")
        expire_leases(desk)
        with run_worker(sqlite_url, tmp_path, env):
            wait_until_all_end(desk)

        assert read_rows(desk, "SELECT tool, state FROM effects") == [(tool, "unknown")]
        assert read_rows(desk, "SELECT status FROM turns") == [("finished",)]
        assert begun.read_text() == "x\n"
        assert model.violations == []
