"""Rows about dispatch by an external engine: three Restate nodes announce the workers' jobs to them, through a load balancer."""

import signal
import time
from collections.abc import Callable
from functools import partial

from tests.cluster import workload
from tests.cluster.cluster import Cluster, Shape, build_url
from tests.cluster.faults import HOLD_S, Row, find_busiest
from tests.cluster.servers import Postgres, wait_for

RECOVERED = """
SELECT count(*) FROM jobs WHERE state <> 'queued' AND id IN (
    SELECT substr(subject, 5) FROM events WHERE kind = 'job_recovered')
"""
STARTED_EFFECTS = "SELECT 1 FROM effects WHERE state = 'started'"


def use_restate(cluster: Cluster) -> Postgres:
    """No fault: Restate decides which worker runs which job."""
    print(f"  a turn on the busy cluster began after {measure_start(cluster):.1f} s", flush=True)
    return cluster.primary


def kill_worker(cluster: Cluster) -> Postgres:
    worker = find_busiest(cluster)
    since = time.monotonic()
    worker.send(signal.SIGKILL)
    wait_for(lambda: cluster.primary.ask(RECOVERED)[0][0], "another worker runs its jobs")
    print(f"  another worker ran the first of its jobs after {time.monotonic() - since:.1f} s", flush=True)
    return cluster.primary


def freeze_worker(cluster: Cluster) -> Postgres:
    worker = find_busiest(cluster)
    worker.send(signal.SIGSTOP)
    time.sleep(HOLD_S)
    worker.send(signal.SIGCONT)
    return cluster.primary


def kill_inside_call(cluster: Cluster) -> Postgres:
    """The worker is killed after a tool has had its effect outside, and before its result is stored."""
    hold = cluster.home / workload.HOLD
    hold.touch()
    wait_for(lambda: cluster.primary.ask(STARTED_EFFECTS), "a worker is inside a call")
    time.sleep(2)  # the model's answers that are under way also lead to calls
    find_busiest(cluster).send(signal.SIGKILL)
    hold.unlink()
    return cluster.primary


def kill_node(number: int) -> Callable[[Cluster], Postgres]:
    def strike(cluster: Cluster) -> Postgres:
        cluster.restate.nodes[number].kill()
        print(f"  a turn on the other nodes began after {measure_start(cluster):.1f} s", flush=True)
        return cluster.primary

    return strike


def restart_all(cluster: Cluster, *, wipe: bool) -> Postgres:
    cluster.restate.kill()
    if wipe:
        cluster.restate.wipe()
    cluster.restate.start()
    print(f"  a turn began {measure_start(cluster):.1f} s after all nodes were ready again", flush=True)
    return cluster.primary


def measure_start(cluster: Cluster) -> float:
    """The seconds until a turn that is started now has had its first effect."""
    since = time.monotonic()
    workload.enqueue_extra(build_url(cluster.primary.address))
    wait_for(lambda: workload.EXTRA in workload.count_notes(cluster.home), "the turn begins")
    return time.monotonic() - since


RESTATE = Shape(restate=3)
DISPATCH = (
    Row("restate", "jobs are dispatched by three Restate nodes", use_restate, RESTATE, "restate"),
    Row("restate-kill", "Restate dispatches, and a worker is killed", kill_worker, RESTATE, "restate"),
    Row("restate-freeze", f"Restate dispatches, and a worker is frozen for {HOLD_S} s", freeze_worker, RESTATE, "restate"),
    Row("restate-call", "Restate dispatches, and a worker is killed inside a call of a tool", kill_inside_call, RESTATE, "restate"),
    *(
        Row(
            f"restate-node{number}",
            f"Restate dispatches, and its node {number} is killed",
            kill_node(number - 1),
            RESTATE,
            "restate",
        )
        for number in (1, 2, 3)
    ),
    Row(
        "restate-restart", "all nodes of Restate are killed and started again", partial(restart_all, wipe=False), RESTATE, "restate"
    ),
    Row("restate-wipe", "all nodes of Restate are killed and lose all data", partial(restart_all, wipe=True), RESTATE, "restate"),
)
