"""/v1/tokens, and what a token that may only read can do on every surface."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
import httpx2
import pytest
from mcp import Client as McpClient
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from headway.actions.access import tokens
from headway.agents.instructions.roles import READING_TOOLS
from headway.ledger.tenancy import TokenScope
from tests.surfaces.event_stream import open_stream
from tests.surfaces.openapi_routes import list_operations
from tests.surfaces.server_harness import LOCAL_OPTIONS, PATIENCE_S, Client, Service, admin_headers, check_problem
from tests.tenant_rows import read_tenant_rows


@contextmanager
def acting(client: Client, scope: TokenScope, lifetime_s: float | None = None) -> Iterator[int]:
    """Let the client use another token of its tenant. Yields the token's id."""
    before = client.headers["Authorization"]
    created = client.desk.write(tokens.create_token, f"{scope} token", lifetime_s, scope)
    client.headers["Authorization"] = f"Bearer {created.secret}"
    yield created.token.id
    client.headers["Authorization"] = before


def status_with(client: Client, secret: str) -> int:
    return client.get("/v1/session", headers={"Authorization": f"Bearer {secret}"}).status_code


# Tokens that may only read


def test_a_read_only_token_is_refused_whatever_would_change_something(sqlite_client: Client) -> None:
    todo = sqlite_client.add("ours")
    refused = 0
    with acting(sqlite_client, "read"):
        before = read_tenant_rows(sqlite_client.desk)
        for operation in list_operations(sqlite_client):
            if operation.method != "GET" and operation.path.startswith("/v1/"):
                answer = sqlite_client.request(operation.method, operation.at(todo["id"]), json={"subject": "x"})
                document = answer.json()
                code = document.get("error", document)["code"]
                assert code in ("read_only_token", "forbidden", "operator_only"), (operation.path, answer.text)
                check_problem(answer, 403)
                refused += 1
        after = read_tenant_rows(sqlite_client.desk)
    assert refused > 40
    assert {table for table in before if before[table] != after[table]} <= {"tokens"}, "the last use of the token"


def test_a_read_only_token_reads_lists_streams_and_reading_tools(sqlite_client: Client) -> None:
    sqlite_client.add("ours")
    conversation = sqlite_client.conversation()
    turn = sqlite_client.turn(conversation)
    with acting(sqlite_client, "read"):
        assert sqlite_client.subjects() == ["ours"]
        assert sqlite_client.ok("GET", "/v1/session")["session"]["scopes"] == ["read"]
        with open_stream(sqlite_client, "/v1/events?after=0") as stream:
            assert [event.event for event in stream.take(1)] == ["todo_changed"]
        for name in sorted(READING_TOOLS):
            body = {"arguments": {}, "turn_id": turn, "conversation_id": conversation}
            assert not sqlite_client.ok("POST", f"/v1/tools/{name}", json=body)["is_error"], name


def test_a_read_only_token_over_mcp_calls_the_reading_tools_alone(sqlite_client: Client) -> None:
    sqlite_client.add("ours")
    secret = sqlite_client.desk.write(tokens.create_token, scope="read").secret

    async def run_scenario() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=PATIENCE_S) as http,
            McpClient(streamable_http_client(f"{sqlite_client.base_url}/mcp", http_client=http)) as connected,
        ):
            listed: Any = await connected.call_tool("todo_list", {})
            assert [todo["subject"] for todo in listed.structured_content["todos"]] == ["ours"]
            (resource,) = (await connected.read_resource("headway://todos/open")).contents
            assert "ours" in str(resource)
            for tool in (await connected.list_tools()).tools:
                if tool.name not in READING_TOOLS:
                    with pytest.raises(MCPError, match="may only read"):
                        await connected.call_tool(tool.name, {"subject": "x"})

    asyncio.run(run_scenario())
    assert sqlite_client.subjects() == ["ours"]


def test_the_reading_tools_change_nothing(sqlite_client: Client) -> None:
    conversation = sqlite_client.conversation()
    turn = sqlite_client.turn(conversation)
    before = read_tenant_rows(sqlite_client.desk)
    for name in READING_TOOLS:
        sqlite_client.ok("POST", f"/v1/tools/{name}", json={"arguments": {}, "turn_id": turn, "conversation_id": conversation})

    assert read_tenant_rows(sqlite_client.desk) == before


def test_a_read_only_session_can_sign_out(sqlite_client: Client) -> None:
    secret = sqlite_client.desk.write(tokens.create_token, scope="read").secret
    origin = {"Origin": str(sqlite_client.base_url).rstrip("/")}
    with httpx.Client(base_url=sqlite_client.base_url, **LOCAL_OPTIONS) as visitor:
        assert visitor.post("/login", json={"token": secret}, headers=origin).status_code == 204
        assert visitor.get("/v1/todos").status_code == 200
        check_problem(visitor.post("/v1/todos", json={"subject": "x"}, headers=origin), 403, "read_only_token")
        assert visitor.post("/logout", headers=origin).status_code == 303


# Management by administrators


def test_an_administrator_creates_lists_rotates_and_revokes_the_tokens_of_its_tenant(client: Client, service: Service) -> None:
    with service.tenant() as stranger, acting(client, "admin") as admin_id:
        created = client.ok("POST", "/v1/tokens", 201, json={"label": "ci", "scopes": ["read"], "expires_s": 3600})
        token = created["token"]
        assert (token["label"], token["scopes"], token["expires_at"] - token["created_at"]) == ("ci", ["read"], 3600)
        assert status_with(client, created["secret"]) == 200
        rotated = client.ok("POST", f"/v1/tokens/{token['id']}/rotate", 201, json={"overlap_s": 60})
        assert rotated["replaced"]["replaced_by"] == rotated["token"]["id"]
        assert rotated["replaced"]["expires_at"] < token["expires_at"]
        assert [status_with(client, secret) for secret in (created["secret"], rotated["secret"])] == [200, 200]
        assert client.ok("DELETE", f"/v1/tokens/{token['id']}")["token"]["revoked_at"] > 0
        assert [status_with(client, secret) for secret in (created["secret"], rotated["secret"])] == [401, 200]
        client.refused("DELETE", f"/v1/tokens/{stranger.token_id}", 404, "not_found")

        first = client.ok("GET", "/v1/tokens", params={"limit": 2})
        rest = client.ok("GET", "/v1/tokens", params={"limit": 2, "cursor": first["next_cursor"]})
        assert [token["id"] for token in (*first["tokens"], *rest["tokens"])] == [
            rotated["token"]["id"],
            token["id"],
            admin_id,
            client.token_id,
        ]
        assert rest["next_cursor"] is None
        assert created["secret"] not in json.dumps([first, rest])


@pytest.mark.parametrize("scope", ["read", "write"])
def test_other_tokens_manage_none(sqlite_client: Client, scope: TokenScope) -> None:
    with acting(sqlite_client, scope) as own_id:
        for method, path in (
            ("GET", "/v1/tokens"),
            ("POST", "/v1/tokens"),
            ("POST", f"/v1/tokens/{own_id}/rotate"),
            ("DELETE", f"/v1/tokens/{sqlite_client.token_id}"),
        ):
            answer = sqlite_client.request(method, path, json=None if method in ("GET", "DELETE") else {})
            assert answer.status_code == 403, (method, path, answer.text)
    assert sqlite_client.desk.count("tokens") == 2


def test_an_administrator_can_neither_make_nor_replace_nor_end_an_operators_token(sqlite_service: Service) -> None:
    with sqlite_service.operator() as operator:
        created = operator.ok("POST", "/v1/tokens", 201, json={"label": "ops", "scopes": ["operator"]})
        path, headers = f"/v1/tokens/{created['token']['id']}", admin_headers(operator)
        operator.refused("POST", "/v1/tokens", 403, "operator_only", json={"scopes": ["operator"]}, headers=headers)
        operator.refused("POST", f"{path}/rotate", 403, "operator_only", json={}, headers=headers)
        operator.refused("DELETE", path, 403, "operator_only", headers=headers)
        assert status_with(operator, created["secret"]) == 200
        assert operator.ok("POST", f"{path}/rotate", 201, json={"overlap_s": 0})["token"]["operator"]


def test_no_other_tenant_gets_an_operators_token(sqlite_client: Client) -> None:
    """Not even a row that should not exist gives a tenant the operator's rights."""
    with acting(sqlite_client, "admin") as token_id:
        sqlite_client.refused("POST", "/v1/tokens", 403, "operator_only", json={"scopes": ["operator"]})
        sqlite_client.desk.database.write(
            lambda tx: tx.run("UPDATE tokens SET scopes = 'read,write,admin,operator' WHERE id = ?", token_id)
        )
        for method, path, body in (
            ("PUT", "/v1/halt", {}),
            ("PUT", "/v1/costs", {"limit_usd": 1_000_000}),
            ("GET", "/v1/tenants", None),
            ("POST", "/v1/tokens", {"scopes": ["operator"]}),
            ("POST", "/v1/todos", {"subject": "x", "checks": [{"kind": "file", "path": "x", "folder": "/srv"}]}),
        ):
            sqlite_client.refused(method, path, 403, "operator_only", json=body)
        assert sqlite_client.ok("GET", "/v1/session")["session"]["scopes"] == ["read", "write", "admin"]
        assert sqlite_client.ok("GET", "/v1/tokens")["tokens"]


def test_nothing_that_a_token_creates_outlives_it(sqlite_client: Client) -> None:
    permanent = sqlite_client.token_id
    with acting(sqlite_client, "admin", lifetime_s=3600) as own_id:
        own = sqlite_client.ok("GET", "/v1/session")["session"]["expires_at"]
        assert sqlite_client.ok("POST", "/v1/tokens", 201, json={})["token"]["expires_at"] == own
        refusal = sqlite_client.refused("POST", "/v1/tokens", 403, "forbidden", json={"expires_s": 3700})
        assert "cannot outlive" in refusal
        for token_id in (permanent, own_id):
            assert sqlite_client.ok("POST", f"/v1/tokens/{token_id}/rotate", 201, json={})["token"]["expires_at"] == own


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": []},
        {"scopes": ["owner"]},
        {"scopes": "read"},
        {"expires_s": 0},
        {"expires_s": "1h"},
        {"label": "x" * 201},
        {"x": 1},
    ],
)
def test_a_bad_request_creates_no_token(sqlite_client: Client, body: dict[str, Any]) -> None:
    with acting(sqlite_client, "admin"):
        sqlite_client.refused("POST", "/v1/tokens", 422, "invalid", json=body)
    assert sqlite_client.desk.count("tokens") == 2


def test_a_secret_is_not_stored_for_an_idempotency_key_and_no_other_token_gets_the_answer(sqlite_client: Client) -> None:
    key = {"Idempotency-Key": uuid4().hex}
    with acting(sqlite_client, "admin"):
        secret = sqlite_client.ok("POST", "/v1/tokens", 201, json={}, headers=key)["secret"]
    sqlite_client.refused("POST", "/v1/tokens", 403, "forbidden", json={}, headers=key)

    stored = sqlite_client.desk.read(
        lambda tx, tenant_id: tx.all("SELECT answer FROM idempotency_keys WHERE tenant_id = ?", tenant_id)
    )
    assert len(stored) == 1
    assert secret not in repr(stored)


def test_changes_of_tokens_are_recorded_with_the_token_that_made_them(sqlite_client: Client) -> None:
    with acting(sqlite_client, "admin"):
        token_id = sqlite_client.ok("POST", "/v1/tokens", 201, json={})["token"]["id"]
        sqlite_client.ok("DELETE", f"/v1/tokens/{token_id}")
    entries = sqlite_client.desk.read(
        lambda tx, tenant_id: tx.all(
            "SELECT who, action FROM audit WHERE tenant_id = ? AND target = ? ORDER BY seq", tenant_id, f"token:{token_id}"
        )
    )
    assert [action for _, action in entries] == ["token.create", "token.revoke"]
    assert {who.partition(" (token ")[0] for who, _ in entries} == {"admin token"}


def test_the_list_marks_the_callers_own_token_and_leaves_out_what_was_not_asked_for(client: Client) -> None:
    revoked = client.desk.write(tokens.create_token, "gone").token
    client.desk.write(tokens.revoke, revoked.id)
    with acting(client, "admin") as own_id:
        rows = client.ok("GET", "/v1/tokens")["tokens"]
        active = client.ok("GET", "/v1/tokens", params={"state": "active", "kind": "token"})["tokens"]
        assert client.ok("GET", "/v1/tokens", params={"kind": "session"})["tokens"] == []
        client.refused("GET", "/v1/tokens", 422, "invalid", params={"state": "revoked"})
        session = client.desk.database.write(
            lambda tx: tokens.open_session(tx, tokens.hash_secret(client.headers["Authorization"].removeprefix("Bearer ")))
        )
        client.headers["Authorization"] = f"Bearer {session.secret}"
        through_session = client.ok("GET", "/v1/tokens")["tokens"]
        sessions = client.ok("GET", "/v1/tokens", params={"kind": "session"})["tokens"]

    assert [row["id"] for row in rows if row["current"]] == [own_id]
    assert {row["id"] for row in rows} == {own_id, client.token_id, revoked.id}
    assert {row["id"] for row in active} == {own_id, client.token_id}
    assert [row["id"] for row in through_session if row["current"]] == [session.token.id, own_id]
    assert [row["id"] for row in sessions] == [session.token.id]
