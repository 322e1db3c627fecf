"""Files that agents wrote: recorded with the call that wrote them, listed, shown and compared."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headway.actions.goals import goals
from headway.actions.todos import finding
from headway.ledger import file_versions, text
from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.errors import NotFound
from headway.ledger.file_versions import (
    CONTENT_LIMIT,
    FileOrigin,
    FileSelection,
    FileVersion,
    StoredFile,
    WrittenFile,
    WrittenFiles,
    build_file_id,
    describe_data,
)
from headway.ledger.parsing.paths import PATH_LIMIT
from headway.ledger.tenancy import format_size
from headway.ledger.wording import has_all_words, parse_words
from headway.storage.stores import files
from headway.storage.stores import goals as goal_store
from headway.storage.stores.files import LastVersion
from headway.storage.transaction import Transaction

SEARCH_LIMIT: Final = 2_000  # how many files a search covers, so that its cost does not grow with their number
VERSIONS_LIMIT: Final = 200  # versions of a file that are listed
COMPARED_BYTES: Final = 2_000_000  # of each of two versions
COMPARED_LINES: Final = 100_000
CURSORS: Final = CursorCodec("files", NEWEST)


class FilePage(NamedTuple):
    files: list[StoredFile]
    next_cursor: str | None
    searched_all: bool  # False: the search stopped before the oldest file; it continues at the cursor

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"files": [file.as_json() for file in self.files]}


class FileHistory(NamedTuple):
    file: StoredFile
    versions: list[FileVersion]  # newest first

    def as_json(self) -> dict[str, Any]:
        return {"file": self.file.as_json(), "versions": [version.as_json() for version in self.versions]}


class Content(NamedTuple):
    file: StoredFile
    version: FileVersion
    data: bytes


class ComparedVersions(NamedTuple):
    """Two versions of a file. A missing one is that of a file which did not exist."""

    file: StoredFile
    old: FileVersion | None
    new: FileVersion
    old_data: bytes
    new_data: bytes


def list_files(tx: Transaction, tenant_id: int, selection: FileSelection, limit: int, cursor: str | None = None) -> FilePage:
    """List files, the last written first. A search covers SEARCH_LIMIT files from the cursor on."""
    selection = check_selection(tx, tenant_id, selection)
    words = parse_words(selection.query)
    window_size = SEARCH_LIMIT if words else limit
    rows = files.list_file_version_page(tx, tenant_id, selection, CURSORS.decode(cursor), window_size + 1)
    window = rows[:window_size]
    has_older = len(rows) > window_size
    matches = [file for file in window if has_all_words(file.path, words)]
    last = matches[limit - 1] if len(matches) > limit else window[-1] if has_older else None
    next_cursor = CURSORS.encode((last.updated_at, last.id)) if last else None
    return FilePage(matches[:limit], next_cursor, not (words and has_older))


def check_selection(tx: Transaction, tenant_id: int, selection: FileSelection) -> FileSelection:
    """Raise an error if what the selection names does not exist, instead of showing an empty list. The goal of a sub-goal is added,
    because files are found by their goal."""
    text.check_text(selection.path, "path", PATH_LIMIT)
    if selection.role:
        text.check_name(selection.role, "role")
    if selection.conversation_id:
        finding.get_conversation(tx, tenant_id, selection.conversation_id)
    if selection.turn_id:
        finding.get_turn(tx, tenant_id, selection.turn_id)
    if selection.goal_id:
        goals.get_goal(tx, tenant_id, selection.goal_id)
    if not selection.sub_goal_id:
        return selection
    sub_goal = goal_store.find_sub_goal(tx, tenant_id, selection.sub_goal_id)
    if sub_goal is None or selection.goal_id not in (0, sub_goal.goal_id):
        of_goal = f"Goal #{selection.goal_id} has no" if selection.goal_id else "No"
        raise NotFound(f"{of_goal} sub-goal #{selection.sub_goal_id}.")
    return selection._replace(goal_id=sub_goal.goal_id)


def get_file(tx: Transaction, tenant_id: int, file_id: str) -> FileHistory:
    file = find_file(tx, tenant_id, file_id)
    return FileHistory(file, files.list_versions(tx, tenant_id, file_id, VERSIONS_LIMIT))


def find_file(tx: Transaction, tenant_id: int, file_id: str) -> StoredFile:
    file = files.find_file_version(tx, tenant_id, text.check_text(file_id, "file id"))
    if file is None:
        raise NotFound(f"No file {text.to_one_line(file_id)[:80]!r}.")
    return file


def find_version(tx: Transaction, tenant_id: int, file: StoredFile, n: int | None) -> FileVersion:
    """Return a version of a file; without a number, the newest."""
    if n is None:
        return file.version
    versions = files.list_versions(tx, tenant_id, file.id, 1, only=n)
    if not versions:
        raise NotFound(f"This file has no version {n}.")
    return versions[0]


def get_content(tx: Transaction, tenant_id: int, file_id: str, n: int | None = None) -> Content:
    file = find_file(tx, tenant_id, file_id)
    version = find_version(tx, tenant_id, file, n)
    return Content(file, version, load_data(tx, tenant_id, version))


def load_data(tx: Transaction, tenant_id: int, version: FileVersion) -> bytes:
    if version.change == "deleted":
        raise NotFound(f"Version {version.n} has no content: the file was deleted.")
    if not version.is_kept:
        limit = f"At most {format_size(CONTENT_LIMIT)} of a file are kept."
        raise NotFound(f"The content of version {version.n}, {format_size(version.size)}, was not kept. {limit}")
    return files.load_data(tx, tenant_id, version.file_id, version.n)


def load_pair(tx: Transaction, tenant_id: int, file_id: str, old: int | None, new: int | None) -> ComparedVersions:
    """Load two versions: by default the newest and the one before it. The old one may be 0: the file did not exist."""
    file = find_file(tx, tenant_id, file_id)
    new_version = find_version(tx, tenant_id, file, new)
    if old is None:
        earlier = files.list_versions(tx, tenant_id, file_id, 1, new_version.n)
        old_version = earlier[0] if earlier else None
    else:
        old_version = find_version(tx, tenant_id, file, old) if old else None
    data = [load_side(tx, tenant_id, version) for version in (old_version, new_version)]
    return ComparedVersions(file, old_version, new_version, *data)


def load_side(tx: Transaction, tenant_id: int, version: FileVersion | None) -> bytes:
    """Load one side of a comparison. A deleted file has no lines, and what cannot be compared is not read."""
    if version is None or version.change == "deleted" or describe_obstacle(version):
        return b""
    return load_data(tx, tenant_id, version)


def describe_obstacle(version: FileVersion | None) -> str:
    """Return why the lines of a version cannot be compared: `not_kept`, `binary` or `too_large`; empty if they can."""
    if version is None or version.change == "deleted":
        return ""
    if not version.is_kept:
        return "not_kept"
    if not version.is_text:
        return "binary"
    return "too_large" if version.size > COMPARED_BYTES else ""


def compare_file_versions(pair: ComparedVersions) -> dict[str, Any]:
    """Compare two versions line by line. This computes for a while: call it without a transaction, on a thread."""
    old, new = pair.old, pair.new
    obstacle = describe_obstacle(old) or describe_obstacle(new)
    if not obstacle and max(data.count(b"\n") for data in (pair.old_data, pair.new_data)) > COMPARED_LINES:
        obstacle = "too_large"
    document = {
        "file": pair.file.as_json(),
        "from": old.as_json() if old else None,
        "to": new.as_json(),
        "is_equal": pair.old_data == pair.new_data if not obstacle else bool(old and old.sha256 and old.sha256 == new.sha256),
        "obstacle": obstacle or None,
    }
    if obstacle:
        return document | {"added": None, "deleted": None, "is_cut": False, "hunks": []}
    return document | file_versions.compare(pair.old_data.decode(), pair.new_data.decode()).as_json()


# Records the files that a tool call wrote, in the transaction that stores the call's result.


EVENT_LIMIT: Final = 50  # files that the event of a call names


def record_files(tx: Transaction, tenant_id: int, workspace: str, written: WrittenFiles, origin: FileOrigin) -> dict[str, Any]:
    """Store a version of each file, and return what the event of the call says about them.

    Files are taken in the order of their ids, so that two transactions which write the same files cannot wait for each other.
    """
    named = sorted((build_file_id(tenant_id, workspace, file.path), file) for file in written.files)
    if not named:
        return {}
    last_versions = files.find_last_versions(tx, tenant_id, [file_id for file_id, _ in named])
    recorded: list[dict[str, Any]] = []
    for file_id, file in named:
        last = last_versions.get(file_id)
        if is_known(file, last, origin):
            if last and file.change == "written":
                recorded.append(describe_written_file(file_id, last.n, file))
            continue
        if (found := find_earlier_content(file, last)) is not None:
            owner = FileOrigin(goal_id=origin.goal_id, conversation_id=origin.conversation_id)
            files.insert_file_version(tx, tenant_id, file_id, workspace, found, owner)
        recorded.append(
            describe_written_file(file_id, files.insert_file_version(tx, tenant_id, file_id, workspace, file, origin), file)
        )
    return summarise_written_files(recorded, written.omitted)


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


def describe_written_file(file_id: str, n: int, file: WrittenFile) -> dict[str, Any]:
    return {"id": file_id, "version": n, "path": file.path, "change": file.change}


def summarise_written_files(recorded: Sequence[dict[str, Any]], omitted: int) -> dict[str, Any]:
    """Return the fields of the event: the first files, and how many more there are."""
    if not recorded:
        return {}
    in_order = sorted(recorded, key=lambda file: str(file["path"]))
    return {"files": in_order[:EVENT_LIMIT], "omitted_files": omitted + max(0, len(recorded) - EVENT_LIMIT)}
