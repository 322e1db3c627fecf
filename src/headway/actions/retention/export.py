"""Exports a tenant: all its rows, one JSON object per line, from one snapshot of the database."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from headway.ledger.events import to_json
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import tenant_rows
from headway.storage.transaction import Row, Transaction

FORMAT: Final = 1
# Not exported: what only serves to be let in or to sign, and answers that are kept for a day in case a request is repeated.
SECRET_COLUMNS: Final = {"tokens": ("hash",), "webhooks": ("secrets",)}
LEFT_OUT: Final = ("idempotency_keys", "tokens.hash", "webhooks.secrets")
SKIPPED_TABLES: Final = ("idempotency_keys",)


class LineArchive(Protocol):
    def add_lines(self, name: str, lines: Iterator[bytes]) -> None: ...


def write_rows(
    tx: Transaction, tenant_id: int, archive: LineArchive, report: Callable[[str, int], None]
) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Write a file per table. Returns the number of rows by table, and (UUID, id) of the conversations, which name their files."""
    counts: dict[str, int] = {}
    for table, columns in tenant_rows.list_tables(tx).items():
        if table in SKIPPED_TABLES:
            continue
        shown = [column for column in columns if column not in SECRET_COLUMNS.get(table, ())]
        counts[table] = 0

        def encode_rows(table: str = table, shown: list[str] = shown) -> Iterator[bytes]:
            for row in tenant_rows.stream_rows(tx, table, shown, tenant_id):
                counts[table] += 1
                yield encode_row(shown, row)

        archive.add_lines(f"rows/{table}.jsonl", encode_rows())
        report(table, counts[table])
    return counts, conversation_store.file_names(tx, tenant_id)


def encode_row(columns: list[str], row: Row) -> bytes:
    return to_json(dict(zip(columns, map(encode_value, row), strict=True))).encode() + b"\n"


def encode_value(value: Any) -> Any:
    """Bytes, which JSON does not have, become {"base64": …}."""
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes | bytearray | memoryview) else value
