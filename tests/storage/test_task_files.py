"""A conversation's task list is a file that survives concurrent processes, a kill at any moment, and edits by other programs."""

import json
import os
import resource
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headway.ledger.errors import DatabaseDamaged, Invalid
from headway.storage.home_files import TaskFile, delete_task_files, get_next_id
from tests.tables import each_row

CONVERSATION = "0c0ffee00000400080000000deadbeef"


@pytest.fixture
def file(tmp_path: Path) -> TaskFile:
    return TaskFile(str(tmp_path / "tasks"), CONVERSATION, 7)


def add(file: TaskFile, title: str = "look") -> None:
    file.change(lambda tasks: tasks.append({"id": get_next_id(tasks), "title": title, "description": "", "done": False}))


def put(file: TaskFile, content: str | bytes) -> Path:
    path = Path(file.path)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_list_that_is_not_there_is_empty_and_reading_creates_nothing(file: TaskFile, tmp_path: Path) -> None:
    assert file.read() == []
    assert list_files(tmp_path) == []


def test_the_file_is_made_by_the_first_write_named_by_the_conversation_and_holds_one_document(
    file: TaskFile, tmp_path: Path
) -> None:
    add(file)

    path = tmp_path / "tasks" / f"{CONVERSATION}.json"
    assert json.loads(path.read_bytes()) == {"tasks": [{"id": "1", "title": "look", "description": "", "done": False}]}
    assert path.stat().st_mode & 0o077 == 0, "others on the machine cannot read it"


@each_row("name", [CONVERSATION.upper(), f"{CONVERSATION[:8]}-{CONVERSATION[8:]}"])
def test_every_spelling_of_a_uuid_names_the_same_file(file: TaskFile, name: str) -> None:
    assert TaskFile(file.folder, name, 7).path == file.path


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", f"../{CONVERSATION[3:]}", f"{CONVERSATION}/", f"{CONVERSATION}\0", "x" * 32, "١" * 32]
)
def test_nothing_but_a_uuid_names_a_file(tmp_path: Path, name: str) -> None:
    file = TaskFile(str(tmp_path / "tasks"), name, 7)
    with pytest.raises(Invalid, match="UUID"):
        file.read()
    with pytest.raises(Invalid, match="UUID"):
        add(file)
    assert [path for path in list_files(tmp_path) if not path.startswith("tasks")] == []


def test_unknown_fields_in_the_document_survive_a_rewrite(file: TaskFile) -> None:
    document = {
        "tasks": [{"id": "a", "title": "look", "due": {"at": [1, 2.5, None]}, "done": True, "emoji": "🦉"}],
        "session": "ünïcode",
        "created-at": 1,
    }
    path = put(file, json.dumps(document))
    add(file, "build")

    assert json.loads(path.read_bytes()) == document | {
        "tasks": [*document["tasks"], {"id": "1", "title": "build", "description": "", "done": False}]  # type: ignore[misc]
    }


@each_row(
    ("taken", "following"),
    [([], "1"), (["1", "2"], "3"), (["7"], "8"), (["2", "x", "٣", "-4", "1.5", ""], "3"), (["9" * 5_000], "1"), (["0"], "1")],
)
def test_a_new_id_is_the_number_after_the_highest(taken: list[str], following: str) -> None:
    assert get_next_id([{"id": task_id, "title": ""} for task_id in taken]) == following


DAMAGED = {
    "nothing": b"",
    "half a document": b'{"tasks": [{"id": "1", "title": "lo',
    "not JSON": b"tasks: []",
    "not UTF-8": b'{"tasks": [], "name": "\xff"}',
    "a list": b"[]",
    "no tasks": b"{}",
    "tasks that are no list": b'{"tasks": {"1": "look"}}',
    "a task that is no object": b'{"tasks": ["look"]}',
    "a task without an id": b'{"tasks": [{"title": "look"}]}',
    "a task without a title": b'{"tasks": [{"id": "1"}]}',
    "an id that is a number": b'{"tasks": [{"id": 1, "title": "look"}]}',
    "half a pair of surrogates": rb'{"tasks": [{"id": "1", "title": "\ud800"}]}',
    "half a pair somewhere else": rb'{"tasks": [], "theirs": {"\udc00": 1}}',
    "deeper than anybody can read": b'{"tasks": [], "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "zeros, as after a power cut": b"\0" * 4096,
}


@each_row("content", DAMAGED.values())
def test_a_damaged_file_is_reported_and_left_untouched(file: TaskFile, content: bytes) -> None:
    path = put(file, content)
    with pytest.raises(DatabaseDamaged):
        file.read()
    with pytest.raises(DatabaseDamaged):
        add(file)

    assert path.read_bytes() == content


def test_a_byte_order_mark_is_no_damage(file: TaskFile) -> None:
    """002: "File exists but is invalid JSON / corrupted", which a document with a byte order mark is not."""
    path = put(file, b'\xef\xbb\xbf{"tasks": [{"id": "1", "title": "look"}]}')
    assert [task["title"] for task in file.read()] == ["look"]
    add(file, "build")

    assert [task["title"] for task in json.loads(path.read_bytes())["tasks"]] == ["look", "build"]


# The second name: <conversation id>.json


def titles(path: str) -> list[str]:
    return [task["title"] for task in json.loads(Path(path).read_bytes())["tasks"]]


def test_the_list_can_be_read_and_written_under_the_conversations_id(file: TaskFile) -> None:
    """002: "Read `.agents/tasks/<conversationId>.json` for the current conversation"."""
    add(file)
    assert titles(file.alias) == ["look"]

    Path(file.alias).write_text('{"tasks": [{"id": "1", "title": "theirs"}]}')
    assert [task["title"] for task in file.read()] == ["theirs"]
    assert Path(file.alias).is_symlink()


def test_a_file_under_the_conversations_id_becomes_the_list(file: TaskFile) -> None:
    """002: "Read `.agents/tasks/<conversationId>.json` for the current conversation"."""
    Path(file.folder).mkdir()
    Path(file.alias).write_text('{"tasks": [{"id": "1", "title": "brought along"}], "session": "old"}')
    assert [task["title"] for task in file.read()] == ["brought along"]
    assert os.listdir(file.folder) == ["7.json"], "reading changes nothing"

    add(file)
    assert titles(file.path) == titles(file.alias) == ["brought along", "look"]
    assert json.loads(Path(file.path).read_bytes())["session"] == "old"


def test_an_editor_that_replaces_the_link_by_a_file_has_changed_the_list(file: TaskFile) -> None:
    add(file)
    Path(file.folder, "edited").write_text('{"tasks": [{"id": "1", "title": "edited"}]}')
    os.replace(Path(file.folder, "edited"), file.alias)
    assert [task["title"] for task in file.read()] == ["edited"]

    add(file, "build")
    assert titles(file.path) == titles(file.alias) == ["edited", "build"]
    assert Path(file.alias).is_symlink()


def test_a_damaged_file_under_the_conversations_id_replaces_nothing(file: TaskFile) -> None:
    add(file)
    os.remove(file.alias)
    Path(file.alias).write_text("{")
    with pytest.raises(DatabaseDamaged):
        file.read()
    with pytest.raises(DatabaseDamaged):
        add(file)

    assert (Path(file.alias).read_text(), titles(file.path)) == ("{", ["look"])


def test_a_link_to_anothers_list_is_not_followed(file: TaskFile) -> None:
    other = TaskFile(file.folder, uuid4().hex, 8)
    add(other, "a secret")
    os.symlink(os.path.basename(other.path), file.alias)
    assert file.read() == []

    add(file)
    assert titles(file.alias) == ["look"]
    assert titles(other.path) == ["a secret"]


def test_a_list_is_stored_even_if_its_link_cannot_be_created(file: TaskFile) -> None:
    Path(file.alias).mkdir(parents=True)
    add(file)

    assert [task["title"] for task in file.read()] == ["look"]


def test_work_that_raises_changes_nothing(file: TaskFile) -> None:
    add(file)
    before = Path(file.path).read_bytes()

    def fail(tasks: list[dict[str, Any]]) -> None:
        tasks.clear()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        file.change(fail)
    assert Path(file.path).read_bytes() == before


def test_a_change_that_changes_nothing_does_not_write(file: TaskFile) -> None:
    path = put(file, '{"tasks":   [ ]}')
    file.change(lambda tasks: tasks.sort(key=str))

    assert path.read_text() == '{"tasks":   [ ]}'


def test_a_folder_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("a file where a folder should be")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        add(TaskFile(str(tmp_path / "tasks"), CONVERSATION, 7))


def test_a_killed_writers_temporary_file_is_removed_by_the_next_lock_holder(file: TaskFile) -> None:
    add(file)
    leftover = Path(file.folder) / ".locks" / f"{CONVERSATION[:2]}.tmp"
    leftover.write_text('{"tasks": [{"id": "666"')
    add(file, "build")
    assert [task["title"] for task in file.read()] == ["look", "build"]
    assert not leftover.exists()

    leftover.write_text('{"tasks": [{"id": "666"')
    TaskFile(file.folder, CONVERSATION[:2] + uuid4().hex[2:], 8).change(lambda _tasks: None)
    assert list_files(Path(file.folder)) == [".locks", f".locks/{CONVERSATION[:2]}", f"{CONVERSATION}.json", "7.json"]


def test_forgetting_a_conversation_removes_leftovers_of_killed_writers(file: TaskFile) -> None:
    add(file)
    (Path(file.folder) / ".locks" / f"{CONVERSATION[:2]}.tmp").write_text("a secret")
    delete_task_files(file.folder, [(CONVERSATION, 7), (uuid4().hex, 8)])

    assert list_files(Path(file.folder)) == [".locks", f".locks/{CONVERSATION[:2]}"]


def test_a_disk_that_fills_up_keeps_the_list_and_is_not_filled_by_half_of_it(file: TaskFile) -> None:
    add(file)
    before = list_files(Path(file.folder))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            add(file, "x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    assert [task["title"] for task in file.read()] == ["look"]
    assert list_files(Path(file.folder)) == before


def test_locks_do_not_pile_up_however_many_conversations_there_are(tmp_path: Path) -> None:
    for number in range(300):
        TaskFile(str(tmp_path), uuid4().hex, number).change(lambda _tasks: None)

    assert len(os.listdir(tmp_path / ".locks")) <= 256
