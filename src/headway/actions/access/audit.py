"""The audit log: who changed access, limits or rules, with the old and the new value. It is written in the same transaction as the
change that it records."""

from typing import Any, Final

from headway.ledger.events import to_json
from headway.storage.stores import audit as audit_store
from headway.storage.transaction import Transaction

INSTALLATION: Final = 0  # the tenant_id of entries that concern every tenant
HEADWAY: Final = "headway"  # who, if no person or agent caused the change


def record(tx: Transaction, tenant_id: int, action: str, target: str, old: Any = None, new: Any = None) -> None:
    """Record a change. `action` is a noun and a verb, such as `token.revoke`; `target` names what was changed, such as `token:12`.
    Secrets must not be in the values."""
    audit_store.insert(tx, tenant_id, tx.actor or HEADWAY, action, target, to_json(old), to_json(new))
