"""The database of a long-running process: many callers share one commit, and each caller gets its own result."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

import pytest

from headway.actions import tenants, todos, views
from headway.ledger.errors import EmptySubject, StorageError
from headway.ledger.scope import Selection
from headway.ledger.tenancy import Tenant
from headway.ledger.todo import Draft, Todo
from headway.storage.clocks import wall_clock
from headway.storage.database import POSTGRES_CONNECTIONS, Database
from headway.storage.direct import DirectDatabase, ignore_commit
from headway.storage.transaction import CommitListener, Transaction, Work

T = TypeVar("T")


class House:
    """An asynchronous database with one tenant."""

    def __init__(self, url: str, on_commit: CommitListener = ignore_commit) -> None:
        self.url = url
        with DirectDatabase(url) as direct:
            self.tenant: Tenant = direct.write(partial(tenants.add, name="acme"))
        self.database = Database(url, wall_clock, on_commit)

    def adding(self, subject: str) -> Work[Todo]:
        return lambda tx: todos.add(tx, self.tenant.id, Draft(subject))

    def add(self, subject: str) -> Coroutine[Any, Any, Todo]:
        return self.database.write(self.adding(subject))

    def stored(self) -> list[str]:
        """Close the database, open it again and return the stored subjects."""
        self.database.close()
        with DirectDatabase(self.url) as direct:
            page = direct.read(lambda tx: views.list_todos(tx, self.tenant.id, Selection(), 500))
        return [todo.subject for todo in page.todos]

    @asynccontextmanager
    async def held_up(self) -> AsyncIterator[None]:
        """Keep every writer thread busy inside the block. Requests made meanwhile wait, and are processed together afterwards."""
        begun = [threading.Event() for _ in range(POSTGRES_CONNECTIONS)]
        free = threading.Event()

        def dawdle(_tx: Transaction, number: int) -> None:
            begun[number].set()
            free.wait(30)

        crew = len(self.database.writers.threads)
        busy = [asyncio.ensure_future(self.database.write(partial(dawdle, number=number))) for number in range(crew)]
        for event in begun[:crew]:
            await asyncio.to_thread(event.wait, 30)
        try:
            yield
        finally:
            free.set()
            await asyncio.gather(*busy)


@contextmanager
def open_house(url: str, on_commit: CommitListener = ignore_commit) -> Iterator[House]:
    house = House(url, on_commit)
    try:
        yield house
    finally:
        house.database.close()


@pytest.fixture
def house(database_url: str) -> Iterator[House]:
    with open_house(database_url) as opened:
        yield opened


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine, and fail the test if it hangs."""
    return asyncio.run(asyncio.wait_for(story, 30))


async def queued(*works: Coroutine[Any, Any, Any]) -> list["asyncio.Task[Any]"]:
    """Start all of these, and let the event loop submit them."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.sleep(0)
    return tasks


def raising(error: Exception) -> Callable[[Transaction], None]:
    def work(_tx: Transaction) -> None:
        raise error

    return work


def test_a_write_can_be_read_at_once_and_after_reopening(house: House) -> None:
    async def story() -> None:
        added = await house.add("first")
        assert await house.database.read(lambda tx: todos.get(tx, house.tenant.id, added.id)) == added

    run(story())

    assert house.stored() == ["first"]


def test_waiting_callers_are_committed_together(sqlite_url: str) -> None:
    commits: list[frozenset[int]] = []

    async def story(house: House) -> None:
        async with house.held_up():
            waiting = await queued(*(house.add(str(number)) for number in range(50)))
        await asyncio.gather(*waiting)

    with open_house(sqlite_url, commits.append) as house:
        run(story(house))

        assert house.stored() == [str(number) for number in range(50)]
        assert commits == [frozenset([house.tenant.id])]


@pytest.mark.parametrize(
    "error", [EmptySubject(), ValueError("odd"), StopIteration(), KeyError("k")], ids=lambda error: type(error).__name__
)
def test_a_failing_piece_of_work_never_spoils_its_neighbours(house: House, error: Exception) -> None:
    def add_and_fail(tx: Transaction) -> None:
        house.adding("half done")(tx)
        raise error

    async def story() -> list[Any]:
        async with house.held_up():
            waiting = await queued(house.add("before"), house.database.write(add_and_fail), house.add("after"))
        return await asyncio.gather(*waiting, return_exceptions=True)

    before, failed, after = run(story())

    assert (before.subject, after.subject) == ("before", "after")
    assert isinstance(failed, Exception)
    assert sorted(house.stored()) == ["after", "before"]


def test_a_statement_the_database_refuses_never_spoils_its_neighbours(house: House) -> None:
    def refused(tx: Transaction) -> None:
        house.adding("half done")(tx)
        tx.run("INSERT INTO todos (id) VALUES (NULL)")

    async def story() -> list[Any]:
        async with house.held_up():
            waiting = await queued(house.add("before"), house.database.write(refused), house.add("after"))
        return await asyncio.gather(*waiting, return_exceptions=True)

    before, failed, after = run(story())

    assert isinstance(failed, StorageError)
    assert sorted(house.stored()) == sorted([before.subject, after.subject]) == ["after", "before"]


def test_every_caller_gets_an_error_of_its_own(house: House) -> None:
    shared = EmptySubject()

    async def story() -> list[Any]:
        async with house.held_up():
            waiting = await queued(*(house.database.write(raising(shared)) for _ in range(3)))
        return await asyncio.gather(*waiting, return_exceptions=True)

    errors = run(story())

    assert [type(error) for error in errors] == [EmptySubject] * 3
    assert len({id(error) for error in errors}) == 3


def test_a_caller_that_gave_up_does_not_disturb_others(house: House) -> None:
    complaints: list[dict[str, Any]] = []

    async def story() -> list[Any]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        async with house.held_up():
            impatient, patient = await queued(house.add("impatient"), house.add("patient"))
            impatient.cancel()
        return list(await asyncio.gather(impatient, patient, return_exceptions=True))

    gave_up, stayed = run(story())

    assert isinstance(gave_up, asyncio.CancelledError)
    assert stayed.subject in house.stored()
    assert complaints == []


def test_two_event_loops_can_write_to_one_database(house: House) -> None:
    failures: list[Exception] = []

    def loop(name: str) -> None:
        async def story() -> None:
            added = await asyncio.gather(*(house.add(f"{name} {number}") for number in range(50)))
            assert [todo.subject for todo in added] == [f"{name} {number}" for number in range(50)]

        try:
            run(story())
        except Exception as error:  # noqa: BLE001  a thread would swallow it
            failures.append(error)

    threads = [threading.Thread(target=loop, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert sorted(house.stored()) == sorted(f"{name} {number}" for name in ("left", "right") for number in range(50))


def test_an_event_loop_that_is_gone_before_its_answer_leaves_the_others_served(house: House) -> None:
    begun, free = threading.Event(), threading.Event()

    def dawdle(tx: Transaction) -> None:
        begun.set()
        free.wait(30)
        house.adding("from the gone")(tx)

    async def ask_and_go() -> None:
        asking = asyncio.create_task(house.database.write(dawdle))
        await asyncio.to_thread(begun.wait, 30)
        assert not asking.done()

    run(ask_and_go())
    free.set()

    async def ask_and_stay() -> Todo:
        return await house.database.write(house.adding("from the staying"))

    assert run(ask_and_stay()).subject == "from the staying"
    assert sorted(house.stored()) == ["from the gone", "from the staying"]


def test_a_read_does_not_wait_for_a_write(house: House) -> None:
    async def story() -> int:
        await house.add("committed")
        async with house.held_up():
            page = await house.database.read(lambda tx: views.list_todos(tx, house.tenant.id, Selection()))
        return len(page.todos)

    assert run(story()) == 1


def test_closing_answers_everything_that_was_asked_for(house: House) -> None:
    async def story() -> list[Todo]:
        async with house.held_up():
            waiting = await queued(*(house.add(str(number)) for number in range(300)))
            closing = asyncio.ensure_future(asyncio.to_thread(house.database.close))
        await closing
        stored: list[Todo] = await asyncio.gather(*waiting)
        return stored

    answered = run(story())

    assert sorted(house.stored()) == sorted(todo.subject for todo in answered)
    assert len(answered) == 300


def test_after_closing_work_is_refused_and_not_left_waiting(house: House) -> None:
    house.database.close()

    async def story() -> None:
        with pytest.raises(StorageError, match="closed"):
            await house.add("too late")
        with pytest.raises(StorageError, match="closed"):
            await house.database.read(lambda tx: tx.now)

    run(story())

    assert house.stored() == []


def test_closing_twice_is_no_mistake(house: House) -> None:
    house.database.close()
    house.database.close()


def test_listeners_are_called_for_commits_only(database_url: str) -> None:
    heard: list[frozenset[int]] = []

    async def story(house: House) -> None:
        await house.add("told")
        with pytest.raises(EmptySubject):
            await house.add("")
        await house.database.write(lambda tx: tx.run("SELECT 1"))
        await house.database.read(lambda tx: tx.now)

    with open_house(database_url, heard.append) as house:
        run(story(house))

        assert heard == [frozenset([house.tenant.id])]


def test_a_listener_that_fails_does_not_make_a_commit_look_like_a_failure(database_url: str) -> None:
    def stumble(_tenants: frozenset[int]) -> None:
        raise ZeroDivisionError

    async def story(house: House) -> list[Todo]:
        async with house.held_up():
            waiting = await queued(house.add("first"), house.add("second"))
        stored: list[Todo] = await asyncio.gather(*waiting)
        return stored

    with open_house(database_url, stumble) as house:
        answered = run(story(house))

        assert sorted(house.stored()) == sorted(todo.subject for todo in answered) == ["first", "second"]


def test_work_without_a_waiting_caller_is_not_started(house: House) -> None:
    async def story() -> None:
        async with house.held_up():
            given_up = asyncio.ensure_future(house.add("given up"))
            await asyncio.sleep(0)
            given_up.cancel()
            kept = asyncio.ensure_future(house.add("kept"))
            await asyncio.sleep(0)
        assert (await kept).subject == "kept"

    run(story())
    assert house.stored() == ["kept"]
