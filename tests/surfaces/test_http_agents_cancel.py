"""Canceling an agent over HTTP: a refused cancellation interrupts no run, in any tenant."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart

from headway import Headway, tool
from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.storage.transaction import Transaction
from headway.surfaces.http.app import WebApp
from headway.testing import scripted_model


def pay_once(messages: list[ModelMessage]) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse([TextPart("Paid.")], finish_reason="stop")
    return ModelResponse([ToolCallPart("pay", {})], finish_reason="tool_call")


def add_two_tenants(tx: Transaction) -> tuple[str, str, int]:
    """Create two tenants. Return both tokens and a conversation of the second tenant."""
    first, other = tenants.add_tenant(tx, "one"), tenants.add_tenant(tx, "other")
    conversation = conversations.add_conversation(tx, other.id)
    return tokens.create_token(tx, first.id).secret, tokens.create_token(tx, other.id).secret, conversation.id


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

    async def run_scenario() -> list[Any]:
        models = {"test:payer": scripted_model(pay_once)}
        async with Headway.open(models=models, tools=[pay], home=str(tmp_path), model="test:payer") as headway:
            stranger, owner, conversation_id = await headway.database.write(add_two_tenants)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(WebApp(headway)), base_url="http://127.0.0.1") as client:
                response = await client.post(
                    f"/v1/conversations/{conversation_id}/messages", json={"content": "Pay."}, headers=bearer(owner)
                )
                turn = f"/v1/turns/{response.json()['turn_id']}"
                await begun.wait()
                ((run_id,),) = await headway.database.unrestricted.read(lambda tx: tx.all("SELECT id FROM runs"))
                path, key = f"/v1/agents/{run_id}/cancel", {"Idempotency-Key": "k"}
                refused = [(await client.post(path, headers=bearer(who, **key))).status_code for who in (stranger, owner)]
                paid.set()
                while (ended := (await client.get(turn, headers=bearer(owner))).json()["turn"])["status"] == "running":
                    await asyncio.sleep(0.01)
            effects = await headway.database.unrestricted.read(lambda tx: tx.all("SELECT state FROM effects"))
            return [refused, ended["outcome"], effects]

    assert asyncio.run(asyncio.wait_for(run_scenario(), 60)) == [[404, 409], "answered", [("succeeded",)]]
