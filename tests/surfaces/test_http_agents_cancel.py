"""Canceling an agent over HTTP: a refused cancellation interrupts no run, in any tenant."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart

from headway import Headway, tool
from headway.actions import conversations, tenants
from headway.storage.transaction import Transaction
from headway.surfaces.http.app import WebApp
from headway.testing import scripted_model


def pays_once(messages: list[ModelMessage]) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse([TextPart("Paid.")], finish_reason="stop")
    return ModelResponse([ToolCallPart("pay", {})], finish_reason="tool_call")


def two_tenants(tx: Transaction) -> tuple[str, str, int]:
    """Create two tenants. Return both tokens and a conversation of the second tenant."""
    one, other = tenants.add(tx, "one"), tenants.add(tx, "other")
    talk = conversations.add(tx, other.id)
    return tenants.create_token(tx, one.id).secret, tenants.create_token(tx, other.id).secret, talk.id


def bearer(secret: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", **more}


def test_a_replayed_refusal_interrupts_no_agent(tmp_path: Path) -> None:
    begun, paid = asyncio.Event(), asyncio.Event()

    @tool
    async def pay() -> str:
        """Pay."""
        begun.set()
        await paid.wait()
        return "paid"

    async def story() -> list[Any]:
        models = {"test:payer": scripted_model(pays_once)}
        async with Headway.open(models=models, tools=[pay], home=str(tmp_path), model="test:payer") as headway:
            stranger, owner, talk = await headway.database.write(two_tenants)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(WebApp(headway)), base_url="http://127.0.0.1") as client:
                said = await client.post(f"/v1/conversations/{talk}/messages", json={"content": "Pay."}, headers=bearer(owner))
                turn = f"/v1/turns/{said.json()['turn_id']}"
                await begun.wait()
                ((run_id,),) = await headway.database.read(lambda tx: tx.all("SELECT id FROM runs"))
                path, key = f"/v1/agents/{run_id}/cancel", {"Idempotency-Key": "k"}
                refused = [(await client.post(path, headers=bearer(who, **key))).status_code for who in (stranger, owner)]
                paid.set()
                while (ended := (await client.get(turn, headers=bearer(owner))).json()["turn"])["status"] == "running":
                    await asyncio.sleep(0.01)
            effects = await headway.database.read(lambda tx: tx.all("SELECT state FROM effects"))
            return [refused, ended["outcome"], effects]

    assert asyncio.run(asyncio.wait_for(story(), 60)) == [[404, 409], "answered", [("succeeded",)]]
