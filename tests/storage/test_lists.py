"""The order of a list, its pages and its counts."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import jobs, notices, runs
from headway.actions.runs.runs import RunFilter
from headway.actions.todos import todo_lists, todos
from headway.ledger.scope import Selection
from headway.storage.direct import DirectDatabase
from headway.storage.stores import todo_pages
from headway.storage.transaction import Row, Transaction
from headway.testing import FixedClock, TenantHarness


def test_a_list_shows_work_in_progress_then_pending_by_position_then_ended_by_most_recent(
    desk: TenantHarness, clock: FixedClock
) -> None:
    first, second, third, fourth, fifth = (desk.add(subject) for subject in ("first", "second", "third", "fourth", "fifth"))
    for todo in (second, first):
        clock.advance(1)
        desk.write(todos.end_todo, todo.id, "completed")
    desk.change(fifth, status="in_progress")

    assert desk.subjects() == ["fifth", "third", "fourth", "first", "second"]
    assert third.position < fourth.position


def test_a_conversation_shows_its_own_rows_before_the_tenant_wide_ones(desk: TenantHarness) -> None:
    own, other = desk.conversation(), desk.conversation()
    desk.add("tenant-wide")
    desk.add("ours", conversation_id=own.id)
    desk.add("theirs", conversation_id=other.id)

    assert desk.subjects(Selection(own.id)) == ["ours", "tenant-wide"]
    assert desk.subjects(Selection(0)) == ["tenant-wide"]
    assert sorted(desk.subjects()) == ["ours", "tenant-wide", "theirs"]


def test_pages_joined_together_are_the_list(desk: TenantHarness, clock: FixedClock) -> None:
    conversation = desk.conversation()
    for number in range(12):
        clock.advance(1)
        todo = desk.add(f"todo {number}", conversation_id=conversation.id if number % 2 else 0)
        if number % 3:
            desk.change(todo, status=("in_progress", "canceled", "completed")[number % 3])
    selection = Selection(conversation.id)
    whole = desk.subjects(selection)

    pages: list[str] = []
    cursor = None
    while not pages or cursor:
        page = desk.read(todo_lists.list_todos, selection, 5, cursor)
        pages += [todo.subject for todo in page.todos]
        cursor = page.next_cursor

    assert pages == whole
    assert len(whole) == 12


class ExplainingTransaction:
    """A transaction that records the query plan of each SQLite query."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.dialect = tx.dialect
        self.steps: list[str] = []

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        self.steps += [str(row[-1]) for row in self.tx.all(f"EXPLAIN QUERY PLAN {sql}", *parameters)]
        return self.tx.all(sql, *parameters)

    stream = all


def explain_list(url: str, selection: Selection, cursor: str | None = None) -> list[str]:
    """Return the steps of SQLite's plans for a page of a list."""

    def explain(tx: Transaction) -> list[str]:
        explaining = ExplainingTransaction(tx)
        todo_pages.list_todo_page(explaining, 1, selection, 50, cursor)  # type: ignore[arg-type]
        return explaining.steps

    with DirectDatabase(url) as database:
        return database.read(explain)


@pytest.mark.parametrize("selection", [Selection(), Selection(0), Selection(1), Selection(statuses=("pending",))])
def test_every_part_of_a_list_is_read_through_an_index_in_its_order(sqlite_url: str, selection: Selection) -> None:
    """001: "Indexed on (tenant_id, conversation_id, status, position) for the per-thread list and (tenant_id, status, updated_at
    DESC) for tenant-wide browses"."""
    steps = explain_list(sqlite_url, selection)
    assert [step for step in steps if "SCAN" in step or "TEMP B-TREE" in step] == []  # no full scan and no sort
    assert any(step.startswith("SEARCH todos USING INDEX todos_") for step in steps)


@pytest.mark.parametrize("cursor", [None, todo_pages.CURSORS.encode((2, 5, 7))])
def test_the_todos_of_a_turn_are_found_by_the_turn_however_many_others_the_tenant_has(sqlite_url: str, cursor: str | None) -> None:
    """000: "CREATE INDEX … ON turn_todos(turnId, status)"."""
    steps = explain_list(sqlite_url, Selection(turn_id="1"), cursor)
    searches = {" ".join(step.split()[:7]) for step in steps if step.startswith("SEARCH todos ")}
    assert searches == {"SEARCH todos USING INDEX todos_of_turn (tenant_id=? AND"}


def test_joined_pages_of_jobs_and_agents_are_the_whole_list_even_within_a_millisecond(
    desk: TenantHarness, clock: FixedClock
) -> None:
    for number in range(7):
        clock.advance(0.001 if number == 3 else 0)
        desk.write(goals.add_goal, NewGoal(f"goal {number}"))
        desk.write(notices.notify, "budget", f"notice {number}")

    def join_pages(of: str, view: Callable[..., dict[str, Any]]) -> list[str]:
        pages: list[str] = []
        cursor: str | None = None
        while not pages or cursor:
            page = desk.read(view, 3, cursor)
            assert 1 <= len(page[of]) <= 3
            pages += [entry["id"] for entry in page[of]]
            cursor = page["next_cursor"]
        return pages

    lists: dict[str, Callable[..., dict[str, Any]]] = {
        "jobs": lambda tx, tenant_id, *page: jobs.list_jobs(tx, tenant_id, "queued", *page).as_json(),
        "agents": lambda tx, tenant_id, *page: runs.list_agents(tx, tenant_id, RunFilter(), *page).as_json(),
        "notices": notices.list_page,
        "goals": lambda tx, tenant_id, *page: views.list_goals(tx, tenant_id, None, *page)._asdict(),
    }
    for of, view in lists.items():
        whole = desk.read(view, 500)
        assert join_pages(of, view) == [entry["id"] for entry in whole[of]]
        assert (len(whole[of]), whole["next_cursor"]) == (14 if of == "jobs" else 7, None)
    newest = {run.task for run in desk.read(runs.list_agents, RunFilter(), 4).agents}
    assert newest == {f"goal {number}" for number in range(3, 7)}


def test_a_page_of_long_todos_ends_early_and_the_pages_together_are_the_list(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    long_text = "x" * 200_000
    for number in range(30):
        todo = desk.add(f"todo {number}", description=long_text, conversation_id=conversation.id if number % 2 else 0)
        if number < 20:
            desk.write(todos.end_todo, todo.id, "completed", "done")
    pages: list[list[str]] = []
    cursor = None
    while cursor or not pages:
        page = desk.read(todo_lists.list_todos, Selection(conversation.id), 500, cursor)
        pages.append([todo.subject for todo in page.todos])
        cursor = page.next_cursor

    assert len(pages) > 1
    assert all(0 < len(page) <= 22 for page in pages)  # both lists have ended todos, and 11 of one are read
    assert [subject for page in pages for subject in page] == [
        *(f"todo {number}" for number in (*range(21, 30, 2), *range(20, 30, 2))),
        *(f"todo {number}" for number in range(19, -1, -1)),
    ]
