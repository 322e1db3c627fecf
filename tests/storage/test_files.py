"""The record of files: versions are numbered without gaps, counted in the quota, listed in pages, and deleted with their owners."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from headway.actions.access import quotas
from headway.actions.history import files as file_history
from headway.actions.installation import pruning
from headway.actions.todos import conversations
from headway.ledger.errors import NotFound
from headway.ledger.file_versions import FileOrigin, FileSelection, WrittenFile, WrittenFiles, build_file_id, build_written
from headway.storage import logged_transaction
from headway.storage.direct import DirectDatabase
from headway.storage.stores import goals as goal_store
from headway.testing import FixedClock, TenantHarness
from tests.goal_plans import add_begun_goal
from tests.tenant_rows import read_tenant_rows


def write(desk: TenantHarness, path: str, content: bytes = b"x", **origin: Any) -> str:
    """Record a write as an agent's tool does, and return the file's id."""
    who = FileOrigin("write_file", "index")._replace(**origin)
    recorded = desk.write(file_history.record_files, "", WrittenFiles((build_written(path, content),)), who)
    return str(recorded["files"][0]["id"])


def list_paths(desk: TenantHarness, limit: int = 100, **filters: Any) -> list[str]:
    return [file.path for file in desk.read(file_history.list_files, FileSelection()._replace(**filters), limit).files]


def count_rows(desk: TenantHarness) -> dict[str, int]:
    rows = read_tenant_rows(desk)
    return {table: len(rows[table]) for table in ("files", "file_versions")}


def get_stored(desk: TenantHarness) -> tuple[int, int]:
    """Return the running count of stored bytes, and the number that the rows hold."""
    counted = desk.database.read(lambda tx: logged_transaction.count(tx, desk.tenant.id))
    return int(desk.read(quotas.describe_usage)["usage"]["storage"]), counted


def prune(desk: TenantHarness, before: int) -> int:
    position, deleted = None, 0
    while True:
        step = desk.write(pruning.PRUNES["files"], before, position)
        deleted += step.deleted
        if step.position is None:
            return deleted
        position = step.position


def test_processes_that_write_one_file_at_once_get_different_versions(database_url: str) -> None:
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database)
        paths = ("b.txt", "a.txt", "c.txt")

        def work(number: int) -> None:
            with DirectDatabase(database_url) as other:
                for n in range(5):
                    files = tuple(build_written(path, f"{number} {n}".encode()) for path in paths[:: 1 if number % 2 else -1])
                    origin = FileOrigin("write_file", run_id=str(number))
                    record = partial(file_history.record_files, tenant_id=desk.tenant.id, workspace="", written=WrittenFiles(files))
                    other.write(partial(record, origin=origin))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))

        for path in paths:
            history = desk.read(file_history.get_file, build_file_id(desk.tenant.id, "", path))
            assert [version.n for version in history.versions] == list(range(20, 0, -1))
        stored, counted = get_stored(desk)
        assert stored == counted


def test_a_list_has_pages_filters_and_a_search(desk: TenantHarness, clock: FixedClock) -> None:
    conversation = desk.conversation().id
    for path in ("a.txt", "docs/Guide.md", "docs/intro.md", "docs_old/x.md", "b.txt"):
        clock.advance(1)
        write(desk, path, conversation_id=conversation if path == "docs/intro.md" else 0)

    first = desk.read(file_history.list_files, FileSelection(), 2)
    second = desk.read(file_history.list_files, FileSelection(), 2, first.next_cursor)

    assert [file.path for file in (*first.files, *second.files)] == ["b.txt", "docs_old/x.md", "docs/intro.md", "docs/Guide.md"]
    assert list_paths(desk, path="docs") == list_paths(desk, path="docs/") == ["docs/intro.md", "docs/Guide.md"]
    assert list_paths(desk, query="GUIDE docs") == ["docs/Guide.md"]
    assert list_paths(desk, query="100%_") == list_paths(desk, path="docs/%") == []
    assert list_paths(desk, conversation_id=conversation) == ["docs/intro.md"]
    clock.advance(1)
    write(desk, "a.txt", b"newer")
    assert list_paths(desk)[0] == "a.txt"


def test_files_are_found_by_the_sub_goal_whose_agents_wrote_them(desk: TenantHarness) -> None:
    rival = TenantHarness(desk.database, "rival")
    goal, other = desk.write(add_begun_goal), desk.write(add_begun_goal)
    first, second = (sub_goal.id for sub_goal in desk.read(goal_store.list_sub_goals, goal.id))
    write(desk, "a.txt", goal_id=goal.id, sub_goal_id=first, run_id="1")
    write(desk, "b.txt", goal_id=goal.id, sub_goal_id=second, run_id="2")
    write(desk, "a.txt", b"newer", goal_id=goal.id, sub_goal_id=second, run_id="2")
    write(desk, "c.txt", goal_id=goal.id, run_id="3")

    assert list_paths(desk, sub_goal_id=first) == ["a.txt"]
    assert sorted(list_paths(desk, sub_goal_id=second, goal_id=goal.id)) == ["a.txt", "b.txt"]
    (file,) = desk.read(file_history.list_files, FileSelection(sub_goal_id=first), 10).files
    assert (file.version.n, file.latest) == (1, 2)  # the version that this sub-goal wrote
    with pytest.raises(NotFound, match=f"Goal #{other.id} has no sub-goal #{first}."):
        list_paths(desk, sub_goal_id=first, goal_id=other.id)
    with pytest.raises(NotFound, match=f"No sub-goal #{first}."):
        list_paths(rival, sub_goal_id=first)


def test_files_of_a_deleted_conversation_are_hidden_and_then_deleted(desk: TenantHarness, clock: FixedClock) -> None:
    doomed, kept = desk.conversation().id, desk.conversation().id
    file_id = write(desk, "shared.txt", b"kept", conversation_id=kept, run_id="1")
    write(desk, "shared.txt", b"doomed", conversation_id=doomed, run_id="2")
    write(desk, "own.txt", b"doomed", conversation_id=doomed)
    desk.write(conversations.remove_conversation, doomed)

    assert list_paths(desk) == ["shared.txt"]
    history = desk.read(file_history.get_file, file_id)
    assert ([version.n for version in history.versions], history.file.latest) == ([1], 1)
    with pytest.raises(NotFound, match="no version 2"):
        desk.read(file_history.get_content, file_id, 2)

    clock.advance(2 * 86_400)
    position = None
    while (step := desk.write(pruning.prune_deleted, clock.now, position)).position is not None:
        position = step.position

    assert count_rows(desk) == {"files": 1, "file_versions": 1}
    assert len(set(get_stored(desk))) == 1


def test_the_record_of_old_files_is_deleted_in_small_steps(desk: TenantHarness, clock: FixedClock) -> None:
    goal = desk.write(add_begun_goal)
    for n in range(3):
        write(desk, "old.txt", b"x" * 900_000 + b"%d" % n, run_id=str(n))
    clock.advance(86_400)
    before = clock.now
    write(desk, "new.txt", b"x", goal_id=goal.id)

    assert prune(desk, before) == 3
    assert (list_paths(desk), count_rows(desk)) == (["new.txt"], {"files": 1, "file_versions": 1})
    assert len(set(get_stored(desk))) == 1
    assert list_paths(desk, goal_id=goal.id) == ["new.txt"]


def test_two_versions_are_compared_unless_they_cannot_be(desk: TenantHarness) -> None:
    file_id = write(desk, "a.txt", b"one\ntwo\n", run_id="1")
    write(desk, "a.txt", b"one\n2\n", run_id="2")
    desk.write(file_history.record_files, "", WrittenFiles((WrittenFile("a.txt", "deleted"),)), FileOrigin("run_command"))
    write(desk, "a.txt", b"\xff", run_id="3")
    large = WrittenFile("a.txt", "changed", 9_000_000)
    desk.write(file_history.record_files, "", WrittenFiles((large,)), FileOrigin("run_command"))

    def compare(old: int | None, new: int | None) -> tuple[object, ...]:
        document = file_history.compare_file_versions(desk.read(file_history.load_pair, file_id, old, new))
        before = document["from"]["n"] if document["from"] else 0
        return before, document["to"]["n"], document["obstacle"], document["added"], document["deleted"]

    assert compare(None, 2) == (1, 2, None, 1, 1)
    assert compare(None, 1) == compare(0, 1) == (0, 1, None, 2, 0)
    assert compare(None, 3) == (2, 3, None, 0, 2)
    assert compare(1, 4) == (1, 4, "binary", None, None)
    assert compare(None, None) == (4, 5, "binary", None, None)
    write(desk, "long.txt", b"\n" * 100_001, run_id="1")
    long_pair = desk.read(file_history.load_pair, build_file_id(desk.tenant.id, "", "long.txt"), None, None)
    assert (
        file_history.compare_file_versions(long_pair)["obstacle"],
        file_history.compare_file_versions(long_pair)["is_equal"],
    ) == ("too_large", False)
    assert compare(2, None) == (2, 5, "not_kept", None, None)
    with pytest.raises(NotFound, match=r"was not kept\. At most 4\.8 MiB of a file are kept"):
        desk.read(file_history.get_content, file_id)
    with pytest.raises(NotFound, match="the file was deleted"):
        desk.read(file_history.get_content, file_id, 3)
