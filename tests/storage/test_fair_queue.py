"""Fair use of the database: work of one tenant does not keep the work of others waiting."""

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import closing
from typing import NamedTuple

from headway.storage.database import Database
from headway.storage.fair_queue import HEADWAY, FairQueue, current_tenant
from headway.storage.sqlite_connection import GROUP_LIMIT_S
from headway.storage.transaction import Transaction

PATIENCE_S = 60


class Unit(NamedTuple):
    tenant_id: int
    name: str


def fill(queue: FairQueue[Unit], lines: dict[int, int]) -> None:
    for tenant_id, count in lines.items():
        for place in range(count):
            queue.put(Unit(tenant_id, f"{tenant_id}.{place}"))


def test_tenants_are_served_in_turn_and_each_in_its_own_order() -> None:
    queue: FairQueue[Unit] = FairQueue(100)
    fill(queue, {1: 4, 2: 2, HEADWAY: 1})
    assert [unit.name for unit in queue.take(10)] == ["0.0", "1.0", "2.0", "1.1", "2.1", "1.2", "1.3"]


def test_the_tenant_that_has_used_less_time_comes_first() -> None:
    queue: FairQueue[Unit] = FairQueue(100)
    fill(queue, {1: 3})
    (slow,) = queue.take(1)
    fill(queue, {2: 2})
    queue.finish(slow, seconds=1.0)
    assert [unit.name for unit in queue.take(10)] == ["2.0", "2.1", "1.1", "1.2"]


def test_units_that_were_not_started_return_to_the_front_of_their_lines() -> None:
    queue: FairQueue[Unit] = FairQueue(100)
    fill(queue, {1: 4})
    first, *others = queue.take(3)
    queue.finish(first, 0.1)
    queue.put_back(others)
    assert [unit.name for unit in queue.take(10)] == ["1.1", "1.2", "1.3"]


def test_a_queue_that_is_closed_gives_out_what_is_left() -> None:
    queue: FairQueue[Unit] = FairQueue(1)
    fill(queue, {1: 2})
    (first,) = queue.take(5)
    queue.close()
    queue.finish(first, 0.1)
    (second,) = queue.take(5)
    queue.finish(second, 0.1)
    assert queue.take(5) == []
    assert queue.used_s == {}, "nothing is kept about tenants that have no work"


async def as_tenant(tenant_id: int, work: Awaitable[object]) -> None:
    current_tenant.set(tenant_id)
    await work


def test_a_tenant_that_floods_postgres_leaves_a_connection_to_the_others(postgres_url: str) -> None:
    ended: list[int] = []
    gate = threading.Event()

    def hold(_tx: Transaction) -> None:
        gate.wait(PATIENCE_S)
        ended.append(1)

    async def scenario(database: Database) -> None:
        flood = [asyncio.create_task(as_tenant(1, database.write(hold))) for _ in range(100)]
        await asyncio.sleep(0)  # all of them are queued now
        await as_tenant(2, database.write(lambda _tx: ended.append(2)))
        gate.set()
        await asyncio.gather(*flood)

    with closing(Database(postgres_url)) as database:
        asyncio.run(asyncio.wait_for(scenario(database), PATIENCE_S))
    assert ended == [2] + [1] * 100


def test_a_group_that_takes_long_is_committed_before_all_of_it_has_run(sqlite_url: str) -> None:
    """The first unit of a group is slow. The units behind it wait again, and a tenant that arrived meanwhile overtakes them."""
    ran: list[int] = []
    entered, gate = threading.Event(), threading.Event()

    def be_slow(_tx: Transaction) -> None:
        entered.set()
        gate.wait(PATIENCE_S)
        ran.append(0)

    async def scenario(database: Database) -> None:
        await database.write(lambda _tx: None)  # starts the thread
        first = asyncio.create_task(as_tenant(1, database.write(be_slow)))
        others = [asyncio.create_task(as_tenant(1, database.write(lambda _tx: ran.append(1)))) for _ in range(20)]
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        modest = asyncio.create_task(as_tenant(2, database.write(lambda _tx: ran.append(2))))
        await asyncio.sleep(2 * GROUP_LIMIT_S)
        gate.set()
        await asyncio.gather(first, modest, *others)

    with closing(Database(sqlite_url)) as database:
        asyncio.run(asyncio.wait_for(scenario(database), PATIENCE_S))
    assert ran.index(2) == 1
