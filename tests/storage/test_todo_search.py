"""Todos are searched by words, filtered by proof and counted by status."""

import pytest

from headway.actions.todos import todo_lists, todos
from headway.ledger.check import Proof
from headway.ledger.errors import BadCursor, NotFound
from headway.ledger.parsing.checks import write_checks
from headway.ledger.scope import Selection
from headway.ledger.todo import Draft
from headway.storage.stores import todo_pages
from headway.testing import TenantHarness

EVERYTHING = Selection()


def search(desk: TenantHarness, query: str, selection: Selection = EVERYTHING, limit: int = 50) -> list[str]:
    """Follow the cursors to the end of a search."""
    subjects: list[str] = []
    cursor = None
    while True:
        page = desk.read(todo_lists.search_todos, selection, query, limit, cursor)
        assert len(page.todos) <= limit
        subjects, cursor = subjects + [todo.subject for todo in page.todos], page.next_cursor
        if not cursor:
            assert page.searched_all
            return subjects


def test_every_word_must_occur_in_the_texts_of_a_todo(desk: TenantHarness) -> None:
    first = desk.add("Paint the DOOR", description="green, 100 %")
    desk.add("Größe messen", completion_criteria="the door fits")
    ended = desk.add("open the door")
    desk.change(ended, status="completed", outcome="It was STRAßE 7.")

    assert search(desk, "door") == ["Paint the DOOR", "Größe messen", "open the door"]
    assert search(desk, "GREEN door") == ["Paint the DOOR"]
    assert search(desk, "grösse") == search(desk, "größe") == ["Größe messen"]
    assert search(desk, "strasse") == ["open the door"]
    assert search(desk, f"#{first.id}") == ["Paint the DOOR"]
    assert search(desk, "100 %") == ["Paint the DOOR"]
    assert search(desk, "_") == search(desk, "window") == []
    assert search(desk, "door", Selection(statuses=("completed",))) == ["open the door"]
    assert search(desk, "door", limit=1) == ["Paint the DOOR", "Größe messen", "open the door"]
    assert search(TenantHarness(desk.database, "rival"), "door") == []
    with pytest.raises(BadCursor):
        desk.read(todo_lists.search_todos, EVERYTHING, "door", 5, "nonsense")


def test_a_search_reads_a_limited_number_and_continues_at_its_cursor(desk: TenantHarness) -> None:
    count = todo_pages.SEARCH_LIMIT + 300
    for start in range(0, count, 100):
        desk.write(todos.add_many, [Draft(f"todo {start + n}") for n in range(100)])
    desk.change(desk.add("needle, first"), position=0)
    desk.add("needle, last")

    page = desk.read(todo_lists.search_todos, EVERYTHING, "needle")
    assert ([todo.subject for todo in page.todos], page.searched_all) == (["needle, first"], False)
    rest = desk.read(todo_lists.search_todos, EVERYTHING, "needle", 50, page.next_cursor)
    assert ([todo.subject for todo in rest.todos], rest.next_cursor, rest.searched_all) == (["needle, last"], None, True)


def test_todos_of_two_lists_are_searched_in_the_order_of_the_list(desk: TenantHarness) -> None:
    here = desk.conversation().id
    for n in range(6):
        desk.change(
            desk.add(f"ended {n}", conversation_id=here if n % 2 else 0), status="completed", completed_at=(n + 1) * 1_000_000
        )
    assert search(desk, "ended", Selection(here), 2) == [f"ended {n}" for n in reversed(range(6))]
    assert search(desk, "ended", Selection(here, own_only=True), 2) == ["ended 5", "ended 3", "ended 1"]


def test_counts_follow_the_filters(desk: TenantHarness) -> None:
    here = desk.conversation().id
    checks = write_checks([{"kind": "file", "path": "a"}], "person")
    desk.write(todos.add_todo, Draft("checked", checks=checks, agent_id="ada"))
    desk.add("own", conversation_id=here, agent_id="ada")
    desk.change(desk.add("done", conversation_id=here), status="completed")

    def count(selection: Selection) -> tuple[int, ...]:
        return tuple(
            desk.read(todo_lists.count_todos, selection)[status] for status in ("pending", "in_progress", "completed", "canceled")
        )

    proof: Proof = "unproven"
    assert count(EVERYTHING) == (2, 0, 1, 0)
    assert count(Selection(here)) == (2, 0, 1, 0)
    assert count(Selection(here, own_only=True)) == (1, 0, 1, 0)
    assert count(Selection(agent_id="ada")) == (2, 0, 0, 0)
    assert count(Selection(here, agent_id="ada", own_only=True)) == (1, 0, 0, 0)
    assert count(Selection(proof=proof)) == (1, 0, 0, 0)
    assert search(desk, "", Selection(proof=proof)) == ["checked"]
    with pytest.raises(NotFound):
        count(Selection(here + 1_000))


def test_only_open_dependencies_of_open_todos_are_named(desk: TenantHarness) -> None:
    first, second = desk.add("dig"), desk.add("buy")
    waiting = desk.add("plant", depends_on=(first.id, second.id))
    desk.change(first, status="completed")
    rows = desk.read(todo_lists.list_todos, EVERYTHING).todos
    assert desk.read(todo_lists.list_open_dependencies, rows) == [second.id]
    desk.change(waiting, status="canceled")
    assert desk.read(todo_lists.list_open_dependencies, desk.read(todo_lists.list_todos, EVERYTHING).todos) == []
