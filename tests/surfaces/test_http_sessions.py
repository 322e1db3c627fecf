"""Browser sessions: the login link that `serve` prints becomes a cookie that only our own page can use."""

import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from headway.actions.access import local_tenant, tokens
from headway.ledger.tenancy import LOCAL_TENANT, Token, TokenScope
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction
from headway.surfaces.http.routes.sessions import LoginLink
from headway.testing import TenantHarness
from tests.surfaces.server_harness import LOCAL_OPTIONS, Client, Service, check_problem, client_options, run_server
from tests.surfaces.shell import Shell
from tests.tables import each_row


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Service]:
    """A server whose login link has not been used."""
    with run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as service:
        yield service


@pytest.fixture
def browser(local: Service) -> Iterator[httpx.Client]:
    """A browser that has opened the login link."""
    with httpx.Client(**client_options(local.url)) as visitor:
        assert visitor.get(local.announced["login_url"]).status_code == 303
        yield visitor


def origin_header(service: Service) -> dict[str, str]:
    return {"Origin": service.url}


def test_the_link_works_once_and_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(local: Service) -> None:
    with httpx.Client(**client_options(local.url)) as visitor:
        first = visitor.get(local.announced["login_url"])
        second = httpx.get(local.announced["login_url"], **LOCAL_OPTIONS)
        (cookie,) = SimpleCookie(first.headers["set-cookie"]).values()

        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert (cookie["httponly"], cookie["samesite"], cookie["path"], int(cookie["max-age"]) > 3600) == (
            True,
            "strict",
            "/",
            True,
        )
        assert cookie.value not in local.announced["login_url"]
        assert second.status_code == 401
        assert "set-cookie" not in second.headers
        assert visitor.get("/v1/session").json()["session"]["tenant"] == "local"


def test_a_login_link_expires_after_an_hour() -> None:
    times = iter((0, 3599, 3601, 3602))
    link = LoginLink("right", now=lambda: next(times))

    assert [link.redeem(secret) for secret in ("wrong", "right", "right")] == [False, False, False]
    assert LoginLink("right").redeem("right")


def sign_in(client: Client, secret: str, scheme: str = "http") -> SimpleCookie:
    """Sign in with a token, on a page that is served over `scheme`. Return the cookie."""
    headers = {"Origin": f"{scheme}://{client.base_url.netloc.decode()}"}
    answer = client.post("/login", json={"token": secret}, headers=headers)
    assert answer.status_code == 204, answer.text
    client.cookies.clear()
    return SimpleCookie(answer.headers["set-cookie"])


def look(client: Client, cookie: str, **headers: str) -> int:
    """Return the status of a request with this cookie and no token."""
    return httpx.get(f"{client.base_url}/v1/session", headers={"Cookie": cookie, **headers}, **LOCAL_OPTIONS).status_code


def test_a_session_of_a_page_behind_tls_is_bound_to_the_host_and_never_travels_without(sqlite_client: Client) -> None:
    (plain,), (secure,) = (sign_in(sqlite_client, sqlite_client.secret, scheme).values() for scheme in ("http", "https"))

    assert [(cookie.key, bool(cookie["secure"])) for cookie in (plain, secure)] == [
        ("headway_session", False),
        ("__Host-headway_session", True),
    ]
    assert (secure["path"], secure["domain"]) == ("/", "")
    mixed = f"__Host-headway_session={secure.value}; headway_session=hw_wrong"
    behind_tls = {"X-Forwarded-Proto": "https"}
    assert [look(sqlite_client, mixed), look(sqlite_client, mixed, **behind_tls)] == [200, 200]
    # A neighbouring host can set the plain cookie for the whole domain, so behind TLS it opens nothing.
    injected = f"headway_session={plain.value}"
    assert [look(sqlite_client, injected), look(sqlite_client, injected, **behind_tls)] == [200, 401]


def test_signing_out_behind_tls_deletes_both_cookies(sqlite_client: Client) -> None:
    (cookie,) = sign_in(sqlite_client, sqlite_client.secret, "https").values()
    url = str(sqlite_client.base_url)
    headers = {"Cookie": f"{cookie.key}={cookie.value}", "Origin": url.rstrip("/").replace("http:", "https:")}
    answer = httpx.post(f"{url}/logout", headers=headers, **LOCAL_OPTIONS)

    deleted = [SimpleCookie(line) for line in answer.headers.get_list("set-cookie")]
    assert [(name, morsel["max-age"]) for line in deleted for name, morsel in line.items()] == [
        ("headway_session", "0"),
        ("__Host-headway_session", "0"),
    ]
    assert deleted[1]["__Host-headway_session"]["secure"], "browsers ignore it otherwise"
    assert look(sqlite_client, headers["Cookie"]) == 401


def test_a_revoked_token_ends_its_sessions_at_the_very_next_request(client: Client) -> None:
    created = client.desk.write(tokens.create_token, "a person", scope="admin")
    (cookie,) = sign_in(client, created.secret).values()
    cookie_header = f"{cookie.key}={cookie.value}"
    assert look(client, cookie_header) == 200
    client.desk.write(tokens.revoke, created.token.id)

    assert look(client, cookie_header) == 401


def test_a_sessions_secret_cannot_be_used_to_renew_it(sqlite_client: Client) -> None:
    (cookie,) = sign_in(sqlite_client, sqlite_client.secret).values()
    answer = sqlite_client.post("/login", json={"token": cookie.value}, headers={"Origin": str(sqlite_client.base_url).rstrip("/")})

    assert "Sign in with a token" in check_problem(answer, 403, "forbidden")
    assert "set-cookie" not in answer.headers


def test_another_secret_opens_nothing_and_leaves_the_link_as_it_was(local: Service) -> None:
    for token in ("", "wrong", "%00", "%ff", "x" * 5000):
        wrong = httpx.get(f"{local.url}/login?token={token}", **LOCAL_OPTIONS)
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers
    assert httpx.get(local.announced["login_url"], **LOCAL_OPTIONS).status_code == 303


def test_a_link_is_printed_only_if_the_server_at_the_port_knows_it(local: Service, headway: Shell, tmp_path: Path) -> None:
    port = local.url.rpartition(":")[2]
    foreign = headway("login", "--port", port)  # a server of another home answers there
    assert (foreign.code, foreign.out) == (1, "")
    assert "does not use this home and database, so a link would not work there." in foreign.err
    printed = headway.json("login", "--port", port, "--home", str(tmp_path))
    assert httpx.get(printed["login_url"], **LOCAL_OPTIONS).status_code == 303
    digest = tokens.hash_secret(printed["login_url"].partition("token=")[2])
    assert httpx.get(f"{local.url}/login", params={"digest": digest}, **LOCAL_OPTIONS).status_code == 404  # it was used


def test_a_login_link_opens_a_session_once_and_nothing_else(sqlite_client: Client) -> None:
    database = sqlite_client.desk.database
    local = database.write(local_tenant.ensure_local)
    secret = database.write(lambda tx: tokens.create_login_link(tx, local.id)).secret
    url = str(sqlite_client.base_url).rstrip("/")
    with httpx.Client(**client_options(url)) as visitor:
        assert visitor.get("/v1/todos", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
        assert visitor.post("/login", json={"token": secret}, headers={"Origin": url}).status_code == 401
        assert visitor.get("/login", params={"token": sqlite_client.secret}).status_code == 401  # a token is not a link
        first, second = (visitor.get("/login", params={"token": secret}) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 401)
    assert "headway_session=hw_" in first.headers["set-cookie"]


def test_without_a_session_there_is_the_page_and_nothing_else(sqlite_service: Service) -> None:
    """The page itself asks the user to sign in; see tests/browser."""
    answer = httpx.get(sqlite_service.url, **LOCAL_OPTIONS)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    check_problem(httpx.get(f"{sqlite_service.url}/v1/session", **LOCAL_OPTIONS), 401, "unauthorized")


@pytest.mark.parametrize("scope", ["write", "admin", "operator"])
def test_a_session_has_the_rights_of_its_token(sqlite_client: Client, scope: TokenScope) -> None:
    url = str(sqlite_client.base_url)
    desk = TenantHarness(sqlite_client.desk.database, LOCAL_TENANT) if scope == "operator" else sqlite_client.desk
    secret = desk.write(tokens.create_token, "a person", scope=scope).secret
    with httpx.Client(**client_options(url)) as visitor:
        answer = visitor.post("/login", json={"token": f" {secret}\n"}, headers={"Origin": url.rstrip("/")})
        (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
        session = visitor.get("/v1/session").json()["session"]

        assert (answer.status_code, cookie["httponly"], cookie["samesite"]) == (204, True, "strict")
        assert cookie.value != secret
        assert (session["tenant"], session["scopes"][-1]) == (desk.tenant.name, scope)
        assert (session["admin"], session["operator"]) == (scope != "write", scope == "operator")
        assert session["model"] == "rehearsal"
        assert (session["workspace"] or "").endswith(f"/workspace/{desk.tenant.id}") is (scope == "operator")
        assert session["expires_at"] > time.time() + 24 * 3600
        assert visitor.post("/logout", headers={"Origin": url.rstrip("/")}).headers["location"] == "/login"
        check_problem(visitor.get("/v1/session"), 401, "unauthorized")
    sqlite_client.ok("GET", "/v1/session")


@each_row(
    ("body", "status"),
    [({"token": "hw_wrong"}, 401), ({"token": ""}, 422), ({}, 422), ({"token": 7}, 422), ({"token": "x" * 300}, 422), ([], 422)],
)
def test_an_invalid_token_opens_no_session(sqlite_service: Service, body: object, status: int) -> None:
    answer = httpx.post(f"{sqlite_service.url}/login", json=body, headers={"Origin": sqlite_service.url}, **LOCAL_OPTIONS)

    check_problem(answer, status)
    assert "set-cookie" not in answer.headers


def test_a_cross_site_page_cannot_sign_in(sqlite_client: Client) -> None:
    answer = httpx.post(
        f"{str(sqlite_client.base_url).rstrip('/')}/login",
        json={"token": sqlite_client.secret},
        headers={"Origin": "http://evil.example"},
        **LOCAL_OPTIONS,
    )
    check_problem(answer, 403, "forbidden")


def test_our_own_page_speaks_for_the_local_tenant(local: Service, browser: httpx.Client) -> None:
    for headers in (origin_header(local), {"Sec-Fetch-Site": "same-origin"}):
        assert browser.post("/v1/todos", json={"subject": "from the page"}, headers=headers).status_code == 201

    def subjects(tx: Transaction) -> list[str]:
        tenant = local_tenant.find_local(tx)
        assert tenant is not None
        return [row[0] for row in tx.all("SELECT subject FROM todos WHERE tenant_id = ?", tenant.id)]

    assert local.database.read(subjects) == ["from the page"] * 2
    assert [todo["subject"] for todo in browser.get("/v1/todos").json()["todos"]] == ["from the page"] * 2


@each_row(
    "headers",
    [
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
)
@each_row(("method", "path"), [("POST", "/v1/todos"), ("PATCH", "/v1/todos"), ("DELETE", "/v1/todos/1"), ("POST", "/logout")])
def test_a_cross_site_page_cannot_use_the_session_to_change_anything(
    session: httpx.Client, headers: dict[str, str], method: str, path: str
) -> None:
    answer = session.request(method, path, content=b'{"subject": "forged"}', headers=headers)

    assert "bearer token" in check_problem(answer, 403, "forbidden")
    assert session.get("/v1/todos").json()["todos"] == []


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One session for all read-only tests of the module. None of their requests may change anything."""
    folder = tmp_path_factory.mktemp("sessions")
    with (
        run_server(f"sqlite:///{folder / 'headway.db'}", folder) as service,
        httpx.Client(**client_options(service.url)) as visitor,
    ):
        assert visitor.get(service.announced["login_url"]).status_code == 303
        yield visitor


@each_row("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[", "[::1", "", "0.0.0.0", "localhost."])
@each_row("path", ["/v1/todos", "/v1/events", "/login?token=x"])
def test_a_name_that_was_made_to_point_here_cannot_use_the_session(session: httpx.Client, host: str, path: str) -> None:
    answer = session.get(path, headers={"Host": host})

    assert "loopback" in check_problem(answer, 403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_any_loopback_name_will_do(session: httpx.Client, host: str) -> None:
    port = session.base_url.port

    for name in (host, f"{host}:{port}"):
        assert session.get("/v1/todos", headers={"Host": name}).status_code == 200


def test_a_wrong_token_is_refused_even_with_a_good_cookie(session: httpx.Client) -> None:
    check_problem(session.get("/v1/todos", headers={"Authorization": "Bearer hw_wrong"}), 401, "unauthorized")


def test_a_cookie_that_is_no_session_opens_nothing(sqlite_service: Service) -> None:
    for value in ("", "hw_wrong", "a=b; c", '"', "\xff"):
        headers = [(b"Cookie", f"headway_session={value}".encode("latin-1"))]
        check_problem(httpx.get(f"{sqlite_service.url}/v1/todos", headers=headers, **LOCAL_OPTIONS), 401, "unauthorized")


def test_a_session_ends_for_good_when_signed_out_and_one_day_by_itself(local: Service, browser: httpx.Client) -> None:
    def session_token() -> Token:
        (token,) = local.database.read(lambda tx: tenant_store.list_tokens(tx, local_tenant.ensure_local(tx).id))
        return token

    assert session_token().label == "browser session"
    assert 0 < session_token().expires_at - session_token().created_at <= 31 * 24 * 3600 * 1000
    cookies = dict(browser.cookies)
    response = browser.post("/logout", headers=origin_header(local))

    assert (response.status_code, dict(browser.cookies)) == (303, {})
    assert not local.database.read(lambda tx: tokens.list_all_tokens(tx, local_tenant.ensure_local(tx).id))
    check_problem(httpx.get(f"{local.url}/v1/todos", cookies=cookies, **LOCAL_OPTIONS), 401, "unauthorized")
