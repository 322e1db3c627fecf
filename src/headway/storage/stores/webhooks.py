"""SQL for webhooks. `secrets` is read by `load_secrets` alone."""

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from headway.ledger.cursors import NEWEST
from headway.ledger.job import NEVER
from headway.ledger.webhook import OutgoingEvent, Webhook
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

WEBHOOKS = Columns(Webhook, fixed=("id", "tenant_id", "created_at"))
SELECT = f"SELECT {WEBHOOKS.selected} FROM webhooks"
INSERT = f"INSERT INTO webhooks ({WEBHOOKS.stored}, secrets) VALUES ({WEBHOOKS.marks}, ?)"
UPDATE = f"UPDATE webhooks SET {WEBHOOKS.assignments} WHERE tenant_id = ? AND id = ?"
IDS_PER_QUERY = 500  # databases limit the parameters of a statement


class StoredSecret(NamedTuple):
    value: str
    ends_at: int  # 0: never

    def __repr__(self) -> str:
        return f"StoredSecret(ends_at={self.ends_at})"


def insert_webhook(tx: Transaction, webhook: Webhook, secrets: list[StoredSecret]) -> None:
    tx.run(INSERT, *webhook, json.dumps(secrets))


def find_webhook(tx: Transaction, tenant_id: int, webhook_id: str) -> Webhook | None:
    return WEBHOOKS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, webhook_id)


def find_locked_webhook(tx: Transaction, tenant_id: int, webhook_id: str) -> Webhook | None:
    return WEBHOOKS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, webhook_id)


def list_webhook_page(tx: Transaction, tenant_id: int, limit: int, before: tuple[int, str] = NEWEST) -> list[Webhook]:
    """List webhooks, newest first. `before` is the creation time and id of the last one of the previous page."""
    sql = f"{SELECT} WHERE tenant_id = ? AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?"
    return WEBHOOKS.all(tx, sql, tenant_id, *before, limit)


def save_webhook(tx: Transaction, webhook: Webhook) -> None:
    tx.run(UPDATE, *WEBHOOKS.dump_changed(webhook), webhook.tenant_id, webhook.id)


def delete_webhook(tx: Transaction, tenant_id: int, webhook_id: str) -> None:
    tx.run("DELETE FROM webhooks WHERE tenant_id = ? AND id = ?", tenant_id, webhook_id)


# Secrets


def load_secrets(tx: Transaction, tenant_id: int, webhook_id: str) -> list[StoredSecret]:
    """Return the secrets that have not ended, the newest first."""
    row = tx.one("SELECT secrets FROM webhooks WHERE tenant_id = ? AND id = ?", tenant_id, webhook_id)
    secrets = [StoredSecret(*pair) for pair in json.loads(row[0])] if row else []
    return [secret for secret in secrets if not secret.ends_at or secret.ends_at > tx.now]


def save_secrets(tx: Transaction, tenant_id: int, webhook_id: str, secrets: list[StoredSecret]) -> None:
    tx.run("UPDATE webhooks SET secrets = ? WHERE tenant_id = ? AND id = ?", json.dumps(secrets), tenant_id, webhook_id)


# Events


def list_events(tx: Transaction, webhook: Webhook, limit: int) -> list[OutgoingEvent]:
    """List the next events of the log, with the data of events that the filter matches."""
    conditions, values = ["1 = 1"], list[Any]()
    if kinds := webhook.kind_list:
        conditions.append(f"kind IN ({', '.join('?' * len(kinds))})")
        values += kinds
    if webhook.conversation_id:
        conditions.append("conversation_id = ?")
        values.append(webhook.conversation_id)
    if webhook.goal_id:
        conditions.append("subject = ?")
        values.append(f"goal:{webhook.goal_id}")
    rows = tx.all(
        f"""SELECT seq, conversation_id, turn_id, kind, CASE WHEN {" AND ".join(conditions)} THEN data END, at FROM events
            WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?""",
        *values,
        webhook.tenant_id,
        webhook.sent_to,
        limit,
    )
    return [OutgoingEvent._make(row) for row in rows]


# For the engine only: these work across all tenants, and no surface calls them.


def list_subscribed_tenants(tx: Transaction) -> frozenset[int]:
    """Return the tenants that have a webhook which is not paused."""
    return frozenset(int(row[0]) for row in tx.all("SELECT DISTINCT tenant_id FROM webhooks WHERE paused = 0"))


def list_idle_behind(tx: Transaction, tenant_ids: Collection[int]) -> list[tuple[int, str]]:
    """List (tenant, id) of the webhooks whose job waits although the log has gone on. Webhooks of a tenant that is being
    moved are left out: they cannot be changed."""
    found: list[tuple[int, str]] = []
    ordered = sorted(tenant_ids)
    for start in range(0, len(ordered), IDS_PER_QUERY):
        batch = ordered[start : start + IDS_PER_QUERY]
        rows = tx.all(
            f"""SELECT webhooks.tenant_id, webhooks.id FROM webhooks
                JOIN id_ranges log ON log.tenant_id = webhooks.tenant_id AND log.kind = 'events'
                JOIN jobs ON jobs.tenant_id = webhooks.tenant_id AND jobs.id = webhooks.id
                WHERE webhooks.tenant_id IN ({", ".join("?" * len(batch))}) AND webhooks.paused = 0
                AND webhooks.sent_to < log.next - 1 AND jobs.state = 'delayed' AND jobs.due_at = ?
                AND webhooks.tenant_id NOT IN (SELECT tenant FROM moves WHERE state IN ('fenced', 'departed'))
                ORDER BY webhooks.tenant_id, webhooks.id""",
            *batch,
            NEVER,
        )
        found += [(int(tenant_id), str(webhook_id)) for tenant_id, webhook_id in rows]
    return found
