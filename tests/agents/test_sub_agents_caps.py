"""Limits on the number of sub-agents. At a limit, an agent waits for a slot or gets an error result; nothing crashes."""

from pathlib import Path

from headway.actions.runs import runs
from headway.ledger.limits import Limits
from headway.ledger.run import RunEnd
from headway.storage.transaction import Transaction
from tests.agents.sub_agent_harness import (
    await_calls,
    begin_and_wait,
    by_role,
    by_transcript,
    get_states,
    hold_replies,
    list_requests,
    list_sub_agents,
    list_tool_answers,
    spawn_calls,
    wait_for_end,
)
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, calls, text

FIVE = ("a", "b", "c", "d", "e")


def count_running(talk: Talk) -> list[int]:
    """Return the number of running sub-agents after each change."""
    running: set[str] = set()
    numbers: list[int] = []
    for event in talk.list_event_data("agent_changed"):
        run = event["run"]
        running = running | {run["id"]} if run["status"] == "running" else running - {run["id"]}
        numbers.append(len(running))
    return numbers


def test_the_fifth_of_one_parent_waits_for_a_slot(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        talk.server.script = by_role(
            index=by_transcript(spawn_calls(*FIVE), await_calls, text("Dug.")), researcher=hold_replies(talk, text("A hole."), 4)
        )
        talk.wait(begin_and_wait(talk, "researcher", 4))
        talk.wait(talk.until(lambda: talk.job().state == "delayed"))
        states = sorted(get_states(talk).values())
        assert states == [("queued", "queued"), *[("running", "running")] * 4]
        assert len(list_requests(talk, "researcher")) == 4
        talk.server.release()
        assert wait_for_end(talk)["outcome"] == "answered"
        assert len(list_requests(talk, "researcher")) == 5
        assert [result["status"] for result in list_tool_answers(talk.server.requests[-1], "await_agent")] == ["completed"] * 5


def test_never_are_more_at_work_than_may_be(sqlite_url: str, tmp_path: Path) -> None:
    worker = by_transcript(calls(("now", {})), text("A hole."))
    script = by_role(index=by_transcript(spawn_calls(*FIVE, "f", "g", "h"), await_calls, text("Dug.")), researcher=worker)
    with open_talk(sqlite_url, tmp_path, script, subagents_per_parent="3") as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(list_sub_agents(talk)) == 8
        assert max(count_running(talk)) == 3


def test_children_of_different_parents_do_not_take_each_others_slots(sqlite_url: str, tmp_path: Path) -> None:
    """A waiting worker holds no slot, so workers of the same kind cannot block the sub-agent it waits for."""
    worker = by_transcript(spawn_calls("x", role="coder"), await_calls, text("A hole."))
    script = by_role(index=by_transcript(spawn_calls(*FIVE), await_calls, text("Dug.")), researcher=worker, coder=text("Done."))
    with open_talk(sqlite_url, tmp_path, script, subagents_per_parent="1") as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(list_requests(talk, "coder")) == 5


def test_the_seventeenth_spawn_is_refused_until_one_is_awaited(sqlite_url: str, tmp_path: Path) -> None:
    tasks = [f"task {n}" for n in range(17)]
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        index = by_transcript(spawn_calls(*tasks), await_spawned, spawn_calls("one more"), await_spawned, text("Dug."))
        talk.server.script = by_role(index=index, researcher=text("A hole."))
        assert talk.say()["outcome"] == "answered"
        begun_or_not = list_tool_answers(list_requests(talk, "index")[1], "spawn_agent")
        assert [set(result) for result in begun_or_not] == [{"run_id", "jobId"}] * 16 + [{"error"}]
        assert "16 sub-agents of this turn are running" in begun_or_not[-1]["error"]
        assert set(list_tool_answers(list_requests(talk, "index")[-1], "spawn_agent")[-1]) == {"run_id", "jobId"}


def await_spawned(request: Request) -> Reply:
    run_ids = [result["run_id"] for result in list_tool_answers(request, "spawn_agent") if "run_id" in result]
    return calls(*(("await_agent", {"run_id": run_id}) for run_id in run_ids))


def record_ended_sub_agents(talk: Talk, number: int) -> None:
    """Record `number` ended sub-agents of this turn."""
    parent = talk.run_row()

    def record(tx: Transaction) -> None:
        for n in range(number):
            runs.end_child(tx, runs.begin_child(tx, parent, "researcher", f"past {n}", 10), RunEnd("completed", "over"))

    talk.database.write(record)


def test_the_sixty_fifth_of_a_turn_is_not_begun_in_any_way(sqlite_url: str, tmp_path: Path) -> None:
    def spawn_two_more(_: Request) -> Reply:
        record_ended_sub_agents(talk, Limits().lifetime - 1)
        return spawn_calls("last", "one too many")

    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        delegate = calls(("delegate", {"agent": "researcher", "task": "no"}), text="Hm.\n/agent researcher no")
        talk.server.script = by_role(
            index=by_transcript(spawn_two_more, delegate, text("I do the rest.")), researcher=text("A hole.")
        )
        assert talk.say()["outcome"] == "answered"
        first, second = list_tool_answers(list_requests(talk, "index")[-1], "spawn_agent")
        assert set(first) == {"run_id", "jobId"}
        assert "64 sub-agents" in second["error"]
        assert "64 sub-agents" in list_tool_answers(list_requests(talk, "index")[-1], "delegate")[0]["error"]
        assert "[/agent researcher]\nERR: This turn has started 64 sub-agents" in list_requests(talk, "index")[-1].last
        assert not {"one too many", "no"} & set(list_sub_agents(talk))


def test_the_next_turn_starts_a_new_count(sqlite_url: str, tmp_path: Path) -> None:
    def use_up_limit(_: Request) -> Reply:
        record_ended_sub_agents(talk, Limits().lifetime)
        return text("Much was done.")

    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        talk.server.script = use_up_limit
        talk.say()
        talk.server.script = by_role(
            index=by_transcript(text(""), spawn_calls("dig"), await_calls, text("Dug.")), researcher=text("A hole.")
        )
        assert talk.say()["outcome"] == "answered"
        assert list_tool_answers(talk.server.requests[-1], "await_agent")[0]["status"] == "completed"
