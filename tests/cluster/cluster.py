"""One cluster: servers, perhaps a pooler, three workers and their work. Every row of the table has a new one."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.cluster import workload
from tests.cluster.balancer import run_balancer
from tests.cluster.network import Network
from tests.cluster.servers import DATABASE, ROLE, Pooler, Postgres, make_folder, wait_for
from tests.cluster.workers import Worker
from tests.free_ports import find_ports
from tests.model_server import ModelServer, environment
from tests.restate.nodes import Machine, RestateCluster

WORKERS = ("w1", "w2", "w3")
WORKER_PORTS = {"w1": 9081, "w2": 9082, "w3": 9083}  # for deliveries from Restate
BALANCER_PORT, RESTATE_PORT = 9080, 8080
STRIKE_AFTER = 12  # effects
PATIENCE_S = 150  # after the end of a fault


class Shape(NamedTuple):
    """What a cluster consists of."""

    standby: bool = False
    synchronous: bool = False
    pooler: bool = False
    direct: bool = True  # whether the workers know the server's own address, beside the pooler's
    fake_clock: bool = False
    disk_mb: int = 0  # the size of the first server's disk; 0: that of this machine
    standby_first: bool = False  # in the URL
    backup: bool = False  # whether a base backup is made before the work begins
    restate: int = 0  # the number of Restate nodes that dispatch the jobs
    settings: str = ""


class Outcome(NamedTuple):
    """What was found at the end."""

    lost: Sequence[str]
    doubled: Sequence[str]
    unknown: Sequence[str]
    unfinished: Sequence[str]
    failed: Sequence[str]
    repeatable: Collection[str]  # effects from after a restored point, which the restored rows do not know
    taken_over: int  # jobs
    seconds: float

    @property
    def held(self) -> bool:
        return not (self.lost or set(self.doubled) - set(self.repeatable) or self.unfinished or self.failed)


class Cluster:
    def __init__(self, network: Network, folder: Path, shape: Shape) -> None:
        self.network, self.folder, self.shape = network, folder, shape
        self.home = folder / "home"
        self.clock = folder / "clock.txt"
        self.disk = folder / "disk"
        self.primary = Postgres(network.nodes["pg1"], self.disk / "pg1", self._clock_environment())
        self.standby = Postgres(network.nodes["pg2"], folder / "pg2")
        self.pooler = Pooler(network.nodes["pooler"], folder / "pooler", self.primary)
        machines = [self._build_machine(f"r{number}") for number in range(1, shape.restate + 1)]
        self.restate = RestateCluster(machines, folder)
        self.workers: dict[str, Worker] = {}
        self.model: ModelServer | None = None
        self.forgotten: list[workload.Note] = []  # effects from after the point that was restored

    def _build_machine(self, name: str) -> Machine:
        node = self.network.nodes[name]
        return Machine(name, node.address, RESTATE_PORT if self.network.separate else find_ports(3), node.prefix)

    def _clock_environment(self) -> dict[str, str]:
        if not self.shape.fake_clock:
            return {}
        return {
            "LD_PRELOAD": find_faketime(),
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @contextmanager
    def run_servers(self) -> Iterator[None]:
        self.disk.mkdir(parents=True)
        self.set_clock(0)
        with ExitStack() as stack:
            if self.shape.disk_mb:
                size = f"size={self.shape.disk_mb}m"
                subprocess.run(["mount", "-t", "tmpfs", "-o", size, "headway-cluster", str(self.disk)], check=True)
                stack.callback(subprocess.run, ["umount", "-l", str(self.disk)])
            self.primary.create(self.shape.settings)
            stack.callback(self.primary.kill)
            self.primary.start()
            self.primary.add_database()
            if self.shape.standby:
                self.standby.copy_from(self.primary, "-R")
                self.standby.configure("")
                stack.callback(self.standby.kill)
                self.standby.start()
                wait_for(lambda: self.primary.ask("SELECT 1 FROM pg_stat_replication"), "the standby follows")
                if self.shape.synchronous:
                    self.primary.set(synchronous_standby_names="*")
            if self.shape.backup:
                self.standby.copy_from(self.primary)
                stack.callback(self.standby.kill)
            if self.shape.pooler:
                self.pooler.start()
                stack.callback(self.pooler.stop)
            if self.shape.restate:
                stack.callback(self.restate.kill)
                self.restate.start()
                targets = [(self.network.nodes[name].address, port) for name, port in WORKER_PORTS.items()]
                stack.enter_context(run_balancer(self.network.hub, BALANCER_PORT, targets))
            yield

    @contextmanager
    def run_workers(self, model: ModelServer) -> Iterator[None]:
        """Start all workers."""
        self.model = model
        try:
            for name in WORKERS:
                self.start_worker(name)
            for worker in self.workers.values():
                worker.wait_until_ready()
            yield
        finally:
            for worker in self.workers.values():
                worker.end()

    def start_worker(self, name: str, url: str | None = None) -> Worker:
        assert self.model is not None
        env = {
            **environment(self.model),
            "HEADWAY_HOME": str(self.home),
            "HEADWAY_DATABASE_URL": url or self.build_worker_url(),
            "HEADWAY_RESTART_STAGGER_S": "0.5",
            "HEADWAY_SUBAGENT_MAX_ITERATIONS": str(3 * workload.STEPS),
        }
        if self.shape.pooler and self.shape.direct:
            env["HEADWAY_DATABASE_DIRECT_URL"] = build_url(self.primary.address)
        if self.shape.restate:
            env["HEADWAY_DISPATCH"] = self.build_dispatch(name)
        key = name if name not in self.workers else f"{name} {len(self.workers)}"
        self.workers[key] = Worker(self.network.nodes[name], env, self.folder / f"{key}.log")
        return self.workers[key]

    def build_dispatch(self, name: str) -> str:
        listen = f"listen={self.network.nodes[name].address}:{WORKER_PORTS[name]}&identity_key=none"
        return f"restate://{self.restate.ingress}?{listen}&admin={self.restate.admin}&endpoint=http://{self.network.hub}:{BALANCER_PORT}"

    def build_worker_url(self) -> str:
        if self.shape.pooler:
            return build_url(self.pooler.address)
        if not self.shape.standby:
            return build_url(self.primary.address)
        addresses = [self.primary.address, self.standby.address]
        return build_url(*reversed(addresses) if self.shape.standby_first else addresses)

    def set_clock(self, seconds: int) -> None:
        """Set the first server's clock this far ahead."""
        self.clock.write_text(f"{seconds:+d}")

    def wait_for_effects(self, number: int = STRIKE_AFTER) -> None:
        wait_for(lambda: len(workload.read_notes(self.home)) >= number, f"{number} effects")

    def wait_until_finished(self, server: Postgres, since: float) -> Outcome:
        """Wait until all work has ended, or will not end without a person, and return what is found then."""
        until = time.monotonic() + PATIENCE_S
        finished = False
        while not finished and time.monotonic() < until:
            time.sleep(0.25)
            with suppress(psycopg.Error):
                finished = not server.ask(MOVING)
        return self.examine(server, time.monotonic() - since)

    def examine(self, server: Postgres, seconds: float) -> Outcome:
        done = workload.count_notes(self.home)
        unknown = {workload.parse_name(row[0]) for row in server.ask("SELECT arguments FROM effects WHERE state = 'unknown'")}
        return Outcome(
            lost=sorted(workload.list_expected() - set(done) - unknown),
            doubled=sorted(name for name, times in done.items() if times > 1),
            unknown=sorted(unknown),
            unfinished=[str(row[0]) for row in server.ask(UNFINISHED)],
            failed=[str(row[0]) for row in server.ask(FAILED)],
            repeatable={note.name for note in self.forgotten},
            taken_over=int(server.ask("SELECT count(*) FROM events WHERE kind = 'job_recovered'")[0][0]),
            seconds=seconds,
        )


UNFINISHED = """
SELECT 'turn ' || id || ': ' || status FROM turns WHERE ended_at = 0
UNION ALL SELECT 'goal ' || id || ': ' || status FROM goals WHERE ended_at = 0
"""
MOVING = """
SELECT 1 FROM turns WHERE ended_at = 0
UNION ALL SELECT 1 FROM goals WHERE ended_at = 0 AND status <> 'paused'
"""
FAILED = """
SELECT 'turn ' || id || ': ' || status FROM turns WHERE ended_at > 0 AND status <> 'finished'
UNION ALL SELECT 'goal ' || id || ': ' || status FROM goals WHERE ended_at > 0 AND status <> 'completed'
UNION ALL SELECT 'job ' || id || ': ' || state FROM jobs WHERE state NOT IN ('completed', 'running', 'queued', 'delayed')
"""


def find_faketime() -> str:
    """The library that gives a program another clock, or nothing."""
    return next(map(str, Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")


def build_url(*addresses: str) -> str:
    return f"postgresql://{ROLE}@{','.join(addresses)}/{DATABASE}"


@contextmanager
def open_cluster(network: Network, shape: Shape) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="headway-cluster-"))
    folder.chmod(0o755)
    try:
        make_folder(folder)
        yield Cluster(network, folder, shape)
    finally:
        if "HEADWAY_CLUSTER_KEEP" in os.environ:
            print(f"  kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
