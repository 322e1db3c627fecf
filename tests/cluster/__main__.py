"""`python -m tests.cluster [ROW …]` runs the rows one after the other and prints a table. `--write` puts it into proof.md."""

import argparse
import signal
import subprocess
import sys
import time

import psycopg

from tests.cluster import table, workload
from tests.cluster.cell_rows import CELL_ROWS, CellRow
from tests.cluster.cluster import Outcome, build_url, open_cluster
from tests.cluster.dispatch import DISPATCH
from tests.cluster.faults import ROWS as FAULTS
from tests.cluster.faults import Row, find_missing
from tests.cluster.network import Network, open_network
from tests.cluster.operations import OPERATIONS
from tests.cluster.servers import find_programs
from tests.model_server import ModelServer

ROWS: tuple[Row | CellRow, ...] = (*FAULTS, *OPERATIONS, *CELL_ROWS, *DISPATCH)


def run_row(row: Row | CellRow, network: Network) -> Outcome:
    if isinstance(row, CellRow):
        try:
            return row.run(network)
        finally:
            network.reconnect_all()
    with open_cluster(network, row.shape) as cluster, cluster.run_servers():
        url = build_url(cluster.primary.address)
        workload.make_home(cluster.home)
        workload.enqueue(url)
        with ModelServer(workload.reply, host=network.hub) as model, cluster.run_workers(model):
            cluster.wait_for_effects()
            try:
                server = row.strike(cluster)
                outcome = cluster.wait_until_finished(server, since=time.monotonic())
            finally:
                network.reconnect_all()
            if cluster.forgotten:
                print(f"  repeated with the same effect_key: {workload.count_same_keys(cluster.home)}", flush=True)
        return outcome


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all of them by default")
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    parser.add_argument("--write", action="store_true", help="write the results into docs/internals/proof.md")
    options = parser.parse_args()
    if unknown := set(options.rows) - {row.key for row in ROWS}:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; --list shows all")
    return options


def main() -> int:
    options = parse_arguments()
    chosen = [row for row in ROWS if not options.rows or row.key in options.rows]
    if options.list:
        print("\n".join(f"{row.key:18} {row.title}" for row in ROWS))
        return 0
    if find_programs() is None:
        print(
            "There is no Postgres server in /usr/lib/postgresql. Run `make cluster` as root, or install postgresql.",
            file=sys.stderr,
        )
        return 2
    lines: dict[str, str] = {}
    skipped: dict[str, str] = {}
    held = True
    with open_network() as network:
        if not network.separate:
            print("No network namespaces here: all processes use the loopback address.")
        for row in chosen:
            if missing := find_missing(row.needs, namespaces=network.separate):
                skipped[row.title] = table.format_skipped(row.title, missing)
                continue
            print(f"{row.key} …", flush=True)
            try:
                outcome = run_row(row, network)
            except (AssertionError, psycopg.Error, subprocess.CalledProcessError) as error:
                print(f"  the row could not be run: {error}", flush=True)
                held = False
                continue
            held = held and outcome.held
            lines[row.title] = table.format_row(row.title, outcome)
            print(f"  {lines[row.title]}", flush=True)
            print_details(outcome)
    order = [row.title for row in ROWS]
    print(f"\n{table.render({**lines, **skipped}, order)}")
    if options.write:
        table.write(lines, order)
    return 0 if held else 1


def print_details(outcome: Outcome) -> None:
    print(f"  jobs taken over: {outcome.taken_over}", flush=True)
    for name in ("lost", "doubled", "unknown", "unfinished", "failed"):
        if found := getattr(outcome, name):
            print(f"  {name}: {', '.join(found)}", flush=True)


def end(*_: object) -> None:
    """Also end the servers and workers."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    sys.exit(main())
