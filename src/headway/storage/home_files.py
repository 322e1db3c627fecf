"""Files in the home: task lists and attachments."""

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headway.ledger.attachment import SIZE_LIMIT, Attachment, build_attachment, clean_name
from headway.ledger.errors import BadAttachment, DatabaseDamaged, Invalid

T = TypeVar("T")
Task = dict[str, Any]

TASKS_LIMIT = 1_000


class TaskFile(NamedTuple):
    """The task list of one conversation. Its paths use Headway's own UUID and id, so that a caller's key never becomes a path."""

    folder: str
    conversation_uuid: str
    conversation_id: int

    @property
    def path(self) -> str:
        return os.path.join(self.folder, f"{self.checked_name}.json")

    @property
    def alias(self) -> str:
        return os.path.join(self.folder, f"{self.conversation_id:d}.json")

    @property
    def checked_name(self) -> str:
        name = self.conversation_uuid.replace("-", "").lower()
        if len(name) != 32 or not all(character in "0123456789abcdef" for character in name):
            raise Invalid("A task file's name must be a conversation's UUID.")
        return name

    def read(self) -> list[Task]:
        """Read the tasks; a missing file is an empty list. No lock is needed, because documents are replaced as a whole."""
        return list(self._load()["tasks"])

    def change(self, work: Callable[[list[Task]], T]) -> T:
        """Let `work` change the list in place, and store the result. If it raises, nothing is written."""
        with self._locked():
            document = self._load()
            before = json.dumps(document)
            result = work(document["tasks"])
            if json.dumps(document) != before:
                self._adopt()
                self._store(document)
                self._link()
            return result

    def forget(self) -> None:
        """Remove the list and anything that a killed writer left behind."""
        if any(map(os.path.lexists, (self._lock, self.path, self.alias))):  # most conversations never have one
            with self._locked():
                remove_if_exists(self.path)
                remove_if_exists(self.alias)

    def _load(self) -> dict[str, Any]:
        """Load the document. A regular file in the link's place wins; if it is adopted during the read, it is found under the
        document's own name."""
        return load_document(self.alias, self.path) if is_plain_file(self.alias) else load_document(self.path)

    def _adopt(self) -> None:
        if is_plain_file(self.alias):
            os.replace(self.alias, self.path)

    def _link(self) -> None:
        target = os.path.basename(self.path)
        with suppress(OSError):  # on a filesystem without links the list has only one name
            if not os.path.islink(self.alias) or os.readlink(self.alias) != target:
                os.symlink(target, self._scratch)
                os.replace(self._scratch, self.alias)

    @property
    def _lock(self) -> str:
        # Lock files are never deleted: if they were, two processes could hold the same lock at once. Conversations share 256 of
        # them, so that they do not accumulate.
        return os.path.join(self.folder, ".locks", self.checked_name[:2])

    @property
    def _scratch(self) -> str:
        # One scratch file per lock, written only by the lock's holder, so the leftovers of killed writers are few and safe to
        # delete.
        return f"{self._lock}.tmp"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(os.path.dirname(self._lock), mode=0o700, exist_ok=True)
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            remove_if_exists(self._scratch)  # left behind by a killed writer
            yield
        finally:
            os.close(handle)

    def _store(self, document: dict[str, Any]) -> None:
        handle = os.open(self._scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as target:
                json.dump(document, target, ensure_ascii=False, indent=2)
                target.flush()
                os.fsync(target.fileno())
            os.replace(self._scratch, self.path)
        except BaseException:
            remove_if_exists(self._scratch)  # on a full disk, free the space of the partial file
            raise
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def is_plain_file(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(os.lstat(path).st_mode)
    return False


def load_document(path: str, *others: str) -> dict[str, Any]:
    """Load the first of these documents that exists, or an empty list. A byte order mark, which some editors write, is accepted."""
    try:
        with open(path, encoding="utf-8-sig") as source:
            document = json.load(source)
        json.dumps(document, ensure_ascii=False).encode()  # JSON can contain a lone surrogate, which could not be written back
    except FileNotFoundError:
        return load_document(*others) if others else {"tasks": []}
    except (ValueError, RecursionError) as error:
        raise DatabaseDamaged(f"{path} is not valid JSON: {error}") from error
    if not is_task_list(document):
        raise DatabaseDamaged(f"{path} does not contain a task list.")
    return document  # type: ignore[no-any-return]


def is_task_list(document: Any) -> bool:
    tasks = document.get("tasks") if isinstance(document, dict) else None
    return isinstance(tasks, list) and all(
        isinstance(task, dict) and isinstance(task.get("id"), str) and isinstance(task.get("title"), str) for task in tasks
    )


def get_next_id(tasks: list[Task]) -> str:
    """Return the number after the highest id. Non-numeric ids from other programs are ignored."""
    numbers = (int(task["id"]) for task in tasks if re.fullmatch("[0-9]{1,18}", task["id"]))
    return str(max(numbers, default=0) + 1)


def delete_task_files(folder: str, conversations: list[tuple[str, int]]) -> None:
    """Remove the lists of deleted conversations, given as (UUID, id)."""
    for uuid, conversation_id in conversations:
        TaskFile(folder, uuid, conversation_id).forget()


def remove_if_exists(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path)


# Reads files that are attached to a message.


def read_attachment(path: Path) -> Attachment:
    """Read a file of the user. Raises BadAttachment if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise BadAttachment(f"{clean_name(str(path))!r} cannot be read: {error.strerror or error}.") from None
    if len(data) > SIZE_LIMIT:
        raise BadAttachment(f"{clean_name(str(path))!r} is too large: at most {SIZE_LIMIT:,} bytes are allowed.")
    return build_attachment(path.name, data, guess_type(path.name)[0] or "")
