"""Runs a turn to its end in the process of the test, for an agent of any tenant."""

from typing import Any

from headway import Headway
from headway.actions.turns import turns
from headway.ledger.job import Job
from headway.ledger.run import TurnMode
from headway.storage.transaction import Transaction, within_tenant


async def run_turn(headway: Headway, tenant_id: int, conversation_id: int, content: str, mode: TurnMode = "plan") -> dict[str, Any]:
    """Answer a message in a conversation and return the ended turn."""
    await headway.agents_ready()

    def begin(tx: Transaction) -> Job:
        return headway.begin_turn(tx, tenant_id, conversation_id, content, mode)

    job = await headway.run_to_end(within_tenant(tenant_id, begin))
    return await headway.database.of(tenant_id).read(
        lambda tx: turns.show_turn(tx, tenant_id, turns.get_turn_id(job), headway.settings.limits)
    )
