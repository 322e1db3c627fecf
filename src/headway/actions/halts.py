"""The kill switch. While it is on, no model is called, no tool runs and nothing starts. All work can be resumed afterwards."""

from typing import Any

from headway.ledger import text
from headway.ledger.errors import Halted
from headway.ledger.events import Event, encode_json
from headway.ledger.job import Halt
from headway.storage.stores import halts as halt_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction


def halt(tx: Transaction, why: str = "") -> Halt:
    """Halt all work. If it is halted already, the first reason is kept."""
    thrown = halt_store.insert(tx, text.check_text(why.strip(), "why", text.SUBJECT_LIMIT))
    found = find_active(tx)
    assert found is not None
    if thrown:
        emit_to_all_tenants(tx, "halted", found)
    return found


def unhalt(tx: Transaction) -> Halt | None:
    """Lift the halt and return it, or None if nothing was halted."""
    found = find_active(tx)
    if found:
        halt_store.lift(tx)
        emit_to_all_tenants(tx, "unhalted", found)
    return found


def find_active(tx: Transaction) -> Halt | None:
    """Return the halt, or None while nothing is halted."""
    return halt_store.find_active(tx)


def as_json(found: Halt | None) -> dict[str, Any]:
    return {"halted": found is not None, "why": found.why if found else "", "since": found.since // 1000 if found else 0}


def check(tx: Transaction) -> None:
    found = find_active(tx)
    if found:
        raise Halted(f"{Halted.__doc__}{f' Reason: {found.why}' if found.why else ''}")


def emit_to_all_tenants(tx: Transaction, kind: str, found: Halt) -> None:
    """Emit the event to every tenant."""
    for tenant in tenant_store.list_all(tx):
        tx.emit(Event(tenant.id, kind, encode_json({"why": found.why, "since": found.since // 1000})))
