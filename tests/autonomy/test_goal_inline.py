"""The main agent works on sub-goals itself, one at a time. Each gets the tools it needs, and a checkpoint."""

from pathlib import Path

import pytest

from headway.actions.runs import jobs
from tests.autonomy.goal_harness import (
    Gate,
    Part,
    agent,
    by_part,
    by_transcript,
    failure,
    get_question,
    get_task,
    in_order,
    open_pursuit,
    plan,
    replan,
    reply_done,
    step,
)
from tests.model_server import calls, text

pytestmark = pytest.mark.usefixtures("dispatch")


def test_inline_work_uses_tools(database_url: str, tmp_path: Path) -> None:
    asking = by_transcript(calls(("now", {})), calls(("todo_add", {"subject": "buy a spade"})), text("A hole."))
    with open_pursuit(database_url, tmp_path, by_part({"dig": asking}, plan=plan(step("dig")))) as pursuit:
        pursuit.achieve()
        assert pursuit.sub_goal("dig").as_json()["outcome"]["summary"] == "A hole."
        subjects = pursuit.database.read(lambda tx: tx.all("SELECT subject FROM todos WHERE tenant_id = ?", pursuit.tenant_id))
        assert subjects == [("buy a spade",)]


def test_inline_work_on_each_sub_goal_begins_with_the_workspace_s_guide(sqlite_url: str, tmp_path: Path) -> None:
    guide = tmp_path / "workspace" / "1" / "AGENTS.md"
    guide.parent.mkdir(parents=True)
    guide.write_text("Dig in the south.")
    work: dict[str, Part] = {"dig": by_transcript(calls(("now", {})), text("A hole.")), "fill": text("Full.")}
    with open_pursuit(sqlite_url, tmp_path, by_part(work, plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        pursuit.achieve()
        requests = pursuit.list_requests("work")
        assert [[n for n, one in enumerate(request.texts) if "Dig in the south." in one] for request in requests] == [[2]] * 3


def test_inline_work_delegates_and_sleeps_until_the_worker_is_done(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    delegating = by_transcript(calls(("delegate", {"agent": "researcher", "task": "ask around"})), text("A hole, they say."))
    work = {"dig": delegating, "ask around": gate.before(text("Dig in the south."))}
    with open_pursuit(database_url, tmp_path, by_part(work, plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: "ask around" in pursuit.list_started_tasks() and pursuit.job().state == "delayed")
        assert pursuit.run().status == "waiting"
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        requests = [request for request in pursuit.list_requests("work") if request.tool_results]
        assert "Dig in the south." in requests[0].last
        assert pursuit.list_started_tasks() == ["dig", "ask around", "fill"]


def test_other_events_are_handled_between_two_steps(database_url: str, tmp_path: Path) -> None:
    first, second = Gate(), Gate()
    digging = by_transcript(first.before(calls(("now", {}))), second.before(text("A hole.")))
    script = by_part({"dig": digging}, plan=plan(step("dig"), agent("measure"), agent("draw", "measure")))
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.statuses().get("measure") == "completed")
        first.open()
        pursuit.until(lambda: pursuit.statuses()["draw"] == "completed")
        assert pursuit.statuses()["dig"] == "in-progress"
        second.open()
        assert pursuit.wait_until_ended().status == "completed"


def test_inline_work_that_a_new_plan_drops_is_not_gone_on_with(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    digging = gate.before(calls(("now", {})))
    work: dict[str, Part] = {"dig": digging, "measure": failure()}
    with open_pursuit(
        sqlite_url, tmp_path, by_part(work, plan=plan(step("dig"), agent("measure")), replan=replan(step("rest")))
    ) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.statuses().get("measure") == "failed")
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.statuses() == {"dig": "skipped", "measure": "failed", "rest": "completed"}


def test_every_sub_goal_begins_with_a_clean_sheet(sqlite_url: str, tmp_path: Path) -> None:
    work = {"dig": by_transcript(calls(("now", {})), text("A hole."))}
    with open_pursuit(sqlite_url, tmp_path, by_part(work, plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        pursuit.achieve()
        last = pursuit.list_requests("work")[-1]
        assert len(last.messages) == 2, "instructions, and what it is to do"
        assert "Done so far:" in get_question(last)
        assert "A hole." in get_question(last)


def test_its_own_word_on_how_it_ended_counts(database_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": failure("Nothing but rock.")}, plan=plan(step("dig")), replan=replan(step("drill")))
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        dig = pursuit.sub_goal("dig")
        assert (dig.status, dig.reason) == ("failed", "Nothing but rock.")
        assert pursuit.statuses() == {"dig": "failed", "drill": "completed"}


def test_inline_work_has_an_end(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": calls(("now", {}))}, plan=plan(step("dig")), replan=replan(step("drill")))
    with open_pursuit(sqlite_url, tmp_path, script, subagent_max_iterations="3") as pursuit:
        pursuit.achieve()
        assert pursuit.sub_goal("dig").status == "failed"
        assert [get_task(request) for request in pursuit.list_requests("work")] == ["dig"] * 3 + ["dig", "drill"]
        assert [request.body.get("tool_choice") == "none" for request in pursuit.list_requests("work")] == [
            *([False] * 3),
            *(True, False),
        ], "three steps, a summary, and one step of the other"


def test_a_main_agent_has_twenty_steps_for_a_sub_goal(sqlite_url: str, tmp_path: Path) -> None:
    """004: "maxTurns = 20" of "Core agentic loop (tool-calling cycle)". One more call sums up."""
    script = by_part({"dig": calls(("now", {}))}, plan=plan(step("dig")), replan=replan(step("drill")))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert [get_task(request) for request in pursuit.list_requests("work")] == ["dig"] * (20 + 1) + ["drill"]


def test_an_outcome_that_was_cut_off_arrives_whole(database_url: str, tmp_path: Path) -> None:
    """004: "JSONB: what the sub-goal produced": in full, even if the length limit cut the answer."""
    parts = in_order(text("A hole, two metres", finish="length"), text(" deep", finish="length"), text(" and dry."))
    with open_pursuit(database_url, tmp_path, by_part({"dig": parts}, plan=plan(step("dig")))) as pursuit:
        pursuit.achieve()
        assert pursuit.sub_goal("dig").as_json()["outcome"]["summary"] == "A hole, two metres deep and dry."


def test_commands_in_its_text_are_carried_out(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": by_transcript(text("/todo add buy a spade\n\nDigging."), text("A hole."))}, plan=plan(step("dig")))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert "[/todo add]" in pursuit.list_requests("work")[1].last


def test_the_journal_keeps_outcomes_and_no_conversations(sqlite_url: str, tmp_path: Path) -> None:
    work = {"dig": by_transcript(calls(("now", {}), text="Thinking aloud."), text("A hole.")), "fill": reply_done}
    with open_pursuit(sqlite_url, tmp_path, by_part(work, plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        pursuit.achieve()
        assert [entry.kind for entry in pursuit.entries()] == [
            "goal_set",
            "cycle_began",
            "planned",
            *["sub_goal_started", "sub_goal_ended", "evaluated"] * 2,
            "completed",
        ]
        assert [entry["outcome"]["summary"] for entry in pursuit.journal("sub_goal_ended")] == ["A hole.", "Done: fill."]
        assert not any("Thinking aloud." in entry.data for entry in pursuit.entries())


RELAY = '''
from pathlib import Path
from headway.agents.tools.custom import tool

CALLS = Path(__file__).with_name("calls.txt")

@tool(idempotent=True)
def look(failures: int) -> str:
    """Looks something up on a server that refuses the first connections."""
    with CALLS.open("a") as file:
        print("called", file=file)
    if len(CALLS.read_text().split()) <= failures:
        raise ConnectionRefusedError("connection refused")
    return "seen"
'''


@pytest.mark.parametrize(("failures", "attempts", "dead"), [(2, 3, 0), (99, 5, 1)])
def test_a_repeatable_call_of_inline_work_is_retried(
    database_url: str, tmp_path: Path, failures: int, attempts: int, dead: int
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "relay.py").write_text(RELAY)
    looking = by_transcript(calls(("look", {"failures": failures})), text("A hole."))
    with open_pursuit(database_url, tmp_path, by_part({"dig": looking}, plan=plan(step("dig")))) as pursuit:
        pursuit.achieve()
        assert len((tmp_path / "tools" / "calls.txt").read_text().split()) == attempts
        letters = pursuit.database.read(lambda tx: jobs.list_jobs(tx, pursuit.tenant_id, "dead", 10)).jobs
        assert len(letters) == dead
