"""Rules: conditions that must hold before an assistant in a folder may stop."""

from headway.actions.access import audit, quotas
from headway.ledger.check import Check, decode_checks, encode_checks
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.guard import GuardRule
from headway.ledger.parsing.checks import parse_checks
from headway.ledger.text import SUBJECT_LIMIT, check_text
from headway.storage.stores import guard_rules as rule_store
from headway.storage.transaction import Transaction

RULES_LIMIT = 20  # per folder


def add_guard_rule(
    tx: Transaction, tenant_id: int, folder: str, subject: str, checks: list[Check], *, is_confirmed: bool = False
) -> GuardRule:
    """Add a rule. Only a person at this machine does, so its checks are the operator's."""
    subject = check_text(subject, "text", SUBJECT_LIMIT).strip()
    if not subject:
        raise Invalid("The text must not be blank. Say what must hold.")
    if not checks:
        raise Invalid('A rule needs a check, such as --check-command "pytest -q". Nothing was added.')
    if len(list_rules(tx, tenant_id, folder)) >= RULES_LIMIT:
        raise Invalid(f"A folder can have at most {RULES_LIMIT} rules. Remove one first.")
    quotas.check_storage(tx, tenant_id)
    encoded = encode_checks(parse_checks(checks, "operator"))
    rule = rule_store.insert_rule(tx, tenant_id, GuardRule(0, folder, subject, encoded, is_confirmed, 0))
    audit.record_in_audit(tx, tenant_id, "guard.add", f"guard_rule:{rule.id}", None, describe_rule(rule))
    return rule


def describe_rule(rule: GuardRule) -> dict[str, object]:
    return {"folder": rule.folder, "text": rule.subject, "checks": decode_checks(rule.checks)}


def list_rules(tx: Transaction, tenant_id: int, folder: str) -> list[GuardRule]:
    return rule_store.list_rules(tx, tenant_id, folder)


def remove_guard_rule(tx: Transaction, tenant_id: int, rule_id: int) -> GuardRule:
    rule = rule_store.find_rule(tx, tenant_id, rule_id)
    if rule is None:
        raise NotFound(f"No rule {rule_id}. `headway guard list` shows the rules of a project.")
    rule_store.delete_rule(tx, tenant_id, rule)
    audit.record_in_audit(tx, tenant_id, "guard.remove", f"guard_rule:{rule.id}", describe_rule(rule), None)
    return rule
