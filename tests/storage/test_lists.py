"""The order of a list, its pages and its counts."""

from headway.actions import todos, views
from headway.ledger.scope import Selection
from headway.testing import Desk, FixedClock


def test_a_list_shows_work_in_progress_then_pending_by_position_then_ended_by_most_recent(desk: Desk, clock: FixedClock) -> None:
    first, second, third, fourth, fifth = (desk.add(subject) for subject in ("first", "second", "third", "fourth", "fifth"))
    for todo in (second, first):
        clock.advance(1)
        desk.write(todos.end, todo.id, "completed")
    desk.change(fifth, status="in_progress")

    assert desk.subjects() == ["fifth", "third", "fourth", "first", "second"]
    assert third.position < fourth.position


def test_a_conversation_shows_its_own_rows_before_the_tenant_wide_ones(desk: Desk) -> None:
    ours, other = desk.conversation(), desk.conversation()
    desk.add("tenant-wide")
    desk.add("ours", conversation_id=ours.id)
    desk.add("theirs", conversation_id=other.id)

    assert desk.subjects(Selection(ours.id)) == ["ours", "tenant-wide"]
    assert desk.subjects(Selection(0)) == ["tenant-wide"]
    assert sorted(desk.subjects()) == ["ours", "tenant-wide", "theirs"]


def test_pages_joined_together_are_the_list(desk: Desk, clock: FixedClock) -> None:
    conversation = desk.conversation()
    for number in range(12):
        clock.advance(1)
        todo = desk.add(f"todo {number}", conversation_id=conversation.id if number % 2 else 0)
        if number % 3:
            desk.change(todo, status=("in_progress", "canceled", "completed")[number % 3])
    selection = Selection(conversation.id)
    whole = desk.subjects(selection)

    pages, cursor = [], None
    while not pages or cursor:
        page = desk.read(views.todos, selection, 5, cursor)
        pages += [todo.subject for todo in page.todos]
        cursor = page.next_cursor

    assert pages == whole
    assert len(whole) == 12
