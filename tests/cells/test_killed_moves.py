"""A process that moves a tenant is killed or suspended before any of its statements. The move is continued or undone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.cells.moving import move_tenant, undo_move
from headway.ledger.errors import Conflict, NotFound
from headway.storage.transaction import Row
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells
from tests.cells.moving_process import Counted, MovePlan, MovingProcesses, run_moving_processes
from tests.proofs import Proof
from tests.tenant_rows import fill_tenant


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingProcesses]:
    with run_moving_processes(tmp_path_factory.mktemp("moves")) as processes:
        yield processes


class Traveler:
    """A tenant that is moved back and forth. Its rows never change."""

    def __init__(self, cells: Cells, home: Path) -> None:
        self.cells = cells
        self.home = home
        self.id = TenantHarness(cells.databases["a"]).tenant.id
        fill_tenant(cells.desk("a", "acme"))
        self.place, self.elsewhere = "a", "b"
        self.rows: dict[str, list[Row]] = cells.read_rows("a", self.id)
        self.times = cells.read_steady_times("a", self.id)

    def plan(self, number: int = 0) -> MovePlan:
        return MovePlan(self.cells.urls, str(self.home), self.place, self.elsewhere, "acme", number)

    def check_one_owner(self) -> None:
        """At most one cell accepts changes, whatever was interrupted."""
        writable = [name for name in ("a", "b") if self.cells.list_writable(name, self.id)]
        assert len(writable) <= 1, writable

    def complete(self) -> None:
        """Continue the move, and check that everything has arrived and nothing was left."""
        if self.find_unfinished() or not self.cells.count_rows(self.elsewhere, self.id):
            move_tenant(self.cells.route(self.place, self.elsewhere), "acme")
        self.place, self.elsewhere = self.elsewhere, self.place
        self.check_rows()

    def undo(self) -> bool:
        """Undo the move, and check that nothing has changed. Returns False if it can only be completed."""
        try:
            undo_move(self.cells.route(self.place, self.elsewhere), "acme")
        except NotFound:
            if self.cells.count_rows(self.elsewhere, self.id):
                return False  # it was complete
        except Conflict:
            return False
        self.check_rows()
        return True

    def find_unfinished(self) -> bool:
        found = self.cells.databases[self.place].read(
            lambda tx: tx.one("SELECT 1 FROM moves WHERE tenant = ? AND state IN ('fenced', 'departed')", self.id)
        )
        return found is not None

    def check_rows(self) -> None:
        assert self.cells.read_rows(self.place, self.id) == self.rows
        times = zip(self.cells.read_steady_times(self.place, self.id), self.times, strict=True)
        assert max(abs(time - before) for time, before in times) < 300_000  # the host may have adjusted its clock since
        assert self.cells.count_rows(self.elsewhere, self.id) == 0
        assert len(self.cells.list_writable(self.place, self.id)) == len(self.rows)


def list_points(processes: MovingProcesses, traveler: Traveler, only: Counted) -> list[int]:
    """Number the statements, or transactions, of a move: at the first number beyond, the process ends normally."""
    low, high = 1, 2
    while not ends_normally(processes, traveler, high, only):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if ends_normally(processes, traveler, middle, only):
            high = middle
        else:
            low = middle
    return list(range(1, high))


def ends_normally(processes: MovingProcesses, traveler: Traveler, number: int, only: Counted) -> bool:
    ended = processes.run(traveler.plan(number)._replace(only=only))
    traveler.complete()
    return ended


@pytest.mark.proof
def test_a_move_that_was_killed_is_continued_or_undone(
    cells: Cells, tmp_path: Path, processes: MovingProcesses, proof: Proof
) -> None:
    traveler = Traveler(cells, tmp_path)
    share = [91, 401, 690, 801]  # in the fence, in the copy, before the departure, while rows are deleted
    numbers = share if not proof.whole else list_points(processes, traveler, "statements")
    proof.tried("moves of a tenant, killed before a statement", len(numbers))

    for number in numbers:
        processes.run(traveler.plan(number))
        traveler.check_one_owner()
        if number % 2 and traveler.undo():
            continue
        traveler.complete()


@pytest.mark.proof
def test_a_suspended_move_changes_nothing_after_others_have_moved_on(
    cells: Cells, tmp_path: Path, processes: MovingProcesses, proof: Proof
) -> None:
    traveler = Traveler(cells, tmp_path)
    numbers = [31, 70] if not proof.whole else list_points(processes, traveler, "transactions")
    proof.tried("moves of a tenant, suspended before a transaction", len(numbers))

    for number in numbers:
        pid = processes.suspend(traveler.plan(number)._replace(only="transactions"))
        if pid is None:
            traveler.complete()
            continue
        if not (number % 2 and traveler.undo()):
            traveler.complete()
            traveler.complete()  # and back, so that the suspended process is about to touch a tenant that is at home
        assert processes.resume(pid) in (0, 1)
        settle(traveler)


def settle(traveler: Traveler) -> None:
    """The process that continued may have moved the tenant once more, if it had not begun. Nothing is lost in any case."""
    if traveler.cells.count_rows(traveler.elsewhere, traveler.id) or traveler.find_unfinished():
        traveler.complete()
    else:
        traveler.check_rows()
