"""Simulated power losses under a SQLite ledger. Runs in a separate process, because it replaces SQLite's default VFS.

Each session of work is recorded once, and the power fails at many points of it. `python power_trials.py FOLDER SYNCHRONOUS FIRST
LAST` tries the seeds from FIRST up to but not including LAST, and prints the result of each.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import apsw

from headway.actions.todos import todos
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.sqlite_connection import SqliteConnection
from headway.storage.transaction import Work
from headway.testing import FixedClock, TenantHarness
from tests.random_walk import RandomWalk, list_contradictions
from tests.torture.recording_disk import Acknowledged, Operation, RecordingDisk, SimulatedDisk

LEDGER = "headway.db"
CUTS = 100  # power losses per recorded session
TRANSACTIONS = 8  # between opening the ledger and closing it
CHECKPOINTS = (apsw.SQLITE_CHECKPOINT_RESTART, apsw.SQLITE_CHECKPOINT_TRUNCATE)

T = TypeVar("T")


class Recording(NamedTuple):
    """The disk operations of a session, and the state of the ledger at each acknowledgement."""

    before: dict[str, bytes]
    operations: list[Operation]
    states: list[str]


class Recorder:
    def __init__(self, folder: Path, synchronous: str) -> None:
        self.disk = RecordingDisk()
        self.folder = folder
        self.synchronous = synchronous
        self.template = folder / "template.db"
        DirectDatabase(f"sqlite:///{self.template}", FixedClock()).close()

    def record_session(self, seed: int) -> Recording:
        folder = empty_folder(self.folder / "life")
        before = {LEDGER: self.template.read_bytes()} if seed % 4 else {}  # every fourth session starts without a file
        restore(folder, before)
        self.disk.operations.clear()
        apsw.set_default_vfs("recording")
        try:
            self.work(f"sqlite:///{folder / LEDGER}", seed)
        finally:
            apsw.set_default_vfs("unix")
        operations = list(self.disk.operations)
        return Recording(before, operations, [operation.state for operation in operations if isinstance(operation, Acknowledged)])

    def work(self, url: str, seed: int) -> None:
        chance = Random(seed)
        walk: RandomWalk | None = None
        for _ in range(3):  # the last connection to close a ledger ends its write-ahead log
            with AcknowledgingDatabase(url, self.disk.operations) as database:
                raw = database.connection.raw
                raw.execute(f"PRAGMA synchronous={self.synchronous}")
                raw.wal_autocheckpoint(chance.choice((1000, 40, 8)))  # pages; a small number restarts the log often
                walk = walk or RandomWalk(TenantHarness(database), seed)
                for _ in range(TRANSACTIONS):
                    write(database, walk, chance)
                    if chance.random() < 0.1:
                        raw.wal_checkpoint(mode=chance.choice(CHECKPOINTS))


class AcknowledgingDatabase(DirectDatabase):
    """Records every acknowledgement, with a digest of the ledger at that point."""

    connection: SqliteConnection

    def __init__(self, url: str, operations: list[Operation]) -> None:
        super().__init__(url, FixedClock())
        self.operations = operations
        self.acknowledge()

    def __enter__(self) -> "AcknowledgingDatabase":
        return self

    def write(self, work: Work[T]) -> T:
        value = super().write(work)
        self.acknowledge()
        return value

    def write_group(self, works: list[Work[None]]) -> None:
        """Write a group of transactions with one commit, as a server's writer does."""
        outcomes = self.connection.write_group(works)
        assert not any(outcome.error for outcome in outcomes), outcomes
        self.acknowledge()

    def acknowledge(self) -> None:
        self.operations.append(Acknowledged(dump_rows(self.connection.raw)))


def write(database: AcknowledgingDatabase, walk: RandomWalk, chance: Random) -> None:
    kind = chance.random()
    if kind < 0.6:
        database.write(walk.steps)
    elif kind < 0.8:
        database.write_group([walk.steps] * 3)
    else:
        size = chance.choice((5_000, 60_000, 190_000))
        database.write(lambda tx: todos.add_todo(tx, walk.tenant_id, Draft("large", description="x" * size)))


def dump_rows(raw: apsw.Connection) -> str:
    """A digest of every row of every table."""
    digest = sha256()
    for (table,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall():
        digest.update(repr((table, raw.execute(f"SELECT * FROM {table}").fetchall())).encode())
    return digest.hexdigest()


def replay_power_losses(session: Recording, seeds: list[int], folder: Path) -> Iterator[tuple[int, str]]:
    """Replay the session up to a random point per seed, lose the power there, and judge the files that remain."""
    generators = [Random(seed) for seed in seeds]
    moments = sorted((rng.randrange(len(session.operations) + 1), seed, rng) for rng, seed in zip(generators, seeds, strict=True))
    disk = SimulatedDisk(session.before)
    done = 0
    for moment, seed, rng in moments:
        for operation in session.operations[done:moment]:
            disk.apply_operation(operation)
        done = moment
        restore(empty_folder(folder), disk.after_power_loss(rng))
        yield seed, judge_files(folder, session.states, disk.acknowledged)


def judge_files(folder: Path, states: list[str], acknowledged: int) -> str:
    """`held` if the state is intact, and is the last acknowledged one or that of the transaction then in progress."""
    try:
        with DirectDatabase(f"sqlite:///{folder / LEDGER}", FixedClock()) as database:
            assert isinstance(database.connection, SqliteConnection)
            raw = database.connection.raw
            state = dump_rows(raw)
            wrong: list[object] = [*raw.execute("PRAGMA integrity_check"), *raw.execute("PRAGMA foreign_key_check")]
            tenants = [int(str(row[0])) for row in raw.execute("SELECT id FROM tenants").fetchall()]
            wrong += [contradiction for tenant in tenants for contradiction in list_contradictions_of(database, tenant)]
            TenantHarness(database, "with power again").add()
    except Exception as error:  # noqa: BLE001  any error means unreadable rows
        return f"torn: {error!r}"
    if wrong != [("ok",)]:
        return f"torn: {wrong}"
    if state not in states:
        return "torn: nobody ever saw the ledger like this"
    return "held" if state in states[max(0, acknowledged - 1) : acknowledged + 1] else "lost"


def list_contradictions_of(database: DirectDatabase, tenant_id: int) -> list[str]:
    return database.read(lambda tx: list_contradictions(tx, tenant_id))


def empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def restore(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def main(folder: Path, synchronous: str, first: int, last: int) -> None:
    recorder = Recorder(folder, synchronous)
    for session_seed, seeds in groupby(range(first, last), key=lambda seed: seed // CUTS):
        for seed, result in replay_power_losses(recorder.record_session(session_seed), list(seeds), folder / "after"):
            print(json.dumps([seed, result]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
