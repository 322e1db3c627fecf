"""`python -m bench.saturation`: two experiments that check the largest numbers of scale_model.py on this machine.

`statements`: more and more processes run turns against one Postgres, each in a database of its own, until it does no more of them.
`workers`: more and more `headway worker` processes share one Postgres, until its connections do not suffice.
"""

import argparse
import sys
import time
from functools import partial
from subprocess import PIPE, Popen

import psycopg

from bench.cell_costs import ITERATIONS, TURNS, Runners
from bench.engine_life import PATIENCE_S
from bench.harness import Workshop, open_workshop
from bench.http import stop
from bench.postgres import new_database, server_url
from bench.report import aligned, figure
from bench.scale_model import Measured
from bench.scaling import read_model
from headway.actions.access import local_tenant
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.storage.direct import DirectDatabase

PROCESSES = (1, 2, 4)
MOST_WORKERS = 20
TURNS_EACH = 32  # that are started after each worker
SESSIONS = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'"  # each worker holds one as long as it can
CONNECTIONS = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = %s"


def saturate(shop: Workshop, measured: Measured) -> None:
    """Print what one server does for so many processes. They share the machine's cores with it, so the rate for a core that the
    server uses is compared with the model's."""
    rows: list[tuple[str, ...]] = [("processes", "statements", "commits", "the server's cores", "the clients' cores", "per core")]
    best = 0.0
    for count in PROCESSES:
        runners = Runners(shop, f"saturation-{count}", [new_database(shop) for _ in range(count)])
        runners.round()  # a warm-up
        start = time.perf_counter()
        cost = runners.round()
        per_s = (ITERATIONS + 1) * TURNS * count / (time.perf_counter() - start)
        server, clients = per_s * cost.server_ms / 1000, per_s * cost.client_ms / 1000
        per_core = per_s * cost.statements / server
        best = max(best, per_core)
        statements, commits = figure(per_s * cost.statements), figure(per_s * cost.commits)
        rows.append((str(count), f"{statements} /s", f"{commits} /s", figure(server), figure(clients), f"{figure(per_core)} /s"))
        runners.stop()
    print(aligned(rows))
    expected = 1000 / measured.server_ms
    print(f"\nThe model expects {figure(expected)} statements a second of a core; measured: {figure(best / expected)} times that.")


def crowd(shop: Workshop, measured: Measured) -> None:
    """Start workers one after the other, until one gets no connection for its session. After each, they run some turns."""
    url = new_database(shop)
    with DirectDatabase(url) as database, psycopg.connect(shop.once(server_url), autocommit=True) as admin:
        (allowed,) = admin.execute("SHOW max_connections").fetchone() or ("0",)
        print(f"The model expects {figure(int(allowed) / measured.connections)} processes for {allowed} connections.", flush=True)
        for number in range(1, MOST_WORKERS + 1):
            start_worker(shop, url, number)
            ended = run_turns(database, TURNS_EACH)
            (connections,) = admin.execute(CONNECTIONS, (psycopg.conninfo.conninfo_to_dict(url)["dbname"],)).fetchone() or (0,)
            (sessions,) = admin.execute(SESSIONS).fetchone() or (0,)
            have = f"{connections - 1} connections, {sessions} of them sessions"
            print(f"{number} workers: {have}, {ended} of {TURNS_EACH} turns have ended", flush=True)
            if sessions < number:
                break


def start_worker(shop: Workshop, url: str, number: int) -> None:
    home, log = shop.folder / f"worker-{number}", shop.folder / f"worker-{number}.log"
    command = [sys.executable, "-m", "headway", "worker", "--json", "--home", str(home), "--database-url", url]
    with log.open("w") as stderr:
        process = Popen(command, stdout=PIPE, stderr=stderr, text=True)
    shop.cleanup.callback(stop, process)
    assert process.stdout is not None
    process.stdout.readline()


def run_turns(database: DirectDatabase, count: int) -> int:
    """Let the workers run so many turns, and return how many have ended in time."""
    tenant_id = database.write(local_tenant.ensure_local).id
    before = count_ended(database)
    for _ in range(count):
        conversation_id = database.write(partial(conversations.add_conversation, tenant_id=tenant_id)).id
        request = turns.TurnRequest("Plan three things.")
        database.write(partial(turns.start_turn, tenant_id=tenant_id, conversation_id=conversation_id, request=request))
    deadline = time.monotonic() + PATIENCE_S
    while (ended := count_ended(database) - before) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return ended


def count_ended(database: DirectDatabase) -> int:
    row = database.read(lambda tx: tx.one("SELECT COUNT(*) FROM jobs WHERE state = 'completed'"))
    return int(row[0]) if row else 0


EXPERIMENTS = {"statements": saturate, "workers": crowd}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.saturation", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*EXPERIMENTS, []], metavar="NAME", help="statements, workers; by default both")
    measured = read_model().measured
    for name in parser.parse_args().names or EXPERIMENTS:
        with open_workshop() as shop:
            EXPERIMENTS[name](shop, measured)
            print()


if __name__ == "__main__":
    main()
