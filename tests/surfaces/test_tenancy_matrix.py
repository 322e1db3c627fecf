"""On every surface, an id of another tenant gets the same response, byte for byte, as an id that never existed.

Operations, tools and commands are enumerated from the OpenAPI document, the catalogue and the command line. A new one without a row
in this file fails the test.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from headway import settings
from headway.actions.access import tokens
from headway.actions.todos import conversations
from headway.process.assembly import Headway
from headway.storage.direct import DirectDatabase
from headway.surfaces.cli.main import headway as command_line
from headway.surfaces.http.app import WebApp
from headway.testing import TenantHarness
from tests.model_server import ModelServer, text
from tests.surfaces.openapi_routes import METHODS, Operation
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell
from tests.tenant_rows import Ids, fill_tenant, read_tenant_rows

UNKNOWN = Ids(
    todo=888_888_888_888_881,
    conversation=888_888_888_888_882,
    turn="7d444840-9dc0-11d1-b245-5ffdce74fad2",
    token=888_888_888_888_883,
    lease="7d4448409dc011d1b2455ffdce74fad9",
    key="nobody's",
    job="7d444840-9dc0-11d1-b245-5ffdce74fad3",
    schedule="nobody's daily",
    goal=888_888_888_888_884,
    sub_goal=888_888_888_888_885,
    plan_item="7d444840-9dc0-11d1-b245-5ffdce74fad4",
    approval=888_888_888_888_886,
    question=888_888_888_888_887,
    decision=888_888_888_888_892,
    memory=888_888_888_888_888,
    webhook="7d444840-9dc0-11d1-b245-5ffdce74fad5",
    file="7d4448409dc011d1b2455ffdce74fad6",
    comment=888_888_888_888_889,
    view=888_888_888_888_890,
    rule=888_888_888_888_891,
)
VARYING_HEADERS = ("date", "x-request-id", "ratelimit-remaining", "content-length")


def substitute_ids(theirs: Ids, response: str) -> str:
    """Replace the ids that never existed in a response with the other tenant's ids."""
    for name, unknown in vars(UNKNOWN).items():
        response = response.replace(str(unknown), str(getattr(theirs, name)))
    return response


# HTTP

PATHS: dict[str, Callable[[Ids], object]] = {
    "todo_id": lambda ids: ids.todo,
    "goal_id": lambda ids: ids.goal,
    "request_id": lambda ids: ids.approval,
    "approval_id": lambda ids: ids.approval,
    "question_id": lambda ids: ids.question,
    "entry_id": lambda ids: ids.memory,
    "comment_id": lambda ids: ids.comment,
    "view_id": lambda ids: ids.view,
    "token_id": lambda ids: ids.token,
    "conversation_id": lambda ids: ids.conversation,
    "turn_id": lambda ids: ids.turn,
    "other": lambda ids: ids.turn,
    "job_id": lambda ids: ids.job,
    "run_id": lambda ids: ids.job,
    "webhook_id": lambda ids: ids.webhook,
    "file_id": lambda ids: ids.file,
    "name": lambda ids: ids.schedule,
    "key": lambda ids: ids.key,
    "response_id": lambda ids: f"resp_{ids.turn}",
    "model": lambda _ids: "index",
    "tier": lambda _ids: "best",
    "n": lambda _ids: 1,
}
QUERIES: dict[str, Callable[[Ids], object]] = {
    "conversation_id": lambda ids: ids.conversation,
    "turn_id": lambda ids: ids.turn,
    "goal_id": lambda ids: ids.goal,
    "sub_goal_id": lambda ids: ids.sub_goal,
    "lease_token": lambda ids: ids.lease,
    "force": lambda _ids: "true",
}
# Filters on the caller's own rows.
NO_ID_QUERIES = {
    "limit",
    "cursor",
    "before",
    "after",
    "status",
    "state",
    "agent_id",
    "wait",
    "q",
    "kind",
    "action",
    "since",
    "sort",
    "disconnect",
    "key",
    "cron",
    "timezone",
    "every_s",
    "priority",
    "label",
    "due_before",
    "overdue",
    "days",
    "by",
    "sdk",
    "own",
    "proof",
    "role",
    "path",
    "version",
    "from",
    "to",
    "who",
    "target",
    "until",
    "plan",
    "columns",
    "waiting",
}
HELLO = [{"role": "user", "content": "hello"}]
BODIES: dict[tuple[str, str], Callable[[Ids], list[Any]]] = {
    ("POST", "/v1/todos"): lambda ids: [
        {"subject": "x", "conversation_id": ids.conversation},
        {"subject": "x", "turn_id": ids.turn},
        {"subject": "x", "depends_on": [ids.todo]},
        {"todos": [{"subject": "x"}, {"subject": "x", "depends_on": [ids.todo]}]},
    ],
    ("PATCH", "/v1/todos"): lambda ids: [
        [{"id": ids.todo, "status": "completed", "force": True}],
        [{"id": ids.todo, "lease_token": ids.lease, "subject": "x"}],
    ],
    ("PATCH", "/v1/todos/{todo_id}"): lambda ids: [
        {"status": "completed", "force": True},
        {"status": "completed", "lease_token": ids.lease},
        {"depends_on": [ids.todo]},
        {"before": ids.todo},
        {},
    ],
    ("POST", "/v1/todos/claim"): lambda ids: [{"agent_id": "ada", "conversation_id": ids.conversation}],
    ("POST", "/v1/todos/{todo_id}/heartbeat"): lambda ids: [{"lease_token": ids.lease}, {"lease_token": "guessed"}],
    ("POST", "/v1/todos/{todo_id}/comments"): lambda ids: [{"text": "x"}],
    ("PATCH", "/v1/todos/{todo_id}/comments/{comment_id}"): lambda ids: [{"text": "x"}],
    ("PATCH", "/v1/views/{view_id}"): lambda ids: [{"name": "x"}, {"filters": {}, "revision": 0}, {}],
    ("POST", "/v1/turns"): lambda ids: [{"conversation_id": ids.conversation}],
    ("POST", "/v1/conversations/{conversation_id}/messages"): lambda ids: [
        {"content": "hello"},
        {"content": "hello", "mode": "queue"},
    ],
    ("POST", "/v1/turns/{turn_id}/messages"): lambda ids: [{"content": "hello"}],
    ("POST", "/v1/turns/{turn_id}/stop"): lambda ids: [{}, {"answer": "done"}],
    ("POST", "/v1/agents/{run_id}/messages"): lambda ids: [{"content": "hello"}],
    ("POST", "/v1/turns/{turn_id}/fork"): lambda ids: [{"at": 0}, {"at": 1, "message": "x", "live": True}],
    ("POST", "/v1/conversations/{conversation_id}/fork"): lambda ids: [{"at": 1}],
    ("PATCH", "/v1/conversations/{conversation_id}"): lambda ids: [{"title": "x"}],
    ("PATCH", "/v1/goals/{goal_id}"): lambda ids: [{"priority": 1}, {"description": "x", "budget_usd": 1.0}],
    ("POST", "/v1/goals/{goal_id}/fork"): lambda ids: [{"at": 1}],
    ("POST", "/v1/goals/{goal_id}/decision"): lambda ids: [{"action": "abandon"}, {"action": "replan", "note": "x"}],
    ("POST", "/v1/inbox/{request_id}"): lambda ids: [{"decision": "approve"}, {"decision": "reject"}, {"answer": "blue"}],
    ("POST", "/v1/approvals/{approval_id}"): lambda ids: [
        {"decision": "approve"},
        {"decision": "approve", "arguments": {}, "always": True},
        {"decision": "reject", "reason": "x"},
    ],
    ("POST", "/v1/questions/{question_id}"): lambda ids: [{"answer": "blue"}],
    ("POST", "/v1/tokens/{token_id}/rotate"): lambda ids: [{"overlap_s": 0}, {}],
    ("POST", "/v1/webhooks"): lambda ids: [
        {"url": "https://example.com", "conversation_id": ids.conversation},
        {"url": "https://example.com", "goal_id": ids.goal},
    ],
    ("PATCH", "/v1/webhooks/{webhook_id}"): lambda ids: [{"paused": True}, {"conversation_id": ids.conversation}, {}],
    ("POST", "/v1/webhooks/{webhook_id}/rotate"): lambda ids: [{}],
    ("POST", "/v1/webhooks/{webhook_id}/replay"): lambda ids: [{"after": 0}],
    ("POST", "/v1/jobs/dead"): lambda ids: [{"action": "drop", "ids": [ids.job]}, {"action": "retry", "ids": [ids.job]}],
    ("POST", "/v1/notices/done"): lambda ids: [{"ids": [ids.todo]}, {"ids": [ids.goal], "done": False}],
    ("POST", "/v1/memory"): lambda ids: [{"text": "x", "conversation_id": ids.conversation}],
    ("PATCH", "/v1/memory/{entry_id}"): lambda ids: [{"text": "x"}, {"kind": "x", "revision": 7}, {}],
    ("PUT", "/v1/schedules/{name}"): lambda ids: [
        {"every_s": 60, "message": {"conversation_id": ids.conversation, "content": "go"}},
        {"every_s": 60, "tool": {"name": "now", "conversation_id": ids.conversation}},
    ],
    ("PATCH", "/v1/schedules/{name}"): lambda ids: [{"paused": True}, {"cron": "0 6 * * *"}, {"name": "mine"}, {}],
    ("POST", "/v1/tools/{name}"): lambda ids: [],  # each tool is tested below
    ("POST", "/v1/writs"): lambda ids: [
        {"text": f"/todo done {ids.todo}"},
        {"text": f"/todo subject {ids.todo}: x\n/todo start {ids.todo}\n/todo cancel {ids.todo}\n/todo describe {ids.todo}: x"},
        {"text": f"/schedule rm {ids.schedule}"},
        {"text": f"/agent researcher {ids.job}"},
        {"text": "/todo list", "conversation_id": ids.conversation},
        {"text": "/todo list", "turn_id": ids.turn},
    ],
    ("POST", "/v1/responses"): lambda ids: [
        {"model": "index", "input": "hello", "previous_response_id": f"resp_{ids.turn}"},
        {"model": "index", "input": "hello", "previous_response_id": ids.turn, "background": True},
    ],
    # These refer to no row by id. Conversation keys are per tenant; a separate test uses another tenant's key.
    ("POST", "/v1/ag-ui"): lambda ids: [],
    ("POST", "/v1/ui-stream"): lambda ids: [],
    ("POST", "/v1/chat/completions"): lambda ids: [],
    ("POST", "/v1/conversations"): lambda ids: [],
    ("POST", "/v1/goals"): lambda ids: [],
    ("POST", "/v1/views"): lambda ids: [],
    ("POST", "/v1/tokens"): lambda ids: [],
    ("POST", "/v1/tenants"): lambda ids: [],
    ("POST", "/v1/tiers/{tier}/try"): lambda ids: [],
    ("POST", "/v1/policy/test"): lambda ids: [],
    ("PUT", "/v1/halt"): lambda ids: [],
    ("PUT", "/v1/costs"): lambda ids: [],
}


def build_requests(operation: Operation, ids: Ids) -> Iterator[tuple[Any, ...]]:
    """Yield every request with which an operation can refer to a row: by path, query, body or header."""
    path = re.sub(r"\{(\w+)\}", lambda match: str(PATHS[match[1]](ids)), operation.path)
    parameters = [parameter["name"] for parameter in operation.definition.get("parameters", ()) if parameter["in"] == "query"]
    assert set(parameters) <= set(QUERIES) | NO_ID_QUERIES, (
        f"{operation.method} {operation.path} asks for something that has no row here"
    )
    bodies = BODIES[operation.method, operation.path](ids) if operation.takes_body else [None]
    for body in bodies:
        queries = [{name: QUERIES[name](ids)} for name in parameters if name in QUERIES] if body is None else []
        for query in [*queries, *([{}] if path != operation.path or body is not None else [])]:
            yield operation.method, path, query, body
    if any(parameter["name"] == "Headway-Conversation" for parameter in operation.definition.get("parameters", ())):
        body = {"model": "index", "messages": HELLO, "input": HELLO}
        yield operation.method, path, {}, body, {"Headway-Conversation": str(ids.conversation)}


class Visitor:
    """A client of another tenant. Its app runs in this process and runs only the jobs that the client started."""

    def __init__(self, app: WebApp, desk: TenantHarness, client: httpx.AsyncClient) -> None:
        self.app = app
        self.desk = desk
        self.client = client

    def operations(self) -> list[Operation]:
        paths = self.app.openapi()["paths"].items()
        return [
            Operation(method.upper(), path, definition)
            for path, methods in paths
            for method, definition in methods.items()
            if method.upper() in METHODS
        ]

    async def ask(self, method: str, path: str, query: Any, body: Any, headers: dict[str, str] | None = None) -> tuple[Any, ...]:
        answer = await self.client.request(method, path, params=query, json=body, headers=headers)
        stable_headers = sorted((name, value) for name, value in answer.headers.items() if name not in VARYING_HEADERS)
        return answer.status_code, answer.text, stable_headers

    async def compare(self, theirs: tuple[Any, ...], unknown: tuple[Any, ...], foreign: Ids) -> None:
        foreign_response, unknown_response = await self.ask(*theirs), await self.ask(*unknown)
        assert foreign_response == (unknown_response[0], substitute_ids(foreign, unknown_response[1]), unknown_response[2]), theirs


@asynccontextmanager
async def open_visitor(url: str, folder: Path) -> AsyncIterator[Visitor]:
    headway = Headway(settings.load({"home": str(folder), "database_url": url}))
    app = WebApp(headway)
    headway.start()
    headway.start_agents(alone=True)
    await headway.agents_ready()
    mcp_task = asyncio.create_task(app.mcp.keep())
    with DirectDatabase(url) as database:
        desk = TenantHarness(database, "visitor")
        bearer = {"Authorization": f"Bearer {desk.write(tokens.create_token, scope='admin').secret}"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=bearer) as client:
            yield Visitor(app, desk, client)
    mcp_task.cancel()
    with suppress(asyncio.CancelledError):
        await mcp_task
    await headway.stop_agents()
    headway.close()


def test_every_operation_answers_the_same_for_foreign_and_unknown_ids(database_url: str, tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with open_visitor(database_url, tmp_path) as visitor:
            owner = TenantHarness(visitor.desk.database, "owner")
            foreign = fill_tenant(owner)
            before = read_tenant_rows(owner)
            count = 0
            for operation in visitor.operations():
                pairs = zip(build_requests(operation, foreign), build_requests(operation, UNKNOWN), strict=True)
                for theirs, unknown in pairs:
                    await visitor.compare(theirs, unknown, foreign)
                    count += 1
            assert count > 50
            assert read_tenant_rows(owner) == before

    asyncio.run(run_scenario())


# Tools, over REST and over MCP

TOOLS: dict[str, Callable[[Ids], list[dict[str, Any]]]] = {
    "create_todo": lambda ids: [{"items": [{"title": "x"}]}],
    "list_todo": lambda ids: [{}],
    "start_todo": lambda ids: [{"todoId": ids.plan_item}, {"todoId": str(ids.todo)}],
    "complete_todo": lambda ids: [{"todoId": ids.plan_item, "outcome": "x"}, {"todoId": ids.plan_item, "status": "cancelled"}],
    "manage_todos": lambda ids: [{"delete": [ids.todo]}],
    "write_todos": lambda ids: [{"todos": []}],
    "TodoWrite": lambda ids: [{"todos": []}],
    "update_plan": lambda ids: [{"plan": []}],
    "ListTasks": lambda ids: [{}],
    "AddTask": lambda ids: [{"title": "x"}],
    "CompleteTask": lambda ids: [{"taskId": "1"}],
    "UncompleteTask": lambda ids: [{"taskId": "1"}],
    "DeleteTask": lambda ids: [{"taskId": "1"}],
    "todo_add": lambda ids: [{"subject": "x", "depends_on": [ids.todo]}],
    "todo_list": lambda ids: [{}],
    "todo_update": lambda ids: [
        {"id": ids.todo, "status": "completed"},
        {"id": ids.todo, "subject": "x", "lease_token": ids.lease},
    ],
    "todo_ready": lambda ids: [{}],
    "todo_claim": lambda ids: [{}, {"agent_id": "ada"}],
}


def build_calls(name: str, ids: Ids, own: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield (scope, arguments): `ids` as arguments in the caller's scope, and `ids` as the scope. Keys are looked up like ids."""
    for arguments in TOOLS[name](ids):
        if any(str(value) in str(arguments) for value in (ids.todo, ids.plan_item)):
            yield own, arguments
        yield {"conversation": ids.conversation}, arguments
        yield {"conversation": ids.key}, arguments
        yield {"turn": ids.turn}, arguments


def rest_request(name: str, where: dict[str, Any], arguments: dict[str, Any]) -> tuple[Any, ...] | None:
    if isinstance(where.get("conversation"), str):
        return None  # REST takes no conversation keys
    return "POST", f"/v1/tools/{name}", None, {"arguments": arguments, **{f"{kind}_id": value for kind, value in where.items()}}


def mcp_request(method: str, parameters: dict[str, Any], where: dict[str, Any]) -> tuple[Any, ...]:
    headers = {f"Headway-{kind}": str(value) for kind, value in where.items()}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return "POST", "/mcp", {"tools": "all"}, body, {"Accept": "application/json, text/event-stream", **headers}


def test_every_tool_answers_the_same_for_foreign_and_unknown_ids(sqlite_url: str, tmp_path: Path) -> None:
    async def run_scenario() -> None:
        async with open_visitor(sqlite_url, tmp_path) as visitor:
            owner = TenantHarness(visitor.desk.database, "owner")
            foreign, mine = fill_tenant(owner), visitor.desk.conversation()
            before = read_tenant_rows(owner)
            own = {"conversation": mine.id, "turn": visitor.desk.write(conversations.open_turn, mine.id).id}
            assert {tool["name"] for tool in visitor.app.headway.remote_tools.catalogue()} == set(TOOLS)
            for name in TOOLS:
                for theirs, unknown in zip(build_calls(name, foreign, own), build_calls(name, UNKNOWN, own), strict=True):
                    rest = rest_request(name, *theirs), rest_request(name, *unknown)
                    if not rest[0] or not rest[1]:
                        continue  # a key, which is a word like any other: each tenant has its own
                    await visitor.compare(rest[0], rest[1], foreign)
                    mcp = [
                        mcp_request("tools/call", {"name": name, "arguments": tool_call[1]}, tool_call[0])
                        for tool_call in (theirs, unknown)
                    ]
                    await visitor.compare(mcp[0], mcp[1], foreign)
            for where in ("todo", "conversation"):
                uris = [f"headway://todos/{getattr(ids, where)}" for ids in (foreign, UNKNOWN)]
                read = [mcp_request("resources/read", {"uri": uri}, {}) for uri in uris]
                await visitor.compare(read[0], read[1], foreign)
            assert read_tenant_rows(owner) == before

    asyncio.run(run_scenario())


def test_anothers_key_is_a_word_like_any_other(sqlite_chat_service: Service, model: ModelServer) -> None:
    """Front ends refer to conversations by key, and each tenant has its own keys."""
    model.script = lambda _request: text("hello")
    with sqlite_chat_service.tenant() as owner, sqlite_chat_service.tenant() as visitor:
        owner.conversation(key="shared word", title="a secret")
        before = read_tenant_rows(owner.desk)
        for path, body in (
            ("/v1/ag-ui", {"threadId": "shared word", "runId": "1", "messages": HELLO}),
            ("/v1/ui-stream", {"id": "shared word", "messages": HELLO}),
            ("/v1/chat/completions", {"model": "index", "user": "shared word", "messages": HELLO}),
            ("/v1/responses", {"model": "index", "conversation": "shared word", "input": HELLO}),
        ):
            answer = visitor.post(path, json=body)
            assert answer.status_code == 200
            assert "a secret" not in answer.text
        (conversation,) = visitor.ok("GET", "/v1/conversations")["conversations"]
        assert (conversation["key"], conversation["title"]) == ("shared word", "hello")
        assert without_tokens(read_tenant_rows(owner.desk)) == without_tokens(before)


def without_tokens(rows: dict[str, Any]) -> dict[str, Any]:
    return {table: values for table, values in rows.items() if table != "tokens"}


# The command line


def conversation_flags(ids: Ids, *arguments: str) -> list[list[str]]:
    return [[*arguments, "--conversation", f"{ids.conversation}"], [*arguments, "--conversation", ids.key]]


COMMANDS: dict[str, Callable[[Ids], list[list[str]]]] = {
    "todo add": lambda ids: [["x", "--after", f"{ids.todo}"], ["x", "--turn", ids.turn], *conversation_flags(ids, "x")],
    "todo cancel": lambda ids: [[f"{ids.todo}"], [f"{ids.todo}", "--lease-token", ids.lease], [f"{ids.todo}", "--force"]],
    "todo claim": lambda ids: conversation_flags(ids, "--agent", "ada"),
    "todo done": lambda ids: [[f"{ids.todo}", "--force"], [f"{ids.todo}", "--lease-token", ids.lease]],
    "todo edit": lambda ids: [[f"{ids.todo}", "--subject", "x"], [f"{ids.todo}", "--force", "--after", f"{ids.todo}"]],
    "todo export": conversation_flags,
    "todo heartbeat": lambda ids: [[f"{ids.todo}", "--lease-token", ids.lease]],
    "todo import": lambda ids: conversation_flags(ids, "-"),
    "todo list": lambda ids: [["--turn", ids.turn], *conversation_flags(ids)],
    "todo ready": conversation_flags,
    "todo reopen": lambda ids: [[f"{ids.todo}", "--force"]],
    "todo rm": lambda ids: [[f"{ids.todo}", "--yes", "--force"], [f"{ids.todo}", "--lease-token", ids.lease]],
    "todo show": lambda ids: [[f"{ids.todo}"]],
    "todo verify": lambda ids: [[f"{ids.todo}"]],
    "todo start": lambda ids: [[f"{ids.todo}", "--force"]],
    "goal abandon": lambda ids: [[f"{ids.goal}", "--yes"]],
    "goal decide": lambda ids: [[f"{ids.goal}", "abandon"]],
    "goal pause": lambda ids: [[f"{ids.goal}"]],
    "goal resume": lambda ids: [[f"{ids.goal}"]],
    "goal show": lambda ids: [[f"{ids.goal}"]],
    "goal watch": lambda ids: [[f"{ids.goal}"]],
    "goal why": lambda ids: [[f"{ids.goal}"], [f"{ids.goal}", "--sub-goal", f"{ids.sub_goal}"]],
    "token rotate": lambda ids: [[f"{ids.token}"], [f"{ids.token}", "--overlap", "0"]],
    "token rm": lambda ids: [[f"{ids.token}"]],
    "inbox approve": lambda ids: [
        [f"{ids.approval}"],
        [f"{ids.approval}", "--args", "{}"],
        [f"{ids.approval}", "--always"],
    ],
    "inbox reject": lambda ids: [[f"{ids.approval}", "--reason", "x"]],
    "inbox answer": lambda ids: [[f"{ids.question}", "blue"], [f"{ids.decision}", "abandon"]],
    "inbox show": lambda ids: [[f"{ids.approval}"], [f"{ids.question}"]],
    "file diff": lambda ids: [[ids.file], [ids.file, "--from", "0"]],
    "file get": lambda ids: [[ids.file], [ids.file, "--version", "1"]],
    "file list": lambda ids: [["--turn", ids.turn], ["--goal", f"{ids.goal}"], *conversation_flags(ids)],
    "file show": lambda ids: [[ids.file]],
    "memory add": lambda ids: conversation_flags(ids, "x"),
    "memory edit": lambda ids: [[f"{ids.memory}", "--text", "x"]],
    "memory list": conversation_flags,
    "memory rm": lambda ids: [[f"{ids.memory}", "--yes"]],
    "memory search": lambda ids: conversation_flags(ids, "door"),
    "memory show": lambda ids: [[f"{ids.memory}"]],
    "agent cancel": lambda ids: [[ids.job]],
    "agent list": lambda ids: [["--turn", ids.turn], ["--goal", f"{ids.goal}"]],
    "agent show": lambda ids: [[ids.job]],
    "admin job cancel": lambda ids: [[ids.job]],
    "admin job rm": lambda ids: [[ids.job, "--yes"]],
    "admin job retry": lambda ids: [[ids.job]],
    "admin job show": lambda ids: [[ids.job]],
    "webhook add": lambda ids: [
        ["https://example.com", "--from-conversation", f"{ids.conversation}"],
        ["https://example.com", "--from-goal", f"{ids.goal}"],
    ],
    "webhook edit": lambda ids: [[ids.webhook, "--pause"]],
    "webhook replay": lambda ids: [[ids.webhook, "--after", "0"]],
    "webhook rm": lambda ids: [[ids.webhook, "--yes"]],
    "webhook rotate": lambda ids: [[ids.webhook]],
    "webhook show": lambda ids: [[ids.webhook]],
    "webhook test": lambda ids: [[ids.webhook]],
    "schedule edit": lambda ids: [[ids.schedule, "--cron", "0 6 * * *"], [ids.schedule, "--rename", "mine"]],
    "schedule pause": lambda ids: [[ids.schedule]],
    "schedule add": lambda ids: conversation_flags(ids, "mine", "--every", "1h", "--message", "go"),
    "schedule resume": lambda ids: [[ids.schedule]],
    "schedule rm": lambda ids: [[ids.schedule]],
    "schedule run": lambda ids: [[ids.schedule]],
    "chat": lambda ids: conversation_flags(ids, "hello"),
    "mcp": lambda ids: [["--turn", ids.turn], ["--conversation", f"{ids.conversation}"]],  # a key would be given to a new one
    "eval record": lambda ids: [[ids.turn, "--suite", "/nonexistent/cases.toml"]],
    "turn cancel": lambda ids: [[ids.turn]],
    "turn show": lambda ids: [[ids.turn]],
    "turn fork": lambda ids: [[ids.turn, "--at", "0"]],
    "turn diff": lambda ids: [[ids.turn, ids.turn]],
    "conversation show": lambda ids: [[f"{ids.conversation}"]],
    "conversation rename": lambda ids: [[f"{ids.conversation}", "x"]],
    "conversation rm": lambda ids: [[f"{ids.conversation}"]],
    "conversation restore": lambda ids: [[f"{ids.conversation}"]],
    "conversation fork": lambda ids: [[f"{ids.conversation}", "--at", "1"]],
    "goal fork": lambda ids: [[f"{ids.goal}", "--at", "1"]],
    "goal edit": lambda ids: [[f"{ids.goal}", "--priority", "1"]],
    "goal again": lambda ids: [[f"{ids.goal}", "--no-wait"]],
    "goal plans": lambda ids: [[f"{ids.goal}"]],
    "turn send": lambda ids: [[ids.turn, "hello"]],
    "why": lambda ids: [
        ["todo", f"{ids.todo}"],
        ["turn", ids.turn],
        [f"goal:{ids.goal}"],
        [ids.job],
        [ids.turn],
        ["goal", f"{ids.goal}", "--sub-goal", f"{ids.sub_goal}"],
    ],
    "agent send": lambda ids: [[ids.job, "hello"]],
}
NO_ID_COMMANDS = {
    "settings",
    *(
        "goal add",
        "goal list",
        "conversation list",
        "conversation add",
        "conversation search",
        "admin tenant add",
        "admin tenant list",
        "admin tenant rm",
    ),
    *(
        "admin tenant show",
        "admin tenant export",
        "admin tenant move",
        "admin cell add",
        "admin cell list",
        "admin cell rm",
        "admin cell show",
    ),
    *(
        "token list",
        "token add",
        "admin job list",
        "admin job stats",
        "worker list",
        "acp",
        "schedule list",
        "schedule preview",
        "webhook list",
        "costs",
        "halt",
        "unhalt",
        "admin audit",
        "doctor",
        "serve",
        "login",
        "worker",
        "demo",
    ),
    *("eval run", "mcp install", "mcp uninstall", "backup", "restore"),
    *("inbox list", "tool list", "tool call", "completion", "trust"),
    *("guard install", "guard uninstall", "guard add", "guard list", "guard rm", "guard status", "guard hook"),
}


def list_commands(command: click.Command, path: str = "") -> Iterator[str]:
    context = click.Context(command)
    if not isinstance(command, click.Group):
        yield path.strip()
        return
    if command.invoke_without_command:
        yield path.strip()
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from list_commands(below, f"{path} {name}")


def test_every_command_is_in_the_matrix() -> None:
    assert set(list_commands(command_line)) == set(COMMANDS) | NO_ID_COMMANDS


def test_every_command_answers_the_same_for_foreign_and_unknown_ids(headway: Shell) -> None:
    headway.ok("tenant", "add", "visitor")
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        owner = TenantHarness(database, "owner")
        foreign = fill_tenant(owner)
        before = read_tenant_rows(owner)
        for command, ways in COMMANDS.items():
            for theirs, unknown in zip(ways(foreign), ways(UNKNOWN), strict=True):
                foreign_response = headway(*command.split(), *theirs, "--tenant", "visitor")
                unknown_response = headway(*command.split(), *unknown, "--tenant", "visitor")
                assert foreign_response.code == unknown_response.code, (command, theirs, foreign_response)
                assert (foreign_response.out, foreign_response.err) == (
                    substitute_ids(foreign, unknown_response.out),
                    substitute_ids(foreign, unknown_response.err),
                ), theirs
        assert read_tenant_rows(owner) == before


# The page


@pytest.mark.parametrize("path", ["/c/{}", "/goals/{}"])
def test_a_page_is_the_same_shell_whosever_it_is(sqlite_client: Client, path: str) -> None:
    mine, unknown = (
        sqlite_client.get(path.format(sqlite_client.conversation())),
        sqlite_client.get(path.format(UNKNOWN.conversation)),
    )
    assert (mine.status_code, mine.text) == (unknown.status_code, unknown.text)
    assert json.dumps(sqlite_client.desk.tenant.name) not in mine.text
