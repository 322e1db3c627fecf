"""Nested attempts inside a transaction: a failed attempt rolls back only its own changes."""

from collections.abc import Callable
from itertools import product

from headway.actions.todos import todo_lists, todos
from headway.ledger.errors import Invalid
from headway.ledger.scope import Selection
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.tables import each_row


def subjects(desk: TenantHarness) -> list[str]:
    return [todo.subject for todo in desk.read(todo_lists.get_todo_list, Selection(), 50).todos]


def add_or_read(tenant_id: int, subject: str, writes: bool) -> Callable[[Transaction], None]:
    """Return work that adds a todo, or that only reads."""

    def work(tx: Transaction) -> None:
        if writes:
            todos.add_todo(tx, tenant_id, Draft(subject))
        else:
            todo_lists.get_todo_list(tx, tenant_id, Selection(), 50)

    return work


@each_row(("before", "inside", "after"), list(product([True, False], repeat=3)))
@each_row("fails", ["nothing", "inner", "outer"])
def test_a_nested_attempt_rolls_back_only_its_own_work(
    database: DirectDatabase, before: bool, inside: bool, after: bool, fails: str
) -> None:
    desk = TenantHarness(database, f"{before} {inside} {after} {fails}")

    def inner(tx: Transaction) -> None:
        add_or_read(desk.tenant.id, "inside", inside)(tx)
        if fails == "inner":
            raise Invalid("no")

    def outer(tx: Transaction) -> None:
        add_or_read(desk.tenant.id, "before", before)(tx)
        try:
            tx.attempt(inner)
        except Invalid:
            assert fails == "inner"
        add_or_read(desk.tenant.id, "after", after)(tx)
        if fails == "outer":
            raise Invalid("no")

    def whole(tx: Transaction, tenant_id: int) -> None:
        todos.add_todo(tx, tenant_id, Draft("first"))
        try:
            tx.attempt(outer)
        except Invalid:
            assert fails == "outer"
        todos.add_todo(tx, tenant_id, Draft("last"))

    desk.write(whole)

    is_written = {"before": before, "inside": inside and fails != "inner", "after": after}
    expected = [subject for subject, written in is_written.items() if written and fails != "outer"]
    assert subjects(desk) == ["first", *expected, "last"]
    assert len(desk.events()) == len(expected) + 2
