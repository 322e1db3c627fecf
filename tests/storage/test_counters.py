"""Derived columns of todos (counters, positions, blocked_by) stay consistent with the rows after any changes."""

import threading

import pytest

from headway.actions.todos import todo_lists, todos
from headway.ledger.scope import Selection
from headway.ledger.todo import STATUSES, Draft
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.proofs import Proof
from tests.random_walk import RandomWalk, list_contradictions


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2))
def test_random_changes_to_todos_keep_counters_and_rows_consistent(
    database: DirectDatabase, desk: TenantHarness, seed: int, proof: Proof
) -> None:
    walk = RandomWalk(desk, seed)

    for number in range(proof.trials("random changes to todos: counters and rows", share=150, whole=2_000)):
        walk.step(database)
        assert desk.read(list_contradictions) == [], f"after step {number}"

    todo_list = desk.read(todo_lists.get_todo_list, Selection(), 500)
    assert todo_list.counts == {status: sum(todo.status == status for todo in todo_list.todos) for status in STATUSES}
    assert all(todo_list.counts.values()), "a walk that never gets anywhere shows nothing"


def test_concurrent_changes_to_one_list_keep_its_counters_true(database_url: str, desk: TenantHarness) -> None:
    failures: list[Exception] = []
    walks = [RandomWalk(desk, seed) for seed in range(4)]
    for walk in walks:
        walk.ids = walks[0].ids  # all walks change the same todos
        walk.lists = walks[0].lists

    def work(walk: RandomWalk) -> None:
        try:
            with DirectDatabase(database_url) as own:
                for _ in range(60):
                    walk.step(own)
        except Exception as error:  # noqa: BLE001  a thread would swallow it
            failures.append(error)

    workers = [threading.Thread(target=work, args=(walk,)) for walk in walks]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert failures == []
    assert desk.read(list_contradictions) == []


@pytest.mark.parametrize("limit", [1, 7, 500])
def test_counts_are_those_of_the_whole_list_however_little_of_it_is_shown(desk: TenantHarness, limit: int) -> None:
    desk.write(todos.add_many, [Draft("x", status=STATUSES[number % 4]) for number in range(10)])
    page = desk.read(todo_lists.get_todo_list, Selection(), limit)

    assert len(page.todos) == min(limit, 10)
    assert page.counts == {"pending": 3, "in_progress": 3, "completed": 2, "canceled": 2}
