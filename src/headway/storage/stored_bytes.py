"""How many bytes of text and files a tenant has stored. The count is kept in the row that numbers the tenant's events. Changes that
store something have an event, so they update that row anyway, and counting takes no additional statement."""

from typing import Any, Protocol


class StatementRunner(Protocol):
    """The part of a transaction that numbers ids and counts bytes. Transactions use both for their events."""

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None: ...

    def run(self, sql: str, *parameters: Any) -> None: ...

    @property
    def dialect(self) -> Any: ...


SUMS = (
    "SUM(octet_length(data)) FROM events WHERE tenant_id = ?",
    """SUM(octet_length(message)) FROM runs r JOIN transcript t ON t.tenant_id = r.tenant_id AND t.run_id = r.id
        WHERE r.tenant_id = ?""",
    """SUM(octet_length(e.arguments) + octet_length(e.result) + octet_length(e.images))
        FROM runs r JOIN effects e ON e.tenant_id = r.tenant_id AND e.run_id = r.id
        WHERE r.tenant_id = ? AND e.state NOT IN ('proposed', 'started')""",
    "SUM(octet_length(content)) FROM messages WHERE tenant_id = ?",
    "SUM(octet_length(data)) FROM attachments WHERE tenant_id = ?",
    "SUM(octet_length(context) + octet_length(client_tools)) FROM turns WHERE tenant_id = ?",
    "SUM(octet_length(text)) FROM memory_entries WHERE tenant_id = ?",
    "SUM(octet_length(data)) FROM file_versions WHERE tenant_id = ?",
    "SUM(octet_length(text)) FROM comments WHERE tenant_id = ?",
    "SUM(octet_length(name) + octet_length(filters)) FROM saved_views WHERE tenant_id = ?",
    "SUM(octet_length(folder) + octet_length(subject) + octet_length(checks)) FROM guard_rules WHERE tenant_id = ?",
    """SUM(octet_length(subject) + octet_length(description) + octet_length(completion_criteria)
        + octet_length(COALESCE(outcome, '')) + octet_length(checks)) FROM todos WHERE tenant_id = ?""",
)


def count(tx: StatementRunner, tenant_id: int) -> int:
    """Count by reading all rows of the tenant, which is where its running count begins."""
    sums = ", ".join(f"(SELECT {part})" for part in SUMS)
    return sum(int(number or 0) for number in tx.one(f"SELECT {sums}", *[tenant_id] * len(SUMS)) or ())


def add(tx: StatementRunner, tenant_id: int, number: int) -> None:
    """Add to the running count, for a change without an event."""
    tx.run("UPDATE id_ranges SET bytes = bytes + ? WHERE tenant_id = ? AND kind = 'events'", number, tenant_id)
