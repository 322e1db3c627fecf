"""The rows of the table: what goes wrong, and for how long."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

import psycopg

from tests.cluster.cluster import Cluster, Shape, find_faketime
from tests.cluster.servers import DATABASE, ROLE, Postgres
from tests.cluster.workers import Worker

HOLD_S = 15  # longer than a lease and every short retry
OCCUPANT = "occupant"  # the name of the sessions that take all connections
AWAY_S = 240  # shorter than the five minutes that work waits for a database


class Row(NamedTuple):
    key: str
    title: str
    strike: Callable[[Cluster], Postgres]
    """Causes the fault, ends it, and returns the server that has the rows afterwards."""
    shape: Shape = Shape()
    needs: str = ""  # "namespaces", "mount", "pgbouncer", "faketime" or "restate"


# Workers


def find_busiest(cluster: Cluster) -> Worker:
    """The worker that runs the most jobs."""
    counts = dict(cluster.primary.ask("SELECT owner, count(*) FROM jobs WHERE state = 'running' GROUP BY owner"))
    return max(cluster.workers.values(), key=lambda worker: counts.get(worker.owner, 0))


def kill_worker(cluster: Cluster) -> Postgres:
    find_busiest(cluster).send(signal.SIGKILL)
    return cluster.primary


def freeze_worker(cluster: Cluster) -> Postgres:
    worker = find_busiest(cluster)
    worker.send(signal.SIGSTOP)
    time.sleep(HOLD_S)
    worker.send(signal.SIGCONT)
    return cluster.primary


def cut_off_worker(cluster: Cluster) -> Postgres:
    return cut_off(find_busiest(cluster).node.name)(cluster)


def cut_off(name: str) -> Callable[[Cluster], Postgres]:
    def strike(cluster: Cluster) -> Postgres:
        cluster.network.cut(name)
        time.sleep(HOLD_S)
        cluster.network.reconnect(name)
        return cluster.primary

    return strike


# Postgres


def restart(mode: str, away_s: float = 0) -> Callable[[Cluster], Postgres]:
    def strike(cluster: Cluster) -> Postgres:
        cluster.primary.stop(mode)
        time.sleep(away_s)
        cluster.primary.start()
        return cluster.primary

    return strike


def exhaust_connections(cluster: Cluster) -> Postgres:
    """Take all connections, also the ones of the workers."""
    others = f"FROM pg_stat_activity WHERE usename = '{ROLE}' AND application_name <> '{OCCUPANT}'"
    with ExitStack() as stack:
        until = time.monotonic() + HOLD_S
        while time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(cluster.primary.connect(DATABASE, ROLE, application_name=OCCUPANT))
            cluster.primary.ask(f"SELECT pg_terminate_backend(pid) {others}")
        assert not cluster.primary.ask(f"SELECT 1 {others}"), "the workers still have connections"
    return cluster.primary


def shorten_timeouts(cluster: Cluster) -> Postgres:
    """The server cancels statements after a moment and ends idle sessions, while a table is locked again and again."""
    cluster.primary.set(statement_timeout="100ms", idle_session_timeout="500ms", idle_in_transaction_session_timeout="500ms")
    until = time.monotonic() + HOLD_S
    while time.monotonic() < until:
        with cluster.primary.connect(DATABASE) as connection:
            connection.execute(
                "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE jobs, runs"
            )
            time.sleep(0.5)
            connection.execute("ROLLBACK")
        time.sleep(0.5)
    cluster.primary.set(statement_timeout=None, idle_session_timeout=None, idle_in_transaction_session_timeout=None)
    return cluster.primary


def fill_disk(cluster: Cluster) -> Postgres:
    """Leave no room on the server's disk. It is started again, if it ended, once there is room."""
    ballast = cluster.disk / "ballast"
    free = os.statvfs(cluster.disk)
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        for _ in range(free.f_bavail * free.f_frsize // 65536 + 1):
            file.write(bytes(65536))
    rewrite_tables(cluster.primary)
    time.sleep(HOLD_S)
    ballast.unlink()
    if not cluster.primary.runs:
        cluster.primary.start()
    return cluster.primary


def rewrite_tables(server: Postgres) -> None:
    """Ask for more room than there is, so that the fault does not depend on how much the workers write."""
    with suppress(psycopg.Error):
        server.ask("CREATE TABLE ballast AS SELECT repeat('x', 1000) FROM generate_series(1, 100000)")


def refuse_writes(cluster: Cluster) -> Postgres:
    cluster.primary.set(default_transaction_read_only="on")
    time.sleep(2 * HOLD_S)
    cluster.primary.set(default_transaction_read_only=None)
    return cluster.primary


def turn_clock(seconds: int) -> Callable[[Cluster], Postgres]:
    def strike(cluster: Cluster) -> Postgres:
        before = cluster.primary.ask("SELECT extract(epoch FROM clock_timestamp())")[0][0]
        cluster.set_clock(seconds)
        after = cluster.primary.ask("SELECT extract(epoch FROM clock_timestamp())")[0][0]
        assert abs(float(after - before) - seconds) < 5, "the server's clock did not follow"
        return cluster.primary

    return strike


# Failover


def fail_over_into_black_hole(cluster: Cluster) -> Postgres:
    """The primary's address swallows packets from now on, and its standby is promoted."""
    cluster.network.cut("pg1")
    time.sleep(2)
    cluster.standby.promote()
    return cluster.standby


def fail_over(cluster: Cluster) -> Postgres:
    """The primary's machine is lost, and its synchronous standby is promoted."""
    cluster.primary.kill()
    cluster.standby.promote()
    return cluster.standby


def switch_over(cluster: Cluster) -> Postgres:
    """The primary is stopped cleanly, and its standby is promoted."""
    cluster.primary.stop("fast")
    cluster.standby.promote()
    return cluster.standby


# PgBouncer


def use_pooler(cluster: Cluster) -> Postgres:
    """No fault: the pool of four connections serves all workers."""
    return cluster.primary


def restart_pooler(cluster: Cluster) -> Postgres:
    cluster.pooler.stop()
    time.sleep(3)
    cluster.pooler.start()
    return cluster.primary


def restart_behind_pooler(cluster: Cluster) -> Postgres:
    cluster.primary.stop("fast")
    time.sleep(3)
    cluster.primary.start()
    return cluster.primary


def find_missing(need: str, *, namespaces: bool) -> str:
    """The reason why a row with this need cannot run here, or nothing."""
    match need:
        case "namespaces" if not namespaces:
            return "needs root, ip and nft for network namespaces"
        case "mount" if os.geteuid() != 0:
            return "needs root for a small disk"
        case "pgbouncer" if not shutil.which("pgbouncer"):
            return "needs pgbouncer"
        case "restate" if not shutil.which("npm"):
            return "needs npm, which has Restate's server"
        case "faketime" if not find_faketime():
            return "needs libfaketime"
    return ""


POOLED = Shape(pooler=True)
ROWS = (
    Row("kill", "one of three workers is killed", kill_worker),
    Row("freeze", f"a worker is frozen for {HOLD_S} s", freeze_worker),
    Row("cut-worker", f"a worker is cut off from everything for {HOLD_S} s", cut_off_worker, needs="namespaces"),
    Row("restart-fast", "Postgres restarts (`fast`)", restart("fast")),
    Row("restart-immediate", "Postgres restarts (`immediate`)", restart("immediate")),
    Row("away", f"Postgres is stopped for {AWAY_S} s", restart("fast", AWAY_S)),
    Row("cut-database", f"Postgres is cut off from everything for {HOLD_S} s", cut_off("pg1"), needs="namespaces"),
    Row("connections", f"other clients take all connections for {HOLD_S} s", exhaust_connections),
    Row("timeouts", f"statements and idle sessions are ended by timeouts for {HOLD_S} s, tables are locked", shorten_timeouts),
    Row("disk", f"the server's disk is full for {HOLD_S} s", fill_disk, Shape(disk_mb=400), "mount"),
    Row("read-only", f"the primary is read-only for {2 * HOLD_S} s", refuse_writes),
    Row("clock-ahead", "the server's clock is set 60 s ahead", turn_clock(60), Shape(fake_clock=True), "faketime"),
    Row("clock-back", "the server's clock is set 60 s back", turn_clock(-60), Shape(fake_clock=True), "faketime"),
    Row(
        "sync-failover",
        "the primary is lost, its synchronous standby is promoted",
        fail_over,
        Shape(standby=True, synchronous=True),
    ),
    Row(
        "async-failover",
        "the primary's address swallows packets, its asynchronous standby is promoted",
        fail_over_into_black_hole,
        Shape(standby=True),
        "namespaces",
    ),
    Row("switchover", "a clean switchover; the URL names the standby first", switch_over, Shape(standby=True, standby_first=True)),
    Row("pooler", "PgBouncer in transaction mode, four connections", use_pooler, POOLED, "pgbouncer"),
    Row("pooler-alone", "the same without `HEADWAY_DATABASE_DIRECT_URL`", use_pooler, POOLED._replace(direct=False), "pgbouncer"),
    Row("pooler-restart", "PgBouncer is away for 3 s", restart_pooler, POOLED, "pgbouncer"),
    Row("pooler-server", "the server behind PgBouncer is away for 3 s", restart_behind_pooler, POOLED, "pgbouncer"),
    Row("pooler-kill", "a worker behind PgBouncer is killed", kill_worker, POOLED, "pgbouncer"),
)
