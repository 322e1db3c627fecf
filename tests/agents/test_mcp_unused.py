"""A Headway without MCP servers pays nothing for them: no module, no process, and the same request. Nor for tracing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.agents.turn_harness import open_talk
from tests.model_server import text

PROGRAM = """
import asyncio, json, sys
from headway import Headway

async def main() -> None:
    async with Headway.open(home=sys.argv[1], database_url=sys.argv[2], model="rehearsal", alone=True) as headway:
        report = await headway.ask("Hello.")
        assert report.answer
        from headway.agents.tracing import describe_request

asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""


def test_a_turn_without_servers_and_exporter_loads_no_module_for_them(sqlite_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), sqlite_url]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OTEL_"))}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    loaded: list[str] = json.loads(ran.stdout.splitlines()[-1])
    assert [name for name in loaded if name.partition(".")[0] in ("mcp", "mcp_types")] == []
    assert [name for name in loaded if name.startswith("opentelemetry.sdk")] == []
    assert [name for name in loaded if name.startswith("headway.agents.mcp.")] == ["headway.agents.mcp.config"]


def test_the_first_request_is_the_same_without_servers_and_with_one_that_nobody_may_use(tmp_path: Path, empty_ledger: Path) -> None:
    bodies = []
    for name, servers in (("without", {}), ("with", {"unused": {"command": "no-such-program"}})):
        home = tmp_path / name
        (home / "agents").mkdir(parents=True)
        (home / "agents" / "index.toml").write_text('tools = ["turn_plan", "queue", "builtin"]\n')
        shutil.copy(empty_ledger, home / "headway.db")
        if servers:
            (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        with open_talk(f"sqlite:///{home / 'headway.db'}", home, text("Done.")) as talk:
            talk.say("Hello.")
            bodies.append(json.dumps(talk.requests[0].body))
            assert len(talk.requests) == 1
            assert talk.headway.toolbox.extra == {}
    assert bodies[0] == bodies[1]
