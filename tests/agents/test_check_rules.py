"""Checks are calls: the policy, the grants of the role and approval decide about them, whoever wrote them and whoever runs them."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from headway.actions.todos import todos
from headway.actions.todos.todos import Override
from headway.agents.tools.toolbox import InTransaction, Tool
from headway.ledger.todo import Change
from tests.agents.person_harness import decide_and_finish, list_approvals, write_policy
from tests.agents.test_checks import CANCEL, DONE, add_todo, get_last_result, plan_with
from tests.agents.test_scheduled_checks import get, run_job
from tests.agents.turn_harness import complete_next, in_order, open_talk
from tests.autonomy.goal_harness import by_part, open_pursuit, plan, step
from tests.autonomy.test_goal_checks import checked
from tests.model_server import calls, text
from tests.surfaces.in_process_app import InProcessApp, open_app

OWN = '''
from pathlib import Path
from headway.agents.tools.custom import tool

@tool(idempotent=True, destructive=True)
def wipe_customer(name: str) -> str:
    """Wipes a customer."""
    (Path(__file__).parent / "wiped.txt").write_text(name)
    return "wiped"
'''
WIPE = {"kind": "tool", "name": "wipe_customer", "arguments": {"name": "acme"}}
COMMAND = {"kind": "command", "run": "touch ran.txt"}
DENY = tuple(f'tool = "{tool}"\ndecision = "deny"' for tool in ("wipe_customer", "run_command", "run_python"))
ALLOW_TOUCH = 'tool = "run_command"\ndecision = "allow"\n[rule.arguments]\ncommand = "touch *"'
COMPLETED = {"status": "completed"}
RULES = pytest.mark.parametrize("rules", [(), DENY], ids=["no rules", "denied"])
CHECKS = pytest.mark.parametrize("check", [WIPE, COMMAND], ids=["tool", "command"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(OWN)
    return tmp_path


def has_run(home: Path) -> bool:
    return (home / "tools" / "wiped.txt").exists() or any(home.rglob("ran.txt"))


def call_rest(home: Path, act: Callable[[InProcessApp], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_app(home, commands="touch,python3") as app:
            await act(app)

    asyncio.run(run())


async def add_checked(client: httpx.AsyncClient, check: dict[str, Any]) -> str:
    answer = await client.post("/v1/todos", json={"subject": "Ship it", "checks": [check]})
    return f"/v1/todos/{answer.json()['todo']['id']}"


@RULES
@CHECKS
def test_a_token_cannot_run_by_a_check_what_it_may_not_call(home: Path, check: dict[str, Any], rules: tuple[str, ...]) -> None:
    write_policy(home, *rules)

    async def complete_and_verify(app: InProcessApp) -> None:
        path = await add_checked(app.client, check)
        for refusal in (await app.client.patch(path, json=COMPLETED), await app.client.post(f"{path}/verify")):
            assert (refusal.status_code, refusal.json()["code"]) == (403, "forbidden")
            assert "was not changed" in refusal.json()["detail"]
            assert "policy.toml" in refusal.json()["detail"]
        todo = (await app.client.get(path)).json()["todo"]
        assert (todo["status"], todo["proof"]) == ("pending", "unproven")

    call_rest(home, complete_and_verify)
    assert not has_run(home)


def call_by_tool(client: httpx.AsyncClient, name: str, arguments: dict[str, Any], role: str) -> Awaitable[httpx.Response]:
    return client.post(f"/v1/tools/{name}", json={"arguments": arguments, "agent_id": "ada", "role": role})


@RULES
@CHECKS
def test_an_agent_from_outside_cannot_do_it_either(home: Path, check: dict[str, Any], rules: tuple[str, ...]) -> None:
    write_policy(home, *rules)

    async def add_and_complete(app: InProcessApp) -> None:
        added = await call_by_tool(app.client, "todo_add", {"subject": "Ship it", "checks": [check]}, "index")
        todo = added.json()["result"]["todo"]
        assert todo["checks"][0]["by"] == "agent"
        answer = (await call_by_tool(app.client, "todo_update", {"id": todo["id"], **COMPLETED}, "index")).json()
        assert answer["is_error"]
        assert "policy.toml" in answer["result"]["error"]

    call_rest(home, add_and_complete)
    assert not has_run(home)


@RULES
@CHECKS
def test_a_client_of_the_mcp_server_cannot_do_it_either(home: Path, check: dict[str, Any], rules: tuple[str, ...]) -> None:
    write_policy(home, *rules)

    async def add_and_complete(app: InProcessApp) -> None:
        headers = {"Authorization": f"Bearer {app.token.secret}"}
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app.app), headers=headers, timeout=30)
        transport = streamable_http_client("http://127.0.0.1/mcp?tools=all", http_client=http)
        async with http, McpClient(transport) as client:
            added = await client.call_tool("todo_add", {"subject": "Ship it", "checks": [check]})
            todo = get_structured(added)["todo"]
            assert (todo["checks"][0]["by"], todo["proof"]) == ("agent", "unproven")
            for update in (COMPLETED, {**COMPLETED, "outcome": "Shipped."}, {**COMPLETED, "checks": []}):
                refused = await client.call_tool("todo_update", {"id": todo["id"], **update})
                assert isinstance(refused, CallToolResult)
                assert refused.is_error
                assert not has_run(home)
            (kept,) = get_structured(await client.call_tool("todo_list", {}))["todos"]
            assert (kept["status"], kept["proof"]) == ("pending", "unproven")

    call_rest(home, add_and_complete)
    assert not has_run(home)


def get_structured(result: object) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    return result.structured_content or {}


def test_a_rule_lets_the_checks_of_tokens_run_programs_without_network(home: Path) -> None:
    (home / "agents").mkdir()
    (home / "agents" / "courier.toml").write_text('prompt = "You fetch."\nnetwork = true')
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        write_policy(home, ALLOW_TOUCH, 'tool = "run_command"\ndecision = "allow"\n[rule.arguments]\ncommand = "python3 *"')

        async def complete(app: InProcessApp) -> None:
            done = await app.client.patch(await add_checked(app.client, COMMAND), json=COMPLETED)
            assert done.json()["todo"]["proof"] == "proven"
            path = await add_checked(app.client, {"kind": "command", "run": f'python3 -c "{connect}"'})
            arguments = {"id": int(path.rpartition("/")[2]), **COMPLETED}
            answer = (await call_by_tool(app.client, "todo_update", arguments, "courier")).json()
            assert "Check failed: command python3" in answer["result"]["error"]

        call_rest(home, complete)
    assert has_run(home)


def test_a_tool_of_an_mcp_server_that_needs_approval_is_not_called(home: Path) -> None:
    made: list[str] = []

    async def complete(app: InProcessApp) -> None:
        toolbox = app.app.state.headway.toolbox
        toolbox.replace_extra("mcp:crm", [build_wipe_tool(toolbox.find("now"), made)])
        path = await add_checked(app.client, {"kind": "tool", "name": "crm__wipe"})
        assert (await app.client.patch(path, json=COMPLETED)).status_code == 403

    call_rest(home, complete)
    assert made == []


def build_wipe_tool(pattern: Tool, made: list[str]) -> Tool:
    def wipe(*_arguments: Any) -> dict[str, Any]:
        made.append("wiped")
        return {}

    return pattern._replace(
        name="crm__wipe", family="mcp:crm", server="crm", run=InTransaction(wipe), idempotent=True, needs_approval=True
    )


@pytest.mark.parametrize("by", ["person", "agent"])
@CHECKS
def test_a_schedule_runs_no_programs_and_nothing_that_needs_approval(
    sqlite_url: str, home: Path, check: dict[str, Any], by: str
) -> None:
    with open_talk(sqlite_url, home, text("Hello."), sweeping=True, commands="touch") as talk:
        todo = add_todo(talk, check, by=by)
        change, override = Change(status="completed"), Override("I looked.", "Ada")
        talk.database.write(lambda tx: todos.change_todo(tx, talk.tenant_id, todo.id, change, override=override))
        report = run_job(talk, "verify_todos", {}).as_json()["result"]
        assert (report["verified"], report["failed"]) == (0, [])
        assert "needs approval unless policy.toml allows it" in report["skipped"][0]["reason"]
        assert (get(talk, todo).proof, has_run(home)) == ("overridden", False)


# Runs and goals


def test_a_role_without_the_tool_cannot_run_it_as_a_check(sqlite_url: str, home: Path) -> None:
    (home / "agents").mkdir()
    (home / "agents" / "index.toml").write_text('tools = ["turn_plan"]')
    script = in_order(plan_with(COMMAND), complete_next, CANCEL, DONE)
    with open_talk(sqlite_url, home, script, commands="touch") as talk:
        talk.say()
        assert "the role index may not call run_command" in get_last_result(talk, 2)["error"]
        assert not has_run(home)


@pytest.mark.parametrize("by", ["person", "agent"])
def test_a_check_that_needs_approval_waits_for_it_in_a_turn(sqlite_url: str, home: Path, by: str) -> None:
    with open_talk(sqlite_url, home, text("")) as talk:
        todo = add_todo(talk, WIPE, by=by)
        talk.server.script = in_order(calls(("todo_update", {"id": todo.id, **COMPLETED})), DONE)
        talk.say()
        (approval,) = list_approvals(talk)
        assert (approval["tool"], approval["state"], has_run(home)) == ("run_checks", "proposed", False)
        decide_and_finish(talk, approval["id"], "approve")
        assert (get(talk, todo).proof, has_run(home)) == ("proven", True)


@pytest.mark.parametrize("by", ["person", "agent"])
@CHECKS
def test_the_policy_denies_checks_in_a_turn(sqlite_url: str, home: Path, check: dict[str, Any], by: str) -> None:
    write_policy(home, *DENY)
    with open_talk(sqlite_url, home, text(""), commands="touch") as talk:
        todo = add_todo(talk, check, by=by)
        talk.server.script = in_order(calls(("todo_update", {"id": todo.id, **COMPLETED})), DONE)
        talk.say()
        assert "is not allowed (policy.toml, line" in get_last_result(talk)["error"]
        assert (get(talk, todo).status, has_run(home)) == ("pending", False)


@RULES
def test_the_plan_of_a_goal_cannot_do_it_either(sqlite_url: str, home: Path, rules: tuple[str, ...]) -> None:
    write_policy(home, *rules)
    script = by_part({"dig": text("A hole.")}, plan=plan(checked(step, "dig", WIPE)))
    with open_pursuit(sqlite_url, home, script) as pursuit:
        pursuit.set_goal()
        goal = pursuit.wait_until_paused()
        assert (goal.pause_kind, has_run(home)) == ("escalation", False)
        assert "did not run: " in goal.pause_reason
        assert "policy.toml" in goal.pause_reason
        assert pursuit.sub_goal("dig").proof == "unproven"


def test_the_operators_checks_run_whatever_the_policy_says(sqlite_url: str, home: Path) -> None:
    write_policy(home, *DENY)
    with open_talk(sqlite_url, home, text("")) as talk:
        todo = add_todo(talk, COMMAND, by="operator")
        talk.server.script = in_order(calls(("todo_update", {"id": todo.id, **COMPLETED})), DONE)
        talk.say()
        assert (get(talk, todo).proof, has_run(home)) == ("proven", True)
