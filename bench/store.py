"""The store on SQLite: creating and listing todos, in small and large ledgers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

from bench import bare
from bench.bulk import Ledger, filled, new_ledger
from bench.harness import ROUNDS, Measurements, Workshop, at_least, benchmark, growing, in_turns, rate
from headway.actions.todos import conversations, todo_lists, todos
from headway.ledger.scope import Selection
from headway.ledger.todo import Change, Draft, Status
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase

CREATES = 200
LISTS = 200
PAGE = 20
SIZES = (20, 1_000, 100_000)
TODOS_EACH = 100
GROWTH_ROUNDS = 15
BARE_CREATE = "a bare loop of the same SQL, one commit each"
STATUSES: tuple[Status, ...] = ("in_progress",) * 2 + ("pending",) * 12 + ("completed",) * 6


@benchmark("store.create", "one caller, no threads: todo, event and counter in a durable commit", BARE_CREATE, at_least(0.65))
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


@benchmark("store.list20", "a conversation's 20 todos: running, pending and ended", "a bare loop of the same SQL", at_least(0.45))
def list20(shop: Workshop) -> Measurements:
    ledger = new_ledger(shop.folder / "list20.db")
    with DirectDatabase(ledger.url) as database:
        conversation = database.write(partial(conversations.add_conversation, tenant_id=ledger.tenant_id)).id
        for status in STATUSES:
            draft = Draft(bare.SUBJECT, conversation_id=conversation, status=status)
            database.write(partial(todos.add_todo, tenant_id=ledger.tenant_id, draft=draft))
        view = partial(todo_lists.list_todos, tenant_id=ledger.tenant_id, selection=Selection(conversation), limit=PAGE)
        bare_list = partial(bare.read, bare.connect(ledger.path), bare.statements_of(database, view), LISTS)
        return in_turns(partial(lists, database, ledger, [conversation]), partial(rate, LISTS, bare_list))


@benchmark("store.list20.hot", "20 of a conversation with 100,000 open todos", "20 of one with 20", at_least(0.8))
def list20_hot(shop: Workshop) -> Measurements:
    ledger = shop.once(uneven_ledger)
    with DirectDatabase(ledger.url) as database:
        return growing({size: partial(lists, database, ledger, [conversation]) for size, conversation in by_size(ledger)}, ROUNDS)


@benchmark(
    "store.growth.scope", "create one and complete it, in a conversation with 100,000 open todos", "in one with 20", at_least(0.7)
)
def growth_of_scope(shop: Workshop) -> Measurements:
    ledger = shop.once(uneven_ledger)
    with DirectDatabase(ledger.url) as database:
        return growing(
            {size: partial(churn, database, ledger, conversation) for size, conversation in by_size(ledger)}, GROWTH_ROUNDS
        )


@benchmark("store.growth.insert", "create in a ledger of 1,000,000 todos", "in one of 1,000", at_least(0.7))
def growth_insert(shop: Workshop) -> Measurements:
    return in_ledgers(shop, creates)


@benchmark("store.growth.list", "20 of a conversation, in a ledger of 1,000,000 todos", "in one of 1,000", at_least(0.9))
def growth_list(shop: Workshop) -> Measurements:
    return in_ledgers(shop, lists)


def in_ledgers(shop: Workshop, one_round: Callable[[DirectDatabase, Ledger, list[int]], float]) -> Measurements:
    """Measure the same work in ledgers of 1,000, 30,000 and 1,000,000 todos."""
    with ExitStack() as cleanup:
        rounds = {}
        for conversation_count, ledger in shop.once(ledgers).items():
            database = cleanup.enter_context(DirectDatabase(ledger.url))
            rounds[conversation_count * TODOS_EACH] = partial(one_round, database, ledger, spread_out(ledger))
        return growing(rounds, GROWTH_ROUNDS)


def ledgers(shop: Workshop) -> dict[int, Ledger]:
    """Create ledgers, by their number of conversations."""
    return {
        size: filled(new_ledger(shop.folder / f"{size}.db"), conversations=size, each=TODOS_EACH, ended=70)
        for size in (10, 300, 10_000)
    }


def uneven_ledger(shop: Workshop) -> Ledger:
    """Create a ledger whose conversations differ widely in size."""
    ledger = new_ledger(shop.folder / "uneven.db")
    for size in SIZES:
        ledger = filled(ledger, conversations=1, each=size)
    return ledger


def by_size(ledger: Ledger) -> Iterator[tuple[int, int]]:
    return zip(SIZES, ledger.conversations, strict=True)


def spread_out(ledger: Ledger) -> list[int]:
    """Return ten conversations, spread evenly over the file."""
    return ledger.conversations[:: len(ledger.conversations) // 10]


def creates(database: DirectDatabase, ledger: Ledger, lists: list[int]) -> float:
    """Run a round of creating todos, alternating between these lists."""
    adds = [
        partial(todos.add_todo, tenant_id=ledger.tenant_id, draft=bare.DRAFT._replace(conversation_id=conversation))
        for conversation in lists
    ] * (CREATES // len(lists))
    return rate(len(adds), lambda: [database.write(add) for add in adds])


def churn(database: DirectDatabase, ledger: Ledger, conversation: int) -> float:
    """Run a round of creating and completing todos, which leaves the list as long as before."""
    draft = bare.DRAFT._replace(conversation_id=conversation)

    def run() -> None:
        for _ in range(CREATES // 2):
            todo = database.write(partial(todos.add_todo, tenant_id=ledger.tenant_id, draft=draft))
            database.write(
                partial(todos.change_todo, tenant_id=ledger.tenant_id, todo_id=todo.id, changes=Change(status="completed"))
            )

    return rate(CREATES // 2, run)


def lists(database: DirectDatabase, ledger: Ledger, lists: list[int]) -> float:
    """Run a round of reading a page, alternating between these lists."""
    pages = [
        partial(todo_lists.list_todos, tenant_id=ledger.tenant_id, selection=Selection(conversation), limit=PAGE)
        for conversation in lists
    ] * (LISTS // len(lists))
    return rate(len(pages), lambda: [database.read(page) for page in pages])


def bare_creates(shop: Workshop, name: str) -> Callable[[], float]:
    ledger = new_ledger(shop.folder / f"{name}-bare.db")
    return partial(rate, CREATES, partial(bare.create, bare.connect(ledger.path), ledger.tenant_id, CREATES))


def creating_at_once(shop: Workshop, callers: int, each: int) -> Measurements:
    ledger = new_ledger(shop.folder / f"create-c{callers}.db")
    database = Database(ledger.url)
    shop.cleanup.callback(database.close)
    add = partial(todos.add_todo, tenant_id=ledger.tenant_id, draft=bare.DRAFT)

    async def caller() -> None:
        for _ in range(each):
            await database.of(ledger.tenant_id).write(add)

    async def everybody() -> None:
        await asyncio.gather(*(caller() for _ in range(callers)))

    with asyncio.Runner() as runner:
        return in_turns(lambda: rate(callers * each, lambda: runner.run(everybody())), bare_creates(shop, f"create-c{callers}"))
