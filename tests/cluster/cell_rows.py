"""Rows about cells: tenants are moved while they work, and processes and servers are killed meanwhile."""

import signal
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.cluster.cell_cluster import TENANTS, CellCluster, open_cell_cluster
from tests.cluster.cluster import Outcome
from tests.cluster.faults import HOLD_S
from tests.cluster.network import Network

ROUNDS = 6  # two for each tenant
UNDONE = 1 / 3  # the share of interrupted moves that are undone, if that is possible

Mover = subprocess.Popen[bytes]
Strike = Callable[[CellCluster, Mover, str, str], None]
"""Disturbs a move that is under way; with the names of the cells from and to which it leads."""


class CellRow(NamedTuple):
    key: str
    title: str
    act: Callable[[CellCluster], None]
    cells: int = 2
    needs: str = ""

    def run(self, network: Network) -> Outcome:
        with open_cell_cluster(network, self.cells) as cluster:
            self.act(cluster)
            outcome = cluster.finish()
            print(f"  {', '.join(f'{count} {what}' for what, count in sorted(cluster.notes.items()))}", flush=True)
            return outcome


def move_all(cluster: CellCluster) -> None:
    for number in range(ROUNDS):
        tenant = TENANTS[number % len(TENANTS)]
        _, target = cluster.choose_target(tenant)
        cluster.complete(tenant, target)


def disturb(*strikes: Strike, rounds: int = ROUNDS) -> Callable[[CellCluster], None]:
    """Begin moves, disturb each at a random moment, in one of the given ways, and then continue it or undo it."""

    def act(cluster: CellCluster) -> None:
        for number in range(rounds):
            tenant = TENANTS[number % len(TENANTS)]
            place, target = cluster.choose_target(tenant)
            mover = cluster.start_move(tenant, target)
            time.sleep(cluster.chance.uniform(0.5, 1.8))
            strikes[number % len(strikes)](cluster, mover, place, target)
            mover.wait()
            if cluster.chance.random() < UNDONE and cluster.undo(tenant):
                cluster.notes["moves undone"] += 1
            else:
                cluster.complete(tenant, target)

    return act


def kill(cluster: CellCluster, mover: Mover, place: str, target: str) -> None:
    """Kill the process that moves the tenant, and one of the processes of both cells."""
    if mover.poll() is None:
        mover.kill()
        cluster.notes["movers killed"] += 1
    host = cluster.cells[cluster.chance.choice([place, target])]
    cluster.kill_process(host, cluster.chance.choice(["worker", "server"]))


def restart(cluster: CellCluster, mover: Mover, place: str, target: str) -> None:
    """Restart the server of one of the two cells. The mover is left alone: it fails, or waits."""
    server = cluster.cells[cluster.chance.choice([place, target])].server
    server.stop(cluster.chance.choice(["fast", "immediate"]))
    server.start()
    cluster.notes["servers restarted"] += 1
    cluster.notes["of them during a move"] += mover.poll() is None or mover.returncode != 0


def compete(cluster: CellCluster, mover: Mover, place: str, target: str) -> None:
    """Freeze the process that moves the tenant, let another one do the same, and let the first continue."""
    del place
    assert isinstance(mover.args, list)
    tenant = str(mover.args[5])
    is_overtaken = mover.poll() is None
    mover.send_signal(signal.SIGSTOP)
    cluster.complete(tenant, target)
    cluster.moves[tenant] -= 1  # it is counted when the first process has ended
    mover.send_signal(signal.SIGCONT)
    cluster.notes["movers overtaken"] += is_overtaken


def cut_off(cluster: CellCluster, mover: Mover, place: str, target: str) -> None:
    """Drop all packets from and to the server of the target, or the source."""
    name = cluster.cells[cluster.chance.choice([place, target])].server.node.name
    cluster.network.cut(name)
    time.sleep(HOLD_S)
    cluster.network.reconnect(name)
    cluster.notes["servers cut off"] += 1
    cluster.notes["of them during a move"] += mover.poll() is None or mover.returncode != 0


def take_down(cluster: CellCluster) -> None:
    """Stop the server of the third cell, while a tenant is on its way to it. The other cells continue, and exchange tenants."""
    down = cluster.cells["three"]
    traveler, neighbor, stranded = TENANTS  # they are in the cells one, two and three
    mover = cluster.start_move(traveler, down.name)
    time.sleep(1.5)
    down.server.stop("immediate")
    before = {tenant: len(cluster.loads[tenant].stored) for tenant in TENANTS}
    cluster.complete(neighbor, "one")
    time.sleep(HOLD_S)
    place = cluster.find_place(traveler)
    if place != down.name:
        cluster.undo(traveler)  # it cannot reach the target, so the tenant waits
    if len(cluster.loads[neighbor].stored) <= before[neighbor] + 5:
        cluster.faults.append(f"{neighbor} has stored nothing while another cell was down")
    down.server.start()
    mover.wait()
    cluster.complete(traveler, down.name)
    cluster.complete(stranded, "two")


CELL_ROWS = (
    CellRow("cells-move", f"two cells, {ROUNDS} moves of three tenants", move_all),
    CellRow("cells-kill", "the same; each time the mover and a worker or server are killed", disturb(kill)),
    CellRow("cells-restart", "the same; each time the Postgres of one of both cells restarts", disturb(restart)),
    CellRow(
        "cells-cut", f"the same; the Postgres of a cell is cut off for {HOLD_S} s", disturb(cut_off, rounds=3), needs="namespaces"
    ),
    CellRow(
        "cells-three",
        "three cells, all of that, and movers that are overtaken by others",
        disturb(kill, compete, restart, kill, rounds=12),
        3,
    ),
    CellRow("cells-down", f"one of three cells is down for {HOLD_S} s, with a tenant on its way to it", take_down, 3),
)
