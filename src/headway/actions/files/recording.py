"""Records the files that a tool call wrote, in the transaction that stores the call's result."""

from collections.abc import Sequence
from typing import Any, Final

from headway.ledger.files.versions import FileOrigin, WrittenFile, WrittenFiles, build_file_id, describe_data
from headway.storage.stores.files import versions as file_store
from headway.storage.stores.files.versions import LastVersion
from headway.storage.transaction import Transaction

EVENT_LIMIT: Final = 50  # files that the event of a call names


def record(tx: Transaction, tenant_id: int, workspace: str, written: WrittenFiles, origin: FileOrigin) -> dict[str, Any]:
    """Store a version of each file, and return what the event of the call says about them.

    Files are taken in the order of their ids, so that two transactions which write the same files cannot wait for each other.
    """
    named = sorted((build_file_id(tenant_id, workspace, file.path), file) for file in written.files)
    if not named:
        return {}
    last_versions = file_store.find_last_versions(tx, tenant_id, [file_id for file_id, _ in named])
    recorded: list[dict[str, Any]] = []
    for file_id, file in named:
        last = last_versions.get(file_id)
        if is_known(file, last, origin):
            if last and file.change == "written":
                recorded.append(describe(file_id, last.n, file))
            continue
        if (found := find_earlier_content(file, last)) is not None:
            owner = FileOrigin(goal_id=origin.goal_id, conversation_id=origin.conversation_id)
            file_store.insert(tx, tenant_id, file_id, workspace, found, owner)
        recorded.append(describe(file_id, file_store.insert(tx, tenant_id, file_id, workspace, file, origin), file))
    return summarise(recorded, written.omitted)


def is_known(file: WrittenFile, last: LastVersion | None, origin: FileOrigin) -> bool:
    """Whether the newest version says the same already. After a program has run, that version may be by another agent, which wrote
    the file at the same time. An agent that writes a file again counts, if another one wrote it before."""
    if last is None:
        return False
    if file.change == "deleted":
        return last.change == "deleted"
    is_same = bool(file.sha256) and (last.sha256, last.change == "deleted") == (file.sha256, False)
    return is_same and (file.change == "changed" or last.run_id == origin.run_id)


def find_earlier_content(file: WrittenFile, last: LastVersion | None) -> WrittenFile | None:
    """Return the content that a tool has replaced, if no version has it: no agent wrote it."""
    if file.before is None:
        return None
    size, sha256, media_type = describe_data(file.before)
    if last and last.sha256 == sha256:
        return None
    return WrittenFile(file.path, "found", size, sha256, media_type, file.before)


def describe(file_id: str, n: int, file: WrittenFile) -> dict[str, Any]:
    return {"id": file_id, "version": n, "path": file.path, "change": file.change}


def summarise(recorded: Sequence[dict[str, Any]], omitted: int) -> dict[str, Any]:
    """Return the fields of the event: the first files, and how many more there are."""
    if not recorded:
        return {}
    in_order = sorted(recorded, key=lambda file: str(file["path"]))
    return {"files": in_order[:EVENT_LIMIT], "omitted_files": omitted + max(0, len(recorded) - EVENT_LIMIT)}
