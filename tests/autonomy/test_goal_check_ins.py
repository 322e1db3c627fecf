"""Check-ins on running sub-agents: the interval doubles each time, and an agent without progress gets an intervention."""

from pathlib import Path
from typing import Any

import pytest

from headway.actions.runs import jobs
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction
from tests.autonomy.goal_harness import (
    Gate,
    Part,
    agent,
    by_part,
    get_question,
    in_order,
    intervention,
    open_pursuit,
    plan,
    replan,
    reply_done,
    step,
)
from tests.model_server import calls, error, text

pytestmark = pytest.mark.usefixtures("dispatch")

WRONG = calls(("no_such_tool", {}))
SOON: dict[str, Any] = {"check_in_s": "0.1"}


def stuck(gate: Gate) -> Part:
    """Five steps without progress, one that blocks at the gate, and then an answer."""
    return in_order(*[WRONG] * 5, gate.before(WRONG), text("A hole, after all."))


def test_a_stuck_agent_gets_a_message_before_its_next_step(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part({"dig": stuck(gate)}, plan=plan(agent("dig")), intervention=intervention("message", "Try the\nshovel."))
    with open_pursuit(database_url, tmp_path, script, **SOON) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.journal("intervened"))
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        (intervened,) = pursuit.journal("intervened")
        assert (intervened["action"], intervened["why"]) == ("message", "5 steps without a successful tool call")
        last = pursuit.list_requests("work")[-1]
        assert last.last == "CHECK-IN: Try the shovel."
        assert sum("CHECK-IN" in words for request in pursuit.list_requests("work") for words in request.texts) == 1
        question = get_question(pursuit.list_requests("intervention")[0])
        assert "researcher, 5 steps of 20" in question
        assert pursuit.sub_goal("dig").interventions == 1


def test_an_agent_that_makes_progress_is_left_alone(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part({"dig": in_order(*[calls(("now", {}))] * 6, gate.before(text("A hole.")))}, plan=plan(agent("dig")))
    with open_pursuit(sqlite_url, tmp_path, script, **SOON) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: len(pursuit.list_requests("work")) == 7 and pursuit.sub_goal("dig").check_ins >= 2)
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.journal("intervened") == []


def test_a_sub_agent_that_is_silent_for_too_long_is_stuck(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part({"dig": gate.before(reply_done)}, plan=plan(agent("dig")), intervention=intervention("wait"))
    with open_pursuit(sqlite_url, tmp_path, script, stuck_after_s="0.1", **SOON) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.journal("intervened"))
        assert "s without progress" in pursuit.journal("intervened")[0]["why"]
        gate.open()
        assert pursuit.wait_until_ended().status in ("completed", "abandoned")


def test_a_sub_goal_may_be_cut_differently(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part(
        {"dig": stuck(gate)}, plan=plan(agent("dig"), step("fill", "dig")), intervention=intervention("rescope", "drill")
    )
    with open_pursuit(database_url, tmp_path, script, **SOON) as pursuit:
        pursuit.achieve()
        gate.open()
        assert pursuit.statuses() == {"drill": "completed", "fill": "completed"}
        started = pursuit.journal("sub_goal_started")
        assert [entry["description"] for entry in started] == ["dig", "drill", "fill"]
        rows = pursuit.database.read(lambda tx: tx.all("SELECT task, status FROM runs WHERE parent_run_id IS NOT NULL"))
        assert sorted(rows) == [("dig", "canceled"), ("drill", "completed")]
        assert pursuit.goal().replan_count == 0


def test_a_sub_goal_that_is_given_up_is_replanned(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part(
        {"dig": stuck(gate)}, plan=plan(agent("dig")), intervention=intervention("cancel"), replan=replan(step("drill"))
    )
    with open_pursuit(database_url, tmp_path, script, **SOON) as pursuit:
        pursuit.achieve()
        gate.open()
        assert pursuit.statuses() == {"dig": "failed", "drill": "completed"}
        assert pursuit.run_of("dig").status == "canceled"
        assert pursuit.goal().replan_count == 1


@pytest.mark.parametrize("nobody", [text("Hm."), error(500)], ids=["talks nonsense", "cannot be reached"])
def test_an_unreachable_overseer_is_replaced_by_a_standard_message(sqlite_url: str, tmp_path: Path, nobody: Part) -> None:
    gate = Gate()
    script = by_part({"dig": stuck(gate)}, plan=plan(agent("dig")), intervention=nobody)
    with open_pursuit(sqlite_url, tmp_path, script, model_retries="2", **SOON) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.journal("intervened"))
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        assert "You seem to make no progress" in pursuit.list_requests("work")[-1].last


def test_a_failed_question_to_the_overseer_blocks_no_work(sqlite_url: str, tmp_path: Path) -> None:
    """The overseer's model fails once. The agent ends, and its parent resumes at once, not at the next check-in."""
    gate = Gate()
    overseer = in_order(error(500), intervention("wait"))
    script = by_part({"dig": stuck(gate)}, plan=plan(agent("dig")), intervention=overseer)
    with open_pursuit(sqlite_url, tmp_path, script, **SOON) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.journal("intervened") and pursuit.job().state == "delayed")
        assert pursuit.job().attempts == 0
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"


def test_the_interval_doubles_with_every_look(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    with open_pursuit(
        database_url, tmp_path, by_part({"dig": gate.before(reply_done)}, plan=plan(agent("dig"))), **SOON
    ) as pursuit:
        run_id = pursuit.set_goal().run_id or ""
        seen: dict[int, int] = {}

        def look(tx: Transaction) -> bool:
            """Read the sub-goal and its goal's job in one transaction, because one transaction updates both."""
            job = jobs.get_job(tx, pursuit.tenant_id, run_id)
            for sub_goal in goal_store.list_sub_goals(tx, pursuit.tenant_id, pursuit.goal_id):
                if job.state == "delayed":
                    seen[sub_goal.check_ins] = job.due_at - sub_goal.checked_at
            return 2 in seen

        pursuit.until(lambda: pursuit.database.read(look))
        gate.open()
        pursuit.wait_until_ended()
        assert {interval == 100 << checks for checks, interval in seen.items()} == {True}, seen
