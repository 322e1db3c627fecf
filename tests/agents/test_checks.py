"""Todos that carry their proof: completing one runs its checks, in the sandbox, and stores a receipt."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import proof, todos
from headway.agents.checks.runner import check_file
from headway.ledger.check import Receipt
from headway.ledger.limits import Sandbox
from headway.ledger.parsing.checks import write_checks
from headway.ledger.todo import Change, Draft, Todo
from tests.agents.person_harness import answer_question, decide_and_finish, list_approvals, list_questions, write_policy
from tests.agents.sub_agent_harness import wait_for_end
from tests.agents.turn_harness import CHEAP_TIER, Talk, complete_next, in_order, open_talk, queue_call, tiers
from tests.model_server import Reply, Request, calls, error, text
from tests.tables import each_row

DONE = text("Done.")
FILE_CHECK = {"kind": "file", "path": "report.md", "contains": "Summary"}
CANCEL = calls(("complete_todo", {"todoId": "1", "outcome": "no", "status": "canceled"}))
WRITE_BAD = calls(("write_file", {"path": "report.md", "content": "nothing"}))
WRITE_GOOD = calls(("write_file", {"path": "report.md", "content": "# Summary\n"}))


def plan_with(*checks: dict[str, Any]) -> Reply:
    return calls(("create_todo", {"items": [{"title": "Write the report", "checks": list(checks)}]}))


def list_receipts(talk: Talk, todo_id: int | None = None) -> list[Receipt]:
    number = talk.plan()[0].id if todo_id is None else todo_id
    return talk.database.read(lambda tx: proof.list_newest_receipts(tx, talk.tenant_id, "todo", number))


def get_item(talk: Talk) -> Todo:
    (item,) = talk.plan()
    return item


def get_last_result(talk: Talk, index: int = -1) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(talk.requests[index].tool_results[-1].content)
    return result


def add_todo(talk: Talk, *checks: dict[str, Any], by: Any = "person") -> Todo:
    draft = Draft("Ship it", conversation_id=talk.conversation_id, checks=write_checks(list(checks), by))
    return talk.database.write(lambda tx: todos.add_todo(tx, talk.tenant_id, draft))


def test_a_failing_check_refuses_completion_and_a_passing_one_proves_it(database_url: str, tmp_path: Path) -> None:
    script = in_order(plan_with(FILE_CHECK), WRITE_BAD, complete_next, WRITE_GOOD, complete_next, DONE)
    with open_talk(database_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "drained"
        refusal = get_last_result(talk, 3)["error"]
        assert "Check failed: file report.md" in refusal
        assert "report.md does not contain 'Summary'." in refusal
        item = get_item(talk)
        assert (item.status, item.proof) == ("completed", "proven")
        passed, failed = list_receipts(talk)
        assert (passed.ok, failed.ok) == (True, False)
        (result,) = json.loads(passed.results)
        assert result["check"] == {**FILE_CHECK, "by": "agent"}
        assert result["files"]["report.md"] == sha256(b"# Summary\n").hexdigest()
        assert json.loads(passed.versions).keys() == {"headway", "python"}
        assert [data["ok"] for data in talk.list_event_data("checks_ran")] == [False, True]
        assert passed.seq > failed.seq > 0


@each_row("extra", [{}, {"sha256": sha256(b"x" * 2_500_000).hexdigest()}])
def test_the_hash_of_a_file_covers_all_of_it(tmp_path: Path, extra: dict[str, str]) -> None:
    (tmp_path / "large").write_bytes(b"x" * 2_500_000)
    finding = check_file({"kind": "file", "path": "large", **extra}, str(tmp_path), Sandbox())

    assert (finding.ok, finding.detail) == (True, "large: 2,500,000 bytes.")
    assert finding.hashes == {"large": sha256(b"x" * 2_500_000).hexdigest()}


def test_an_answer_does_not_end_the_turn_while_a_check_fails(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_with(FILE_CHECK), complete_next, DONE, WRITE_GOOD, complete_next, DONE)
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "drained"
        assert talk.list_event_data("refused")[0]["remaining"] == 1
        assert "There is no report.md in the workspace." in get_last_result(talk, 2)["error"]


def test_a_command_runs_in_the_sandbox(sqlite_url: str, tmp_path: Path) -> None:
    command = {"kind": "command", "run": "grep -c Summary report.md", "expect": "1"}
    script = in_order(plan_with(command), complete_next, WRITE_GOOD, complete_next, DONE)
    with open_talk(sqlite_url, tmp_path, script, commands="grep") as talk:
        assert talk.say()["outcome"] == "drained"
        assert "It ended with 2, not 0." in get_last_result(talk, 2)["error"]
        (result,) = json.loads(list_receipts(talk)[0].results)
        assert (result["exit_code"], result["detail"]) == (0, "1")
        assert json.loads(list_receipts(talk)[0].versions)["sandbox"] == "bubblewrap"


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ({"kind": "command", "run": "rm -rf /"}, "'rm' is not an allowed command"),
        ({"kind": "http", "url": "http://localhost/"}, "there is no tool http_get"),
        ({"kind": "tool", "name": "edit_file", "arguments": {"path": "a", "old": "b", "new": "c"}}, "not safe to repeat"),
        ({"kind": "tool", "name": "calculate", "arguments": {"expression": "1+1"}, "expect": "3"}, "does not contain '3'"),
        ({"kind": "outcome", "schema": {"type": "object", "required": ["url"]}}, "does not fit the schema"),
        ({"kind": "outcome", "schema": {"pattern": "(a+)+$", "type": "string"}}, "does not match"),
    ],
)
def test_a_check_that_cannot_pass_says_why(sqlite_url: str, tmp_path: Path, check: dict[str, Any], reason: str) -> None:
    script = in_order(plan_with(check), complete_next, CANCEL, DONE)
    with open_talk(sqlite_url, tmp_path, script, commands="echo") as talk:
        talk.say()
        assert reason in get_last_result(talk, 2)["error"]
        assert get_item(talk).status == "canceled"


def test_outcome_and_tool_checks_pass(sqlite_url: str, tmp_path: Path) -> None:
    bound = {"kind": "outcome", "schema": {"type": "object", "properties": {"coverage": {"minimum": 80}}, "required": ["coverage"]}}
    sum_check = {"kind": "tool", "name": "calculate", "arguments": {"expression": "6*7"}, "expect": "42"}

    def complete_with(outcome: str) -> Reply:
        return calls(("complete_todo", {"todoId": "1", "outcome": outcome}))

    script = in_order(plan_with(bound, sum_check), complete_with('{"coverage": 79}'), complete_with('{"coverage": 93}'), DONE)
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "drained"
        assert "coverage: 79 is less than the minimum of 80" in get_last_result(talk, 2)["error"]
        assert get_item(talk).proof == "proven"


def test_a_judge_is_the_cheap_tier_and_an_opinion(sqlite_url: str, tmp_path: Path) -> None:
    judge = {"kind": "judge", "rubric": "It names its sources."}
    cut_off = text('{"ok": true, "reason": "Two sources."} But', finish="length")
    verdicts = in_order(cut_off, text('{"ok": false, "reason": "No source."}'), text('{"ok": true, "reason": "Two sources."}'))
    script = tiers(in_order(plan_with(judge), complete_next, complete_next, complete_next, DONE), verdicts)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        assert talk.say()["outcome"] == "drained"
        passed, failed, unread = list_receipts(talk)
        (opinion,) = json.loads(passed.results)
        assert (opinion["opinion"], opinion["detail"]) == (True, "Two sources.")
        assert json.loads(failed.results)[0]["detail"] == "No source."
        assert json.loads(unread.results)[0]["detail"] == "the answer could not be assessed (the assessor's answer was invalid)."
        assert [call.tier for call in talk.model_calls()].count("cheap") == 3


def test_an_opinion_is_paid_for_even_if_the_next_judge_fails(sqlite_url: str, tmp_path: Path) -> None:
    judges = [{"kind": "judge", "rubric": "It names its sources."}, {"kind": "judge", "rubric": "It is short."}]
    yes = text('{"ok": true, "reason": "Yes."}')
    script = tiers(in_order(plan_with(*judges), complete_next, DONE), in_order(yes, error(503), yes, yes))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER, retry_delay_s="0.01") as talk:
        assert talk.say()["outcome"] == "drained"
        assert get_item(talk).proof == "proven"
        assert [call.tier for call in talk.model_calls()].count("cheap") == 3
        assert len(list_receipts(talk)) == 1


def test_an_answer_wakes_a_run_whose_judge_was_out_of_service_before_it_asked(database_url: str, tmp_path: Path) -> None:
    """A run that waits for a retry is not woken. That was the last retry of the judge, and the same message then asks a person."""

    def complete_and_ask(request: Request) -> Reply:
        (complete,) = complete_next(request).calls
        return calls(complete, ("ask_person", {"question": "Which colour?"}))

    judge = {"kind": "judge", "rubric": "It is short."}
    opinions = in_order(error(503), text('{"ok": true, "reason": "Yes."}'))
    script = tiers(in_order(plan_with(judge), complete_and_ask, DONE), opinions)
    with open_talk(database_url, tmp_path, script, model_cheap=CHEAP_TIER, retry_delay_s="0.01") as talk:
        talk.say()
        talk.wait(talk.until(lambda: bool(list_questions(talk))))
        answer_question(talk, list_questions(talk)[0]["id"], "blue")
        assert wait_for_end(talk)["outcome"] == "drained"


@pytest.mark.parametrize("change", [Change(checks=write_checks([FILE_CHECK], "person")), Change(status="canceled"), None])
def test_a_change_while_an_agents_checks_run_counts(sqlite_url: str, tmp_path: Path, change: Change | None) -> None:
    """The cheap tier judges the todo, and a person changes it meanwhile."""

    def judge(_request: Request) -> Reply:
        if change is None:
            talk.database.write(lambda tx: todos.remove_todo(tx, talk.tenant_id, 1))
        else:
            talk.database.write(lambda tx: todos.change_todo(tx, talk.tenant_id, 1, change))
        return text('{"ok": true, "reason": "Yes."}')

    complete = calls(("todo_update", {"id": 1, "status": "completed"}))
    with open_talk(sqlite_url, tmp_path, tiers(in_order(complete, DONE), judge), model_cheap=CHEAP_TIER) as talk:
        add_todo(talk, {"kind": "judge", "rubric": "It is short."})
        talk.say()
        assert "error" in get_last_result(talk)
        rows = talk.database.read(lambda tx: tx.all("SELECT status FROM todos"))
        assert rows == {"canceled": [("canceled",)], "": []}.get("" if change is None else str(change.status), [("pending",)])


def test_without_a_sandbox_a_person_approves_each_command(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_with({"kind": "command", "run": "echo hello"}), complete_next, DONE)
    with open_talk(sqlite_url, tmp_path, script, commands="echo", sandbox="off") as talk:
        assert talk.say()["status"] == "waiting"
        (approval,) = list_approvals(talk)
        assert (approval["tool"], approval["arguments"]["checks"][0]["run"]) == ("run_checks", "echo hello")
        assert list_receipts(talk) == []
        assert decide_and_finish(talk, approval["id"], "approve")["outcome"] == "drained"
        assert json.loads(list_receipts(talk)[0].results)[0]["detail"] == "hello"


def test_a_rejected_check_leaves_the_todo_open(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_with({"kind": "command", "run": "echo hello"}), complete_next, CANCEL, DONE)
    with open_talk(sqlite_url, tmp_path, script, commands="echo", sandbox="off") as talk:
        talk.say()
        decide_and_finish(talk, list_approvals(talk)[0]["id"], "reject", reason="Not here.")
        assert get_last_result(talk, 2)["error"] == "A person rejected this call: Not here. It was not made."
        assert list_receipts(talk) == []


def test_writs_run_checks_too(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(
        sqlite_url, tmp_path, in_order(text("/todo done 1: shipped"), WRITE_GOOD, text("/todo done 1: shipped"), DONE)
    ) as talk:
        todo = add_todo(talk, FILE_CHECK)
        talk.say()
        assert "ERR: Todo 1 is not done. Check failed: file report.md" in talk.requests[1].last
        assert talk.database.read(lambda tx: todos.get_todo(tx, talk.tenant_id, todo.id)).proof == "proven"
        assert len(list_receipts(talk, todo.id)) == 2


def test_a_queue_item_is_proven_by_its_checks_and_not_assessed(sqlite_url: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return replies.pop(0)

    replies = [queue_call("Write the report"), text("It is written."), WRITE_GOOD, text("Now it is.")]
    with open_talk(sqlite_url, tmp_path, script) as talk:

        def answer_after_checks(request: Request) -> Reply:
            reply = script(request)
            if reply.text == "It is written.":  # the item exists now; a person adds a check before the answer arrives
                item = get_item(talk)
                talk.database.write(
                    lambda tx: todos.change_todo(tx, talk.tenant_id, item.id, Change(checks=write_checks([FILE_CHECK], "person")))
                )
            return reply

        talk.server.script = answer_after_checks
        assert talk.say(mode="queue")["outcome"] == "drained"
        assert [data["ok"] for data in talk.list_event_data("todos_assessed")] == [False, True]
        assert get_item(talk).proof == "proven"


def test_an_agent_cannot_drop_a_check_that_a_person_wrote(sqlite_url: str, tmp_path: Path) -> None:
    cancel = calls(("todo_update", {"id": 1, "status": "canceled"}))
    edit = calls(("edit_checks", {"id": 1, "checks": []}))
    with open_talk(sqlite_url, tmp_path, in_order(cancel, edit, DONE)) as talk:
        todo = add_todo(talk, FILE_CHECK)
        talk.say()
        assert "has checks that a person wrote" in get_last_result(talk, 1)["error"]
        decide_and_finish(talk, list_approvals(talk)[0]["id"], "approve")
        assert "was written by a person and cannot be changed or removed here" in get_last_result(talk)["error"]
        assert talk.database.read(lambda tx: todos.get_todo(tx, talk.tenant_id, todo.id)) == todo


def test_the_policy_decides_whether_an_agent_may_drop_its_own_checks(sqlite_url: str, tmp_path: Path) -> None:
    write_policy(tmp_path, 'tool = "drop_checks"\ndecision = "deny"')
    with open_talk(sqlite_url, tmp_path, in_order(plan_with(FILE_CHECK), CANCEL, WRITE_GOOD, complete_next, DONE)) as talk:
        assert talk.say()["outcome"] == "drained"
        assert "cannot be dropped" in get_last_result(talk, 2)["error"]
