"""Signing in, signing out, and expired sessions."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from headway.actions.access import tokens
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction
from tests.browser.page_harness import Profiles, Visit, look_at
from tests.surfaces.server_harness import Client, Service


@pytest.fixture
def stranger(profiles: Profiles, client: Client) -> Iterator[Visit]:
    """A visitor who is not signed in."""
    with profiles.take() as context:
        visit = Visit(context.pages[0], str(client.base_url).rstrip("/"))
        visit.forgiven = ("401", "net::ERR")
        yield visit
        visit.stop_listening()
    visit.check()


@pytest.mark.proof
def test_a_token_leads_to_where_one_was_going_and_a_link_signs_in_once(
    stranger: Visit, service: Service, client: Client, pytestconfig: pytest.Config
) -> None:
    client.add("water the plants")
    stranger.open("/board")
    expect(stranger.page.get_by_role("heading", level=1)).to_have_text("Sign in to Headway")
    stranger.is_thorough = pytestconfig.getoption("torture")
    look_at(stranger, "login")
    stranger.page.get_by_label("Token").fill("hw_wrong")
    stranger.button("Sign in").click()
    expect(stranger.page.get_by_role("alert")).to_contain_text("This token is not valid")

    stranger.page.get_by_label("Token").fill(f"  {client.secret} ")
    stranger.button("Sign in").click()
    expect(stranger.page.get_by_text("water the plants")).to_be_visible()
    expect(stranger.page).to_have_url(f"{stranger.url}/board")

    # The link that `headway serve` prints works once.
    stranger.page.goto(service.announced["login_url"])
    expect(stranger.page).to_have_url(f"{stranger.url}/")
    expect(stranger.live().page.locator(".tenant")).to_have_text("local")

    stranger.page.context.clear_cookies()
    stranger.page.goto(service.announced["login_url"])
    expect(stranger.page.get_by_role("heading", level=1)).to_have_text("This link no longer works")


def test_a_session_without_a_scope_says_so_and_changes_nothing(stranger: Visit, client: Client) -> None:
    stranger.forgiven = ("401", "403")
    secret = client.desk.write(tokens.create_token, scope="read").secret
    answer = stranger.page.context.request.post(f"{stranger.url}/login", data={"token": secret}, headers={"Origin": stranger.url})
    assert answer.status == 204
    stranger.open("/memory").live()
    expect(stranger.page.get_by_text("read-only", exact=True)).to_be_visible()
    stranger.page.get_by_label("Add a note for all conversations").fill("Ada likes tea.")
    stranger.page.keyboard.press("Enter")

    expect(stranger.page.locator(".toast")).to_contain_text("This token may only read")

    # One who is no operator sees no halt switch, and no tabs for administrators.
    sign_in(stranger.page.context, stranger.url, client)
    stranger.open("/operations").live()
    expect(stranger.page.get_by_text("needs a token with the operator scope")).to_be_visible()
    expect(stranger.button("Halt everything")).to_have_count(0)
    stranger.go("/operations/webhooks")
    expect(stranger.page.get_by_role("main")).to_contain_text("This needs a token with the admin scope.")
    tabs = stranger.page.get_by_role("navigation", name="Operations")
    expect(tabs.get_by_role("link", name="Schedules")).to_be_visible()
    expect(tabs.get_by_role("link", name="Webhooks")).to_have_count(0)


def test_a_session_that_ended_is_renewed_on_the_spot_and_signing_out_leaves_the_token(page: Visit, client: Client) -> None:
    page.forgiven = ("401",)
    page.open("/board").live()

    def revoke_sessions(tx: Transaction, tenant_id: int) -> None:
        for token in tenant_store.list_tokens(tx, tenant_id):
            if token.label == "browser session":
                tokens.revoke(tx, tenant_id, token.id)

    client.desk.write(revoke_sessions)
    page.page.get_by_label("Add a todo").fill("too late")
    page.page.keyboard.press("Enter")
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Your session has ended")

    page.page.get_by_label("Token").fill(client.secret)
    page.button("Sign in").click()
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Todo board")
    page.live()

    # Signing out ends the session, and leaves the token.
    page.button("Sign out").click()
    question = page.page.get_by_role("dialog", name="Sign out?")
    expect(question).to_contain_text("headway login")
    page.button("Stay signed in").click()
    page.live().button("Sign out").click()
    page.button("Sign out", within=question).click()

    expect(page.page.get_by_role("heading", level=1)).to_have_text("You are signed out")
    expect(page.page.get_by_role("main")).to_contain_text("run headway login where the server runs")
    page.page.reload()
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Sign in to Headway")
    client.ok("GET", "/v1/todos")


def test_the_page_goes_to_the_address_of_the_workspace_and_says_why(stranger: Visit, client: Client) -> None:
    """The same server has two addresses here. Requests to the first one are answered as by a cell that the tenant has left."""
    there = stranger.url.replace("127.0.0.1", "localhost")
    problem = {"title": "Misdirected request", "status": 421, "detail": "…", "code": "wrong_cell", "cell": "eu2", "location": there}
    conversation_id, page = client.conversation(title="Plans"), stranger.page
    stranger.forgiven = ("401", "421")
    page.route(re.compile(re.escape(f"{stranger.url}/v1/")), lambda route: route.fulfill(status=421, json=problem))
    stranger.open(f"/c/{conversation_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Your workspace is at this address now")
    expect(page).to_have_url(f"{there}/c/{conversation_id}?moved=1")
    page.get_by_label("Token").fill(client.secret)
    stranger.button("Sign in").click()
    for is_signed_in in (False, True):
        if is_signed_in:
            stranger.open(f"/c/{conversation_id}")
        expect(page.locator(".toast")).to_contain_text(f"Your workspace is now at {there.removeprefix('http://')}.")
        expect(page).to_have_url(f"{there}/c/{conversation_id}")
        expect(stranger.live().page.get_by_role("link", name="Plans")).to_be_visible()

    # Cells that disagree do not keep the page moving.
    page.goto("about:blank")  # so that the page there makes no more requests
    page.unroute_all(behavior="ignoreErrors")
    addresses = [stranger.url, stranger.url.replace("127.0.0.1", "localhost")]

    def refuse(route: Route) -> None:
        (other,) = (address for address in addresses if not route.request.url.startswith(address))
        detail = "The tenant is in the cell eu2."
        problem = {"title": "Misdirected request", "status": 421, "detail": detail, "code": "wrong_cell", "location": other}
        route.fulfill(status=421, json=problem)

    stranger.page.route(re.compile("/v1/"), refuse)
    stranger.open("/board?moved=1")
    expect(stranger.page).to_have_url(f"{addresses[1]}/board?moved=2")
    expect(stranger.page.get_by_text("The tenant is in the cell eu2.").first).to_be_visible()


def sign_in(context: BrowserContext, url: str, client: Client) -> None:
    answer = context.request.post(f"{url}/login", data={"token": client.secret}, headers={"Origin": url})
    assert answer.status == 204
