"""Priority, due and labels of todos in the database: the order of ready work, filters, counts, and documents that carry them."""

import json

from headway.actions.todos import claims, import_export, todo_lists, todos
from headway.ledger.parsing.todo_fields import parse_fields, parse_filters
from headway.ledger.scope import Scope, Selection
from headway.ledger.todo import Draft
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness


def add(desk: TenantHarness, subject: str, **document: object) -> int:
    return desk.write(todos.add_todo, Draft(subject, **parse_fields(document))).id


def test_ready_work_is_ordered_by_priority_then_due_then_position(desk: TenantHarness) -> None:
    add(desk, "first")
    add(desk, "later", due="2030-01-01")
    add(desk, "low", priority="low", due="2020-01-01")
    add(desk, "sooner", due="2029-01-01")
    add(desk, "urgent", priority="urgent")
    add(desk, "last")
    expected = ["urgent", "sooner", "later", "first", "last", "low"]

    assert [todo.subject for todo in desk.read(todo_lists.list_ready_todos)] == expected
    assert desk.subjects() == ["first", "later", "low", "sooner", "urgent", "last"]  # other lists keep their order
    claimed = [desk.write(claims.claim, "ada") for _ in expected]
    assert [claim.todo.subject for claim in claimed if claim] == expected


def test_a_selection_matches_priority_all_labels_and_times(desk: TenantHarness, clock: FixedClock) -> None:
    now = clock.now // 1000
    add(desk, "plain")
    add(desk, "late", due=now - 10, labels=["home", "money"], priority="urgent")
    done = add(desk, "late but done", due=now - 10, labels=["home"])
    add(desk, "coming", due=now + 10, labels=["homework"])
    desk.write(todos.end_todo, done, "completed")

    def select(**filters: object) -> list[str]:
        selection = Selection(fields=parse_filters(filters, clock.now))
        counts = desk.read(todo_lists.count_todos, selection)
        found = [todo.subject for todo in desk.read(todo_lists.list_todos, selection).todos]
        assert sum(counts.values()) == len(found)
        assert [todo.subject for todo in desk.read(todo_lists.search_todos, selection, "a").todos] == [
            one for one in found if "a" in one
        ]
        return found

    assert select(label=["home"]) == ["late", "late but done"]
    assert select(label=["home", "money"]) == ["late"]
    assert select(label=["hom"]) == []
    assert select(priority="urgent") == ["late"]
    assert select(due_before=now + 11) == ["late", "coming", "late but done"]
    assert select(overdue=True) == ["late"]
    assert select(overdue=True, label=["money"], priority="low") == []


def test_exports_carry_the_fields_as_json_and_as_markdown(desk: TenantHarness) -> None:
    add(desk, "pay the rent", priority="high", due="2026-12-01", labels=["home", "two words"])
    add(desk, "plain")

    def carry(tx: Transaction) -> list[str]:
        tenant_id = desk.tenant.id
        exported = import_export.export_markdown(tx, tenant_id, Selection()).text
        document = json.loads(import_export.export_json(tx, tenant_id, Selection()).text)
        for todo in document["todos"]:
            todo["uuid"] += "x"
        import_export.import_json(tx, Scope(tenant_id), json.dumps(document))
        import_export.import_markdown(tx, Scope(tenant_id), exported + "- [ ] prose\n  due: when it is ready\n")
        return exported.splitlines()

    assert desk.database.write(carry) == [
        "- [ ] pay the rent",
        "  priority: high",
        "  due: 2026-12-01",
        "  label: home",
        "  label: two words",
        "- [ ] plain",
    ]
    found = desk.read(todo_lists.list_todos, Selection()).todos
    assert len({(todo.priority, todo.due, todo.labels) for todo in found if todo.subject == "pay the rent"}) == 1
    assert [todo.subject for todo in found] == ["pay the rent", "plain"] * 3 + ["prose"]
    assert found[-1].description == "due: when it is ready"
