"""A conversation's task list as a file: one JSON document each, safe for many processes and for a kill at any moment.

A lock across processes makes read-modify-write one step, and the new document replaces the old one in one move, so a
reader sees the old list or the new one, whole. Fields that others added to the document stay in it.

The document is named by the conversation's UUID. Beside it stands a link named by the conversation's id, for programs that look
for `<conversation id>.json`. A file that somebody put in the link's place becomes the list. Links are never followed from here:
after a database was replaced by another one, an old link leads to a list that is not this conversation's.
"""

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from headway.ledger.errors import DatabaseDamaged, Invalid

T = TypeVar("T")
Task = dict[str, Any]

TASKS_LIMIT = 1_000


class TaskFile(NamedTuple):
    """The list of one conversation, named by our own UUID and number of it: a caller's key never becomes a path."""

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
            raise Invalid("A task file is named by a conversation's UUID.")
        return name

    def read(self) -> list[Task]:
        """The tasks; a file that is not there yet is an empty list. Needs no lock: a document is replaced as a whole."""
        return list(self._load()["tasks"])

    def change(self, work: Callable[[list[Task]], T]) -> T:
        """Let `work` change the list in place. If it raises, nothing is written."""
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
        """Remove the list, and what a killed writer left of it."""
        if any(map(os.path.lexists, (self._lock, self.path, self.alias))):  # or there never was one
            with self._locked():
                remove_if_exists(self.path)
                remove_if_exists(self.alias)

    def _load(self) -> dict[str, Any]:
        """What was put in the link's place counts. It may be adopted while it is read; then it is found under our own name."""
        return load_document(self.alias, self.path) if is_plain_file(self.alias) else load_document(self.path)

    def _adopt(self) -> None:
        if is_plain_file(self.alias):
            os.replace(self.alias, self.path)

    def _link(self) -> None:
        target = os.path.basename(self.path)
        with suppress(OSError):  # a filesystem without links has no second name for the list
            if not os.path.islink(self.alias) or os.readlink(self.alias) != target:
                os.symlink(target, self._scratch)
                os.replace(self._scratch, self.alias)

    @property
    def _lock(self) -> str:
        # Locks live beside the documents and stay: a lock file that came and went could be held by two at once.
        # Conversations share 256 of them, so that they do not pile up.
        return os.path.join(self.folder, ".locks", self.checked_name[:2])

    @property
    def _scratch(self) -> str:
        # One per lock, written only by who holds it. So what a killed writer left is nobody's, and there are never many.
        return f"{self._lock}.tmp"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(os.path.dirname(self._lock), mode=0o700, exist_ok=True)
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            remove_if_exists(self._scratch)  # a killed writer's
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
            remove_if_exists(self._scratch)  # on a full disk half a list would be in the way of everything else
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
    """The first of these documents that exists, else an empty list. Some editors begin a file with a byte order mark."""
    try:
        with open(path, encoding="utf-8-sig") as source:
            document = json.load(source)
        json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair can be read, and never be written again
    except FileNotFoundError:
        return load_document(*others) if others else {"tasks": []}
    except (ValueError, RecursionError) as error:
        raise DatabaseDamaged(f"{path} is not valid JSON: {error}") from error
    if not is_task_list(document):
        raise DatabaseDamaged(f"{path} does not hold a task list.")
    return document  # type: ignore[no-any-return]


def is_task_list(document: Any) -> bool:
    tasks = document.get("tasks") if isinstance(document, dict) else None
    return isinstance(tasks, list) and all(
        isinstance(task, dict) and isinstance(task.get("id"), str) and isinstance(task.get("title"), str) for task in tasks
    )


def get_next_id(tasks: list[Task]) -> str:
    """The number after the highest; ids that others gave and that are no numbers of ours do not count."""
    numbers = (int(task["id"]) for task in tasks if re.fullmatch("[0-9]{1,18}", task["id"]))
    return str(max(numbers, default=0) + 1)


def delete_task_files(folder: str, conversations: list[tuple[str, int]]) -> None:
    """Remove the lists of conversations (UUID, id) that are no more. Few keep one."""
    for uuid, conversation_id in conversations:
        TaskFile(folder, uuid, conversation_id).forget()


def remove_if_exists(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path)
