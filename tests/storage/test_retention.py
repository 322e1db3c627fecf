"""Rows that are older than the retention setting are deleted, except those that something open still needs."""

import pytest

from headway.actions.access import tokens
from headway.actions.engine import run_ends
from headway.actions.goals import goals
from headway.actions.goals.forks import GoalForkRequest, fork_goal
from headway.actions.inspection import why
from headway.actions.installation import pruning
from headway.actions.installation.pruning import PruneStep
from headway.actions.todos import finding, proof, todos
from headway.actions.turns import turns
from headway.ledger.check import ReceiptDraft
from headway.ledger.errors import Conflict, NotFound
from headway.ledger.limits import Limits
from headway.ledger.tenancy import DAY_MS, GROUPS, Group, describe_retention, parse_retention
from headway.ledger.todo import Draft
from headway.storage.stores import events as event_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores.retention import Key
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tenant_rows import Ids, fill_tenant, read_tenant_rows

DAY_S = 86_400
CONTENT = ("transcript", "effects", "messages", "attachments", "turns", "runs", "conversations", "goals", "sub_goals", "journal")


def prune(desk: TenantHarness, group: Group, days: int = 30) -> list[PruneStep]:
    """Prune a group of the tenant's rows to the end, as the background task does."""
    steps: list[PruneStep] = []
    position: Key | None = None

    def take_step(tx: Transaction) -> PruneStep:
        return pruning.PRUNES[group](tx, desk.tenant.id, tx.now - days * DAY_MS, position)

    while not steps or position is not None:
        steps.append(desk.database.write(take_step))
        position = steps[-1].position
        assert len(steps) < 100
    return steps


def prune_all(desk: TenantHarness) -> None:
    for group in GROUPS:
        prune(desk, group)


def end_everything(desk: TenantHarness, ids: Ids) -> None:
    desk.write(run_ends.cancel_turn, ids.turn)
    desk.write(goals.abandon, ids.goal)
    desk.write(goals.answer_decision, ids.decision, "abandon")


def test_old_events_are_deleted_in_small_steps(desk: TenantHarness, clock: FixedClock) -> None:
    other = TenantHarness(desk.database, "other")
    other.add("theirs")
    desk.write(todos.add_many, [Draft(f"todo {number}") for number in range(250)])
    clock.advance(31 * DAY_S)
    kept = desk.add("new")
    assert [step.deleted for step in prune(desk, "events")] == [200, 50]

    assert [todo["id"] for _, todo in desk.changes()] == [kept.id]
    bounds = desk.read(event_store.get_bounds)
    assert bounds.pruned == bounds.last_seq - 1
    assert len(other.changes()) == 1
    assert other.read(event_store.get_bounds).pruned == 0


def test_why_says_that_events_were_deleted(desk: TenantHarness, clock: FixedClock) -> None:
    todo = desk.add("old")
    clock.advance(31 * DAY_S)
    desk.change(todo, subject="older")
    assert "because of their age" not in str(desk.read(why.explain, "todo", str(todo.id)))
    prune(desk, "events")
    assert "were deleted because of their age" in str(desk.read(why.explain, "todo", str(todo.id)))


def test_a_step_is_limited_in_bytes(desk: TenantHarness, clock: FixedClock) -> None:
    for number in range(12):
        desk.add(f"todo {number}", description="x" * 190_000)
    clock.advance(31 * DAY_S)
    desk.add("new")
    assert [step.deleted for step in prune(desk, "events")] == [6, 6]


def test_the_newest_event_stays_so_that_the_log_has_an_end(desk: TenantHarness, clock: FixedClock) -> None:
    desk.add("one")
    desk.add("two")
    end = desk.read(event_store.get_last_seq)
    clock.advance(31 * DAY_S)
    prune(desk, "events")
    assert [todo["subject"] for _, todo in desk.changes()] == ["two"]
    assert desk.read(event_store.get_last_seq) == end


def test_nothing_is_deleted_that_something_open_needs(desk: TenantHarness, clock: FixedClock) -> None:
    ids = fill_tenant(desk)  # with a turn that waits for a person, and a goal in progress
    before = read_tenant_rows(desk)
    clock.advance(400 * DAY_S)
    prune_all(desk)

    after = read_tenant_rows(desk)
    assert {table: after[table] for table in CONTENT} == {table: before[table] for table in CONTENT}
    kinds = [kind for kind, _ in desk.events()]
    assert kinds.count("turn_started") == 1
    assert "journal_appended" in kinds
    assert desk.read(finding.get_conversation, ids.conversation)


def test_what_has_ended_is_deleted_when_it_is_old(desk: TenantHarness, clock: FixedClock) -> None:
    ids = fill_tenant(desk)
    end_everything(desk, ids)
    for todo in desk.database.read(lambda tx: tx.all("SELECT id FROM todos WHERE completed_at = 0 AND turn_id IS NULL")):
        desk.write(todos.end_todo, todo[0], "canceled", force=True)
    desk.database.write(lambda tx: tx.run("DELETE FROM schedules"))  # one sends a message to the conversation
    clock.advance(29 * DAY_S)
    prune_all(desk)
    assert desk.count("conversations") == 1
    assert desk.count("transcript") == 1

    clock.advance(2 * DAY_S)
    steps = prune(desk, "conversations")
    assert [owner.id for step in steps for owner in step.owners] == [ids.conversation]
    prune_all(desk)
    rows = read_tenant_rows(desk)
    assert [table for table in CONTENT if rows[table]] == []
    assert {kind for kind, _ in desk.events()} <= {"conversation_deleted", "goal_deleted"}
    with pytest.raises(NotFound):
        desk.read(finding.get_conversation, ids.conversation)
    assert desk.read(tokens.list_all_tokens)


def test_a_conversation_with_open_todos_or_a_schedule_is_kept(desk: TenantHarness, clock: FixedClock) -> None:
    open_list, done_list = desk.conversation(), desk.conversation()
    desk.add("open", conversation_id=open_list.id)
    done = desk.add("done", conversation_id=done_list.id)
    clock.advance(31 * DAY_S)
    desk.write(todos.end_todo, done.id, "completed", "yes")
    prune(desk, "conversations")
    assert desk.count("conversations") == 2
    clock.advance(31 * DAY_S)
    prune(desk, "conversations")
    assert desk.subjects() == ["open"]
    assert desk.count("conversations") == 1


def test_the_transcripts_of_ended_runs_go_and_the_runs_stay(desk: TenantHarness, clock: FixedClock) -> None:
    ids = fill_tenant(desk)
    end_everything(desk, ids)
    runs, calls = desk.count("runs"), desk.count("model_calls")
    clock.advance(31 * DAY_S)
    prune(desk, "transcripts")
    assert (desk.count("transcript"), desk.count("effects")) == (0, 0)
    assert (desk.count("runs"), desk.count("model_calls")) == (runs, calls)
    assert prune(desk, "transcripts") == [PruneStep(None)]  # pruned runs are not looked at again


def test_a_dead_job_keeps_the_transcript_for_its_retry(desk: TenantHarness, clock: FixedClock) -> None:
    ids = fill_tenant(desk)
    end_everything(desk, ids)
    desk.database.write(lambda tx: tx.run("UPDATE jobs SET state = 'dead' WHERE id = ?", ids.job))
    clock.advance(31 * DAY_S)
    prune(desk, "transcripts")
    assert desk.count("transcript") == 1


def test_costs_are_subtracted_before_their_rows_are_deleted(desk: TenantHarness, clock: FixedClock) -> None:
    ids = fill_tenant(desk)
    end_everything(desk, ids)
    assert desk.read(spending_store.get_pool).spent > 0
    clock.advance(31 * DAY_S)
    prune(desk, "runs")
    assert desk.read(spending_store.get_pool).spent == 0
    assert desk.read(turns.show_turn, ids.turn, Limits())["status"] == "canceled"


def test_the_last_receipt_of_a_todo_stays(desk: TenantHarness, clock: FixedClock) -> None:
    todo = desk.add("proven")
    for _ in range(3):
        desk.write(proof.store, ReceiptDraft("todo", todo.id, (), {}, "ada"))
    clock.advance(31 * DAY_S)
    prune(desk, "receipts")
    assert desk.count("receipts") == 1


def test_old_audit_entries_are_deleted(desk: TenantHarness, clock: FixedClock) -> None:
    desk.write(tokens.create_token, "old")
    clock.advance(31 * DAY_S)
    desk.write(tokens.create_token, "new")
    prune(desk, "audit")
    assert desk.count("audit") == 1


def test_a_goal_without_its_first_events_cannot_be_forked(desk: TenantHarness, clock: FixedClock) -> None:
    ids = fill_tenant(desk)
    end_everything(desk, ids)
    clock.advance(31 * DAY_S)
    prune(desk, "events")
    with pytest.raises(Conflict, match="HEADWAY_RETENTION"):
        desk.write(fork_goal, ids.goal, GoalForkRequest(1))


def test_one_process_at_a_time_prunes(desk: TenantHarness, clock: FixedClock) -> None:
    def begin() -> list[int] | None:
        return desk.database.write(lambda tx: pruning.begin_pass(tx, 3_600_000))

    assert begin() == [0, desk.tenant.id]
    assert begin() is None
    clock.advance(3600)
    assert begin() == [0, desk.tenant.id]


def test_the_setting_is_a_list_of_ages() -> None:
    retention = parse_retention("HEADWAY_RETENTION", " events:30d, audit:1d ")
    assert retention == {"events": 30, "audit": 1}
    assert describe_retention(retention).startswith("deleted: events after 30 days, audit after 1 day; kept: transcripts")
    assert describe_retention({}) == "everything is kept"
