"""Bearer tokens: which requests are admitted, and what an unauthenticated client can learn."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest

from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.storage.stores import tenants as tenant_store
from tests.surfaces.openapi_routes import Operation, list_operations, spread
from tests.surfaces.server_harness import Client, Service, check_problem, client_options
from tests.tables import each_row

MANY_POSITIONS = json.dumps([{"id": 1, "position": 1}] * 500).encode()
VARYING_HEADERS = ("date", "x-request-id", "ratelimit-remaining", "content-length")


@pytest.fixture
def stranger(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(**client_options(service.url)) as visitor:
        yield visitor


def is_guarded(operation: Operation) -> bool:
    return operation.path.startswith("/v1/")


@each_row(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer hw_",
        "Bearer hw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "Bearer \xff\xfe",
        "Basic aHc6aHc=",
        "hw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "Bearer " + "x" * 10_000,
    ],
)
def test_a_request_without_a_valid_token_is_refused(stranger: httpx.Client, header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
    answer = stranger.get("/v1/todos", headers=headers)

    assert "headway token add" in check_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_an_unauthenticated_request_gets_401_whatever_else_is_wrong(stranger: httpx.Client) -> None:
    headers = {"Authorization": "Bearer hw_wrong", "Content-Type": "application/json"}
    bad: list[dict[str, Any]] = [{}, {"params": {"limit": "x", "after": "x", "cursor": "x"}}]
    bodies = (b"{}", b"nonsense", b" " * 2_000_000, b'{"subject": "\\u0000"}', MANY_POSITIONS)
    bad_bodies: list[dict[str, Any]] = [{"content": body} for body in bodies]
    bad_bodies.append({"content": b"text", "headers": headers | {"Content-Type": "text/plain"}})
    guarded = list(filter(is_guarded, list_operations(stranger)))
    requests = [
        *spread([one for one in guarded if not one.takes_body], list(product((1, "abc", 0), bad))),
        *spread([one for one in guarded if one.takes_body], list(product((1, "abc", 0), bad_bodies))),
    ]
    for operation, (path_value, options) in requests:
        answer = stranger.request(operation.method, operation.at(path_value), **{"headers": headers, **options})
        check_problem(answer, 401, "unauthorized")


def test_the_scheme_is_bearer_in_any_case(client: Client) -> None:
    for header in (f"bearer {client.secret}", f"BEARER   {client.secret}"):
        assert client.get("/v1/todos", headers={"Authorization": header}).status_code == 200


def test_a_revoked_token_is_refused_at_the_very_next_request(client: Client) -> None:
    assert client.get("/v1/todos").status_code == 200
    client.desk.write(tokens.revoke, client.token_id)

    for method, body in (("GET", None), ("POST", {"subject": "too late"})):
        client.refused(method, "/v1/todos", 401, "unauthorized", json=body)
    assert client.desk.subjects() == []


def test_a_token_of_another_home_is_named_as_that_without_the_path_of_this_one(stranger: httpx.Client) -> None:
    answer = stranger.get("/v1/todos", headers={"Authorization": f"Bearer hw_{'A' * 43}"})

    detail = check_problem(answer, 401, "unauthorized")
    assert "belongs to another installation" in detail
    assert "HEADWAY_HOME" in detail
    assert "/" not in detail


def test_a_token_of_a_tenant_that_is_gone_is_refused(client: Client) -> None:
    client.desk.database.write(lambda tx: tenants.remove_tenant(tx, client.desk.tenant.name))

    client.refused("GET", "/v1/todos", 401, "unauthorized")


def test_a_token_that_has_expired_is_refused(client: Client, service: Service) -> None:
    with service.ago(3600) as earlier:
        expired = earlier.write(lambda tx: tokens.create_token(tx, client.desk.tenant.id, lifetime_s=3500))
        live = earlier.write(lambda tx: tokens.create_token(tx, client.desk.tenant.id, lifetime_s=7200))

    check_problem(client.get("/v1/todos", headers={"Authorization": f"Bearer {expired.secret}"}), 401, "unauthorized")
    assert client.get("/v1/todos", headers={"Authorization": f"Bearer {live.secret}"}).status_code == 200


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("POST", {"subject": "x"}), ("GET", "refused")])
def test_the_last_use_of_a_token_is_recorded(client: Client, method: str, body: Any) -> None:
    def last_used() -> int:
        (token,) = client.desk.read(tenant_store.list_tokens)
        return token.last_used_at

    assert last_used() == 0
    if body == "refused":
        client.refused("GET", "/v1/todos", 422, "invalid", params={"limit": 0})
    else:
        assert client.request(method, "/v1/todos", json=body).is_success
    assert last_used() > 0


def test_each_tenant_sees_its_own_rows_alone(client: Client, service: Service) -> None:
    with service.tenant() as other:
        client.add("ours")
        other.add("theirs")
        client.conversation(title="ours")

        assert (client.subjects(), other.subjects()) == (["ours"], ["theirs"])
        assert other.ok("GET", "/v1/conversations")["conversations"] == []
        claimed = other.ok("POST", "/v1/todos/claim", json={"agent_id": "ada"})
        assert claimed["todo"]["subject"] == "theirs"
        assert other.post("/v1/todos/claim", json={"agent_id": "ada"}).status_code == 204
