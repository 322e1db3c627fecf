"""A worker is killed while an assessor judges an answer. Its successor asks the assessor again, and no other model."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.journeys.worker_processes import build_environment, expire_leases, list_events, read_rows, run_worker, wait_until_all_end
from tests.model_server import run_model_process

CHEAP, STUCK_S = "cheap-1", 600
YES = {"text": json.dumps({"ok": True, "reason": "fine"})}
RULES: list[dict[str, Any]] = [
    {"when": {"model": CHEAP}, "reply": {**YES, "seconds": STUCK_S}, "times": 1},
    {"when": {"model": CHEAP}, "reply": YES},
    {"when": {"tool_results": 0}, "reply": {"calls": [{"name": "manage_todos", "arguments": {"add": ["bake", "frost"]}}]}},
    {"when": {"contains": "NEXT_TODO: frost"}, "reply": {"text": "Frosted."}},
    {"reply": {"text": "Baked."}},
]


def start(tx: Transaction, tenant_id: int) -> None:
    conversation = conversations.add_conversation(tx, tenant_id)
    turns.start_turn(tx, tenant_id, conversation.id, turns.TurnRequest("A cake!", "queue"))


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=pytest.mark.torture), "postgres"])
def test_an_assessment_that_a_kill_cut_short_is_made_again(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    with run_model_process(RULES, tmp_path) as model, DirectDatabase(database_url) as database:
        desk = TenantHarness(database)
        env = build_environment(tmp_path, model, restart_stagger_s="0", model_cheap=f"openai-chat:{CHEAP}")
        desk.write(start)
        with run_worker(database_url, tmp_path, env) as first:
            model.wait_for_requests(3)
            first.end(signal.SIGKILL)
        expire_leases(desk)
        before = read_rows(desk, "SELECT n, message FROM transcript ORDER BY n")
        assert read_rows(desk, "SELECT status FROM todos ORDER BY position") == [("pending",), ("pending",)]
        with run_worker(database_url, tmp_path, env) as second:
            wait_until_all_end(desk)
            assert second.end() == 0

        assert read_rows(desk, "SELECT status, outcome FROM turns") == [("finished", "drained")]
        assert read_rows(desk, "SELECT status, outcome FROM todos ORDER BY position") == [
            ("completed", "Baked."),
            ("completed", "Frosted."),
        ]
        contents = [content for (content,) in read_rows(desk, "SELECT content FROM messages ORDER BY id")]
        assert contents == ["A cake!", "Baked.", "Frosted."]
        assert read_rows(desk, "SELECT n, message FROM transcript ORDER BY n")[: len(before)] == before
        assert [request.model == CHEAP for request in model.requests] == [False, False, True, True, False, True]
        assert model.requests[2].body == model.requests[3].body
        assert read_rows(desk, "SELECT iterations FROM runs") == [(3,)]
        tiers = [tier for (tier,) in read_rows(desk, "SELECT tier FROM model_calls ORDER BY id")]
        assert tiers == ["strong", "strong", "cheap", "strong", "cheap"]
        assert [event["runs"] for event in list_events(desk, "recovered")] == [1]
        assert model.violations == []
