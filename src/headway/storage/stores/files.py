"""Rows of files: versions that agents wrote, and attachments of messages."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.ledger.attachment import Attachment, AttachmentInfo
from headway.ledger.file_versions import FileOrigin, FileSelection, FileVersion, StoredFile, WrittenFile
from headway.ledger.text import MAX_INTEGER
from headway.storage.columns import Column, Columns, ValueT
from headway.storage.transaction import Row, Transaction

# SQL over a version `v`: whether it was not written in a deleted conversation.
IS_SHOWN = """NOT EXISTS (SELECT 1 FROM conversations hidden WHERE hidden.tenant_id = v.tenant_id
    AND hidden.id = v.conversation_id AND hidden.deleted_at <> 0)"""
# The closing parenthesis is left to the statement, because the list of files adds its filters before it.
NEWEST_SHOWN = f"""(SELECT MAX(v.n) FROM file_versions v WHERE v.tenant_id = f.tenant_id AND v.file_id = f.id
    AND {IS_SHOWN}"""
ORIGINS = Columns(FileOrigin)
VERSIONS = Columns(FileVersion, unread=("origin",), is_kept=Column(sql="CASE WHEN v.data IS NULL THEN 0 ELSE 1 END", decode=bool))
FILES = Columns(StoredFile, unread=("version",), latest=Column(sql=f"{NEWEST_SHOWN})"))
SELECT_VERSIONS = f"SELECT {VERSIONS.selected}, {ORIGINS.selected} FROM file_versions v"
SELECT_FILES = f"SELECT {FILES.selected}, {VERSIONS.selected}, {ORIGINS.selected} FROM files f"
INSERT_VERSION = f"""INSERT INTO file_versions (tenant_id, {VERSIONS.stored}, {ORIGINS.stored}, data)
    VALUES (?, {VERSIONS.marks}, {ORIGINS.marks}, ?)"""


class LastVersion(NamedTuple):
    """The newest version of a file, as far as it is needed to record the next one."""

    n: int
    sha256: str
    change: str
    run_id: str


def load_version(row: Row) -> FileVersion:
    return VERSIONS.load((*row[: VERSIONS.width], ORIGINS.load(row[VERSIONS.width :])))


def load_file(row: Row) -> StoredFile:
    return FILES.load((*row[: FILES.width], load_version(row[FILES.width :])))


# Writing


def find_last_versions(tx: Transaction, tenant_id: int, file_ids: Sequence[str]) -> dict[str, LastVersion]:
    marks = ", ".join("?" * len(file_ids))
    rows = tx.all(
        f"""SELECT v.file_id, v.n, v.sha256, v.change, v.run_id FROM files f
            JOIN file_versions v ON v.tenant_id = f.tenant_id AND v.file_id = f.id AND v.n = f.latest
            WHERE f.tenant_id = ? AND f.id IN ({marks})""",
        tenant_id,
        *file_ids,
    )
    return {row[0]: LastVersion._make(row[1:]) for row in rows}


def insert_file_version(
    tx: Transaction, tenant_id: int, file_id: str, workspace: str, file: WrittenFile, origin: FileOrigin
) -> int:
    """Insert a version and return its number. The file's row is locked until the transaction ends, so numbers are unique."""
    row = tx.one(
        """INSERT INTO files (tenant_id, id, workspace, path, latest, created_at, updated_at) VALUES (?, ?, ?, ?, 1, ?, ?)
           ON CONFLICT (tenant_id, id) DO UPDATE SET latest = files.latest + 1, updated_at = excluded.updated_at
           RETURNING latest""",
        *(tenant_id, file_id, workspace, file.path, tx.now, tx.now),
    )
    assert row is not None
    version = FileVersion(
        file_id,
        row[0],
        file.change,
        file.size,
        file.sha256,
        file.media_type,
        file.renamed_from,
        tx.now,
        file.data is not None,
        origin,
    )
    tx.run(INSERT_VERSION, tenant_id, *VERSIONS.dump(version), *origin, file.data)
    tx.count_stored(tenant_id, len(file.data or b""))
    return int(row[0])


# Reading


def list_file_version_page(
    tx: Transaction, tenant_id: int, selection: FileSelection, before: tuple[int, str], limit: int
) -> list[StoredFile]:
    """List files, the last written first, before a (time, id). The words of the selection are the caller's to look for."""
    filters = {name: value for name, value in selection._asdict().items() if value and name not in ("path", "query")}
    matches = "".join(f" AND v.{name} = ?" for name in filters)
    conditions, parameters = ["f.tenant_id = ?", "(f.updated_at, f.id) < (?, ?)"], [tenant_id, *before]
    if filters:
        conditions.append(f"f.id IN (SELECT v.file_id FROM file_versions v WHERE v.tenant_id = ?{matches})")
        parameters += [tenant_id, *filters.values()]
    if selection.path:
        folder = f"{selection.path.rstrip('/')}/"
        conditions.append("(f.path = ? OR substr(f.path, 1, CAST(? AS INTEGER)) = ?)")
        parameters += [selection.path, len(folder), folder]
    rows = tx.all(
        f"""{SELECT_FILES}
            JOIN file_versions v ON v.tenant_id = f.tenant_id AND v.file_id = f.id AND v.n = {NEWEST_SHOWN}{matches})
            WHERE {" AND ".join(conditions)} ORDER BY f.updated_at DESC, f.id DESC LIMIT ?""",
        *filters.values(),
        *parameters,
        limit,
    )
    return [load_file(row) for row in rows]


def find_file_version(tx: Transaction, tenant_id: int, file_id: str) -> StoredFile | None:
    """Return a file with its newest version."""
    row = tx.one(
        f"""{SELECT_FILES}
            JOIN file_versions v ON v.tenant_id = f.tenant_id AND v.file_id = f.id AND v.n = {NEWEST_SHOWN})
            WHERE f.tenant_id = ? AND f.id = ?""",
        tenant_id,
        file_id,
    )
    return load_file(row) if row else None


def list_changed_paths(tx: Transaction, tenant_id: int, turn_id: str) -> list[str]:
    """List the files that the agents of a turn have changed."""
    rows = tx.all(
        """SELECT DISTINCT f.path FROM file_versions v JOIN files f ON f.tenant_id = v.tenant_id AND f.id = v.file_id
           WHERE v.tenant_id = ? AND v.turn_id = ? AND v.change <> 'found'""",
        *(tenant_id, turn_id),
    )
    return [row[0] for row in rows]


def list_versions(
    tx: Transaction, tenant_id: int, file_id: str, limit: int, before: int = MAX_INTEGER, *, only: int = 0
) -> list[FileVersion]:
    """List versions of a file, newest first, with a number below `before`; or `only` this one."""
    condition, value = ("v.n = ?", only) if only else ("v.n < ?", before)
    rows = tx.all(
        f"""{SELECT_VERSIONS}
            WHERE v.tenant_id = ? AND v.file_id = ? AND {condition} AND {IS_SHOWN} ORDER BY v.n DESC LIMIT ?""",
        *(tenant_id, file_id, value, limit),
    )
    return [load_version(row) for row in rows]


def load_data(tx: Transaction, tenant_id: int, file_id: str, n: int) -> bytes:
    row = tx.one("SELECT data FROM file_versions WHERE tenant_id = ? AND file_id = ? AND n = ?", tenant_id, file_id, n)
    return bytes(row[0]) if row and row[0] is not None else b""


# SQL for attachments: the files that came with the message of a turn.


ATTACHMENTS = Columns(Attachment)
INFOS = Columns(AttachmentInfo, size=Column(sql="OCTET_LENGTH(data)"))
INSERT = f"""INSERT INTO attachments (turn_id, n, tenant_id, {ATTACHMENTS.stored}, created_at)
    VALUES (?, ?, ?, {ATTACHMENTS.marks}, ?)"""
NOT_FAILED = """AND NOT EXISTS (SELECT 1 FROM turns
    WHERE turns.tenant_id = attachments.tenant_id AND turns.id = attachments.turn_id AND turns.status = 'failed')"""


def insert_attachment(tx: Transaction, tenant_id: int, turn_id: str, attachments: Sequence[Attachment]) -> None:
    for n, attachment in enumerate(attachments, 1):
        tx.run(INSERT, turn_id, n, tenant_id, *attachment, tx.now)
        tx.count_stored(tenant_id, len(attachment.data))


def find_attachment(tx: Transaction, tenant_id: int, turn_id: str, n: int) -> Attachment | None:
    sql = f"SELECT {ATTACHMENTS.selected} FROM attachments WHERE tenant_id = ? AND turn_id = ? AND n = ?"
    return ATTACHMENTS.one(tx, sql, tenant_id, turn_id, n)


def list_by_turns(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, list[Attachment]]:
    """Return the attachments of each turn that has any, in order. A failed turn's are left out: its model may have refused
    them, and would refuse every later request that contains them."""
    return select(tx, tenant_id, turn_ids, ATTACHMENTS, NOT_FAILED)


def list_infos(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, list[AttachmentInfo]]:
    """Return names, types and sizes of the attachments of each turn that has any, without reading their contents."""
    return select(tx, tenant_id, turn_ids, INFOS)


def select(
    tx: Transaction, tenant_id: int, turn_ids: Sequence[str], columns: Columns[ValueT], condition: str = ""
) -> dict[str, list[ValueT]]:
    found: dict[str, list[ValueT]] = {}
    if not turn_ids:
        return found
    marks = ", ".join("?" * len(turn_ids))
    sql = f"""SELECT turn_id, {columns.selected} FROM attachments WHERE tenant_id = ? AND turn_id IN ({marks}) {condition}
        ORDER BY turn_id, n"""
    for turn_id, *row in tx.all(sql, tenant_id, *turn_ids):
        found.setdefault(turn_id, []).append(columns.load(row))
    return found
