"""Requests that reach the wrong cell, and programs that open a tenant of another cell."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest

from headway import Headway, NotFound, WrongCell, settings
from headway.actions.access import local_tenant, tokens
from headway.actions.access.tokens import NewToken
from headway.actions.installation import tenants
from headway.cells.directory import Directory
from headway.cells.registry import CellDraft, add_cell, add_tenant
from headway.ledger.errors import SettingsError, Unauthorized
from headway.ledger.tenancy import find_issuer
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.surfaces.cli.context import act_as_sender
from headway.surfaces.http.server import check_has_tokens
from tests.sent_statements import trace_statements
from tests.surfaces.in_process_app import InProcessApp, limit_to, open_app
from tests.surfaces.server_harness import check_problem

EU2_ADDRESS = "https://eu2.example.org"
SECRET = "A" * 43


@pytest.fixture
def urls(cell_urls: list[str], tmp_path: Path) -> list[str]:
    """The databases of the cells eu1, which is the directory, and eu2, which has the tenant acme."""
    loaded = settings.load({"home": str(tmp_path), "database_url": cell_urls[0]})
    with Directory(loaded) as directory:
        add_cell(directory, CellDraft("eu1", cell_urls[0], None, None), print, act_as_sender)
        add_cell(directory, CellDraft("eu2", cell_urls[1], EU2_ADDRESS, None), print, act_as_sender)
    add_tenant(loaded, "acme", "eu2", act_as_sender)
    return cell_urls


def create_token(url: str) -> NewToken:
    def create(tx: Transaction) -> NewToken:
        return tokens.create_token(tx, local_tenant.ensure_local(tx).id)

    with DirectDatabase(url) as database:
        return database.write(create)


def move_token(url: str, token: NewToken, cell: str) -> None:
    """Do to a token what the move of its tenant does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET headway.tenant = 'all'")
        connection.execute("DELETE FROM tokens WHERE id = %s", (token.token.id,))
        connection.execute("INSERT INTO departed_tokens VALUES (%s, 1, %s)", (tokens.hash_secret(token.secret), cell))


def run_app(folder: Path, url: str, scenario: Callable[[InProcessApp], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_app(folder, database_url=url) as opened:
            opened.app.admission.refusal_delay_s = 0
            await scenario(opened)

    asyncio.run(run())


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def check_sent_to_eu2(answer: httpx.Response) -> None:
    assert "is in the cell eu2 at https://eu2.example.org" in check_problem(answer, 421, "wrong_cell")
    assert (answer.json()["location"], answer.headers["location"]) == (EU2_ADDRESS, EU2_ADDRESS)


def test_a_request_to_the_wrong_cell_is_sent_to_the_right_one(urls: list[str], tmp_path: Path) -> None:
    async def scenario(opened: InProcessApp) -> None:
        client, here = opened.client, opened.token
        assert find_issuer(here.secret) == "eu1"
        there = create_token(urls[1])
        assert find_issuer(there.secret) == "eu2"

        check_sent_to_eu2(await client.get("/v1/todos", headers=bearer(there.secret)))
        check_sent_to_eu2(await client.post("/v1/todos", json={"subject": "one"}, headers=bearer(there.secret)))
        request = client.build_request("GET", "/v1/todos", headers={"Cookie": f"headway_session={there.secret}"})
        del request.headers["Authorization"]
        check_sent_to_eu2(await client.send(request))
        origin = {"Origin": "http://127.0.0.1"}
        check_sent_to_eu2(await client.post("/login", json={"token": there.secret}, headers=origin))
        for unknown in (f"hw_{SECRET}", f"hw_eu1_{SECRET}", f"hw_eu9_{SECRET}", f"eu2_{SECRET}"):
            check_problem(await client.get("/v1/todos", headers=bearer(unknown)), 401, "unauthorized")

    run_app(tmp_path, urls[0], scenario)


def test_a_token_whose_tenant_leaves_is_sent_on_at_once(urls: list[str], tmp_path: Path) -> None:
    """The server has just seen the token, and remembers it for some seconds."""

    async def scenario(opened: InProcessApp) -> None:
        assert (await opened.client.get("/v1/todos")).status_code == 200
        await asyncio.to_thread(move_token, urls[0], opened.token, "eu2")
        check_sent_to_eu2(await opened.client.get("/v1/todos"))
        check_sent_to_eu2(await opened.client.patch("/v1/todos", json=[{"id": 1, "status": "completed"}]))

    run_app(tmp_path, urls[0], scenario)


def test_requests_to_the_wrong_cell_have_the_limits_of_strangers(urls: list[str], tmp_path: Path) -> None:
    async def scenario(opened: InProcessApp) -> None:
        there = create_token(urls[1])
        assert (await opened.client.get("/v1/session")).status_code == 200
        opened.app.admission.clients, opened.app.admission.peers = limit_to(2), limit_to(2)
        statuses = [(await opened.client.get("/v1/todos", headers=bearer(there.secret))).status_code for _ in range(3)]
        assert statuses == [421, 421, 429]
        assert (await opened.client.get("/v1/session")).status_code == 200

    run_app(tmp_path, urls[0], scenario)


def test_a_token_whose_tenant_has_left_is_no_strangers(urls: list[str], tmp_path: Path) -> None:
    """A proxy sends all requests of such a token here first."""

    async def scenario(opened: InProcessApp) -> None:
        await asyncio.to_thread(move_token, urls[0], opened.token, "eu2")
        opened.app.admission.clients, opened.app.admission.peers = limit_to(2), limit_to(2)
        opened.app.admission.tokens = limit_to(5)
        answers = [await opened.client.get("/v1/todos") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [421, 421, 421, 421, 421, 429]
        assert {answer.headers.get("headway-cell") for answer in answers[:5]} == {"eu2"}

    run_app(tmp_path, urls[0], scenario)


def test_without_cells_an_unknown_token_costs_one_statement(postgres_url: str) -> None:
    with DirectDatabase(postgres_url) as database:

        def look_up() -> list[list[str]]:
            with trace_statements() as sent, pytest.raises(Unauthorized):
                database.read(lambda tx: tokens.authenticate(tx, tokens.hash_secret(f"hw_eu1_{SECRET}"), "eu1"))
            return [[text for text in found.statements if " FROM " in text] for found in sent.list_transactions()]

        look_up()
        assert [len(statements) for statements in look_up()] == [1]


def test_a_program_opens_the_cell_of_its_tenant(urls: list[str], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Headway.open(home=tmp_path, database_url=urls[0], tenant="acme", alone=True, model="rehearsal") as opened:
            assert (await opened.ask("Buy milk.")).status == "finished"
            assert len(await opened.approvals.list()) == 0
        async with Headway.open(home=tmp_path, database_url=urls[0], alone=True, model="rehearsal") as opened:
            with pytest.raises(WrongCell, match="'acme' is in the cell eu2") as refusal:
                await opened.ask("Buy milk.", tenant="acme")
            assert (refusal.value.cell, refusal.value.location) == ("eu2", EU2_ADDRESS)
        with pytest.raises(NotFound, match="'unknown'"):
            async with Headway.open(home=tmp_path, database_url=urls[0], tenant="unknown"):
                pass

    asyncio.run(asyncio.wait_for(scenario(), 60))
    with DirectDatabase(urls[1]) as database:
        acme = database.read(partial(tenants.get_by_name, name="acme"))
        assert database.read(lambda tx: tx.one("SELECT DISTINCT tenant_id FROM turns")) == (acme.id,)


def test_a_cell_without_tokens_can_be_served_to_other_machines(urls: list[str], cell_urls: list[str], tmp_path: Path) -> None:
    """All its tenants may have moved away; it sends their clients on."""
    check_has_tokens(settings.load({"home": str(tmp_path), "database_url": urls[1], "host": "0.0.0.0"}))

    with pytest.raises(SettingsError, match="no tokens exist yet"):
        check_has_tokens(settings.load({"home": str(tmp_path), "database_url": cell_urls[2], "host": "0.0.0.0"}))
