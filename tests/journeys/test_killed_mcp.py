"""A worker is killed with SIGKILL during calls of MCP tools. The next worker repeats a read, and reports a write as unknown. The
servers that made the calls, which do not notice that their input has ended, are gone."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.agents.test_mcp_faults import KEY, PLAIN, list_calls
from tests.journeys.worker_processes import build_environment, enqueue, expire_leases, run_worker, wait_until_all_end
from tests.model_server import ModelServer, Reply, Request, calls, text
from tests.proofs import Proof
from tests.surfaces.server_harness import wait_until

TOOLS = {"n001": "reader__read", "n002": "writer__write"}
GONE_S = 120
pytestmark = pytest.mark.proof


def reply(request: Request) -> Reply:
    name = next(name for name in TOOLS if any(f"Note {name}." in said for said in request.texts))
    return text(f"Noted {name}.") if request.tool_results else calls((TOOLS[name], {}))


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(reply) as server:
        yield server
    assert server.violations == []


def make_home(folder: Path) -> None:
    """A home folder with two servers that share a log: each makes one call after the other."""
    (folder / "home").mkdir()
    plain = {"command": sys.executable, "args": ["-IS", str(PLAIN), f"{folder}/calls.log"], "env": {"API_KEY": KEY}}
    (folder / "home" / "mcp.json").write_text(json.dumps({"mcpServers": {"reader": plain, "writer": plain}}))


def run_until_killed(url: str, desk: TenantHarness, folder: Path, env: dict[str, str]) -> None:
    """Run a worker until both servers have begun a call, and kill it. Its servers are gone soon after."""
    enqueue(desk, TOOLS)
    with run_worker(url, folder, env) as worker:
        wait_until(lambda: sorted(list_calls(folder)) == ["read", "write"], "the calls begin")
        servers = psutil.Process(worker.process.pid).children(recursive=True)
        assert len(servers) == len(TOOLS)
        worker.end(by=signal.SIGKILL)
        assert psutil.wait_procs(servers, timeout=GONE_S)[1] == []
    expire_leases(desk)


def run_to_end(url: str, desk: TenantHarness, folder: Path, env: dict[str, str]) -> None:
    with run_worker(url, folder, env) as worker:
        wait_until_all_end(desk)
        servers = psutil.Process(worker.process.pid).children(recursive=True)
        worker.end()
        assert psutil.wait_procs(servers, timeout=GONE_S)[1] == [], "a worker that stops takes its servers with it"


def list_effects(desk: TenantHarness) -> list[tuple[Any, ...]]:
    return desk.read(lambda tx, tenant_id: tx.all("SELECT tool, state FROM effects WHERE tenant_id = ? ORDER BY tool", tenant_id))


def list_messages(desk: TenantHarness) -> list[str]:
    rows = desk.read(lambda tx, tenant_id: tx.all("SELECT content FROM messages WHERE tenant_id = ?", tenant_id))
    return sorted(content for (content,) in rows)


def test_calls_are_repeated_or_unknown_after_their_worker_was_killed(
    sqlite_url: str, tmp_path: Path, model: ModelServer, proof: Proof
) -> None:
    make_home(tmp_path)
    env = build_environment(tmp_path, model, restart_stagger_s="0")
    with DirectDatabase(sqlite_url) as database:
        for seed in proof.seeds("kill -9 of a worker during calls of MCP tools, sqlite", share=1, whole=50):
            desk = TenantHarness(database, f"tenant {seed}")
            for name in ("calls.log", "go"):
                (tmp_path / name).unlink(missing_ok=True)
            run_until_killed(sqlite_url, desk, tmp_path, env)
            assert list_effects(desk) == [("reader__read", "started"), ("writer__write", "started")]
            (tmp_path / "go").touch()
            run_to_end(sqlite_url, desk, tmp_path, env)
            assert list_effects(desk) == [("reader__read", "succeeded"), ("writer__write", "unknown")]
            assert sorted(list_calls(tmp_path)) == ["read", "read", "write"]
            assert list_messages(desk) == ["Note n001.", "Note n002.", "Noted n001.", "Noted n002."]
