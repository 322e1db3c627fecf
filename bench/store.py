"""The store on SQLite: creating and listing todos, in small ledgers and in large ones."""

import asyncio
from collections.abc import Callable
from functools import partial

from bench import bare
from bench.bulk import Ledger, filled, new_ledger
from bench.harness import Measurements, Workshop, at_least, benchmark, in_turns, rate
from headway.actions import conversations, todos, views
from headway.ledger.scope import Selection
from headway.ledger.todo import Draft, Status
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase

CREATES = 200
LISTS = 200
PAGE = 20
BARE_CREATE = "a bare loop of the same SQL, one commit each"
STATUSES: tuple[Status, ...] = ("in_progress",) * 2 + ("pending",) * 12 + ("completed",) * 6


@benchmark("store.create", "one caller, no threads: todo, event and counter in a durable commit", BARE_CREATE, at_least(0.70))
def create(shop: Workshop) -> Measurements:
    ledger = new_ledger(shop.folder / "create.db")
    with DirectDatabase(ledger.url) as database:
        return in_turns(partial(creates, database, ledger, [0]), bare_creates(shop, "create"))


@benchmark("store.create.await", "one caller, `await write()` one at a time", BARE_CREATE, at_least(0.35))
def create_and_wait(shop: Workshop) -> Measurements:
    return creating_at_once(shop, callers=1, each=CREATES)


@benchmark("store.create.c64", "64 concurrent callers of `write()`", BARE_CREATE, at_least(1.5))
def create_by_many(shop: Workshop) -> Measurements:
    return creating_at_once(shop, callers=64, each=10)


@benchmark("store.list20", "a conversation's 20 todos: running, pending and ended", "a bare loop of the same SQL", at_least(0.70))
def list20(shop: Workshop) -> Measurements:
    ledger = new_ledger(shop.folder / "list20.db")
    with DirectDatabase(ledger.url) as database:
        conversation = database.write(partial(conversations.add, tenant_id=ledger.tenant_id)).id
        for status in STATUSES:
            draft = Draft(bare.SUBJECT, conversation_id=conversation, status=status)
            database.write(partial(todos.add, tenant_id=ledger.tenant_id, draft=draft))
        view = partial(views.todos, tenant_id=ledger.tenant_id, selection=Selection(conversation), limit=PAGE)
        bare_list = partial(bare.read, bare.connect(ledger.path), bare.statements_of(database, view), LISTS)
        return in_turns(partial(lists, database, ledger, [conversation]), partial(rate, LISTS, bare_list))


@benchmark("store.list20.hot", "20 of a conversation with 100,000 open todos", "20 of one with 20", at_least(0.8))
def list20_hot(shop: Workshop) -> Measurements:
    ledger = filled(new_ledger(shop.folder / "hot.db"), conversations=1, each=20)
    ledger = filled(ledger, conversations=1, each=100_000)
    small, hot = ledger.conversations
    with DirectDatabase(ledger.url) as database:
        return in_turns(partial(lists, database, ledger, [hot]), partial(lists, database, ledger, [small]))


@benchmark("store.growth.insert", "create in a ledger of 1,000,000 todos", "in one of 1,000", at_least(0.7))
def growth_insert(shop: Workshop) -> Measurements:
    large, small = shop.once(large_ledger), shop.once(small_ledger)
    with DirectDatabase(large.url) as a, DirectDatabase(small.url) as b:
        return in_turns(partial(creates, a, large, spread_out(large)), partial(creates, b, small, spread_out(small)))


@benchmark("store.growth.list", "20 of a conversation, in a ledger of 1,000,000 todos", "in one of 1,000", at_least(0.9))
def growth_list(shop: Workshop) -> Measurements:
    large, small = shop.once(large_ledger), shop.once(small_ledger)
    with DirectDatabase(large.url) as a, DirectDatabase(small.url) as b:
        return in_turns(partial(lists, a, large, spread_out(large)), partial(lists, b, small, spread_out(small)))


def large_ledger(shop: Workshop) -> Ledger:
    return filled(new_ledger(shop.folder / "large.db"), conversations=10_000, each=100, ended=70)


def small_ledger(shop: Workshop) -> Ledger:
    return filled(new_ledger(shop.folder / "small.db"), conversations=10, each=100, ended=70)


def spread_out(ledger: Ledger) -> list[int]:
    """Ten conversations, evenly over the file."""
    return ledger.conversations[:: len(ledger.conversations) // 10]


def creates(database: DirectDatabase, ledger: Ledger, lists: list[int]) -> float:
    """A round of creating, in these lists by turns."""
    adds = [
        partial(todos.add, tenant_id=ledger.tenant_id, draft=bare.DRAFT._replace(conversation_id=conversation))
        for conversation in lists
    ] * (CREATES // len(lists))
    return rate(len(adds), lambda: [database.write(add) for add in adds])


def lists(database: DirectDatabase, ledger: Ledger, lists: list[int]) -> float:
    """A round of reading a page of these lists by turns."""
    pages = [
        partial(views.todos, tenant_id=ledger.tenant_id, selection=Selection(conversation), limit=PAGE) for conversation in lists
    ] * (LISTS // len(lists))
    return rate(len(pages), lambda: [database.read(page) for page in pages])


def bare_creates(shop: Workshop, name: str) -> Callable[[], float]:
    ledger = new_ledger(shop.folder / f"{name}-bare.db")
    return partial(rate, CREATES, partial(bare.create, bare.connect(ledger.path), ledger.tenant_id, CREATES))


def creating_at_once(shop: Workshop, callers: int, each: int) -> Measurements:
    ledger = new_ledger(shop.folder / f"create-c{callers}.db")
    database = Database(ledger.url)
    shop.closing.callback(database.close)
    add = partial(todos.add, tenant_id=ledger.tenant_id, draft=bare.DRAFT)

    async def caller() -> None:
        for _ in range(each):
            await database.write(add)

    async def everybody() -> None:
        await asyncio.gather(*(caller() for _ in range(callers)))

    with asyncio.Runner() as runner:
        return in_turns(lambda: rate(callers * each, lambda: runner.run(everybody())), bare_creates(shop, f"create-c{callers}"))
