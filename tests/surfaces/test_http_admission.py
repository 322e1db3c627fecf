"""What happens to a request before anything of it is parsed: tokens, rates of tokens and of addresses, bounds on bodies."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.actions.access import tokens
from headway.surfaces.http.admission import group_address
from headway.surfaces.http.request_context import SESSION_COOKIE
from headway.surfaces.metrics import LoopLag
from tests.surfaces.in_process_app import InProcessApp, limit_to, open_app
from tests.surfaces.server_harness import LOCAL_OPTIONS, Client, check_problem

BOGUS = "hw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
BODY_ROUTES = (
    ("POST", "/v1/ag-ui"),
    ("POST", "/v1/ui-stream"),
    ("POST", "/v1/todos"),
    ("PATCH", "/v1/todos"),
    ("POST", "/v1/tools/todo_add"),
    ("POST", "/v1/conversations/1/messages"),
    ("POST", "/mcp"),
)
AG_UI = b'{"threadId": "a", "runId": "b", "messages": [%s]}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def run_app(folder: Path, scenario: Callable[[InProcessApp], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_app(folder) as opened:
            opened.app.admission.refusal_delay_s = 0
            await scenario(opened)

    asyncio.run(run())


@pytest.mark.parametrize("secret", [BOGUS, "", f"{BOGUS}\xa0"])
def test_no_byte_of_a_strangers_body_is_read(tmp_path: Path, secret: str) -> None:
    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body is read")

    async def scenario(opened: InProcessApp) -> None:
        for method, path in BODY_ROUTES:
            sent: list[MutableMapping[str, Any]] = []

            async def send(message: MutableMapping[str, Any], sent: list[MutableMapping[str, Any]] = sent) -> None:
                sent.append(message)

            headers = [(b"authorization", f"Bearer {secret}".encode("latin-1")), (b"content-length", b"1000000")]
            scope = {"type": "http", "method": method, "path": path, "query_string": b"a&" * 1_000, "headers": headers}
            await opened.app(scope, receive, send)
            assert sent[0]["status"] == 401, path

    run_app(tmp_path, scenario)


def test_one_token_has_one_rate_however_it_is_spelled(tmp_path: Path) -> None:
    """The limit is one request per token, so all but the first of these are refused."""

    async def scenario(opened: InProcessApp) -> None:
        app, client, token = opened
        app.admission.tokens = limit_to(1)
        secret = token.secret.encode()
        session = b"%s=%s" % (SESSION_COOKIE.encode(), secret)
        spellings: list[dict[bytes, bytes]] = [
            {b"Authorization": b"Bearer " + secret},
            {b"Authorization": b"bearer   " + secret + b"  "},
            {b"Authorization": b"BEARER \t" + secret},
            *({b"Cookie": b"a%d=1; %s;b=2" % (number, session)} for number in range(3)),
        ]
        statuses = []
        for headers in spellings:
            request = client.build_request("GET", "/v1/session", headers=headers)
            if b"Cookie" in headers:
                del request.headers["Authorization"]
            statuses.append((await client.send(request)).status_code)
        assert statuses == [200] + [429] * 5
        for tail in (b"\xa0", b"\x85", b"\xc2\xa0", b"\x0b"):
            answer = await client.get("/v1/session", headers={b"Authorization": b"Bearer " + secret + tail})
            assert answer.status_code == 401, tail

    run_app(tmp_path, scenario)


def test_strangers_are_limited_by_address_and_callers_with_a_token_are_not(tmp_path: Path) -> None:
    async def scenario(opened: InProcessApp) -> None:
        app, client, token = opened
        limits = app.admission
        limits.clients, limits.peers = limit_to(3), limit_to(6)

        async def get(path: str, secret: str = BOGUS, forwarded: str = "") -> int:
            headers = {"Authorization": f"Bearer {secret}"} | ({"X-Forwarded-For": forwarded} if forwarded else {})
            return (await client.get(path, headers=headers)).status_code

        assert await get("/v1/session", token.secret) == 200  # from now on the token is known
        assert [await get("/v1/session") for _ in range(5)] == [401, 401, 401, 429, 429]
        assert [await get(path) for path in ("/login", "/nowhere", "/openapi.json", "/metrics")] == [429] * 4
        assert [await get("/v1/session", token.secret) for _ in range(10)] == [200] * 10
        assert [await get(path) for path in ("/healthz", "/readyz")] == [200, 200]
        # A proxy names its clients, and each has its own limit; all of them together have another one.
        assert [await get("/v1/session", forwarded="198.51.100.7, 203.0.113.1") for _ in range(2)] == [401] * 2
        assert [await get("/v1/session", forwarded=f"203.0.113.{n}") for n in range(2, 6)] == [401, 429, 429, 429]

    run_app(tmp_path, scenario)


def test_a_valid_token_that_is_new_does_not_count_as_a_stranger(tmp_path: Path) -> None:
    async def scenario(opened: InProcessApp) -> None:
        app, client, token = opened
        limits = app.admission
        limits.clients, limits.peers = limit_to(2), limit_to(2)
        for _ in range(5):
            new = await app.headway.database.write(lambda tx: tokens.create_token(tx, token.token.tenant_id))
            answer = await client.get("/v1/session", headers={"Authorization": f"Bearer {new.secret}"})
            assert answer.status_code == 200

    run_app(tmp_path, scenario)


def test_a_revoked_token_counts_as_a_stranger_again(tmp_path: Path) -> None:
    async def scenario(opened: InProcessApp) -> None:
        app, client, token = opened
        app.admission.clients = limit_to(2)
        assert (await client.get("/v1/session")).status_code == 200
        await app.headway.database.write(lambda tx: tokens.revoke(tx, token.token.tenant_id, token.token.id))
        assert [(await client.get("/v1/session")).status_code for _ in range(4)] == [401, 401, 401, 429]

    run_app(tmp_path, scenario)


def test_addresses_of_one_ipv6_network_are_one_caller() -> None:
    assert group_address("2001:db8::1") == group_address("2001:0db8:0:0:ffff::2") != group_address("2001:db8:0:1::1")
    assert (group_address("203.0.113.9"), group_address("no:address")) == ("203.0.113.9", "no:address")


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/v1/ag-ui", AG_UI % b",".join([b"[]"] * 330_000), "at most 30,000 values"),
        ("/v1/ag-ui", AG_UI % b",".join([b"[]"] * 14_000), "14,000 mistakes"),
        ("/v1/ag-ui", AG_UI % b",".join([b"9" * 4_299] * 200), "at most 100 digits"),
        ("/v1/todos", b'{"subject": ' + b'""' * 400_000, "at most 30,000 values"),
        ("/v1/todos", b"{" + b'"\\\\": [], "\\"": [], ' * 20_000, "at most 30,000 values"),
        ("/mcp", b"[" * 11_000 + b" " * 6_000, "at most 10,000 values"),
    ],
    ids=["lists", "mistakes", "digits", "strings", "escapes", "mcp"],
)
def test_a_body_that_takes_long_to_parse_is_refused_unparsed(sqlite_client: Client, path: str, body: bytes, reason: str) -> None:
    answer = sqlite_client.post(path, content=body, headers=JSON)

    assert reason in check_problem(answer, 422, "invalid")
    assert len(answer.content) < 300


def test_text_that_looks_like_many_values_is_only_text(sqlite_client: Client) -> None:
    description = '{"a": [1, 2, 3]}\\,' * 9_000 + "9" * 5_000
    assert sqlite_client.add(description=description)["description"] == description


@pytest.mark.parametrize("path", ["/login", "/v1/todos", "/v1/events", "/healthz"])
def test_a_query_with_very_many_parameters_is_refused(sqlite_client: Client, path: str) -> None:
    assert "at most 100" in sqlite_client.refused("GET", f"{path}?{'a&' * 100}", 422, "invalid")


def test_a_login_with_a_long_body_is_refused(sqlite_client: Client) -> None:
    same_site = {"Sec-Fetch-Site": "same-origin"}
    answer = httpx.post(f"{sqlite_client.base_url}/login", content=b"[" * 5_000, headers=same_site, **LOCAL_OPTIONS)
    check_problem(answer, 413, "too_large")


def test_a_server_whose_loop_is_late_for_long_is_not_ready(tmp_path: Path) -> None:
    async def scenario(opened: InProcessApp) -> None:
        app, client, _ = opened
        clock = [100.0]
        lag = app.state.loop_lag = LoopLag(lambda: clock[0])
        for seconds, status in ((0.4, 200), (0.4, 200), (0.2, 200), (0.4, 200)):
            clock[0] += 3
            lag.record(seconds)
            assert (await client.get("/readyz")).status_code == status
        clock[0] += 6
        detail = check_problem(await client.get("/readyz"), 503, "not_ready")
        assert detail == "Not ready: loop. The event loop has been late for 6 s, by up to 0.40 s."
        assert "\nheadway_loop_lag_seconds 0.4\n" in (await client.get("/metrics")).text
        lag.record(0.0)
        assert (await client.get("/readyz")).status_code == 200

    run_app(tmp_path, scenario)


def test_every_route_of_the_api_admits_its_callers_first(tmp_path: Path) -> None:
    """A route that forgets to ask for the token is guarded all the same."""

    async def scenario(opened: InProcessApp) -> None:
        guarded = [route for route in opened.app.routes if route.is_guarded]
        assert len(guarded) > 60
        for route in guarded:
            path = route.path.replace("{", "").replace("}", "")
            for method in route.methods or ():
                answer = await opened.client.request(method, path, headers={"Authorization": f"Bearer {BOGUS}"}, content=b"")
                document = json.loads(answer.content)
                code = document.get("error", document)["code"]
                assert (answer.status_code, code) == (401, "unauthorized"), (method, path)

    run_app(tmp_path, scenario)
