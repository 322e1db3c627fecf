"""spawn_agent and the tools for spawned sub-agents: await_agent, check_agent, cancel_agent."""

import asyncio
from pathlib import Path

import pytest

from headway.actions.todos import conversations
from tests.agents.sub_agent_harness import (
    await_calls,
    begin_and_wait,
    by_role,
    by_task,
    by_transcript,
    call_on_first,
    delegate_call,
    get_states,
    hold_replies,
    list_requests,
    list_spawned_ids,
    list_sub_agents,
    list_tool_answers,
    spawn_calls,
    wait_for_end,
)
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

HOLES = by_task(dig=text("A hole."), drill=text("A bore."), shovel=text("A heap."))


def test_spawned_sub_agents_work_at_the_same_time(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        talk.server.script = by_role(
            index=by_transcript(spawn_calls("dig", "drill"), await_calls, text("Dug.")), researcher=hold_replies(talk, HOLES, 2)
        )
        talk.wait(begin_and_wait(talk, "researcher", 2))
        assert get_states(talk) == {"dig": ("running", "running"), "drill": ("running", "running")}
        talk.server.release()
        assert wait_for_end(talk)["outcome"] == "answered"
        assert set(list_tool_answers(list_requests(talk, "index")[1], "spawn_agent")[0]) == {"run_id", "jobId"}
        results = list_tool_answers(talk.server.requests[-1], "await_agent")
        assert [result["summary"] for result in results] == ["A hole.", "A bore."]
        assert [result["run_id"] for result in results] == [list_sub_agents(talk)[task].id for task in ("dig", "drill")]
        assert [set(result) for result in results] == [{"run_id", "status", "summary", "data", "error", "cost_usd"}] * 2


async def poll_delayed_job(talk: Talk) -> list[int]:
    """Poll the supervisor's job while it is delayed, and return the time of its last update at each poll."""
    steps: list[int] = []
    await talk.until(lambda: talk.job().state == "delayed")
    while (job := talk.job()).state == "delayed":
        steps.append(job.updated_at)
        await asyncio.sleep(0.01)
    return steps


def test_awaiting_with_a_timeout_reports_a_running_sub_agent_without_model_calls(database_url: str, tmp_path: Path) -> None:
    def await_at_third_request(request: Request) -> Reply:
        talk.server.wait_for_requests(3)  # two of the supervisor, and one of its sub-agent
        return call_on_first("await_agent", timeout_s=0.5)(request)

    def answer_at_fourth_request(_: Request) -> Reply:
        talk.server.wait_for_requests(4)  # the await call has returned
        return text("A hole.")

    async def scenario() -> list[int]:
        await talk.begin()
        return await poll_delayed_job(talk)

    with open_talk(database_url, tmp_path, text("")) as talk:
        index = by_transcript(spawn_calls("dig"), await_at_third_request, await_calls, text("Dug."))
        talk.server.script = by_role(index=index, researcher=answer_at_fourth_request)
        steps = talk.wait(scenario())
        assert len(steps) > 5
        assert len(set(steps)) == 1
        assert wait_for_end(talk)["outcome"] == "answered"
        first, second = list_tool_answers(talk.server.requests[-1], "await_agent")
        assert first == {"run_id": list_sub_agents(talk)["dig"].id, "status": "running"}
        assert (second["status"], second["summary"]) == ("completed", "A hole.")
        assert [event["is_error"] for event in talk.list_event_data("tool_result")] == [False] * 3


def test_a_wait_without_a_length_lasts_five_minutes(database_url: str, tmp_path: Path) -> None:
    """004, await-agent: "timeoutMs: 300_000, // 5 min max wait"."""
    with open_talk(database_url, tmp_path, text("")) as talk:
        talk.server.script = by_role(
            index=by_transcript(spawn_calls("dig"), await_calls, text("Dug.")), researcher=hold_replies(talk, HOLES)
        )
        talk.wait(begin_and_wait(talk, "researcher"))
        talk.wait(talk.until(lambda: talk.job().state == "delayed"))
        assert talk.job().due_at - talk.job().updated_at == 300_000
        talk.server.release()
        assert wait_for_end(talk)["outcome"] == "answered"


def test_an_ended_sub_agent_can_be_awaited_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(
        sqlite_url,
        tmp_path,
        by_role(index=by_transcript(spawn_calls("dig"), await_calls, await_calls, text("Dug.")), researcher=HOLES),
    ) as talk:
        talk.say()
        first, second = list_tool_answers(talk.server.requests[-1], "await_agent")
        assert first == second
        assert second["summary"] == "A hole."


def test_check_agent_reports_the_progress_of_a_sub_agent(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(spawn_calls("dig"), call_on_first("check_agent"), await_calls, call_on_first("check_agent"), text("Dug."))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=index, researcher=by_transcript(calls(("now", {})), text("A hole.")))
    ) as talk:
        talk.say()
        early, late = list_tool_answers(talk.server.requests[-1], "check_agent")
        assert set(early) >= {"run_id", "status", "iterations", "last_activity_s"}
        assert (late["status"], late["summary"], late["iterations"]) == ("completed", "A hole.", 2)
        assert late["last_activity_s"] >= 0


def test_a_running_sub_agent_is_shown_as_running(sqlite_url: str, tmp_path: Path) -> None:
    def check_at_fifth_request(request: Request) -> Reply:
        talk.server.wait_for_requests(5)  # three of the supervisor, and two of its sub-agent
        return call_on_first("check_agent")(request)

    def answer_at_sixth_request(_: Request) -> Reply:
        talk.server.wait_for_requests(6)  # the supervisor has checked
        return text("A hole.")

    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        index = by_transcript(
            spawn_calls("dig"), call_on_first("await_agent", timeout_s=0.3), check_at_fifth_request, await_calls, text("Dug.")
        )
        worker = by_transcript(calls(("now", {})), answer_at_sixth_request)
        talk.server.script = by_role(index=index, researcher=worker)
        talk.say()
        (looked,) = list_tool_answers(talk.server.requests[-1], "check_agent")
        assert looked["status"] == "running"
        assert looked["iterations"] in (1, 2)
        assert isinstance(looked["last_activity_s"], int)


def test_a_canceled_sub_agent_stops_with_all_that_it_began(database_url: str, tmp_path: Path) -> None:
    def cancel_at_fourth_request(request: Request) -> Reply:
        talk.server.wait_for_requests(4)
        return call_on_first("cancel_agent")(request)

    with open_talk(database_url, tmp_path, text("")) as talk:
        slow = Reply("Shoveled.", seconds=20)
        index = by_transcript(
            spawn_calls("dig"), cancel_at_fourth_request, await_calls, call_on_first("cancel_agent"), text("Never mind.")
        )
        talk.server.script = by_role(index=index, researcher=delegate_call("shovel", "coder"), coder=slow)
        assert talk.say()["outcome"] == "answered"
        assert get_states(talk) == {"dig": ("canceled", "canceled"), "shovel": ("canceled", "canceled")}
        canceled_result, second_result = list_tool_answers(talk.server.requests[-1], "cancel_agent")
        assert (canceled_result["status"], canceled_result["run_id"]) == ("canceled", list_sub_agents(talk)["dig"].id)
        assert list_tool_answers(talk.server.requests[-1], "await_agent")[0] == canceled_result
        assert "already ended" in second_result["error"]
        talk.wait(asyncio.wait_for(talk.until(lambda: not talk.headway.engine.tasks), 20))


def test_a_sub_agent_canceled_before_it_began_never_starts(sqlite_url: str, tmp_path: Path) -> None:
    def cancel_second(request: Request) -> Reply:
        return calls(("cancel_agent", {"run_id": list_spawned_ids(request)[1]}))

    with open_talk(sqlite_url, tmp_path, text(""), subagents_per_parent="1") as talk:
        index = by_transcript(spawn_calls("dig", "drill"), cancel_second, await_calls, text("Dug."))
        talk.server.script = by_role(index=index, researcher=by_task(dig=Reply("A hole.", seconds=0.5), drill=text("A bore.")))
        talk.say()
        assert get_states(talk) == {"dig": ("completed", "completed"), "drill": ("canceled", "canceled")}
        assert len(list_requests(talk, "researcher")) == 1


def test_a_sub_agent_of_another_agent_cannot_be_checked(database_url: str, tmp_path: Path) -> None:
    def check_foreign(request: Request) -> Reply:
        foreign = [run.id for run in sub_agents] + [talk.run_row().id, "nobody", "0" * 5_000]
        return calls(*((tool, {"run_id": run_id}) for tool in ("await_agent", "check_agent", "cancel_agent") for run_id in foreign))

    with open_talk(database_url, tmp_path, text("")) as talk:
        researcher = by_transcript(spawn_calls("shovel", role="coder"), await_calls, text("A hole."))
        talk.server.script = by_role(
            index=by_transcript(spawn_calls("dig"), await_calls, text("Dug.")), researcher=researcher, coder=HOLES
        )
        talk.say()
        sub_agents = list(list_sub_agents(talk).values())
        assert len(sub_agents) == 2
        talk.conversation_id = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id)).id
        talk.server.script = by_transcript(check_foreign, text("None of mine."))
        assert talk.say()["outcome"] == "answered"
        results = talk.server.requests[-1].tool_results
        assert len(results) == 3 * 5
        assert all("You have no sub-agent" in result.content and len(result.content) < 300 for result in results)


def test_a_grandchild_is_its_parents_own(sqlite_url: str, tmp_path: Path) -> None:
    def check_foreign(_: Request) -> Reply:
        return calls(("check_agent", {"run_id": list_sub_agents(talk)["shovel"].id}))

    researcher = by_transcript(spawn_calls("shovel", role="coder"), await_calls, text("A hole."))
    script = by_role(
        index=by_transcript(spawn_calls("dig"), await_calls, check_foreign, text("Dug.")), researcher=researcher, coder=HOLES
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        assert "You have no sub-agent" in list_tool_answers(talk.server.requests[-1], "check_agent")[0]["error"]


def test_every_change_of_a_sub_agent_is_emitted(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(spawn_calls("dig"), await_calls, text("Dug.")), researcher=HOLES)
    ) as talk:
        talk.say()
        changes = [event["run"] for event in talk.list_event_data("agent_changed")]
        assert [run["status"] for run in changes] == ["queued", "running", "completed"]
        assert {run["id"] for run in changes} == {list_sub_agents(talk)["dig"].id}
        assert changes[0]["result"] is None
        assert (changes[-1]["result"]["summary"], changes[-1]["role"], changes[-1]["depth"]) == ("A hole.", "researcher", 1)
        assert (changes[-1]["parent_run_id"], changes[-1]["turn_id"]) == (talk.run_row().id, talk.run_row().turn_id)


def test_a_wait_must_be_of_some_length(sqlite_url: str, tmp_path: Path) -> None:
    waits = calls(*(("await_agent", {"run_id": "x", "timeout_s": seconds}) for seconds in (0, -1, 1e9, "soon")))
    with open_talk(sqlite_url, tmp_path, by_transcript(waits, text("Oh."))) as talk:
        talk.say()
        assert all("timeout_s" in result["error"] for result in list_tool_answers(talk.server.requests[-1], "await_agent"))
