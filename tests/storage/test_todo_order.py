"""The order of todos: put directly before or after another, also in long lists and by several people at once."""

import threading
from itertools import pairwise

import pytest

from headway.actions.todos import todo_lists, todos
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.scope import Selection
from headway.ledger.todo import Change, Draft, Todo
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness

PENDING = Selection(statuses=("pending",))
LONG = 1_200  # more than can be moved one by one


def place(tx: Transaction, tenant_id: int, todo_id: int, before: int | None = None, after: int | None = None) -> Todo:
    changes = todos.place_beside(tx, tenant_id, todo_id, Change(), before, after)
    return todos.change_todo(tx, tenant_id, todo_id, changes)


def list_pending(desk: TenantHarness) -> list[Todo]:
    rows: list[Todo] = []
    cursor = None
    while True:
        page = desk.read(todo_lists.list_todos, PENDING, 500, cursor)
        rows, cursor = rows + page.todos, page.next_cursor
        if not cursor:
            return rows


def list_subjects(desk: TenantHarness) -> str:
    return "".join(todo.subject for todo in list_pending(desk))


def test_a_todo_is_put_before_or_after_another(desk: TenantHarness) -> None:
    ids = {subject: desk.add(subject).id for subject in "abcde"}
    for moved, before, after, expected in [
        ("e", "a", None, "eabcd"),
        ("e", None, "d", "abcde"),
        ("b", "e", None, "acdbe"),
        ("a", None, "b", "cdbae"),
        ("e", "c", None, "ecdba"),
        ("e", "c", None, "ecdba"),
        ("d", "e", None, "decba"),
        ("a", None, "d", "daecb"),
    ]:
        desk.write(place, ids[moved], ids[before] if before else None, ids[after] if after else None)
        assert list_subjects(desk) == expected
    positions = [todo.position for todo in list_pending(desk)]
    assert all(one < other for one, other in pairwise(positions))
    assert desk.add("new").position > positions[-1]


def test_a_place_that_cannot_be_is_refused(desk: TenantHarness) -> None:
    first, second = desk.add("a"), desk.add("b")
    for before, after, error in [
        (first.id, second.id, Invalid),
        (second.id + 100, None, NotFound),
    ]:
        with pytest.raises(error):
            desk.write(place, first.id, before, after)
    with pytest.raises(Invalid, match="beside itself"):
        desk.write(place, first.id, first.id)
    with pytest.raises(Invalid, match="only one of"):
        desk.write(lambda tx, tenant: todos.place_beside(tx, tenant, first.id, Change(position=7), second.id))
    rival = TenantHarness(desk.database, "rival")
    with pytest.raises(NotFound):
        rival.write(place, rival.add().id, first.id)
    assert list_subjects(desk) == "ab"


def test_in_another_list_the_nearest_number_is_taken(desk: TenantHarness) -> None:
    other = desk.conversation().id
    for _ in range(4):
        desk.add("wide")
    target = desk.add("here", position=9)
    moved = desk.add("moved", conversation_id=other)
    assert desk.write(place, moved.id, target.id).position == 9
    desk.write(place, moved.id, None, desk.add("last").id)
    assert [todo.subject for todo in list_pending(desk)][-2:] == ["last", "moved"]


def test_a_long_list_keeps_its_order_when_one_is_moved_to_its_top(desk: TenantHarness) -> None:
    for start in range(0, LONG, 400):
        desk.write(todos.add_many, [Draft(f"{start + n:05}") for n in range(400)])
    before = list_pending(desk)
    moves = [before[-1], before[-2], before[LONG // 2], before[3]]
    for moved in moves:
        desk.write(place, moved.id, list_pending(desk)[0].id)

    after = [todo.id for todo in list_pending(desk)]
    assert after[:4] == [todo.id for todo in reversed(moves)]
    assert after[4:] == [todo.id for todo in before if todo not in moves]
    assert len({todo.position for todo in list_pending(desk)}) == LONG


def test_several_people_reorder_one_list_at_once(database_url: str) -> None:
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database)
        ids = [desk.add(str(n)).id for n in range(12)]

        def shuffle(own: list[int], target: int) -> None:
            with DirectDatabase(database_url) as mine:
                for todo_id in own * 3:
                    mine.write(lambda tx, todo_id=todo_id: place(tx, desk.tenant.id, todo_id, target))  # type: ignore[misc]

        threads = [threading.Thread(target=shuffle, args=(ids[start:4:2], ids[8 + start])) for start in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = list_pending(desk)
        assert sorted(todo.id for todo in rows) == sorted(ids)
        assert len({todo.position for todo in rows}) == len(ids)
        order = [todo.id for todo in rows]
        assert {order.index(ids[8]) - 1, order.index(ids[9]) - 1} == {order.index(ids[2]), order.index(ids[3])}
