"""SQL for the rules of the guard."""

from headway.ledger.guard import GuardRule
from headway.ledger.text import count_bytes
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Transaction

RULES = Columns(GuardRule, is_confirmed=Column(decode=bool, encode=int))
SELECT = f"SELECT {RULES.selected} FROM guard_rules"


def measure(rule: GuardRule) -> int:
    return count_bytes(rule.folder, rule.subject, rule.checks)


def insert_rule(tx: Transaction, tenant_id: int, rule: GuardRule) -> GuardRule:
    tx.count_stored(tenant_id, measure(rule))
    return logged_transaction.insert(tx, tenant_id, "guard_rules", RULES, rule._replace(created_at=tx.now))


def list_rules(tx: Transaction, tenant_id: int, folder: str) -> list[GuardRule]:
    return RULES.all(tx, f"{SELECT} WHERE tenant_id = ? AND folder = ? ORDER BY id", tenant_id, folder)


def find_rule(tx: Transaction, tenant_id: int, rule_id: int) -> GuardRule | None:
    return RULES.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, rule_id)


def delete_rule(tx: Transaction, tenant_id: int, rule: GuardRule) -> None:
    tx.run("DELETE FROM guard_rules WHERE tenant_id = ? AND id = ?", tenant_id, rule.id)
    tx.count_stored(tenant_id, -measure(rule))
