"""A deleted conversation is hidden with all that belongs to it, can be restored for a day, and is then gone."""

import pytest

from headway.actions.access import quotas
from headway.actions.engine import run_ends, schedules
from headway.actions.engine.schedules import Timing
from headway.actions.history import conversation_pages
from headway.actions.history.conversation_pages import ConversationFilter
from headway.actions.installation import pruning
from headway.actions.installation.pruning import PruneStep
from headway.actions.todos import claims, conversations, finding, import_export, todo_lists, todos
from headway.actions.turns import memory, turns
from headway.actions.turns.memory import NewMemory
from headway.actions.turns.turns import TurnRequest
from headway.ledger.errors import Conflict, NotFound, TurnRunning
from headway.ledger.scope import MemorySelection, Selection
from headway.ledger.tenancy import DAY_MS, RESTORE_DAYS
from headway.ledger.todo import Draft
from headway.storage import logged_transaction
from headway.storage.stores.retention import Key
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tenant_rows import fill_tenant, read_tenant_rows

DAY_S = 86_400


def delete_for_good(desk: TenantHarness) -> None:
    """Delete the rows of conversations that can no longer be restored, as the background task does."""
    position: Key | None = None

    def take_step(tx: Transaction) -> PruneStep:
        return pruning.prune_deleted(tx, desk.tenant.id, tx.now - RESTORE_DAYS * DAY_MS, position)

    while (step := desk.database.write(take_step)).position is not None:
        position = step.position


def test_a_deleted_conversation_is_hidden_everywhere_until_it_is_restored(desk: TenantHarness) -> None:
    conversation = desk.conversation(key="home", title="Kitchen")
    desk.write(todos.add_todo, Draft("paint it", conversation_id=conversation.id))
    kept = desk.add("stays")
    desk.write(memory.add_note, NewMemory("the door is green", conversation_id=conversation.id), "ada")
    everything = read_tenant_rows(desk)
    desk.write(conversations.remove_conversation, conversation.id)

    with pytest.raises(NotFound):
        desk.read(finding.get_conversation, conversation.id)
    with pytest.raises(NotFound):
        desk.read(finding.resolve, "home")
    assert desk.read(conversations.list_conversations) == []
    assert desk.read(conversation_pages.list_conversations, ConversationFilter("kitchen")).conversations == []
    assert desk.read(conversation_pages.list_conversations, ConversationFilter(sort="activity")).conversations == []
    assert desk.subjects() == ["stays"]
    assert desk.read(todo_lists.get_todo_list, Selection(), 50).counts["pending"] == 1
    assert [todo.subject for todo in desk.read(todo_lists.list_ready_todos)] == ["stays"]
    first, second = (desk.write(claims.claim, "ada") for _ in range(2))
    assert first is not None
    assert (first.todo.id, second) == (kept.id, None)
    assert desk.read(memory.list_notes, MemorySelection()).entries == []
    assert "paint it" not in desk.read(import_export.export_json, Selection())

    restored = desk.write(conversations.restore, conversation.id)
    assert restored._replace(state="idle") == conversation
    assert sorted(desk.subjects()) == ["paint it", "stays"]
    assert len(desk.read(memory.list_notes, MemorySelection()).entries) == 1
    changes = [data for kind, data in desk.events() if kind == "conversation_changed"]
    assert [('"deleted"' in data, '"restored"' in data) for data in changes] == [(True, False), (False, True)]
    assert "Kitchen" not in "".join(changes)
    assert read_tenant_rows(desk)["conversations"] == everything["conversations"]


def test_the_key_of_a_deleted_conversation_is_free(desk: TenantHarness) -> None:
    first = desk.conversation(key="home")
    desk.write(conversations.remove_conversation, first.id)
    second = desk.write(conversations.get_or_create, "home")
    restored = desk.write(conversations.restore, first.id)

    assert second.id != first.id
    assert restored.key not in ("home", "")
    assert desk.read(finding.resolve, "home").id == second.id


def test_a_conversation_that_something_works_in_is_not_deleted(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    run = desk.write(turns.start_turn, conversation.id, TurnRequest("hello"))
    with pytest.raises(TurnRunning, match="Cancel the turn or wait for it"):
        desk.write(conversations.remove_conversation, conversation.id)
    desk.write(run_ends.cancel_turn, run.turn_id)
    work = {"message": {"conversation_id": conversation.id, "content": "go"}}
    desk.write(schedules.put, "daily", Timing("", "UTC", 60_000), work)
    with pytest.raises(Conflict, match="'daily'"):
        desk.write(conversations.remove_conversation, conversation.id)
    assert desk.read(finding.get_conversation, conversation.id).title == "hello"


def test_after_a_day_the_rows_are_deleted(desk: TenantHarness, clock: FixedClock) -> None:
    other = TenantHarness(desk.database, "other")
    theirs = fill_tenant(other)
    ids = fill_tenant(desk)
    desk.write(run_ends.cancel_turn, ids.turn)
    desk.write(schedules.remove_schedule, ids.schedule)
    desk.write(conversations.remove_conversation, ids.conversation)
    other_rows = read_tenant_rows(other)
    delete_for_good(desk)
    assert desk.write(conversations.restore, ids.conversation).id == ids.conversation

    desk.write(conversations.remove_conversation, ids.conversation)
    clock.advance(DAY_S + 1)
    delete_for_good(desk)

    with pytest.raises(NotFound):
        desk.write(conversations.restore, ids.conversation)
    rows = read_tenant_rows(desk)
    assert [table for table in ("conversations", "turns", "messages", "attachments", "todos") if rows[table]] == []
    assert rows["goals"]
    counted = desk.database.read(lambda tx: logged_transaction.count(tx, desk.tenant.id))
    assert desk.read(quotas.describe_usage)["usage"]["storage"] == counted
    assert read_tenant_rows(other) == other_rows
    assert other.read(finding.get_conversation, theirs.conversation)


def test_a_title_that_a_person_chose_stays(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    run = desk.write(turns.start_turn, conversation.id, TurnRequest("Paint the **door**. Then the wall."))
    desk.write(run_ends.cancel_turn, run.turn_id)
    assert desk.read(finding.get_conversation, conversation.id).title == "Paint the door"

    desk.write(conversations.rename_conversation, conversation.id, "  Green  ")
    desk.write(turns.start_turn, conversation.id, TurnRequest("Now the roof"))
    (shown,) = desk.read(conversation_pages.list_conversations, ConversationFilter()).conversations
    assert (shown.title, shown.state) == ("Green", "running")
