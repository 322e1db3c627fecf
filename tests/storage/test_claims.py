"""Claims: one todo goes to one agent, for the duration of a lease."""

import pytest

from headway.actions.todos import claims, conversations, todos
from headway.actions.todos.claims import Claim
from headway.ledger.errors import Invalid, Leased, LeaseLost, NotFound
from headway.ledger.todo import Change
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row


def claim(desk: TenantHarness, agent_id: str = "ada", **options: float) -> Claim:
    claimed = desk.write(claims.claim, agent_id, **options)
    assert claimed is not None
    return claimed


def test_a_claim_is_the_next_ready_todo_started_and_owned_by_the_claimer(desk: TenantHarness, clock: FixedClock) -> None:
    second = desk.add("second")
    first = desk.add("first", position=1)
    clock.advance(5)
    claimed = claim(desk, "ada", lease_s=30)

    assert claimed.todo == desk.get(first)
    assert (claimed.todo.status, claimed.todo.agent_id, claimed.todo.started_at) == ("in_progress", "ada", clock.now)
    assert (claimed.lease.agent_id, claimed.lease.expires_at) == ("ada", clock.now + 30_000)
    assert claim(desk).todo.id == second.id


def test_a_claim_is_emitted(desk: TenantHarness) -> None:
    desk.add()
    claimed = claim(desk)

    assert desk.changes()[-1] == ("updated", claimed.todo.as_json() | {"depends_on": []})


def test_a_claim_with_nothing_ready_returns_none_and_emits_nothing(desk: TenantHarness) -> None:
    dependency = desk.add(status="in_progress")
    desk.add(depends_on=(dependency.id,))
    desk.add(status="completed")
    conversation = desk.conversation()
    desk.add(conversation_id=conversation.id, turn_id=desk.write(conversations.open_turn, conversation.id).id)
    events_before = desk.events()

    assert desk.write(claims.claim, "ada") is None
    assert (desk.events(), desk.count("leases")) == (events_before, 0)


def test_work_started_by_hand_has_no_lease_and_is_never_taken_over(desk: TenantHarness, clock: FixedClock) -> None:
    desk.add(status="in_progress")
    clock.advance(1_000_000)

    assert desk.write(claims.claim, "ada") is None


def test_a_claim_in_a_conversation_takes_its_own_work_then_the_tenant_wide_never_anothers(desk: TenantHarness) -> None:
    own, other = desk.conversation(), desk.conversation()
    desk.add("wide")
    desk.add("ours", conversation_id=own.id)
    desk.add("theirs", conversation_id=other.id)

    claimed = [desk.write(claims.claim, "ada", own.id) for _ in range(3)]

    assert [result.todo.subject if result else None for result in claimed] == ["ours", "wide", None]


def test_a_claim_in_an_unknown_conversation_is_refused(desk: TenantHarness) -> None:
    todo = desk.add("wide")

    with pytest.raises(NotFound, match=r"No conversation 404\."):
        desk.write(claims.claim, "ada", 404)
    assert desk.get(todo) == todo


@each_row("lease_s", [0, 0.5, -1, 86_401, float("nan"), float("inf")])
def test_a_lease_lasts_a_second_to_a_day(desk: TenantHarness, lease_s: float) -> None:
    todo = desk.add()

    with pytest.raises(Invalid, match="lease_s must be between 1 and 86400"):
        desk.write(claims.claim, "ada", lease_s=lease_s)
    assert desk.get(todo) == todo


def test_while_a_lease_runs_only_its_token_or_force_changes_the_todo(desk: TenantHarness) -> None:
    desk.add()
    claimed = claim(desk)
    todo_id = claimed.todo.id

    with pytest.raises(Leased, match="Agent 'ada' holds a lease"):
        desk.write(todos.change_todo, todo_id, Change(subject="meddled"))
    with pytest.raises(Leased):
        desk.write(todos.end_todo, todo_id, "completed")
    with pytest.raises(LeaseLost):
        desk.write(todos.change_todo, todo_id, Change(subject="guessed"), "not the token")
    assert desk.get(claimed.todo) == claimed.todo

    assert desk.write(todos.change_todo, todo_id, Change(subject="mine"), claimed.lease.token).subject == "mine"
    assert desk.write(todos.change_todo, todo_id, Change(subject="by order"), force=True).subject == "by order"
    assert desk.write(todos.end_todo, todo_id, "completed", "done", claimed.lease.token).status == "completed"


def test_while_a_lease_runs_only_its_token_or_force_removes_the_todo(desk: TenantHarness, clock: FixedClock) -> None:
    for subject in ("with the token", "by force", "too late to matter"):
        desk.add(subject)
    first, second, third = (claim(desk) for _ in range(3))

    with pytest.raises(Leased, match="Agent 'ada' holds a lease"):
        desk.write(todos.remove_todo, first.todo.id)
    with pytest.raises(LeaseLost):
        desk.write(todos.remove_todo, first.todo.id, second.lease.token)
    assert desk.get(first.todo) == first.todo

    desk.write(todos.remove_todo, first.todo.id, first.lease.token)
    desk.write(todos.remove_todo, second.todo.id, force=True)
    clock.advance(60)
    desk.write(todos.remove_todo, third.todo.id)
    for removed in (first, second, third):
        with pytest.raises(NotFound):
            desk.get(removed.todo)


def test_a_lease_ends_with_the_work(desk: TenantHarness) -> None:
    todo = desk.add()
    token = claim(desk).lease.token
    desk.write(todos.end_todo, todo.id, "completed", lease_token=token)

    with pytest.raises(LeaseLost):
        desk.write(todos.change_todo, todo.id, Change(subject="one more thing"), token)
    assert desk.change(todo, status="pending").status == "pending"
    assert claim(desk, "bob").lease.token != token


def test_work_put_back_can_be_claimed_by_another(desk: TenantHarness) -> None:
    desk.add()
    first = claim(desk, "ada")
    desk.write(todos.change_todo, first.todo.id, Change(status="pending"), first.lease.token)
    second = claim(desk, "bob")

    assert (second.todo.id, second.todo.agent_id) == (first.todo.id, "bob")
    with pytest.raises(LeaseLost):
        desk.write(claims.heartbeat, first.todo.id, first.lease.token)


def test_a_heartbeat_keeps_the_lease(desk: TenantHarness, clock: FixedClock) -> None:
    desk.add()
    claimed = claim(desk, lease_s=60)
    clock.advance(50)
    extended = desk.write(claims.heartbeat, claimed.todo.id, claimed.lease.token, 60)
    clock.advance(50)

    assert (extended.lease.token, extended.lease.expires_at) == (claimed.lease.token, claimed.lease.expires_at + 50_000)
    assert desk.write(claims.claim, "bob") is None


def test_an_expired_lease_can_be_taken_over_and_the_late_owner_is_refused(desk: TenantHarness, clock: FixedClock) -> None:
    todo = desk.add()
    late = claim(desk, "ada", lease_s=60)
    clock.advance(60)
    takeover = claim(desk, "bob", lease_s=60)

    assert (takeover.todo.id, takeover.todo.agent_id, takeover.todo.started_at) == (todo.id, "bob", late.todo.started_at)
    for refused in (
        lambda: desk.write(todos.change_todo, todo.id, Change(outcome="late"), late.lease.token),
        lambda: desk.write(todos.end_todo, todo.id, "completed", "late", late.lease.token),
        lambda: desk.write(claims.heartbeat, todo.id, late.lease.token),
    ):
        with pytest.raises(LeaseLost):
            refused()
    assert desk.get(todo) == takeover.todo
    assert desk.write(todos.end_todo, todo.id, "completed", "in time", takeover.lease.token).outcome == "in time"


def test_a_lease_is_not_taken_over_a_moment_too_early(desk: TenantHarness, clock: FixedClock) -> None:
    desk.add()
    claim(desk, "ada", lease_s=60)
    clock.advance(59.999)

    assert desk.write(claims.claim, "bob") is None


def test_silent_work_is_claimed_before_unstarted_work(desk: TenantHarness, clock: FixedClock) -> None:
    started = desk.add("begun")
    claim(desk, "ada", lease_s=1)
    desk.add("fresh", position=1)
    clock.advance(1)

    assert claim(desk, "bob").todo.id == started.id


def test_a_late_owner_that_was_not_replaced_may_continue(desk: TenantHarness, clock: FixedClock) -> None:
    desk.add()
    claimed = claim(desk, "ada", lease_s=1)
    clock.advance(100)
    desk.write(claims.heartbeat, claimed.todo.id, claimed.lease.token, 60)

    assert desk.write(claims.claim, "bob") is None
    assert desk.write(todos.end_todo, claimed.todo.id, "completed", lease_token=claimed.lease.token).ended


def test_an_expired_lease_no_longer_protects_the_todo(desk: TenantHarness, clock: FixedClock) -> None:
    todo = desk.add()
    claim(desk, "ada", lease_s=1)
    clock.advance(1)

    assert desk.change(todo, status="completed").ended


def test_force_takes_the_work_from_its_owner(desk: TenantHarness) -> None:
    todo = desk.add()
    claimed = claim(desk, "ada")
    desk.write(todos.change_todo, todo.id, Change(status="pending"), force=True)

    with pytest.raises(LeaseLost):
        desk.write(todos.end_todo, todo.id, "completed", lease_token=claimed.lease.token)
    assert claim(desk, "bob").todo.id == todo.id


def test_a_heartbeat_without_a_lease_is_refused(desk: TenantHarness) -> None:
    todo = desk.add(status="in_progress")

    with pytest.raises(LeaseLost):
        desk.write(claims.heartbeat, todo.id, "")
    with pytest.raises(NotFound):
        desk.write(claims.heartbeat, 404, "")


def test_the_json_of_a_claim_has_its_expiry_in_seconds(desk: TenantHarness, clock: FixedClock) -> None:
    desk.add()
    claimed = claim(desk, lease_s=60)

    assert claimed.as_json()["lease"] == {"token": claimed.lease.token, "expires_at": clock.now // 1000 + 60}
