"""Rows about planned work on a cluster: a restore from a backup."""

import os
import shutil
import signal
import subprocess
import sys

from tests.cluster import workload
from tests.cluster.cluster import WORKERS, Cluster, Shape, build_url
from tests.cluster.faults import Row
from tests.cluster.servers import Postgres, wait_for

MORE_EFFECTS = 12
# The command runs in the folder of the data.
ARCHIVE = "archive_mode = on\narchive_command = 'test ! -f ../archive/%f && cp %p ../archive/%f'\n"


def restore(cluster: Cluster, target: str = "") -> Postgres:
    """Start the second server from the backup and the archived log, up to a point or to the end."""
    copy = cluster.standby
    archive = cluster.primary.folder / "archive"
    copy.configure(f"archive_mode = off\nrestore_command = 'cp {archive}/%f %p'\nrecovery_target_action = 'promote'\n{target}\n")
    (copy.data / "recovery.signal").touch()
    if os.geteuid() == 0:
        shutil.chown(copy.data / "recovery.signal", "postgres", "postgres")
    copy.start()
    wait_for(lambda: not copy.ask("SELECT 1 WHERE pg_is_in_recovery()"), "the copy is a primary")
    return copy


def continue_on(cluster: Cluster, copy: Postgres) -> Postgres:
    """Halt the copy before any process runs its jobs, start workers, and lift the halt."""
    url = build_url(copy.address)
    run_command(cluster, url, "halt", "--why", "restored, to be checked")
    for name in WORKERS:
        cluster.start_worker(name, url=url).wait_until_ready()
    run_command(cluster, url, "unhalt")
    return copy


def run_command(cluster: Cluster, url: str, *arguments: str) -> None:
    env = {**os.environ, "HEADWAY_HOME": str(cluster.home), "HEADWAY_DATABASE_URL": url}
    subprocess.run([sys.executable, "-m", "headway", *arguments], env=env, check=True, capture_output=True, cwd=cluster.folder)


def kill_workers(cluster: Cluster) -> None:
    for worker in cluster.workers.values():
        worker.send(signal.SIGKILL)
        worker.process.wait()


def restore_to_end(cluster: Cluster) -> Postgres:
    """Everything is stopped; the archive has the whole log."""
    cluster.wait_for_effects(len(workload.read_notes(cluster.home)) + MORE_EFFECTS)
    kill_workers(cluster)
    cluster.primary.stop("fast")
    return continue_on(cluster, restore(cluster))


def restore_to_middle(cluster: Cluster) -> Postgres:
    """The work goes on after the point that is restored, as before a mistake that is noticed late."""
    cluster.wait_for_effects(len(workload.read_notes(cluster.home)) + MORE_EFFECTS)
    known = workload.read_notes(cluster.home)
    ((moment,),) = cluster.primary.ask("SELECT clock_timestamp()")
    cluster.wait_for_effects(len(known) + MORE_EFFECTS)
    kill_workers(cluster)
    cluster.primary.stop("fast")
    cluster.forgotten = workload.read_notes(cluster.home)[len(known) :]
    print(f"  {len(known)} effects before the restored point, {len(cluster.forgotten)} after it", flush=True)
    return continue_on(cluster, restore(cluster, f"recovery_target_time = '{moment.isoformat()}'"))


ARCHIVED = Shape(backup=True, settings=ARCHIVE)
OPERATIONS = (
    Row("restore", "restored from a base backup and the whole log", restore_to_end, ARCHIVED),
    Row("restore-middle", "restored to a point before the end: what happened after it is done again", restore_to_middle, ARCHIVED),
)
