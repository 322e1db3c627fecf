"""The guard's decision and the mirrored lists, on both databases."""

import pytest

from headway.actions.guard import rules, sessions, stops
from headway.actions.todos import conversations, finding, proof, todos
from headway.actions.turns import plan
from headway.actions.turns.plan import PlanItem
from headway.ledger.check import CheckResult, ReceiptDraft, decode_checks
from headway.ledger.errors import ChecksRequired, NotFound
from headway.ledger.guard import AssistantSession, MirroredItem, StopRequest, StopRuling
from headway.ledger.scope import Scope
from headway.ledger.todo import Status, Todo
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness

SESSION = AssistantSession("claude-code", "one", "/srv/garden")
FILE = {"kind": "file", "path": "door.txt"}


def mirror(desk: TenantHarness, *items: tuple[str, Status | None, str], is_whole: bool = False) -> str:
    mirrored = [MirroredItem(subject or None, status, key) for subject, status, key in items]
    turn = desk.write(sessions.mirror, SESSION, mirrored, is_whole=is_whole)
    assert turn
    return turn.id


def decide(desk: TenantHarness, turn_id: str, answer: str = "", limit: int = 3, *, is_repeated: bool = True) -> StopRuling:
    return desk.write(stops.decide_stop, turn_id, StopRequest(answer, is_repeated), limit)


def list_rows(desk: TenantHarness, turn_id: str) -> list[Todo]:
    return desk.read(todo_store.list_by_turn, turn_id)


def test_the_items_of_a_list_keep_their_rows(desk: TenantHarness) -> None:
    turn_id = mirror(desk, ("Paint the door", "pending", "1"), ("Oil the hinge", "pending", "2"))
    before = list_rows(desk, turn_id)
    mirror(desk, ("", "in_progress", "1"), ("Oil both hinges", None, "2"))
    mirror(desk, ("", "completed", "1"), ("", None, "77"))
    after = list_rows(desk, turn_id)
    assert [row.id for row in after] == [row.id for row in before]
    assert [(row.subject, row.status) for row in after] == [("Paint the door", "completed"), ("Oil both hinges", "pending")]
    assert (after[0].completed_by, after[0].agent_id) == ("agent", "claude-code")
    mirror(desk, ("", "pending", "1"))
    assert [row.status for row in list_rows(desk, turn_id)] == ["pending", "pending"]
    conversation = desk.read(finding.get_conversation, after[0].conversation_id)
    assert (conversation.client, conversation.client_session, conversation.folder) == ("claude-code", "one", "/srv/garden")


def test_items_that_a_new_list_leaves_out_stay_open_unless_there_are_others_or_it_was_told(desk: TenantHarness) -> None:
    turn_id = mirror(desk, ("a", "pending", ""), ("b", "pending", ""), is_whole=True)
    mirror(desk, ("a", "completed", ""), is_whole=True)
    assert [row.status for row in list_rows(desk, turn_id)] == ["completed", "pending"]
    assert "b" in decide(desk, turn_id).reason
    mirror(desk, ("a", "completed", ""), is_whole=True)
    assert [(row.status, row.outcome) for row in list_rows(desk, turn_id)][1] == ("canceled", "The assistant took it off its list.")
    assert decide(desk, turn_id).may_stop
    second = mirror(desk, ("c", "pending", ""), ("d", "pending", ""), is_whole=True)
    assert second != turn_id  # everything in the first plan has ended
    mirror(desk, ("c", "pending", ""), ("e", "pending", ""), is_whole=True)
    assert [(row.subject, row.status) for row in list_rows(desk, second)] == [("c", "pending"), ("d", "canceled"), ("e", "pending")]


def test_a_stop_without_progress_is_refused_a_number_of_times(desk: TenantHarness) -> None:
    turn_id = mirror(desk, ("a", "pending", "1"), ("b", "pending", "2"))
    assert [decide(desk, turn_id, limit=2).may_stop for _ in range(2)] == [False, False]
    mirror(desk, ("", "completed", "1"))
    assert [decide(desk, turn_id, limit=2).refusals for _ in range(2)] == [1, 2]
    last = decide(desk, turn_id, limit=2)
    assert (last.may_stop, [todo.subject for todo in last.incomplete]) == (True, ["b"])
    turn = desk.read(finding.get_turn, turn_id)
    assert (turn.status, turn.outcome, turn.plan_source) == ("finished", "incomplete", "agent")
    assert [kind for kind, _ in desk.events() if kind in ("refused", "turn_finished")] == ["refused"] * 4 + ["turn_finished"]
    assert decide(desk, turn_id).may_stop
    again = mirror(desk, ("", "in_progress", "2"))
    assert [row.subject for row in list_rows(desk, again)] == ["b"]
    assert not decide(desk, again, is_repeated=False).may_stop
    (session,) = desk.read(sessions.list_sessions, "/srv/garden")
    assert ([todo.subject for todo in session.open_items], session.refusals) == (["b"], 1)


def test_a_question_to_the_person_may_wait(desk: TenantHarness) -> None:
    turn_id = mirror(desk, ("a", "pending", "1"))
    waiting = decide(desk, turn_id, "I am not sure.\nWhich colour should the door have?")
    assert (waiting.may_stop, waiting.notice) == (True, "Claude Code asks you something. 1 item is open.")
    assert not decide(desk, turn_id, "a is done. Shall I continue?").may_stop
    assert desk.read(finding.get_turn, turn_id).status == "running"


def pass_checks(tx: Transaction, tenant_id: int, turn_id: str, *, ok: bool) -> StopRuling:
    """Decide with the results that the checks of the plan would have."""
    rows = [row for row in todo_store.list_by_turn(tx, tenant_id, turn_id) if row.checks]
    found = [(row.id, tuple(CheckResult(check, ok, "no door") for check in decode_checks(row.checks))) for row in rows]
    proof.store_receipts(tx, tenant_id, [ReceiptDraft("todo", todo_id, results, {}, "guard") for todo_id, results in found])
    return stops.decide_stop(tx, tenant_id, turn_id, StopRequest(), 3)


def test_a_rule_holds_at_every_stop_and_checks_of_an_item_are_not_skipped(desk: TenantHarness) -> None:
    rule = desk.write(rules.add_guard_rule, "/srv/garden", "the door is there", [FILE])
    turn = desk.write(stops.prepare, SESSION)
    assert turn
    with pytest.raises(ChecksRequired):
        decide(desk, turn.id)
    assert desk.write(pass_checks, turn.id, ok=False).reason.splitlines() == [
        "Not done yet: the door is there. This check failed: file door.txt",
        "  no door",
    ]
    assert desk.write(pass_checks, turn.id, ok=True).may_stop
    assert [(row.status, row.proof) for row in list_rows(desk, turn.id)] == [("completed", "proven")]
    assert not desk.write(pass_checks, turn.id, ok=False).may_stop
    assert [(row.status, row.proof) for row in list_rows(desk, turn.id)] == [("completed", "broken")]
    desk.write(rules.remove_guard_rule, rule.id)
    assert decide(desk, turn.id).may_stop
    with pytest.raises(NotFound):
        desk.write(rules.remove_guard_rule, rule.id)

    plan = mirror(desk, ("a", "pending", "1"))
    (todo,) = [row for row in list_rows(desk, plan) if row.subject == "a"]
    desk.change(todo, checks='[{"kind":"file","path":"a.txt","by":"person"}]')
    for status in ("completed", "canceled"):
        mirror(desk, ("", status, "1"))
        assert desk.get(todo).status == "in_progress"
    why = desk.write(stops.decide_stop, plan, StopRequest(), 3, {todo.id: "It needs approval."}).reason
    assert "It was not run. It needs approval." in why


def test_an_own_loop_gets_the_same_decision(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    turn = desk.write(conversations.open_turn, conversation.id)
    assert decide(desk, turn.id).may_stop
    scope = Scope(desk.tenant.id, conversation.id, turn.id)
    todo = desk.write(lambda tx, _tenant: plan.create_plan(tx, scope, turn.id, [PlanItem("paint")])).todos[0]
    assert not decide(desk, turn.id).may_stop
    desk.write(todos.end_todo, todo.id, "completed")
    assert decide(desk, turn.id).may_stop
    with pytest.raises(NotFound):
        decide(desk, "nowhere")
