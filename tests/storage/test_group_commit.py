"""The database of a long-running process: many callers share one commit, and each caller gets its own result."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pytest

from headway.actions.installation import tenants
from headway.actions.todos import todo_lists, todos
from headway.ledger.errors import EmptySubject, StorageError
from headway.ledger.scope import Selection
from headway.ledger.tenancy import Tenant
from headway.ledger.todo import Draft, Todo
from headway.storage.clocks import wall_clock
from headway.storage.database import POSTGRES_CONNECTIONS, Database
from headway.storage.direct import DirectDatabase, ignore_commit
from headway.storage.stores import events
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import CommitListener, Transaction, Work, within_tenant

T = TypeVar("T")


class TenantDatabase:
    """An asynchronous database with one tenant."""

    def __init__(self, url: str, on_commit: CommitListener = ignore_commit) -> None:
        self.url = url
        with DirectDatabase(url) as direct:
            self.tenant: Tenant = direct.write(partial(tenants.add_tenant, name="acme"))
        self.database = Database(url, wall_clock, on_commit)

    def make_work(self, subject: str) -> Work[Todo]:
        return within_tenant(self.tenant.id, lambda tx: todos.add_todo(tx, self.tenant.id, Draft(subject)))

    def add(self, subject: str) -> Coroutine[Any, Any, Todo]:
        return self.database.write(self.make_work(subject))

    def reopen_and_list(self) -> list[str]:
        """Close the database, open it again and return the stored subjects."""
        self.database.close()
        with DirectDatabase(self.url) as direct:
            page = direct.read(lambda tx: todo_lists.list_todos(tx, self.tenant.id, Selection(), 500))
        return [todo.subject for todo in page.todos]

    @asynccontextmanager
    async def block_writers(self) -> AsyncIterator[None]:
        """Keep every writer thread busy inside the block. Requests made meanwhile wait, and are processed together afterwards."""
        entered = [threading.Event() for _ in range(POSTGRES_CONNECTIONS)]
        release = threading.Event()

        def hold(_tx: Transaction, number: int) -> None:
            entered[number].set()
            release.wait(30)

        writers = self.database.writers.size
        busy = [asyncio.ensure_future(self.database.write(partial(hold, number=number))) for number in range(writers)]
        for event in entered[:writers]:
            await asyncio.to_thread(event.wait, 30)
        try:
            yield
        finally:
            release.set()
            await asyncio.gather(*busy)


@contextmanager
def open_database(url: str, on_commit: CommitListener = ignore_commit) -> Iterator[TenantDatabase]:
    house = TenantDatabase(url, on_commit)
    try:
        yield house
    finally:
        house.database.close()


@pytest.fixture
def house(database_url: str) -> Iterator[TenantDatabase]:
    with open_database(database_url) as opened:
        yield opened


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine, and fail the test if it hangs."""
    return asyncio.run(asyncio.wait_for(scenario, 30))


async def submit(*works: Coroutine[Any, Any, Any]) -> list["asyncio.Task[Any]"]:
    """Start all of these, and let the event loop submit them."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.sleep(0)
    return tasks


def fail_with(error: Exception) -> Callable[[Transaction], None]:
    def work(_tx: Transaction) -> None:
        raise error

    return work


def test_a_write_can_be_read_at_once_and_after_reopening(house: TenantDatabase) -> None:
    async def scenario() -> None:
        added = await house.add("first")
        assert await house.database.of(house.tenant.id).read(lambda tx: todos.get_todo(tx, house.tenant.id, added.id)) == added

    run(scenario())

    assert house.reopen_and_list() == ["first"]


def test_waiting_callers_are_committed_together(sqlite_url: str) -> None:
    commits: list[frozenset[int]] = []

    async def scenario(house: TenantDatabase) -> None:
        async with house.block_writers():
            waiting = await submit(*(house.add(str(number)) for number in range(50)))
        await asyncio.gather(*waiting)

    with open_database(sqlite_url, commits.append) as house:
        run(scenario(house))

        assert house.reopen_and_list() == [str(number) for number in range(50)]
        assert len(commits) < 5, "a group is only divided if it takes long, as on a busy machine"


def test_a_piece_of_work_sees_the_events_of_the_ones_before_it(sqlite_url: str) -> None:
    def look(tx: Transaction, tenant_id: int) -> tuple[int, int]:
        return len(events.list_after(tx, tenant_id, 0, 100)), tenant_store.get_stored_bytes(tx, tenant_id)

    async def scenario(house: TenantDatabase) -> list[Any]:
        async with house.block_writers():
            looking = partial(look, tenant_id=house.tenant.id)
            works = (house.add("a"), house.database.write(looking), house.add("b"), house.add("c"), house.database.write(looking))
            waiting = await submit(*works)
        return await asyncio.gather(*waiting)

    with open_database(sqlite_url) as house:
        _, (count, stored), *_, (last_count, last_stored) = run(scenario(house))

        assert (count, last_count) == (1, 3)
        assert stored < last_stored
        with DirectDatabase(sqlite_url) as direct:
            assert direct.read(partial(look, tenant_id=house.tenant.id)) == (last_count, last_stored)


def test_a_piece_of_work_that_undoes_a_part_undoes_no_event_of_the_ones_before_it(sqlite_url: str) -> None:
    def count(tx: Transaction, tenant_id: int) -> int:
        return len(events.list_after(tx, tenant_id, 0, 100))

    def add_and_fail(tx: Transaction, house: TenantDatabase) -> None:
        house.make_work("half done")(tx)
        count(tx, house.tenant.id)
        raise EmptySubject

    def undo(tx: Transaction, house: TenantDatabase) -> None:
        with suppress(EmptySubject):
            tx.attempt(partial(add_and_fail, house=house))

    def look(tx: Transaction, house: TenantDatabase) -> int | None:
        return tx.try_read(partial(count, tenant_id=house.tenant.id))

    async def scenario(house: TenantDatabase) -> list[Any]:
        database = house.database
        async with house.block_writers():
            works = (
                house.add("a"),
                database.write(partial(undo, house=house)),
                house.add("b"),
                database.write(partial(look, house=house)),
            )
            waiting = await submit(*works)
        return await asyncio.gather(*waiting)

    with open_database(sqlite_url) as house:
        *_, seen = run(scenario(house))

        with DirectDatabase(sqlite_url) as direct:
            assert (seen, direct.read(partial(count, tenant_id=house.tenant.id))) == (2, 2)
        assert house.reopen_and_list() == ["a", "b"]


@pytest.mark.parametrize("error", [EmptySubject(), ValueError("odd"), StopIteration(), KeyError("k")])
def test_a_failing_piece_of_work_never_spoils_its_neighbours(house: TenantDatabase, error: Exception) -> None:
    def add_and_fail(tx: Transaction) -> None:
        house.make_work("half done")(tx)
        raise error

    async def scenario() -> list[Any]:
        async with house.block_writers():
            waiting = await submit(house.add("before"), house.database.write(add_and_fail), house.add("after"))
        return await asyncio.gather(*waiting, return_exceptions=True)

    before, failed, after = run(scenario())

    assert (before.subject, after.subject) == ("before", "after")
    assert isinstance(failed, Exception)
    assert sorted(house.reopen_and_list()) == ["after", "before"]


def test_a_statement_the_database_refuses_never_spoils_its_neighbours(house: TenantDatabase) -> None:
    def refused(tx: Transaction) -> None:
        house.make_work("half done")(tx)
        tx.run("INSERT INTO todos (id) VALUES (NULL)")

    async def scenario() -> list[Any]:
        async with house.block_writers():
            waiting = await submit(house.add("before"), house.database.write(refused), house.add("after"))
        return await asyncio.gather(*waiting, return_exceptions=True)

    before, failed, after = run(scenario())

    assert isinstance(failed, StorageError)
    assert sorted(house.reopen_and_list()) == sorted([before.subject, after.subject]) == ["after", "before"]


def test_every_caller_gets_an_error_of_its_own(house: TenantDatabase) -> None:
    shared = EmptySubject()

    async def scenario() -> list[Any]:
        async with house.block_writers():
            waiting = await submit(*(house.database.write(fail_with(shared)) for _ in range(3)))
        return await asyncio.gather(*waiting, return_exceptions=True)

    errors = run(scenario())

    assert [type(error) for error in errors] == [EmptySubject] * 3
    assert len({id(error) for error in errors}) == 3


def test_a_caller_that_gave_up_does_not_disturb_others(house: TenantDatabase) -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> list[Any]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        async with house.block_writers():
            impatient, patient = await submit(house.add("impatient"), house.add("patient"))
            impatient.cancel()
        return list(await asyncio.gather(impatient, patient, return_exceptions=True))

    gave_up, waited = run(scenario())

    assert isinstance(gave_up, asyncio.CancelledError)
    assert waited.subject in house.reopen_and_list()
    assert complaints == []


def test_two_event_loops_can_write_to_one_database(house: TenantDatabase) -> None:
    failures: list[Exception] = []

    def loop(name: str) -> None:
        async def scenario() -> None:
            added = await asyncio.gather(*(house.add(f"{name} {number}") for number in range(50)))
            assert [todo.subject for todo in added] == [f"{name} {number}" for number in range(50)]

        try:
            run(scenario())
        except Exception as error:  # noqa: BLE001  a thread would swallow it
            failures.append(error)

    threads = [threading.Thread(target=loop, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert sorted(house.reopen_and_list()) == sorted(f"{name} {number}" for name in ("left", "right") for number in range(50))


def test_an_event_loop_that_is_gone_before_its_answer_leaves_the_others_served(house: TenantDatabase) -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        entered.set()
        release.wait(30)
        house.make_work("from the gone")(tx)

    async def ask_and_leave() -> None:
        task = asyncio.create_task(house.database.write(hold))
        await asyncio.to_thread(entered.wait, 30)
        assert not task.done()

    run(ask_and_leave())
    release.set()

    async def ask_and_stay() -> Todo:
        return await house.database.write(house.make_work("from the staying"))

    assert run(ask_and_stay()).subject == "from the staying"
    assert sorted(house.reopen_and_list()) == ["from the gone", "from the staying"]


def test_a_read_does_not_wait_for_a_write(house: TenantDatabase) -> None:
    async def scenario() -> int:
        await house.add("committed")
        async with house.block_writers():
            page = await house.database.of(house.tenant.id).read(lambda tx: todo_lists.list_todos(tx, house.tenant.id, Selection()))
        return len(page.todos)

    assert run(scenario()) == 1


def test_closing_answers_everything_that_was_asked_for(house: TenantDatabase) -> None:
    async def scenario() -> list[Todo]:
        async with house.block_writers():
            waiting = await submit(*(house.add(str(number)) for number in range(300)))
            closing = asyncio.ensure_future(asyncio.to_thread(house.database.close))
        await closing
        stored: list[Todo] = await asyncio.gather(*waiting)
        return stored

    added = run(scenario())

    assert sorted(house.reopen_and_list()) == sorted(todo.subject for todo in added)
    assert len(added) == 300


def test_after_closing_work_is_refused_and_not_left_waiting(house: TenantDatabase) -> None:
    house.database.close()

    async def scenario() -> None:
        with pytest.raises(StorageError, match="closed"):
            await house.add("too late")
        with pytest.raises(StorageError, match="closed"):
            await house.database.read(lambda tx: tx.now)

    run(scenario())

    assert house.reopen_and_list() == []


def test_closing_twice_is_no_mistake(house: TenantDatabase) -> None:
    house.database.close()
    house.database.close()


def test_listeners_are_called_for_commits_only(database_url: str) -> None:
    commits: list[frozenset[int]] = []

    async def scenario(house: TenantDatabase) -> None:
        await house.add("told")
        with pytest.raises(EmptySubject):
            await house.add("")
        await house.database.write(lambda tx: tx.run("SELECT 1"))
        await house.database.read(lambda tx: tx.now)

    with open_database(database_url, commits.append) as house:
        run(scenario(house))

        assert commits == [frozenset([house.tenant.id])]


def test_a_listener_that_fails_does_not_make_a_commit_look_like_a_failure(database_url: str) -> None:
    def fail(_tenants: frozenset[int]) -> None:
        raise ZeroDivisionError

    async def scenario(house: TenantDatabase) -> list[Todo]:
        async with house.block_writers():
            waiting = await submit(house.add("first"), house.add("second"))
        stored: list[Todo] = await asyncio.gather(*waiting)
        return stored

    with open_database(database_url, fail) as house:
        added = run(scenario(house))

        assert sorted(house.reopen_and_list()) == sorted(todo.subject for todo in added) == ["first", "second"]


def test_work_without_a_waiting_caller_is_not_started(house: TenantDatabase) -> None:
    async def scenario() -> None:
        async with house.block_writers():
            given_up = asyncio.ensure_future(house.add("given up"))
            await asyncio.sleep(0)
            given_up.cancel()
            waiting = asyncio.ensure_future(house.add("kept"))
            await asyncio.sleep(0)
        assert (await waiting).subject == "kept"

    run(scenario())
    assert house.reopen_and_list() == ["kept"]
