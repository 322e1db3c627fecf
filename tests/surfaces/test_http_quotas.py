"""A tenant over a quota is refused with the code `quota_exceeded`. It can still read and change, and others are not affected."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.storage.transaction import Transaction
from tests.surfaces.in_process_app import InProcessApp, open_app
from tests.surfaces.shell import Shell

LARGE = {"todos": [{"subject": f"todo {place}", "description": "x" * 200_000} for place in range(3)]}


def check_problem(answer: httpx.Response, quota: str) -> None:
    assert answer.status_code == 429
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == "quota_exceeded"
    assert f"quota {quota} in HEADWAY_QUOTAS" in problem["detail"]


def create_other_token(tx: Transaction) -> str:
    return tokens.create_token(tx, tenants.add_tenant(tx, "other").id).secret


def test_a_tenant_over_a_quota_is_refused_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_QUOTAS", "storage:1M,streams:1")

    async def scenario(service: InProcessApp) -> None:
        client, headway = service.client, service.app.headway
        rows = (await client.post("/v1/todos", json=LARGE)).json()["todos"]
        keyed = {"Idempotency-Key": "once"}
        check_problem(await client.post("/v1/todos", json={"subject": "one more"}, headers=keyed), "storage")
        check_problem(await client.post("/v1/conversations", json={}), "storage")
        assert (await client.patch(f"/v1/todos/{rows[0]['id']}", json={"status": "in_progress"})).status_code == 200
        assert (await client.get("/v1/todos")).status_code == 200

        secret = await headway.database.write(create_other_token)
        others = {"Authorization": f"Bearer {secret}"}
        assert (await client.post("/v1/todos", json={"subject": "theirs"}, headers=others)).status_code == 201

        room = "UPDATE id_ranges SET bytes = 0 WHERE tenant_id = ? AND kind = 'events'"
        await headway.database.write(lambda tx: tx.run(room, service.token.token.tenant_id))
        repeated = await client.post("/v1/todos", json={"subject": "one more"}, headers=keyed)
        assert repeated.status_code == 201, "a refusal for a quota is not remembered"

        await headway.feed.open(service.token.token.tenant_id, None, None)
        check_problem(await client.get("/v1/events"), "streams")

    async def run() -> None:
        async with open_app(tmp_path) as service:
            await scenario(service)

    asyncio.run(run())


def test_the_command_line_shows_usage_and_quotas(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_QUOTAS", "turns:20,storage:2M,jobs:none")
    headway.ok("todo", "add", "one", "--description", "x" * 2_000)
    shown = headway.json("tenant", "show", "local")
    assert shown["quotas"] == {"turns": 20, "jobs": None, "streams": 1_000, "storage": 2 * 2**20, "webhooks": 50}
    assert shown["usage"]["storage"] > 4_000
    assert (shown["usage"]["turns"], shown["usage"]["jobs"]) == (0, 0)
    lines = headway.ok("tenant", "show", "local").splitlines()
    assert lines[1:4] == ["turns\t0 of 20", "jobs\t0 of no limit", "streams\t1,000"]
    assert lines[4].endswith(" of 2.0 MiB")
