"""Rows about cells: a tenant moves between two servers while its agents work, and processes are killed."""

import os
import random
import signal
import subprocess
import sys
import time

from tests.cluster import workload
from tests.cluster.cluster import WORKERS, Cluster, Shape, build_url
from tests.cluster.faults import Row
from tests.cluster.operations import run_command
from tests.cluster.servers import Postgres

NAMES = ("one", "two")
MOVES = 4
MORE_EFFECTS = 6  # between two moves


def prepare_cells(cluster: Cluster) -> list[str]:
    """Make both servers cells, with workers of each. Returns the URLs of both."""
    urls = [build_url(server.address) for server in (cluster.primary, cluster.standby)]
    for name, url in zip(NAMES, urls, strict=True):
        run_command(cluster, urls[0], "cell", "add", name, "--url", url)
    for name in WORKERS:
        cluster.start_worker(name, url=urls[1]).wait_until_ready()
    return urls


def start_move(cluster: Cluster, url: str, target: str) -> "subprocess.Popen[bytes]":
    env = {**os.environ, "HEADWAY_HOME": str(cluster.home), "HEADWAY_DATABASE_URL": url}
    command = [sys.executable, "-m", "headway", "tenant", "move", "acme", "--to", target]
    return subprocess.Popen(command, env=env, cwd=cluster.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def move_back_and_forth(cluster: Cluster, *, kills: bool) -> Postgres:
    """Move the tenant several times while it works. With `kills`, each move is killed and continued, and workers are killed."""
    urls = prepare_cells(cluster)
    chance = random.Random(17)
    for number in range(MOVES):
        target = NAMES[(number + 1) % 2]
        if kills:
            mover = start_move(cluster, urls[0], target)
            time.sleep(chance.uniform(0.8, 3.0))
            mover.kill()
            mover.wait()
            worker = cluster.workers.pop(list(cluster.workers)[number])
            worker.send(signal.SIGKILL)
            worker.end()
            place = urls[number % 2]
            cluster.start_worker(WORKERS[number % len(WORKERS)], url=place).wait_until_ready()
        run_command(cluster, urls[0], "tenant", "move", "acme", "--to", target)
        if number < MOVES - 1:
            wanted = min(len(workload.read_notes(cluster.home)) + MORE_EFFECTS, len(workload.list_expected()) - 1)
            cluster.wait_for_effects(wanted)
    return cluster.primary


def move(cluster: Cluster) -> Postgres:
    return move_back_and_forth(cluster, kills=False)


def move_with_kills(cluster: Cluster) -> Postgres:
    return move_back_and_forth(cluster, kills=True)


TWO_SERVERS = Shape(second=True)
MOVING_ROWS = (
    Row("move", f"the tenant is moved {MOVES} times between two servers", move, TWO_SERVERS),
    Row("move-kill", "the same, and each time the move and a worker are killed", move_with_kills, TWO_SERVERS),
)
