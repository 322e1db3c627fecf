"""Decisions that coincide with other decisions, with the end of the turn, with a halt, with an empty pool and with lost commits.
Each approval is decided once, and what runs is exactly what was approved."""

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headway.actions.engine import run_ends
from headway.actions.runs import inbox
from headway.actions.runs.inbox import Answer, ApprovalDecision
from headway.agents.tools.toolbox import OnThread
from headway.ledger.errors import CommitUncertain, Conflict, HeadwayError, Invalid, NotFound
from headway.ledger.inbox import PersonRequest
from headway.storage.direct import connect
from headway.storage.transaction import Transaction, across_tenants
from tests.agents.person_harness import BOB, cancel_turn, decide, decide_and_finish, list_approvals, list_questions
from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, wait_for_end
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.lost_commits import lose_commit_answer
from tests.model_server import Reply, calls, text

DONE = text("Done.")
OWN = '''
import threading
from pathlib import Path
from headway import tool

HERE = Path(__file__).parent
GO = threading.Event()

@tool(destructive=True)
def erase(name: str, note: str | None = None) -> str:
    """Erases a thing."""
    with (HERE / "erased.txt").open("a") as file:
        print(name, file=file)
    GO.wait()
    return f"erased {name}"

@tool(destructive=True)
def drop(name: str, note: str | None = None) -> str:
    """Drops a thing."""
    with (HERE / "dropped.txt").open("a") as file:
        print(name, file=file)
    return f"dropped {name}"
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(OWN)
    return tmp_path


def drop(*names: str) -> Reply:
    return calls(*(("drop", {"name": name}) for name in names))


def list_done(home: Path, tool: str = "dropped") -> list[str]:
    path = home / "tools" / f"{tool}.txt"
    return path.read_text().split() if path.exists() else []


def get_states(talk: Talk) -> list[str]:
    return [approval["state"] for approval in list_approvals(talk)]


def get_id(talk: Talk, index: int = 0) -> int:
    approval_id: int = list_approvals(talk)[index]["id"]
    return approval_id


def release_tool(talk: Talk) -> None:
    """Release the call that waits in the `erase` tool."""
    run = talk.headway.toolbox.tools["erase"].run
    assert isinstance(run, OnThread)
    run.function.args[1].__globals__["GO"].set()  # type: ignore[attr-defined]


def run_at_once(url: str, *works: Callable[[Transaction], Any]) -> list[Any]:
    """Run each function in a transaction of its own, all at the same time. Return the results, or the errors."""
    barrier, results = threading.Barrier(len(works)), {}

    def run(index: int, work: Callable[[Transaction], Any]) -> None:
        with closing(connect(url)) as connection:
            barrier.wait()
            try:
                results[index] = connection.write(across_tenants(work))
            except HeadwayError as error:
                results[index] = error

    threads = [threading.Thread(target=run, args=(index, work)) for index, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[index] for index in range(len(works))]


def build_decision(
    talk: Talk, answer: Answer, by: str, arguments: str | None = None, reason: str = "", approval_id: int = 0
) -> Callable[[Transaction], PersonRequest]:
    decision = ApprovalDecision(answer, by, arguments, reason)
    found = approval_id or get_id(talk)
    return partial(talk.headway.permission.decide, tenant_id=talk.tenant_id, approval_id=found, decision=decision)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_of_people_who_decide_at_once_one_wins(kind: str, home: Path, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    with open_talk(url, home, in_order(drop("a"), DONE)) as talk:
        talk.say()
        works = [
            build_decision(talk, "approve", "ada"),
            build_decision(talk, "reject", "bob"),
            build_decision(talk, "approve", "cleo", arguments='{"name": "b"}'),
            build_decision(talk, "approve", "dan"),
        ]
        results = run_at_once(url, *works)
        (approval,) = list_approvals(talk)
        winners = [result for result in results if isinstance(result, PersonRequest)]
        assert {(winner.state, winner.decided_by) for winner in winners} == {(approval["state"], approval["decided_by"])}
        assert {type(result) for result in results if result not in winners} == {Conflict}
        talk.headway.nudge()
        wait_for_end(talk)
        assert len(talk.list_event_data("approval_decided")) == 1
        assert list_done(home) == ([] if approval["state"] == "rejected" else [approval["arguments"]["name"]])


def test_a_decision_and_the_end_of_the_turn_at_once_leave_one_result(database_url: str, home: Path) -> None:
    with open_talk(database_url, home, drop("a")) as talk:
        for number in range(1, 5):
            talk.say()
            cancel = partial(run_ends.cancel_turn, tenant_id=talk.tenant_id, turn_id=talk.turn()["id"])
            index = -1
            decision = ApprovalDecision("approve", BOB)
            approve = partial(inbox.decide, tenant_id=talk.tenant_id, request_id=get_id(talk, index), decision=decision)
            decided, canceled = run_at_once(database_url, approve, cancel)
            assert isinstance(canceled, list)
            state = "canceled" if isinstance(decided, Conflict) else "approved"
            assert get_states(talk)[index] == state
            assert len(talk.list_event_data("approval_decided")) == number
            assert talk.turn()["status"] == "canceled"
        assert list_done(home) == []


def test_canceling_a_turn_while_a_call_is_made_cancels_its_other_approvals(database_url: str, home: Path) -> None:
    script = calls(("erase", {"name": "a"}), ("erase", {"name": "b"}))
    with open_talk(database_url, home, script) as talk:
        talk.say()
        decide(talk, get_id(talk), "approve")
        talk.wait(talk.until(lambda: list_done(home, "erased") == ["a"]))
        assert talk.run_row().status == "running"
        assert talk.turn()["waiting_for"] == {"kind": "approval", "id": get_id(talk, 1)}
        cancel_turn(talk)
        release_tool(talk)
        assert get_states(talk) == ["approved", "canceled"]
        with pytest.raises(Conflict, match="is already canceled"):
            decide(talk, get_id(talk, 1), "approve")


def test_a_sub_agent_that_reports_its_outcome_cancels_its_other_approvals(sqlite_url: str, home: Path) -> None:
    both = calls(("drop", {"name": "a"}), ("report_outcome", {"summary": "enough", "success": True}), ("drop", {"name": "b"}))
    script = by_role(index=by_transcript(delegate_call("clear"), DONE), researcher=both)
    (home / "agents").mkdir()
    (home / "agents" / "researcher.toml").write_text('tools = ["own", "report_outcome"]\n')
    with open_talk(sqlite_url, home, script) as talk:
        talk.say()
        assert get_states(talk) == ["proposed", "proposed"]
        assert decide_and_finish(talk, get_id(talk), "approve")["waiting_for"] is None
        assert get_states(talk) == ["approved", "canceled"]
        assert list_done(home) == ["a"]


def test_a_decision_during_a_halt_is_stored_and_nothing_runs_until_it_ends(database_url: str, home: Path) -> None:
    with open_talk(database_url, home, in_order(drop("a"), DONE)) as talk:
        talk.say()
        talk.halt()
        decide(talk, get_id(talk), "approve")
        talk.wait(talk.until(talk.is_resting))
        assert (get_states(talk), list_done(home), talk.turn()["status"]) == (["approved"], [], "running")
        talk.unhalt()
        talk.headway.nudge()
        wait_for_end(talk)
        assert (list_done(home), len(talk.requests)) == (["a"], 2)


def test_a_run_that_waits_reserves_nothing_and_a_decision_needs_no_budget(sqlite_url: str, home: Path) -> None:
    with open_talk(sqlite_url, home, in_order(drop("a"), DONE), model="openai-chat:gpt-4o") as talk:
        talk.say()
        assert (talk.pool().reserved, talk.run_row().reserved) == (0, 0)
        talk.set_pool(ceiling=talk.pool().spent)
        decide(talk, get_id(talk), "approve")
        talk.wait(talk.until(lambda: talk.turn()["status"] == "paused" and talk.is_resting()))
        assert (list_done(home), talk.pool().reserved) == (["a"], 0)


def test_a_decision_at_the_moment_of_expiry_is_refused_and_leaves_no_rule(sqlite_url: str, home: Path) -> None:
    with open_talk(sqlite_url, home, in_order(drop("a"), DONE)) as talk:
        talk.say()
        talk.database.write(lambda tx: tx.run("UPDATE requests SET expires_at = ?", tx.now))
        with pytest.raises(Conflict, match="has expired"):
            decide(talk, get_id(talk), "approve", always=True)
        assert not (home / "policy.toml").exists()
        talk.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = 0 WHERE state = 'delayed'"))
        talk.headway.nudge()
        wait_for_end(talk)
        assert (get_states(talk), list_done(home)) == (["expired"], [])
        assert len(talk.list_event_data("approval_decided")) == 1


@pytest.mark.parametrize(
    ("sql", "dropped"),
    [
        ('UPDATE requests SET arguments = \'{"name": "b"}\'', []),
        ("UPDATE requests SET arguments = 'nonsense'", []),
        ("UPDATE requests SET digest = 'x'", []),
        ("UPDATE effects SET tool = 'erase'", []),
        ('UPDATE effects SET arguments = \'{"name": "b"}\'', ["a"]),  # the approval's arguments count
    ],
)
def test_only_the_approved_call_is_made(sqlite_url: str, home: Path, sql: str, dropped: list[str]) -> None:
    with open_talk(sqlite_url, home, in_order(drop("a"), DONE)) as talk:
        talk.say()
        talk.wait(talk.headway.stop_agents())
        decision = ApprovalDecision("approve", BOB)
        approval_id = get_id(talk)
        talk.database.write(lambda tx: inbox.decide(tx, talk.tenant_id, approval_id, decision))
        talk.database.write(lambda tx: tx.run(sql))
        talk.resume_turn()
        assert (list_done(home), list_done(home, "erased")) == (dropped, [])
        assert ("not the call that was approved" in talk.requests[-1].tool_results[0].content) is (not dropped)


def test_a_decision_that_arrives_while_no_process_runs_is_applied_once(database_url: str, home: Path) -> None:
    with open_talk(database_url, home, in_order(drop("a", "b", "c"), DONE)) as talk:
        talk.say()
        talk.wait(talk.headway.stop_agents())
        decisions = (
            ApprovalDecision("reject", BOB),
            ApprovalDecision("approve", BOB, '{"name": "z"}'),
            ApprovalDecision("approve", BOB),
        )
        for approval, decision in zip(list_approvals(talk), decisions, strict=True):
            (decided,) = run_at_once(database_url, build_decision(talk, *decision, approval_id=approval["id"]))
            assert not decided.is_open
        talk.resume_turn()
        assert list_done(home) == ["z", "c"]
        assert [effect.state for effect in talk.effects()] == ["failed", "succeeded", "succeeded"]


def check_dropped_once(talk: Talk, home: Path, name: str) -> None:
    assert list_done(home) == [name]
    assert len(talk.list_event_data("approval_requested")) == len(talk.list_event_data("approval_decided")) == 1
    assert [kind for kind, _ in talk.notices()] == ["approval"]
    assert [effect.state for effect in talk.effects()] == ["succeeded"]


@pytest.mark.parametrize("after", [b"INSERT INTO requests", b"UPDATE requests"], ids=["of a proposal", "of a decision"])
def test_a_lost_commit_neither_repeats_nor_loses_a_decision(postgres_url: str, home: Path, after: bytes) -> None:
    with lose_commit_answer(postgres_url, after) as proxy, open_talk(proxy.url, home, in_order(drop("a"), DONE)) as talk:
        talk.say()
        try:
            decide(talk, get_id(talk), "approve")
        except CommitUncertain:
            decide(talk, get_id(talk), "approve")
        wait_for_end(talk)
        assert proxy.lost == 1
        check_dropped_once(talk, home, "a")


def test_an_approved_call_whose_start_commit_was_uncertain_is_made_once(postgres_url: str, home: Path) -> None:
    with lose_commit_answer(postgres_url, b"zebra") as proxy, open_talk(proxy.url, home, in_order(drop("a"), DONE)) as talk:
        talk.say()
        (decided,) = run_at_once(postgres_url, build_decision(talk, "approve", BOB, arguments='{"name": "zebra"}'))
        assert (decided.state, proxy.lost) == ("approved", 0)
        talk.headway.nudge()
        wait_for_end(talk)
        assert proxy.lost == 1
        check_dropped_once(talk, home, "zebra")


def test_another_tenant_cannot_decide_or_answer(sqlite_url: str, home: Path) -> None:
    ask = calls(("ask_person", {"question": "Which?"}), ("drop", {"name": "a"}))
    with open_talk(sqlite_url, home, ask) as talk:
        talk.say()
        ((question,), (approval,)) = list_questions(talk), list_approvals(talk)
        other = talk.tenant_id + 1
        with pytest.raises(NotFound):
            talk.database.write(
                lambda tx: talk.headway.permission.decide(tx, other, approval["id"], ApprovalDecision("approve", BOB))
            )
        with pytest.raises(NotFound):
            talk.database.write(lambda tx: inbox.answer(tx, other, question["id"], "this", BOB))
        assert talk.turn()["status"] == "waiting"


@pytest.mark.parametrize("arguments", ["", "[]", '{"name": NaN}', '{"name": 1e999}', '{"nome": "a"}', "{" * 100_000])
def test_edited_arguments_that_the_tool_would_refuse_are_refused(sqlite_url: str, home: Path, arguments: str) -> None:
    with open_talk(sqlite_url, home, drop("a")) as talk:
        talk.say()
        with pytest.raises(Invalid):
            decide(talk, get_id(talk), "approve", arguments=arguments)
        assert get_states(talk) == ["proposed"]


def test_an_edit_that_changes_nothing_is_not_an_edit(sqlite_url: str, home: Path) -> None:
    with open_talk(sqlite_url, home, in_order(calls(("drop", {"name": "a", "note": "ä"})), DONE)) as talk:
        talk.say()
        before = list_approvals(talk)[0]["digest"]
        decide(talk, get_id(talk), "approve", arguments='{"note":"\\u00e4",  "name":"a"}')
        decide(talk, get_id(talk), "approve", arguments='{"name": "a", "note": "ä"}')
        wait_for_end(talk)
        assert list_approvals(talk)[0]["digest"] == before
        assert "changed the arguments" not in talk.requests[-1].tool_results[0].content


def test_always_allows_a_tool_of_ones_own_only_with_the_same_arguments(sqlite_url: str, home: Path) -> None:
    script = in_order(drop("a"), drop("a"), calls(("drop", {"name": "a", "note": "x"})), DONE)
    with open_talk(sqlite_url, home, script) as talk:
        talk.say()
        decide(talk, get_id(talk), "approve", always=True)
        talk.wait(talk.until(lambda: len(list_approvals(talk)) == 2))
        assert list_approvals(talk)[1]["arguments"] == {"name": "a", "note": "x"}
        decide_and_finish(talk, get_id(talk, 1), "reject")
        assert list_done(home) == ["a", "a"]


def test_goals_beyond_the_limit_of_an_answer_are_not_proposed(sqlite_url: str, tmp_path: Path) -> None:
    goals = calls(*(("set_goal", {"description": f"Goal {number}."}) for number in range(10)))
    with open_talk(sqlite_url, tmp_path, in_order(goals, DONE)) as talk:
        talk.say()
        assert get_states(talk) == ["proposed"] * 8
        for approval in list_approvals(talk):
            decide(talk, approval["id"], "reject")
        wait_for_end(talk)
        results = [result.content for result in talk.requests[-1].tool_results]
        assert ["may set or propose 8 goals" in result for result in results] == [False] * 8 + [True] * 2
