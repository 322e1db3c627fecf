"""Many processes claim todos from one list, and no todo is handed out twice."""

import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

from bench import bare
from bench.bulk import new_ledger
from bench.harness import Measurements, Workshop, at_least, benchmark, in_turns
from bench.postgres import new_database
from headway.actions.installation import tenants
from headway.actions.todos import claims, todos
from headway.storage.direct import DirectDatabase

TODOS = 2_000
BATCH = 500
PROCESSES = 8
ROUNDS = 5
WORKLOAD = "2,000 todos claimed by 8 processes, none twice"


@benchmark("claim.8p", f"SQLite: {WORKLOAD}", "one process", at_least(0.5))
def claim_on_sqlite(shop: Workshop) -> Measurements:
    return claiming(new_ledger(shop.folder / "claims.db").url)


@benchmark("claim.8p.pg", f"Postgres: {WORKLOAD}", "one process", at_least(0.5))
def claim_on_postgres(shop: Workshop) -> Measurements:
    return claiming(new_database(shop))


def claiming(url: str) -> Measurements:
    names = (f"tenant {number}" for number in count())
    return in_turns(partial(claims_a_second, url, names, PROCESSES), partial(claims_a_second, url, names, 1), ROUNDS, warm=False)


class Taken(NamedTuple):
    """The todos that one process claimed, and when it started and ended."""

    todo_ids: list[int]
    started: float
    ended: float


def claims_a_second(url: str, names: Iterator[str], processes: int) -> float:
    """Let this many processes empty a new list, and return their total rate from the first start to the last end."""
    tenant_id = new_list(url, next(names))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    answers: Queue[Taken] = context.Queue()
    workers = [context.Process(target=claim_all, args=(url, tenant_id, barrier, answers)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    results = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    todo_ids = [todo_id for result in results for todo_id in result.todo_ids]
    assert len(todo_ids) == len(set(todo_ids)) == TODOS, f"{len(todo_ids)} claims of {len(set(todo_ids))} different todos"
    return TODOS / (max(result.ended for result in results) - min(result.started for result in results))


def new_list(url: str, tenant: str) -> int:
    with DirectDatabase(url) as database:
        tenant_id = database.write(partial(tenants.add_tenant, name=tenant)).id
        for _ in range(TODOS // BATCH):
            database.write(partial(todos.add_many, tenant_id=tenant_id, drafts=[bare.DRAFT] * BATCH))
    return tenant_id


def claim_all(url: str, tenant_id: int, barrier: Barrier, answers: "Queue[Taken]") -> None:
    """Claim until nothing is left, in one process. The monotonic clock is the same in all processes."""
    todo_ids: list[int] = []
    with DirectDatabase(url) as database:
        claim = partial(claims.claim, tenant_id=tenant_id, agent_id="index")
        barrier.wait()
        start = time.monotonic()
        while (claimed := database.write(claim)) is not None:
            todo_ids.append(claimed.todo.id)
        answers.put(Taken(todo_ids, start, time.monotonic()))
