"""32 turns at once on a small pool: the sum of what they spend never exceeds its limit."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import conversations
from headway.ledger.money import NANOS_PER_DOLLAR
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, calls, chunk, encode_stream, raw, text

TURNS = 32
PRICES = '["openai-chat:fake-1"]\ninput = 3\noutput = 15\n'


def count_input(request: Request) -> int:
    """Count tokens as a provider does: about four characters each."""
    return len(json.dumps(request.body)) // 4


def count_output(request: Request) -> int:
    """Return the most that the request allows."""
    return int(request.body["max_tokens"])


def answer_at_maximum(request: Request) -> Reply:
    usage = (count_input(request), count_output(request))
    return text("Done.", usage=usage) if request.tool_results else calls(("now", {}), usage=usage)


def answer_without_usage(request: Request) -> Reply:
    if request.tool_results:
        return raw(encode_stream(chunk({"content": "Done. " * 500}), chunk({}, "stop")))
    call: dict[str, Any] = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    return raw(encode_stream(chunk({"tool_calls": [call]}), chunk({}, "tool_calls")))


async def run_turns(talk: Talk) -> None:
    """Begin all turns, each in a conversation of its own, and wait until each has ended or waits for money."""
    headway, tenant_id, database = talk.headway, talk.tenant_id, talk.headway.database.of(talk.tenant_id)
    for _ in range(TURNS):
        conversation_id = (await database.write(lambda tx: conversations.add_conversation(tx, tenant_id))).id
        job = await database.write(lambda tx, id=conversation_id: headway.begin_turn(tx, tenant_id, id, "What time is it?"))  # type: ignore[misc]
        headway.engine.take(job)
    while headway.engine.tasks:
        await asyncio.wait(headway.engine.tasks.values())


# Each budget is enough for some of the calls.
@pytest.mark.parametrize(("script", "budget_usd"), [(answer_at_maximum, "2.0"), (answer_without_usage, "0.5")])
def test_parallel_turns_never_spend_more_than_the_pool(database_url: str, tmp_path: Path, script: Any, budget_usd: str) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    with open_talk(database_url, tmp_path, script, budget_usd=budget_usd) as talk:
        talk.wait(run_turns(talk))
        events = talk.list_event_data("cost_changed")
        assert events
        assert all(event["spent_usd"] <= event["limit_usd"] for event in events)
        pool = talk.pool()
        assert (0 < pool.spent <= float(budget_usd) * NANOS_PER_DOLLAR, pool.reserved) == (True, 0)
        assert pool.spent == sum(call.cost for call in talk.model_calls())
        rows = talk.database.read(lambda tx: tx.all("SELECT status, count(*) FROM turns GROUP BY status"))
        counts: dict[str, int] = dict(rows)
        assert sum(counts.values()) == TURNS
        assert set(counts) <= {"finished", "paused"}
        assert counts["paused"] > 0, "the pool was too large for this test"
