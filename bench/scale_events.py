"""A ledger with a long history, compared with one of 10,000 events.

Both consist of copies of one turn that an agent has really taken: its conversation, messages, run, todos and events, under other
ids. Raw SQL multiplies them, with the product's schema and all its indexes. Transcripts, tool calls and prices are not copied.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import apsw

from bench.agent_loop import Ours as Loop
from bench.engine_life import PATIENCE_S
from bench.harness import Measurements, Pace, Unavailable, Workshop, at_least, at_most, benchmark, growing, open_workshop, rate
from bench.http import start_server, stop
from headway import feed, settings
from headway.actions.installation import pruning
from headway.process.housekeeping import prune_once

FEW, MANY, MANY_IN_A_TRIAL = 10_000, 10_000_000, 100_000
DISK_BYTES = 8_000_000_000
ITERATIONS = 40  # of the turn
FEW_TENANTS, MANY_TENANTS = 10, 100
AGE_DAYS, RETENTION_DAYS = 40, 30
ROUNDS, STARTS = 5, 3

# How a column of a copy differs. k numbers the copies, from 1 on. Other columns are equal.
OTHER_ID = "{0} + k * 1000"
OTHER_RUN = "printf('%08x', k) || substr({0}, 9)"
OTHER_KEY = "lower(hex(randomblob(16)))"
COLUMNS = {
    "tenant_id": "2 + (k - 1) / :each",
    "conversation_id": f"iif({{0}} = 0, 0, {OTHER_ID})",
    "turn_id": f"iif({{0}} = '', '', {OTHER_RUN})",
    "subject": f"iif({{0}} LIKE 'todo:%', 'todo:' || ({OTHER_ID.format('substr({0}, 6)')}), {{0}})",
    "uuid": OTHER_KEY,
    "key": OTHER_KEY,
    "seq": "{0} + k * :events",
    "at": f"{{0}} - {AGE_DAYS * 24 * 3600 * 1000}",
    "updated_at": "{0} + k",
}
TABLES = {  # with the form of their ids
    "conversations": OTHER_ID,
    "turns": OTHER_RUN,
    "messages": OTHER_ID,
    "runs": OTHER_RUN,
    "todos": OTHER_ID,
    "todo_lists": "",
    "events": "",
}
ADD_TENANTS = """WITH RECURSIVE tenant (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM tenant WHERE n <= :tenants)
    INSERT INTO tenants (id, name, created_at) SELECT n, 'tenant ' || n, 0 FROM tenant"""


class History(NamedTuple):
    """A ledger of copies of a turn. Copy k belongs to tenant 2 + (k - 1) / each."""

    home: Path
    copies: int
    each: int
    events: int  # of a copy

    @property
    def tenant_ids(self) -> range:
        return range(2, 2 + self.copies // self.each)


def take_turn(path: Path) -> None:
    """Let an agent take the turn, and store the ledger at this path."""
    with open_workshop() as own:
        Loop(own, "turn").round(ITERATIONS)
        apsw.Connection(str(own.folder / "turn" / "headway.db")).execute("VACUUM INTO ?", (str(path),))


def copy_turn(home: Path, event_count: int, tenant_count: int) -> History:
    raw = apsw.Connection(str(home / "headway.db"))
    raw.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-1000000; PRAGMA temp_store=MEMORY")
    events = int(raw.execute("SELECT MAX(seq) FROM events").get)
    each = event_count // events // tenant_count
    values = {"events": events, "each": each, "copies": each * tenant_count, "tenants": tenant_count}
    raw.execute("BEGIN")
    raw.execute(ADD_TENANTS, values)
    for table, other_id in TABLES.items():
        names = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
        changed = ", ".join({**COLUMNS, "id": other_id}.get(name, "{0}").format(f"one.{name}") for name in names)
        raw.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {table}")
        raw.execute(
            f"""WITH RECURSIVE copy (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM copy WHERE k < :copies)
                INSERT INTO {table} ({", ".join(names)}) SELECT {changed} FROM copy CROSS JOIN one""",
            values,
        )
        raw.execute("DROP TABLE one")
    raw.execute("COMMIT")
    raw.execute("PRAGMA journal_mode=WAL")
    raw.close()
    return History(home, values["copies"], each, events)


class Reader:
    """A Headway on a ledger, whose engine does not run. It asks for something else each time."""

    def __init__(self, shop: Workshop, history: History) -> None:
        from headway.process.assembly import Headway

        self.history = history
        self.chance = random.Random(1)
        self.runner = asyncio.Runner()
        shop.cleanup.callback(self.runner.close)
        self.headway = Headway(settings.load({"home": str(history.home)}))
        shop.cleanup.callback(self.headway.close)
        row = self.read(lambda tx: tx.one("SELECT id, conversation_id FROM turns WHERE tenant_id = 1"))
        self.turn_id, self.conversation_id = row
        (self.todo_id,) = self.read(lambda tx: tx.one("SELECT MIN(id) FROM todos WHERE tenant_id = 1"))
        self.not_pruned = self.chance.sample(history.tenant_ids, len(history.tenant_ids))

    def read(self, work: Any) -> Any:
        return self.runner.run(self.headway.database.unrestricted.read(work))

    def repeat(self, ask: "Callable[[Reader, int, Send], Awaitable[None]]", times: int) -> float:
        """Return how often a second something is asked, each time about another copy of the turn."""
        from headway.library.embedded import EmbeddedTransport

        async def ask_all() -> None:
            for _ in range(times):
                copy = self.chance.randrange(self.history.copies) + 1
                tenant_id = 2 + (copy - 1) // self.history.each
                await ask(self, copy, EmbeddedTransport(self.headway, f"tenant {tenant_id}").send)

        return rate(times, lambda: self.runner.run(ask_all()))

    def prune(self) -> float:
        """Return how many old events a second are deleted, in the log of a tenant that still has all of them."""
        return self.runner.run(self._prune(self.not_pruned.pop()))

    async def _prune(self, tenant_id: int) -> float:
        position, deleted, start = None, 0, time.perf_counter()
        while deleted < PRUNED:
            prune = partial(prune_once, tenant_id=tenant_id, prune=pruning.PRUNES["events"], days=RETENTION_DAYS, position=position)
            step = await self.headway.database.of(tenant_id).write(prune)
            if step.position is None:
                raise RuntimeError(f"only {deleted} events of tenant {tenant_id} were old enough")
            position, deleted = step.position, deleted + step.deleted
        return deleted / (time.perf_counter() - start)


Send = Callable[..., Awaitable[Any]]
Two = dict[int, Reader]


def open_both(shop: Workshop) -> Two:
    if not Pace.trial and shutil.disk_usage(shop.folder).free < DISK_BYTES:
        raise Unavailable(f"needs {DISK_BYTES / 1e9:.0f} GB of free disk in {shop.folder.parent}")
    turn = shop.folder / "turn.db"
    take_turn(turn)
    readers = {}
    for size, tenant_count in ((FEW, FEW_TENANTS), (Pace.size(MANY, MANY_IN_A_TRIAL), MANY_TENANTS)):
        home = shop.folder / f"events-{size}"
        home.mkdir()
        shutil.copy(turn, home / "headway.db")
        readers[size] = Reader(shop, copy_turn(home, size, tenant_count))
    return readers


def compare(shop: Workshop, ask: "Callable[[Reader, int, Send], Awaitable[None]]", times: int) -> Measurements:
    readers = shop.once(open_both)
    return growing({size: partial(reader.repeat, ask, times) for size, reader in readers.items()}, ROUNDS)


FEW_EVENTS = f"in one of {FEW:,}"
LEDGER = f"in a ledger of {MANY:,} events"


@benchmark("scale.events.list", f"a page of a tenant's log, {LEDGER}", FEW_EVENTS, at_least(0.7))
def list_events(shop: Workshop) -> Measurements:
    async def ask(reader: Reader, copy: int, _send: Send) -> None:
        tenant_id, after = 2 + (copy - 1) // reader.history.each, copy * reader.history.events
        work = partial(feed.read_log, tenant_id=tenant_id, conversation_id=None, after=after)
        assert await reader.headway.database.of(tenant_id).read(work)

    return compare(shop, ask, 500)


@benchmark("scale.events.why", f"why a todo is as it is, {LEDGER}", FEW_EVENTS, at_least(0.7))
def explain_todo(shop: Workshop) -> Measurements:
    async def ask(reader: Reader, copy: int, send: Send) -> None:
        assert (await send("GET /why/todo/{}", reader.todo_id + copy * 1000))["why"]

    return compare(shop, ask, 300)


@benchmark("scale.events.page", f"the requests with which the page shows a turn, {LEDGER}", FEW_EVENTS, at_least(0.7))
def show_turn(shop: Workshop) -> Measurements:
    async def ask(reader: Reader, copy: int, send: Send) -> None:
        conversation_id, turn_id = reader.conversation_id + copy * 1000, f"{copy:08x}{reader.turn_id[8:]}"
        await send("GET /conversations", query={"sort": "activity", "limit": 10})
        await send("GET /conversations/{}", conversation_id)
        await send("GET /conversations/{}/timeline", conversation_id, query={"limit": 200})
        await send("GET /todos", query={"turn_id": turn_id, "limit": 200})
        await send("GET /turns/{}", turn_id)
        await send("GET /inbox")

    return compare(shop, ask, 50)


@benchmark("scale.events.start", f"from the start of `headway serve` until it is ready, {LEDGER}", FEW_EVENTS, at_most(1.2))
def start(shop: Workshop) -> Measurements:
    readers = shop.once(open_both)
    return growing({size: partial(measure_start, shop, reader) for size, reader in readers.items()}, STARTS, "ms")


def measure_start(shop: Workshop, reader: Reader) -> float:
    began = time.perf_counter()
    url, process = start_server(shop, reader.history.home)
    try:
        while time.perf_counter() - began < PATIENCE_S:
            with suppress(HTTPError):  # not ready yet
                urlopen(f"{url}/readyz", timeout=PATIENCE_S).close()
                return 1000 * (time.perf_counter() - began)
            time.sleep(0.005)
    finally:
        stop(process)
    raise RuntimeError(f"the server was not ready within {PATIENCE_S:.0f} s")


PRUNED = 800  # events of a tenant


@benchmark("scale.events.prune", f"deleting {PRUNED} old events of a tenant, {LEDGER}", FEW_EVENTS, at_least(0.7))
def prune_events(shop: Workshop) -> Measurements:
    return growing({size: reader.prune for size, reader in shop.once(open_both).items()}, ROUNDS)
