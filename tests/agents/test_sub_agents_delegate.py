"""delegate: the supervisor waits for a worker without a slot, gets its result, and continues with its plan."""

from pathlib import Path

import pytest

from headway.actions.todos import todos
from headway.ledger.text import TEXT_LIMIT
from headway.ledger.todo import Change
from tests.agents.sub_agent_harness import (
    begin_and_wait,
    by_role,
    by_transcript,
    crash_process,
    delegate_call,
    get_result,
    get_states,
    hold_replies,
    list_requests,
    list_sub_agents,
    list_tool_answers,
    raw_call,
    wait_for_end,
)
from tests.agents.turn_harness import Talk, complete_next, list_open_ids, open_talk, plan_call
from tests.model_server import Reply, Request, calls, error, text

pytestmark = pytest.mark.usefixtures("dispatch")


def delegate_next(request: Request) -> Reply:
    """Delegate the first open item of the plan."""
    return delegate_call("dig", todoId=list_open_ids(request)[0])


def test_the_result_of_a_worker_goes_back(database_url: str, tmp_path: Path) -> None:
    with open_talk(
        database_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=text("A hole."))
    ) as talk:
        assert talk.say()["outcome"] == "answered"
        (child,) = list_sub_agents(talk).values()
        assert list_tool_answers(talk.server.requests[-1], "delegate") == [
            {"run_id": child.id, "status": "completed", "summary": "A hole.", "data": None, "error": None, "cost_usd": 0.0}
        ]
        assert (child.parent_run_id, child.turn_id, child.depth) == (talk.run_row().id, talk.run_row().turn_id, 1)
        assert get_states(talk) == {"dig": ("completed", "completed")}
        (event,) = talk.list_event_data("tool_result")
        assert (event["run_id"], event["is_error"], event["result"]["summary"]) == (talk.run_row().id, False, "A hole.")


def test_an_agent_that_waits_for_a_worker_holds_no_slot(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        talk.server.script = by_role(
            index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=hold_replies(talk, text("A hole."))
        )
        talk.wait(begin_and_wait(talk, "researcher"))
        (child,) = list_sub_agents(talk).values()
        talk.wait(talk.until(lambda: list(talk.headway.engine.tasks) == [child.id]))
        assert (talk.job().state, talk.job().owner, talk.run_row().status) == ("delayed", "", "waiting")
        assert (talk.turn()["status"], child.status) == ("running", "running")
        assert get_states(talk) == {"dig": ("running", "running")}
        talk.server.release()
        assert wait_for_end(talk)["outcome"] == "answered"
        assert len(talk.server.requests) == 3


def test_the_delegated_item_is_in_progress_and_then_done_with_the_workers_outcome(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        index = by_transcript(plan_call("Dig", "Fill"), delegate_next, complete_next, text("Both."))
        talk.server.script = by_role(index=index, researcher=hold_replies(talk, text("A hole.")))
        talk.wait(begin_and_wait(talk, "researcher"))
        assert [todo.status for todo in talk.plan()] == ["in_progress", "pending"]
        talk.server.release()
        assert wait_for_end(talk)["outcome"] == "drained"
        assert [(todo.outcome, todo.completed_by) for todo in talk.plan()] == [("A hole.", "agent"), ("done", "agent")]
        after = list_requests(talk, "index")[2]
        assert "Plan: 1 open, 1 ended" in after.last
        assert talk.answers() == ["Both."]


def test_an_item_whose_worker_failed_stays_open_for_the_supervisor(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(plan_call("Dig"), delegate_next, text("Done?"), complete_next, text("Dug it myself."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index, researcher=error(401, "no"))) as talk:
        assert talk.say()["outcome"] == "drained"
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["status"] == "failed"
        assert "[in_progress] Dig" in list_requests(talk, "index")[2].last
        assert len(talk.list_event_data("refused")) == 1
        assert talk.plan()[0].outcome == "done"


def test_an_item_ended_in_the_meantime_is_left_as_it_is(sqlite_url: str, tmp_path: Path) -> None:
    def end_item(_: Request) -> Reply:
        item = talk.plan()[0]
        talk.database.write(
            lambda tx: todos.change_todo(tx, talk.tenant_id, item.id, Change(status="canceled", outcome="not needed"))
        )
        return text("A hole.")

    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(plan_call("Dig"), delegate_next, text("Fine.")), researcher=end_item)
    ) as talk:
        assert talk.say()["outcome"] == "drained"
        assert [(todo.status, todo.outcome) for todo in talk.plan()] == [("canceled", "not needed")]
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["summary"] == "A hole."


def test_an_item_that_cannot_be_started_delegates_nothing(sqlite_url: str, tmp_path: Path) -> None:
    def delegate_ended(request: Request) -> Reply:
        return delegate_call("dig", todoId=talk.plan()[0].uuid)

    index = by_transcript(plan_call("Dig"), complete_next, delegate_ended, delegate_call("dig", todoId="nobody's"), text("Done."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index)) as talk:
        assert talk.say()["outcome"] == "drained"
        first, second = list_tool_answers(talk.server.requests[-1], "delegate")
        assert "already completed" in first["error"]
        assert "not found" in second["error"]
        assert list_sub_agents(talk) == {}


def test_a_refused_delegation_does_not_start_its_item(sqlite_url: str, tmp_path: Path) -> None:
    def delegate_to_unknown(request: Request) -> Reply:
        return delegate_call("dig", "cook", todoId=list_open_ids(request)[0])

    def check_and_complete(request: Request) -> Reply:
        statuses.append(talk.plan()[0].status)
        return complete_next(request)

    statuses: list[str] = []
    script = by_role(index=by_transcript(plan_call("Dig"), delegate_to_unknown, check_and_complete, text("Done.")))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        assert statuses == ["pending"]
        assert not any(message.startswith("[TURN CONTEXT]") for message in talk.server.requests[2].texts[1:])


def test_a_report_longer_than_an_outcome_still_reaches_the_parent(sqlite_url: str, tmp_path: Path) -> None:
    report = "".join(map(str, range(TEXT_LIMIT)))[: TEXT_LIMIT + 1]
    script = by_role(index=by_transcript(plan_call("Dig"), delegate_next, text("Dug.")), researcher=text(report))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "drained"
        assert (talk.plan()[0].outcome or "").startswith("0123456789101112")
        assert '"status": "completed"' in talk.server.requests[-1].tool_results[-1].content


def test_two_delegations_of_one_answer_are_both_answered(sqlite_url: str, tmp_path: Path) -> None:
    both = calls(("delegate", {"agent": "researcher", "task": "dig"}), ("delegate", {"agent": "writer", "task": "write"}))
    script = by_role(index=by_transcript(both, text("Done.")), researcher=text("A hole."), writer=text("A poem."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        assert [result["summary"] for result in list_tool_answers(talk.server.requests[-1], "delegate")] == ["A hole.", "A poem."]


def test_a_sub_agent_of_any_role_never_plans(sqlite_url: str, tmp_path: Path) -> None:
    """A sub-agent with the supervisor's role has no turn, and so no plan."""

    def index(request: Request) -> Reply:
        if "[DELEGATION CONTEXT]" in request.texts[1]:
            return by_transcript(plan_call("Dig"), text("A hole."))(request)
        return by_transcript(delegate_call("dig", "index"), text("Dug."))(request)

    with open_talk(sqlite_url, tmp_path, index) as talk:
        assert talk.say()["outcome"] == "answered"
        sub_request = talk.server.requests[1]
        assert not {"create_todo", "list_todo", "complete_todo", "start_todo", "manage_todos"} & set(sub_request.tools)
        assert "# Planning" not in sub_request.system
        assert "error" in list_tool_answers(talk.server.requests[2], "create_todo")[0]
        assert talk.plan() == []


# Interrupted


def start_nested_delegation(talk: Talk) -> None:
    """Start a sub-agent of a sub-agent. Both waiting agents are delayed."""
    talk.server.script = by_role(
        index=by_transcript(plan_call("Dig"), delegate_next, text("Dug.")),
        researcher=by_transcript(delegate_call("shovel", "coder"), text("A hole.")),
        coder=hold_replies(talk, text("Shoveled.")),
    )
    talk.wait(begin_and_wait(talk, "coder"))


def assert_all_ended(talk: Talk) -> None:
    """Assert that the turn ended as if uninterrupted and nothing was started twice."""
    assert wait_for_end(talk)["outcome"] == "drained"
    assert get_states(talk) == {"dig": ("completed", "completed"), "shovel": ("completed", "completed")}
    assert {task: run.depth for task, run in list_sub_agents(talk).items()} == {"dig": 1, "shovel": 2}
    assert [(todo.status, todo.outcome) for todo in talk.plan()] == [("completed", "A hole.")]
    assert sorted((effect.tool, effect.state) for effect in talk.effects()) == [
        ("create_todo", "succeeded"),
        ("delegate", "succeeded"),
        ("delegate", "succeeded"),
    ]
    assert len(talk.list_event_data("tool_call")) == len(talk.list_event_data("tool_result")) == 3
    assert len(talk.model_calls()) == 6
    assert talk.answers() == ["Dug."]


def test_a_worker_delegates_in_turn(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        start_nested_delegation(talk)
        assert get_states(talk) == {"dig": ("waiting", "delayed"), "shovel": ("running", "running")}
        assert list_requests(talk, "coder")[0].last.startswith(
            "[DELEGATION CONTEXT]\nOriginal request: Do it.\nDelegated by: researcher\n"
        )
        talk.server.release()
        assert_all_ended(talk)
        assert list_tool_answers(list_requests(talk, "researcher")[-1], "delegate")[0]["summary"] == "Shoveled."
        assert len(talk.server.requests) == 6


def test_a_crash_while_waiting_resumes_waiting(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        start_nested_delegation(talk)
        talk.wait(crash_process(talk))
        talk.revive()
        talk.wait(talk.until(lambda: len(list_requests(talk, "coder")) == 2))
        assert (talk.job().state, talk.run_row().status) == ("delayed", "waiting")
        talk.server.release()
        assert_all_ended(talk)
        assert len(list_requests(talk, "index")) == 3
        assert len(list_requests(talk, "researcher")) == 2


def test_a_worker_that_crashes_is_recovered_and_its_supervisor_never_knows(sqlite_url: str, tmp_path: Path) -> None:
    async def crash() -> None:
        await talk.crash(talk.headway.engine.tasks[list_sub_agents(talk)["shovel"].id])

    with open_talk(sqlite_url, tmp_path, text(""), sweeping=True) as talk:
        start_nested_delegation(talk)
        talk.wait(crash())
        talk.server.release()
        assert_all_ended(talk)
        assert len(list_requests(talk, "coder")) == 2


def test_a_clean_stop_while_waiting_is_gone_on_from(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        start_nested_delegation(talk)
        talk.wait(talk.headway.stop_agents())
        assert get_states(talk) == {"dig": ("waiting", "delayed"), "shovel": ("running", "queued")}
        talk.server.release()
        talk.revive()
        assert_all_ended(talk)
        assert talk.list_event_data("recovered") == []


def test_a_worker_may_report_how_it_ended_with_data(database_url: str, tmp_path: Path) -> None:
    report = calls(("report_outcome", {"summary": "A hole.", "data": {"depth": 3}}), ("now", {}))
    with open_talk(
        database_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=report)
    ) as talk:
        assert talk.say()["outcome"] == "answered"
        (result,) = list_tool_answers(talk.server.requests[-1], "delegate")
        assert (result["status"], result["summary"], result["data"]) == ("completed", "A hole.", {"depth": 3})
        assert "report_outcome" not in list_requests(talk, "index")[0].tools
        assert "report_outcome" in list_requests(talk, "researcher")[0].tools
        assert [effect.tool for effect in talk.effects() if effect.tool == "now"] == []  # the report ended the run before this call
        assert len(talk.server.requests) == 3


def test_a_worker_may_report_that_it_failed(sqlite_url: str, tmp_path: Path) -> None:
    report = calls(("report_outcome", {"summary": "Rock.", "success": False}))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("No.")), researcher=report)
    ) as talk:
        talk.say()
        (result,) = list_tool_answers(talk.server.requests[-1], "delegate")
        assert (result["status"], result["error"]) == ("failed", "Rock.")


@pytest.mark.parametrize("success", ["true", '"true"', "1"])
def test_a_report_is_interpreted_as_its_tool_parsed_it(sqlite_url: str, tmp_path: Path, success: str) -> None:
    report = calls(raw_call("report_outcome", f'{{"summary": "A hole.", "success": {success}}}'))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=report)
    ) as talk:
        talk.say()
        assert get_states(talk) == {"dig": ("completed", "completed")}


def test_a_report_with_unstorable_text_is_stored_with_replacement_marks(database_url: str, tmp_path: Path) -> None:
    report = calls(raw_call("report_outcome", r'{"summary": "A \u0000 hole.", "data": {"\ud800": "\u0000"}, "success": false}'))
    with open_talk(
        database_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=report)
    ) as talk:
        assert talk.say()["outcome"] == "answered"
        assert get_states(talk)["dig"][0] == "failed"
        assert (get_result(talk, "dig")["summary"], get_result(talk, "dig")["data"]) == ("A \ufffd hole.", {"\ufffd": "\ufffd"})
