"""Quotas: what a tenant has stored is counted as it is stored, and a tenant over a quota cannot add more."""

from collections.abc import Iterator

import pytest

from headway.actions.access import quotas
from headway.actions.engine import run_ends
from headway.actions.todos import board, conversations, todos
from headway.actions.todos.board import ViewChange
from headway.actions.turns import memory, turns
from headway.actions.turns.memory import MemoryChange, NewMemory
from headway.ledger.attachment import build_attachment
from headway.ledger.errors import QuotaExceeded, SettingsError
from headway.ledger.scope import ViewFilters
from headway.ledger.tenancy import GIBIBYTE, NO_LIMIT, Quotas, parse_quotas
from headway.ledger.todo import Draft
from headway.storage import logged_transaction
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness

KILOBYTE = "ü" * 512


@pytest.fixture
def desk(database_url: str) -> Iterator[TenantHarness]:
    with DirectDatabase(database_url, quotas=Quotas(turns=2, storage=1_000_000)) as database:
        yield TenantHarness(database)


def get_stored(desk: TenantHarness) -> int:
    return int(desk.read(quotas.describe_usage)["usage"]["storage"])


def count_rows(desk: TenantHarness) -> int:
    return desk.database.read(lambda tx: logged_transaction.count(tx, desk.tenant.id))


def start_turn(desk: TenantHarness, *files: bytes) -> str:
    def start(tx: Transaction, tenant_id: int) -> str:
        conversation = conversations.add_conversation(tx, tenant_id)
        attachments = tuple(build_attachment(f"{n}.txt", file) for n, file in enumerate(files))
        request = turns.TurnRequest(KILOBYTE, attachments=attachments, context="a red door")
        run = turns.start_turn(tx, tenant_id, conversation.id, request)
        return run.turn_id or ""

    return desk.write(start)


def test_the_running_count_is_what_the_rows_hold(desk: TenantHarness) -> None:
    todo = desk.add("write it down", description=KILOBYTE)
    desk.change(todo, description=KILOBYTE * 3, outcome="Done.")
    deleted = desk.add("a second one", description=KILOBYTE * 5)
    desk.write(todos.remove_todo, deleted.id)
    entry = desk.write(memory.add_note, NewMemory(KILOBYTE), "Ada")
    desk.write(memory.change_note, entry.id, MemoryChange(text="short"), "Ada")
    desk.write(memory.remove_note, desk.write(memory.add_note, NewMemory(KILOBYTE), "Ada").id)
    commented = desk.write(board.add_comment, todo.id, KILOBYTE, "Ada")
    desk.write(board.remove_comment, todo.id, commented.id, "Ada", all_comments=False)
    edited = desk.write(board.add_comment, todo.id, KILOBYTE, "Ada")
    desk.write(board.edit_comment, todo.id, edited.id, KILOBYTE * 2, "Ada")
    view = desk.write(board.add_saved_view, "Größe", ViewFilters(q="x" * 500), "Ada")
    desk.write(board.change_saved_view, view.id, ViewChange(name="Size", filters=ViewFilters(q="ü" * 900)), "Ada")
    desk.write(board.remove_saved_view, desk.write(board.add_saved_view, "Another", ViewFilters(q=KILOBYTE), "Ada").id)
    start_turn(desk, b"a file " * 100)
    with pytest.raises(ValueError, match="no"):
        desk.write(lambda tx, tenant_id: raise_after(todos.add_todo(tx, tenant_id, Draft("never stored", KILOBYTE))))
    assert get_stored(desk) == count_rows(desk) > 5_000


def raise_after(_stored: object) -> None:
    raise ValueError("no")


def test_many_events_of_one_transaction_are_counted_once(desk: TenantHarness) -> None:
    desk.write(todos.add_many, [Draft(f"todo {place}", KILOBYTE) for place in range(80)])
    assert get_stored(desk) == count_rows(desk) > 80 * len(KILOBYTE.encode())


def test_a_tenant_over_its_storage_can_delete_and_change_but_not_add(desk: TenantHarness) -> None:
    other = TenantHarness(desk.database, "other")
    rows = desk.write(todos.add_many, [Draft(f"todo {place}", "x" * 100_000) for place in range(5)])
    with pytest.raises(QuotaExceeded, match=r"This tenant has stored .* Nothing was changed\. .*quota storage in HEADWAY_QUOTAS"):
        desk.add()
    with pytest.raises(QuotaExceeded):
        desk.change(rows[0], description="y" * 100_000)
    with pytest.raises(QuotaExceeded):
        start_turn(desk)
    assert desk.change(rows[0], status="completed").ended
    desk.write(todos.remove_todo, rows[1].id)
    assert other.add().id, "another tenant has its own quota"


def test_deleting_makes_room_also_for_other_processes(database_url: str) -> None:
    with DirectDatabase(database_url, quotas=Quotas(storage=10_000)) as database, DirectDatabase(database_url) as another:
        desk = TenantHarness(database)
        entries = [desk.write(memory.add_note, NewMemory(KILOBYTE), "Ada") for _ in range(10)]
        with pytest.raises(QuotaExceeded):
            desk.add()
        another.write(lambda tx: [memory.remove_note(tx, desk.tenant.id, entry.id) for entry in entries])
        assert desk.add().id


def test_a_tenant_has_a_limited_number_of_turns_that_have_not_ended(desk: TenantHarness) -> None:
    first = start_turn(desk)
    start_turn(desk)
    with pytest.raises(QuotaExceeded, match=r"^2 turns of this tenant have not ended.*cancel one.*quota turns"):
        start_turn(desk)
    desk.write(run_ends.cancel_turn, first)
    assert start_turn(desk)


def test_quotas_are_read_from_a_list() -> None:
    assert parse_quotas("HEADWAY_QUOTAS", "") == Quotas()
    assert parse_quotas("HEADWAY_QUOTAS", "turns:20, storage:5G") == Quotas(turns=20, storage=5 * GIBIBYTE)
    assert parse_quotas("HEADWAY_QUOTAS", "storage:none,jobs:none").storage == NO_LIMIT
    for wrong in ("turn:2", "turns", "turns:0", "turns:-1", "storage:5", "storage:G", "jobs:2.5", "streams:1K"):
        with pytest.raises(SettingsError, match="HEADWAY_QUOTAS"):
            parse_quotas("HEADWAY_QUOTAS", wrong)
