"""Eight processes claim from one list, and some freeze while they hold a claim: no todo is held twice, and a worker that wakes up
after its lease changes nothing."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from subprocess import PIPE, Popen

import pytest

from headway.actions.todos import claims, todos
from headway.ledger.todo import Draft
from headway.storage.clocks import wall_clock
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.proofs import Proof
from tests.warm_start import build_command

PROCESSES = 8

CLAIM_EVERYTHING = """
import sys
from headway.actions.todos import claims
from headway.storage.clocks import wall_clock
from headway.storage.direct import DirectDatabase

url, tenant_id, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with DirectDatabase(url) as database:
    print("ready", flush=True)
    input()
    for _ in range(most):
        if claimed := database.write(lambda tx: claims.claim(tx, tenant_id, "worker")):
            print(claimed.todo.id)
"""

# Claims a todo, is frozen there, and ends the todo after it wakes up.
WORK_LATE = """
import sys
from headway.actions.todos import claims, todos
from headway.ledger.errors import HeadwayError
from headway.storage.clocks import wall_clock
from headway.storage.direct import DirectDatabase

url, tenant_id = sys.argv[1], int(sys.argv[2])
with DirectDatabase(url) as database:
    while sys.stdin.readline():
        claimed = database.write(lambda tx: claims.claim(tx, tenant_id, "late"))
        print(claimed.todo.id, flush=True)
        sys.stdin.readline()
        try:
            database.write(lambda tx: todos.end_todo(tx, tenant_id, claimed.todo.id, "completed", "late", claimed.lease.token))
            print("done", flush=True)
        except HeadwayError as error:
            print(error.code, flush=True)
"""


@pytest.mark.proof
def test_eight_processes_claiming_from_one_list_never_get_the_same_todo(
    database_url: str, desk: TenantHarness, at_once: Callable[..., list[str]], proof: Proof
) -> None:
    trials = proof.trials("claims: 8 processes work off one list of 2,000", share=200, whole=2_000)
    added = [todo.id for _ in range(4) for todo in desk.write(todos.add_many, [Draft("one of many")] * (trials // 4))]
    most = trials // 4  # so that no process gets everything, however late the others start
    printed = at_once(CLAIM_EVERYTHING, database_url, str(desk.tenant.id), str(most), processes=PROCESSES)
    claimed = [[int(line) for line in output.splitlines()] for output in printed]

    assert sorted(chain(*claimed)) == added
    assert all(ids == sorted(ids) for ids in claimed), "work is handed out in its order"
    assert desk.count("leases") == trials


class LateWorker:
    def __init__(self, process: "Popen[str]") -> None:
        self.process = process

    def claim_and_freeze(self) -> int:
        """Claim, freeze, and return the id of the claimed todo."""
        todo_id = int(self.exchange())
        self.process.send_signal(signal.SIGSTOP)
        return todo_id

    def wake_up(self) -> str:
        """Wake up, and return the result of the late write."""
        self.process.send_signal(signal.SIGCONT)
        return self.exchange()

    def exchange(self, line: str = "\n") -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def late_workers(url: str, tenant_id: int) -> Iterator[list[LateWorker]]:
    with ExitStack() as stack:
        command = build_command("-c", WORK_LATE, url, str(tenant_id))
        processes = [stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True)) for _ in range(PROCESSES)]
        for process in processes:
            stack.callback(process.kill)
        yield [LateWorker(process) for process in processes]


def later() -> int:
    """A clock that is ahead of every lease, so that no test has to wait for one to expire."""
    return wall_clock() + 3600 * 1000


@pytest.mark.proof
def test_a_worker_frozen_past_its_lease_is_refused_when_it_wakes_up(database_url: str, proof: Proof) -> None:
    trials = proof.trials("claims: an owner is frozen past its lease, replaced, and woken up", share=PROCESSES, whole=200)
    with DirectDatabase(database_url, later) as database:
        desk = TenantHarness(database)
        with late_workers(database_url, desk.tenant.id) as workers:
            for _ in range(trials // PROCESSES):
                desk.write(todos.add_many, [Draft("work")] * PROCESSES)
                frozen = [worker.claim_and_freeze() for worker in workers]
                taken = [claim for _ in frozen if (claim := desk.write(claims.claim, "in time"))]
                assert sorted(claim.todo.id for claim in taken) == sorted(set(frozen)), "each was frozen with one of its own"
                for claim in taken[::2]:  # the other half is still in progress
                    desk.write(todos.end_todo, claim.todo.id, "completed", "in time", claim.lease.token)
                before = [desk.get(claim.todo) for claim in taken]

                refused = dict(zip(frozen, [worker.wake_up() for worker in workers], strict=True))
                assert refused == {todo.id: "already_ended" if todo.ended else "lease_lost" for todo in before}
                assert [desk.get(claim.todo) for claim in taken] == before
                for claim in taken[1::2]:
                    desk.write(todos.end_todo, claim.todo.id, "completed", "in time", claim.lease.token)
