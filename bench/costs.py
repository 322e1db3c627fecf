"""`python -m bench.costs [--write]`: what one operation costs the database. Costs are counted, not timed, so any machine will do.

On Postgres, it counts statements, round trips, durable commits, bytes of write-ahead log and bytes stored.
The figures are averages over many operations on a private server, after a warm-up that is not counted.
"""

import argparse
import asyncio
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench import bare
from bench.agent_loop import Ours as Loop
from bench.checkpoints import LOOKED_AT, Garden, Pursuit
from bench.engine_jobs import Ours as Engine
from bench.harness import Workshop, open_workshop
from bench.peers.queueing import JOBS
from bench.postgres import new_database, new_tenant, server_url
from bench.report import SCALING, aligned, between_markers
from bench.scale_model import ANNOUNCEMENT, IDLE_SECOND, ITERATION, PRICED, TURN
from bench.scaling import write_page
from headway.actions.todos import claims, conversations, todo_lists, todos
from headway.ledger.scope import Selection
from headway.ledger.todo import Change
from headway.storage.direct import DirectDatabase
from headway.storage.postgres.transaction import CHANNEL, JOBS_MARK
from headway.storage.postgres.wire import Wire
from headway.storage.stores import events as event_store

REPEATED = 200
IDLE_S = 10.0
ANNOUNCED_EVERY_S = 0.05
TURNS = 10
PRICES = '["test:scripted"]\ninput = 1.0\noutput = 1.0\n'  # dollars per million tokens
DOCUMENT = Path(__file__).with_name("costs.json")
WRITES = re.compile(r"\b(INSERT INTO|UPDATE \w|DELETE FROM)")


class Counted(NamedTuple):
    """The cost of one operation, on average."""

    statements: float
    round_trips: float
    commits: float
    log_bytes: float
    kept_bytes: float


class Meter:
    """Counts what this process sends to Postgres."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.local = threading.local()  # each thread has a connection
        Wire.trace = self.note

    def note(self, statement: str) -> None:
        if not statement:
            self.seen["round trips"] += 1
            return
        self.seen["statements"] += 1
        if statement == "COMMIT":
            self.seen["commits"] += getattr(self.local, "writes", False)
            self.local.writes = False
        elif WRITES.search(statement):
            self.local.writes = True

    def sizes(self, url: str) -> tuple[int, int]:
        """Return the sizes of the write-ahead log and of the database. This lookup is not counted."""
        with psycopg.connect(url, autocommit=True) as connection:
            sql = "SELECT pg_current_wal_insert_lsn() - '0/0', pg_database_size(current_database())"
            [(log_size, database_size)] = connection.execute(sql).fetchall()
            return int(log_size), int(database_size)

    def of(self, url: str, work: Callable[[], object]) -> Counted:
        """Return the total cost of the work."""
        log_before, size_before = self.sizes(url)
        self.seen.clear()
        work()
        seen = dict(self.seen)
        log_after, size_after = self.sizes(url)
        statements, round_trips, commits = (float(seen.get(name, 0)) for name in ("statements", "round trips", "commits"))
        return Counted(statements, round_trips, commits, log_after - log_before, size_after - size_before)


def shared(costs: Counted, operations: float) -> Counted:
    return Counted(*(value / operations for value in costs))


def without(costs: Counted, other: Counted) -> Counted:
    return Counted(*(cost - other_cost for cost, other_cost in zip(costs, other, strict=True)))


# Operations


def everything(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    yield from of_todos(shop, meter)
    yield from of_goals(shop, meter)
    yield from of_turns(shop, meter)
    yield from of_jobs(shop, meter)
    yield from of_an_idle_server(shop, meter)
    yield from of_announcements(shop, meter)


def of_todos(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    url = new_database(shop)
    tenant_id = new_tenant(url)
    with DirectDatabase(url) as database:
        conversation_id = database.write(partial(conversations.add_conversation, tenant_id=tenant_id)).id
        add = partial(todos.add_todo, tenant_id=tenant_id, draft=bare.DRAFT._replace(conversation_id=conversation_id))
        first = database.write(add).id

        def times(work: Callable[[int], object]) -> Counted:
            """Return the cost of one operation, after a warm-up in which statements are prepared and pages are allocated."""
            for number in range(REPEATED):
                work(number)
            return shared(meter.of(url, lambda: [work(REPEATED + number) for number in range(REPEATED)]), REPEATED)

        def complete(number: int) -> None:
            database.write(
                partial(todos.change_todo, tenant_id=tenant_id, todo_id=first + number, changes=Change(status="completed"))
            )

        claim = partial(claims.claim, tenant_id=tenant_id, agent_id="index", conversation_id=conversation_id)
        page = partial(todo_lists.list_todos, tenant_id=tenant_id, selection=Selection(conversation_id), limit=20)
        new_events = partial(event_store.list_after, tenant_id=tenant_id, seq=0, limit=50)
        yield "a todo is created", times(lambda _: database.write(add))
        yield "a todo is completed", times(complete)
        for _ in range(2 * REPEATED):
            database.write(add)
        yield "a todo is claimed", times(lambda _: database.write(claim))
        yield "20 todos are listed", times(lambda _: database.read(page))
        yield "the feed reads what is new, for all readers of a tenant", times(lambda _: database.read(new_events))


def of_goals(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    url = new_database(shop)
    garden = Garden(url, new_tenant(url), 20)
    with DirectDatabase(url) as database:

        def checkpoints(steps: list[Any]) -> None:
            for step in steps:
                database.write(step)

        checkpoints(garden.steps(REPEATED))
        steps = garden.steps(REPEATED)
        yield "a sub-goal begins or ends (a checkpoint)", shared(meter.of(url, partial(checkpoints, steps)), REPEATED)
    url = new_database(shop)
    pursuit = Pursuit(shop, url)
    pursuit.round(20)
    before = meter.of(url, partial(pursuit.prepare, 20))
    total = meter.of(url, partial(pursuit.round, 20))
    yield "a sub-goal is begun, worked on in one answer, and judged", shared(without(total, before), LOOKED_AT)


def of_turns(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    for name, prices in (("", ""), (PRICED, PRICES)):
        folder = shop.folder / f"turns{len(prices)}"
        folder.mkdir()
        (folder / "prices.toml").write_text(prices, encoding="utf-8")
        url = new_database(shop)
        loop = Loop(shop, folder.name, url)
        idle = of_a_second(meter, url, loop.loop.run_until_complete)
        loop.round(60)
        short, long = (turns(meter, loop, url, idle, iterations) for iterations in (10, 60))
        iteration = shared(without(long, short), 50)
        yield ITERATION + name, iteration
        yield TURN + name, without(short, scaled(iteration, 10))


def of_a_second(meter: Meter, url: str, run: Callable[..., object]) -> Counted:
    """Return the cost per second of a process with nothing to do."""
    return shared(meter.of(url, lambda: run(asyncio.sleep(IDLE_S))), IDLE_S)._replace(log_bytes=0, kept_bytes=0)


def of_an_idle_server(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    url = new_database(shop)
    with idle_process(shop, url) as run:
        yield IDLE_SECOND, of_a_second(meter, url, run)


def of_announcements(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    """Count what a process does when it hears of commits of another one that changed jobs, but left nothing to do for it. They come
    one by one: those that come while it looks for jobs cost less."""
    url = new_database(shop)
    tenant_id = new_tenant(url)

    async def announce() -> None:
        for _ in range(REPEATED):
            other.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{tenant_id},{JOBS_MARK}"))
            await asyncio.sleep(ANNOUNCED_EVERY_S)

    with idle_process(shop, url) as run, psycopg.connect(url, autocommit=True) as other:
        idle = of_a_second(meter, url, run)
        start = time.perf_counter()
        total = meter.of(url, lambda: run(announce()))
        counted = without(total, scaled(idle, time.perf_counter() - start))
    yield ANNOUNCEMENT, shared(counted._replace(commits=0, log_bytes=0, kept_bytes=0), REPEATED)


@contextmanager
def idle_process(shop: Workshop, url: str) -> Iterator[Callable[..., object]]:
    """Open a Headway that has nothing to do, and yield a function that runs coroutines beside it."""
    from headway.process.assembly import Headway

    with asyncio.Runner() as runner:
        context = Headway.open(home=shop.folder / "idle", database_url=url, model="rehearsal")
        runner.run(context.__aenter__())
        yield runner.run
        runner.run(context.__aexit__(None, None, None))


def turns(meter: Meter, loop: Loop, url: str, idle: Counted, iterations: int) -> Counted:
    """Return the average cost of one turn of so many iterations, without the engine's own statements in the meantime."""
    start = time.perf_counter()
    total = meter.of(url, lambda: [loop.round(iterations) for _ in range(TURNS)])
    return shared(without(total, scaled(idle, time.perf_counter() - start)), TURNS)


def scaled(costs: Counted, factor: float) -> Counted:
    return Counted(*(value * factor for value in costs))


def of_jobs(shop: Workshop, meter: Meter) -> Iterator[tuple[str, Counted]]:
    url = new_database(shop)
    engine = Engine(shop, url)
    engine.jobs_a_second()
    yield "a job is enqueued, taken and completed", shared(meter.of(url, engine.jobs_a_second), JOBS)


def settle_down(shop: Workshop) -> None:
    """Turn off autovacuum on a private server, so that nothing else runs while we count."""
    if "HEADWAY_TEST_POSTGRES_URL" not in os.environ:
        with psycopg.connect(shop.once(server_url), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET autovacuum = off")
            admin.execute("SELECT pg_reload_conf()")


def connections(shop: Workshop) -> int:
    """Return the connections that a serving process keeps open once all of its threads have been used."""
    from headway.testing import temporary_headway

    url = new_database(shop)

    async def look() -> int:
        async with temporary_headway(shop.folder / "connections", database_url=url) as headway:
            everywhere = [headway.database.write(lambda tx: tx.one("SELECT pg_sleep(0.3)")) for _ in range(50)]
            everywhere += [headway.database.read(lambda tx: tx.one("SELECT pg_sleep(0.3)")) for _ in range(50)]
            await asyncio.gather(*everywhere)
            count = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
            row = await headway.database.read(lambda tx: tx.one(count))
            return int(row[0]) if row else 0

    return asyncio.run(look())


# Results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="update bench/costs.json and the table of docs/internals/capacity.md")
    arguments = parser.parse_args()
    with open_workshop() as shop:
        settle_down(shop)
        open_at_once = connections(shop)
        costs = {}
        for name, cost in everything(shop, Meter()):
            print(f"{name}: {', '.join(f'{field} {value:.1f}' for field, value in cost._asdict().items())}", flush=True)
            costs[name] = cost
    print(f"a process keeps {open_at_once} connections open")
    if arguments.write:
        document = {"connections": open_at_once, "operations": {name: cost._asdict() for name, cost in costs.items()}}
        DOCUMENT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        sentence = f"A serving process keeps {open_at_once} connections open, and one more while it sends live text."
        section = f"{table(costs)}\n\n{sentence}"
        SCALING.write_text(between_markers(SCALING.read_text(encoding="utf-8"), "costs", section), encoding="utf-8")
        write_page()


def table(costs: dict[str, Counted]) -> str:
    titles = ("operation", "statements", "round trips", "commits", "log", "kept")
    return aligned(
        [titles, *((name, *map(amount, cost[:3]), size(cost.log_bytes), size(cost.kept_bytes)) for name, cost in costs.items())]
    )


def amount(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.05 else f"{value:.1f}"


def size(value: float) -> str:
    return f"{value / 1024:.1f} KB" if value >= 100 else "0"


if __name__ == "__main__":
    main()
