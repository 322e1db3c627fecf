"""The kill switch. While it is on, no model is called, no tool runs and nothing starts. All work can be resumed afterwards."""

from typing import Any, Literal

from headway.actions.access import audit
from headway.ledger import text
from headway.ledger.errors import Halted
from headway.ledger.events import Event, encode_json
from headway.ledger.job import Halt
from headway.storage.stores import installation as halt_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction


def halt(tx: Transaction, why: str = "") -> Halt:
    """Halt all work. If it is halted already, the first reason is kept."""
    is_new = halt_store.insert_halt(tx, text.check_text(why.strip(), "why", text.SUBJECT_LIMIT))
    active = find_active(tx)
    assert active is not None
    if is_new:
        emit_to_all_tenants(tx, "halted", active)
        audit.record_in_audit(tx, audit.INSTALLATION, "halt.set", "installation", as_json(None), as_json(active))
    return active


def unhalt(tx: Transaction) -> Halt | None:
    """Lift the halt and return it, or None if nothing was halted."""
    active = find_active(tx)
    if active:
        halt_store.lift(tx)
        emit_to_all_tenants(tx, "unhalted", active)
        audit.record_in_audit(tx, audit.INSTALLATION, "halt.lift", "installation", as_json(active), as_json(None))
    return active


def find_active(tx: Transaction) -> Halt | None:
    """Return the halt, or None while nothing is halted."""
    return halt_store.find_active(tx)


def as_json(halt: Halt | None) -> dict[str, Any]:
    why, since, by = halt or ("", 0, "")
    return {"halted": halt is not None, "why": why, "since": since // 1000, "by": by}


def check(tx: Transaction) -> None:
    active = find_active(tx)
    if active:
        raise Halted(f"{Halted.__doc__}{f' Reason: {active.why}' if active.why else ''}")


def emit_to_all_tenants(tx: Transaction, kind: Literal["halted", "unhalted"], halt: Halt) -> None:
    """Emit the event to every tenant. The caller may have entered one of them. One that is being moved cannot be changed: it may
    belong to another database by now, where this halt has no effect."""
    tx.enter_all_tenants()
    for tenant in tenant_store.list_staying(tx):
        tx.emit(Event(tenant.id, kind, encode_json({"why": halt.why, "since": halt.since // 1000, "by": halt.by}), subject="halt"))
