"""Headway's own git runs in the sandbox of programs: a repository that agents or tenants wrote cannot run anything outside."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import httpx

from headway import settings
from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.process.assembly import Headway
from headway.surfaces.http.app import WebApp
from tests.autonomy.goal_harness import agent, by_part, by_transcript, in_order, open_pursuit, plan
from tests.hostile_repository import list_commands
from tests.model_server import calls, text

PROGRAM = "import json, subprocess\nfor command in json.loads({!r}): subprocess.run(command, check=True)"


def test_a_repository_that_an_agents_program_wrote_stays_in_the_sandbox(sqlite_url: str, tmp_path: Path) -> None:
    marker = tmp_path / "outside"
    code = PROGRAM.format(json.dumps(list_commands(marker)))
    prepare = by_transcript(calls(("run_python", {"code": code})), text("Prepared."))
    script = by_part({"prepare": prepare, "dig": text("Dug.")}, plan=in_order(plan(agent("prepare")), plan(agent("dig"))))
    with open_pursuit(sqlite_url, tmp_path, script, commands="python3,git", sandbox="required") as pursuit:
        pursuit.achieve("A repository.")
        pursuit.achieve("A garden.", repository="app")
    check_contained(tmp_path, marker)


def check_contained(home: Path, marker: Path) -> None:
    """Check that the filter ran, but only inside."""
    assert list(home.glob("workspace/*/app/.git/filter-ran"))
    assert not marker.exists()


def test_a_repository_that_a_tenants_token_wrote_stays_in_the_sandbox(tmp_path: Path) -> None:
    """Without a model that decides anything: commands as checks, which a rule allows, and a goal."""
    marker = tmp_path / "outside"
    (tmp_path / "policy.toml").write_text('[[rule]]\ndecision = "allow"\ntool = "run_command"\n')
    asyncio.run(write_repository_and_set_goal(tmp_path, marker))
    check_contained(tmp_path, marker)


async def write_repository_and_set_goal(home: Path, marker: Path) -> None:
    app = WebApp(Headway(settings.load({"home": str(home), "commands": "git", "sandbox": "required"})))
    async with app.lifespan(app):
        tenant = await app.headway.database.write(lambda tx: tenants.add_tenant(tx, "acme"))
        token = await app.headway.database.write(lambda tx: tokens.create_token(tx, tenant.id))
        headers = {"Authorization": f"Bearer {token.secret}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers, timeout=30) as client:

            async def send(method: str, path: str, **body: Any) -> Any:
                answer = await client.request(method, f"/v1/{path}", json=body or None)
                assert answer.is_success, answer.text
                return answer.json()

            for command in list_commands(marker):
                check = {"kind": "command", "run": shlex.join(command)}
                todo = (await send("POST", "todos", subject="x", checks=[check]))["todo"]
                await send("PATCH", f"todos/{todo['id']}", status="completed")
            goal = (await send("POST", "goals", description="A garden.", repository="app"))["goal"]
            while not list((home / "worktrees").glob("*/*/goal-*/a.txt")):
                await asyncio.sleep(0.01)
                assert (await send("GET", f"goals/{goal['id']}"))["goal"]["status"] == "active"
