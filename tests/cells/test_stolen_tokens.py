"""Stolen tokens in two cells: one of a tenant that has moved away, one for the other cell, and one that was revoked."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx

from headway.actions.access import tokens
from headway.cells.moving import move_tenant
from headway.ledger.tenancy import find_issuer
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells
from tests.surfaces.in_process_app import open_app

ATTEMPTS = (
    ("GET", "/v1/todos", None),
    ("POST", "/v1/todos", {"subject": "stolen"}),
    ("POST", "/v1/tokens", {"label": "a door for later"}),
    ("PUT", "/v1/costs", {"limit_usd": 1}),
    ("POST", "/v1/webhooks", {"url": "https://example.com/"}),
)


def try_all(url: str, folder: Path, secrets: Sequence[str]) -> list[set[int]]:
    """Try everything with each secret at a cell, and return the statuses of each."""

    async def run() -> list[set[int]]:
        async with open_app(folder, database_url=url) as opened:
            opened.app.admission.refusal_delay_s = 0

            async def send(secret: str, method: str, path: str, body: object) -> httpx.Response:
                answer = await opened.client.request(method, path, json=body, headers={"Authorization": f"Bearer {secret}"})
                assert answer.status_code != 421 or answer.json()["code"] == "wrong_cell"
                return answer

            return [{(await send(secret, *attempt)).status_code for attempt in ATTEMPTS} for secret in secrets]

    return asyncio.run(run())


def test_a_token_works_in_the_cell_of_its_tenant_alone(cells: Cells, tmp_path: Path) -> None:
    desk = TenantHarness(cells.databases["a"])
    other = TenantHarness(cells.databases["b"], "resident")
    active, revoked, expired = (desk.write(tokens.create_token, label, scope="admin") for label in ("laptop", "lost", "old"))
    desk.write(tokens.revoke, revoked.token.id)
    desk.write(lambda tx, _: tx.run("UPDATE tokens SET expires_at = 1 WHERE id = ?", expired.token.id))
    relabeled = active.secret.replace("hw_a_", "hw_b_")
    assert (find_issuer(active.secret), find_issuer(relabeled)) == ("a", "b")
    move_tenant(cells.route(), "acme")
    moved = cells.desk("b", "acme")
    before, others = cells.read_rows("b", moved.tenant.id), cells.read_rows("b", other.tenant.id)

    secrets = [active.secret, relabeled, revoked.secret, expired.secret]
    at_a = try_all(cells.urls.a, tmp_path / "a", secrets)
    assert at_a == [{421}, {421}, {401}, {401}]  # what names the cell b is sent there, without a look
    assert cells.count_rows("a", moved.tenant.id) == 0
    assert cells.read_rows("b", moved.tenant.id) == before

    moved.write(tokens.revoke, active.token.id)
    before = cells.read_rows("b", moved.tenant.id)
    at_b = try_all(cells.urls.b, tmp_path / "b", secrets)
    assert at_b == [{421}, {401}, {421}, {421}]  # what b does not know and what names a is sent there
    assert cells.read_rows("b", moved.tenant.id) == before
    assert cells.read_rows("b", other.tenant.id) == others

    move_tenant(cells.route("b", "a"), "acme")
    assert try_all(cells.urls.a, tmp_path / "a", [active.secret]) == [{401}]
