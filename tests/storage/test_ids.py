"""Ids. They count a tenant's own rows and nothing else, grow, and are never used twice."""

import threading
from contextlib import closing
from functools import partial
from typing import Any

from headway.actions.access import tokens
from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import tenants
from headway.actions.runs import notices
from headway.actions.todos import todos
from headway.actions.turns import memory
from headway.ledger.scope import Scope
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase, connect
from headway.storage.logged_transaction import EVENT_RANGE_SIZE, RANGE_SIZE
from headway.storage.transaction import Transaction, within_tenant
from headway.testing import TenantHarness
from tests.tenant_rows import fill_tenant, message_work


def list_ids(desk: TenantHarness, table: str, column: str = "id") -> list[int]:
    sql = f"SELECT {column} FROM {table} WHERE tenant_id = ? ORDER BY {column}"
    return [int(value) for (value,) in desk.database.read(lambda tx: tx.all(sql, desk.tenant.id))]


def add_rows(desk: TenantHarness) -> None:
    """Add a row of each kind that people or models see the id of."""
    conversation = desk.conversation()
    desk.add("write it down", conversation_id=conversation.id)
    desk.write(tokens.create_token)
    desk.write(goals.add_goal, NewGoal("win"))
    desk.write(schedules.put, f"daily {conversation.id}", Timing(every_ms=60_000), message_work(conversation.id))
    desk.database.write(lambda tx: memory.remember(tx, Scope(desk.tenant.id, conversation.id), "the door is green"))
    desk.write(notices.notify, "note", "look")


def test_ids_and_event_numbers_do_not_show_the_rows_of_other_tenants(database: DirectDatabase, desk: TenantHarness) -> None:
    rival = TenantHarness(database, "rival")
    add_rows(desk)
    for _ in range(5):
        add_rows(rival)
    fill_tenant(rival)
    add_rows(desk)

    for table in ("conversations", "todos", "tokens", "goals", "schedules", "memory_entries", "notices"):
        first, second = list_ids(desk, table)
        assert second == first + 1, table
    numbers = list_ids(desk, "events", "seq")
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert not set(list_ids(desk, "todos")) & set(list_ids(rival, "todos"))


def test_the_only_tenant_counts_from_one(sqlite_url: str) -> None:
    with DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database)
        assert [desk.add().id, desk.add().id] == [1, 2]
        assert [desk.conversation().id, desk.conversation().id] == [1, 2]
        assert list_ids(desk, "events", "seq")[0] == 1
        rival = TenantHarness(database, "rival")
        assert rival.add().id > RANGE_SIZE


def test_a_tenant_that_has_used_up_a_range_continues_in_a_higher_one(desk: TenantHarness) -> None:
    first = desk.add().id
    numbers = list_ids(desk, "events", "seq")
    shorten = "UPDATE id_ranges SET ends = next + 1 WHERE tenant_id = ? AND kind IN ('todos', 'events')"
    desk.database.write(lambda tx: tx.run(shorten, desk.tenant.id))
    later = [desk.add().id for _ in range(3)]

    assert later[0] == first + 1
    assert later[1] == later[2] - 1
    assert later[1] > first
    assert later[1] % RANGE_SIZE == 1
    continued = list_ids(desk, "events", "seq")[len(numbers) :]
    assert continued[0] == numbers[-1] + 1
    assert continued[1] == continued[2] - 1
    assert continued[1] > continued[0]
    assert continued[1] % EVENT_RANGE_SIZE == 1


def test_an_id_is_not_used_again_after_its_row_or_its_tenant_is_deleted(database: DirectDatabase, desk: TenantHarness) -> None:
    rival = TenantHarness(database, "rival")
    gone = {rival.add().id for _ in range(3)}
    removed = desk.add()
    desk.write(todos.remove_todo, removed.id)
    database.write(partial(tenants.remove_tenant, name="rival"))
    reborn = TenantHarness(database, "rival")

    assert desk.add().id > removed.id
    assert not gone & {reborn.add().id for _ in range(3)}


def test_two_connections_that_write_a_tenants_first_rows_at_once_get_different_ids(
    database: DirectDatabase, database_url: str
) -> None:
    desk = TenantHarness(database, "both")
    added: list[Any] = []

    def add(tx: Transaction) -> int:
        return todos.add_todo(tx, desk.tenant.id, Draft("x")).id

    def add_many() -> None:
        with closing(connect(database_url)) as connection:
            added.extend(connection.write(within_tenant(desk.tenant.id, add)) for _ in range(20))

    threads = [threading.Thread(target=add_many) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(added) == list_ids(desk, "todos")
    assert len(set(added)) == 40
    assert len(list_ids(desk, "events", "seq")) == 40
