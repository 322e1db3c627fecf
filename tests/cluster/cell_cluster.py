"""Two or three cells, each with a Postgres server, a worker and an HTTP server, and tenants whose agents work in them."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction, within_tenant
from tests.cluster import workload
from tests.cluster.cell_clients import Load, count_changes_of_owner, list_repeated_ids
from tests.cluster.cluster import FAILED, MOVING, UNFINISHED, Outcome, build_url
from tests.cluster.network import Network
from tests.cluster.servers import Postgres, make_folder, wait_for
from tests.cluster.workers import Server, Worker
from tests.model_server import ModelServer, environment

NAMES = ("one", "two", "three")
TENANTS = ("t1", "t2", "t3")
WRITERS = 2  # of todos, per tenant
TURNS, DELEGATED, GOALS = ("a1", "a2"), ("b1",), ("c1",)  # of each tenant, stored before the first move
TICK_S = 2
ANSWER_S = 1.0  # how long the model takes
PATIENCE_S = 180
HTTP_PORT = 8601
OPEN_MOVES = "SELECT tenant_name, target, state FROM moves WHERE state IN ('fenced', 'departed')"


class CellHost:
    """One cell: its server, and the processes that use it."""

    def __init__(self, name: str, number: int, network: Network, folder: Path) -> None:
        self.name = name
        self.node = network.nodes[f"w{number}"]
        self.server = Postgres(network.nodes[f"pg{number}"], folder / f"pg{number}")
        self.url = build_url(self.server.address)
        self.port = HTTP_PORT + number
        self.address = f"http://{self.node.address}:{self.port}"
        self.processes: dict[str, Worker] = {}

    def start(self, kind: str, env: dict[str, str], folder: Path) -> None:
        """Start its worker or its HTTP server, in place of the one that has ended."""
        log = folder / f"{self.name}-{kind}.log"
        own = {**env, "HEADWAY_DATABASE_URL": self.url}
        if kind == "worker":
            self.processes[kind] = Worker(self.node, own, log)
        else:
            self.processes[kind] = Server(self.node, own, log, self.port)

    def end(self) -> None:
        for process in self.processes.values():
            process.end()


class CellCluster:
    def __init__(self, network: Network, folder: Path, count: int) -> None:
        self.network, self.folder = network, folder
        self.home = folder / "home"
        self.hosts = [CellHost(name, number, network, folder) for number, name in enumerate(NAMES[:count], start=1)]
        self.cells = {host.name: host for host in self.hosts}
        self.loads: dict[str, Load] = {}
        self.ids: dict[str, int] = {}
        self.env: dict[str, str] = {}
        self.chance = random.Random(17)
        self.moves: Counter[str] = Counter()  # of each tenant, completed
        self.notes: Counter[str] = Counter()  # what happened, for a line at the end
        self.faults: list[str] = []  # what must not happen

    # Setting up

    @contextmanager
    def run(self) -> Iterator[None]:
        with ExitStack() as stack:
            for host in self.hosts:
                host.server.create()
                stack.callback(host.server.kill)
                host.server.start()
                host.server.add_database()
            workload.make_home(self.home)
            for host in self.hosts:
                self.command("cell", "add", host.name, "--url", host.url, "--public-url", host.address)
            model = stack.enter_context(ModelServer(partial(workload.reply, answer_s=ANSWER_S), host=self.network.hub))
            self.env = {
                **environment(model),
                "HEADWAY_HOME": str(self.home),
                "HEADWAY_RESTART_STAGGER_S": "0.5",
                "HEADWAY_SUBAGENT_MAX_ITERATIONS": str(3 * workload.STEPS),
                "HEADWAY_ANONYMOUS_RATE": "10000",  # requests that are answered with 421 count as requests of strangers
            }
            addresses = {host.address: host.name for host in self.hosts}
            for number, tenant in enumerate(TENANTS):
                secret = self.add_tenant(tenant, self.hosts[number % len(self.hosts)])
                self.loads[tenant] = Load(tenant, secret, addresses, WRITERS)
            for host in self.hosts:
                stack.callback(host.end)
                for kind in ("worker", "server"):
                    host.start(kind, self.env, self.folder)
                for process in host.processes.values():
                    process.wait_until_ready()
            for load in self.loads.values():
                load.clients[0].send("PUT", "/v1/schedules/tick", describe_tick(load.tenant))
                load.start()
                stack.callback(load.abandon)
            yield

    def add_tenant(self, name: str, host: CellHost) -> str:
        """Create a tenant with its first work, and return the secret of its token."""
        self.command("tenant", "add", name, "--cell", host.name)
        secret = json.loads(self.command("token", "new", "--tenant", name, "--json"))["token"]
        with DirectDatabase(host.url) as database:
            self.ids[name] = database.read(partial(tenants.get_by_name, name=name)).id
            database.write(within_tenant(self.ids[name], partial(enqueue, tenant_id=self.ids[name], prefix=name)))
        return str(secret)

    def command(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(self.build_command(*arguments), env=self.build_environment(), capture_output=True, cwd=self.folder)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(arguments)}: {done.stderr.decode()}")
        return done.stdout.decode() if not done.returncode else ""

    def build_command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "headway", *arguments]

    def build_environment(self) -> dict[str, str]:
        return {**os.environ, "HEADWAY_HOME": str(self.home), "HEADWAY_DATABASE_URL": self.hosts[0].url}

    # Moving

    def find_place(self, tenant: str) -> str:
        return str(self.hosts[0].server.ask(f"SELECT cell FROM placements WHERE tenant_name = '{tenant}'")[0][0])

    def choose_target(self, tenant: str) -> tuple[str, str]:
        """Return where the tenant is, and another cell."""
        place = self.find_place(tenant)
        return place, self.chance.choice([name for name in self.cells if name != place])

    def start_move(self, tenant: str, target: str) -> "subprocess.Popen[bytes]":
        log = (self.folder / "moves.log").open("ab")
        with log:
            command = self.build_command("tenant", "move", tenant, "--to", target)
            return subprocess.Popen(command, env=self.build_environment(), cwd=self.folder, stdout=log, stderr=log)

    def complete(self, tenant: str, target: str) -> None:
        """Move the tenant, or continue the move, however often that takes. It may be complete already."""
        until = time.monotonic() + PATIENCE_S
        while (code := self.start_move(tenant, target).wait()) or self.find_place(tenant) != target:
            assert time.monotonic() < until, f"{tenant} does not arrive in {target}: exit code {code}"
            if self.find_place(tenant) == target and not self.list_open_moves():
                break  # the interrupted command had completed it: the tenant is there already
            time.sleep(0.5)
        self.moves[tenant] += 1

    def undo(self, tenant: str) -> bool:
        """Undo the move, and return whether the tenant stays. Otherwise it has arrived, or the move had not begun."""
        return bool(self.command("tenant", "move", tenant, "--undo", "--json", check=False))

    def list_open_moves(self) -> list[Any]:
        return [row for host in self.hosts for row in host.server.ask(OPEN_MOVES)]

    def kill_process(self, host: CellHost, kind: str) -> None:
        """Kill a process of a cell, and start another one."""
        process = host.processes[kind]
        process.send(signal.SIGKILL)
        process.end()
        host.start(kind, self.env, self.folder)
        host.processes[kind].wait_until_ready()
        self.notes[f"{kind}s killed"] += 1

    # The end

    def finish(self) -> Outcome:
        """Let no new work begin, wait until all has ended, and return what is found then."""
        since = time.monotonic()
        for load in self.loads.values():
            load.stop()
            load.clients[0].send("DELETE", "/v1/schedules/tick", None)
        finished, until = False, time.monotonic() + PATIENCE_S
        while not finished and time.monotonic() < until:
            time.sleep(0.25)
            with suppress(psycopg.Error):
                finished = not any(host.server.ask(f"{MOVING} UNION ALL {TICKING}") for host in self.hosts)
        return self.examine(time.monotonic() - since)

    def ask(self, sql: str) -> list[str]:
        return [str(row[0]) for host in self.hosts for row in host.server.ask(sql)]

    def examine(self, seconds: float) -> Outcome:
        notes = workload.read_notes(self.home)
        done = Counter(note for note in notes if not note.name.endswith("_tick"))
        names = Counter(note.name for note in done.elements())
        unknown = {workload.parse_name(row) for row in self.ask("SELECT arguments FROM effects WHERE state = 'unknown'")}
        ticks = Counter(note.effect_key for note in notes if note.name.endswith("_tick"))
        ran, interrupted = set(self.ask(COMPLETED_TICKS)), set(self.ask(INTERRUPTED_TICKS))
        lost_todos, doubled_todos = self.compare_todos()
        failed = [row for row in self.ask(FAILED) if row.removeprefix("job ").partition(":")[0] not in interrupted]
        self.notes["todos"] = sum(len(load.stored) for load in self.loads.values())
        self.notes["turns"] = sum(len(load.turns) for load in self.loads.values())
        self.notes["ticks"] = len(ran)
        self.notes["refused while moving"] = sum(client.refused for load in self.loads.values() for client in load.clients)
        self.notes["421 followed"] = sum(client.followed for load in self.loads.values() for client in load.clients)
        self.notes["moves"] = sum(self.moves.values())
        return Outcome(
            lost=sorted([*(self.list_expected() - set(names) - unknown), *(ran - set(ticks)), *lost_todos]),
            doubled=sorted(
                [name for name, times in names.items() if times > 1]
                + [f"tick {key}" for key, times in ticks.items() if times > 1]
                + doubled_todos
            ),
            unknown=sorted([*unknown, *interrupted]),
            unfinished=self.ask(UNFINISHED),
            failed=[*failed, *self.list_disorder(), *self.faults],
            repeatable=(),
            taken_over=len(self.ask("SELECT 1 FROM events WHERE kind = 'job_recovered'")),
            seconds=seconds,
        )

    def list_expected(self) -> set[str]:
        errands = [errand.name for tenant in TENANTS for goal in GOALS for errand in workload.plan(tenant + goal)]
        fed = [name for load in self.loads.values() for name in load.turns]
        whole = [tenant + name for tenant in TENANTS for name in (*TURNS, *DELEGATED)]
        short = {f"{name}.{step}" for name in (*errands, *fed) for step in range(workload.GOAL_STEPS)}
        return short | {f"{name}.{step}" for name in whole for step in range(workload.STEPS)}

    def compare_todos(self) -> tuple[list[str], list[str]]:
        """Return the acknowledged todos that no cell has, and those that are there twice."""
        found = Counter(self.ask("SELECT subject FROM todos"))
        known = {todo.subject for load in self.loads.values() for todo in load.stored}
        return [subject for subject in known if subject not in found], [subject for subject in known if found[subject] > 1]

    def list_disorder(self) -> list[str]:
        """Return what would show that two cells owned a tenant, or that a move left something behind."""
        wrong = [surprise for load in self.loads.values() for surprise in load.surprises]
        for tenant, load in self.loads.items():
            wrong += [f"{tenant}: the id {todo_id} was given twice" for todo_id in list_repeated_ids(load.stored)]
            changes = count_changes_of_owner(load.stored)
            if changes > self.moves[tenant]:
                wrong.append(f"{tenant}: its owner changed {changes} times with {self.moves[tenant]} moves")
            place = self.find_place(tenant)
            for host in self.hosts:
                owned = host.server.ask(f"SELECT 1 FROM tenants WHERE name = '{tenant}'")
                if bool(owned) != (host.name == place):
                    wrong.append(f"{tenant}: the cell {host.name} {'has' if owned else 'lacks'} it")
                if host.name != place:
                    wrong += [f"{tenant}: rows of {table} are left in {host.name}" for table in self.list_left(host, tenant)]
        wrong += [f"the move of {row[0]} to {row[1]} is {row[2]}" for row in self.list_open_moves()]
        wrong += [f"jobs and schedules are parked: {row}" for row in self.ask("SELECT id FROM parked")]
        return wrong

    def list_left(self, host: CellHost, tenant: str) -> list[str]:
        """The tables of a cell that have rows of a tenant."""
        tables = host.server.ask("SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id'")
        count = " UNION ALL ".join(
            f"(SELECT '{table}' FROM \"{table}\" WHERE tenant_id = {self.ids[tenant]} LIMIT 1)" for (table,) in tables
        )
        return [str(row[0]) for row in host.server.ask(count)]


COMPLETED_TICKS = "SELECT id FROM jobs WHERE kind = 'tool' AND state = 'completed'"
INTERRUPTED_TICKS = "SELECT id FROM jobs WHERE kind = 'tool' AND state = 'dead'"
TICKING = "SELECT 1 FROM jobs WHERE kind = 'tool' AND state IN ('queued', 'delayed', 'running')"


def describe_tick(tenant: str) -> dict[str, Any]:
    return {"every_s": TICK_S, "tool": {"name": "note", "arguments": {"name": f"{tenant}_tick"}}}


def enqueue(tx: Transaction, tenant_id: int, prefix: str) -> None:
    """Store the first work of a tenant."""
    for content in (*(f"Note {prefix}{name}." for name in TURNS), *(f"Delegate {prefix}{name}." for name in DELEGATED)):
        conversation = conversations.add_conversation(tx, tenant_id)
        turns.start_turn(tx, tenant_id, conversation.id, turns.TurnRequest(content, limit=3 * workload.STEPS))
    for name in GOALS:
        goals.add_goal(tx, tenant_id, NewGoal(f"Run the errands of {prefix}{name}.", "Everything is noted."))


@contextmanager
def open_cell_cluster(network: Network, count: int) -> Iterator[CellCluster]:
    folder = Path(tempfile.mkdtemp(prefix="headway-cells-"))
    folder.chmod(0o755)
    try:
        make_folder(folder)
        cluster = CellCluster(network, folder, count)
        with cluster.run():
            wait_for(lambda: len(workload.read_notes(cluster.home)) >= len(TENANTS), "the tenants' agents work")
            yield cluster
    finally:
        if "HEADWAY_CLUSTER_KEEP" in os.environ:
            print(f"  kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
