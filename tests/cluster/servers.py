"""Postgres servers and a PgBouncer, from Debian's packages. They run as the user `postgres` if this process is root."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from tests.cluster.network import Node

ROLE = "headway"  # owns the database, and is not a superuser
DATABASE = "headway"
PORTS = {"pg1": 54321, "pg2": 54322, "pg3": 54323, "pooler": 64321}
PATIENCE_S = 60
SETTINGS = """
listen_addresses = '*'
unix_socket_directories = ''
max_connections = 60
shared_buffers = 32MB
wal_level = replica
max_wal_senders = 6
hot_standby = on
logging_collector = off
"""
ACCESS = "host all all 0.0.0.0/0 trust\nhost replication all 0.0.0.0/0 trust\n"
POOLER = """
[databases]
headway = host={host} port={port} dbname=headway
[pgbouncer]
listen_addr = *
listen_port = {listen}
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 4
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
unix_socket_dir =
"""


def find_programs() -> Path | None:
    """The folder of the newest installed Postgres server."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else None


def become_postgres() -> list[str]:
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


def make_folder(path: Path) -> None:
    """A folder that the servers may write to."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(path, "postgres", "postgres")


class Postgres:
    def __init__(self, node: Node, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        programs = find_programs()
        assert programs is not None
        self.node, self.folder, self.programs = node, folder, programs
        self.port = PORTS[node.name]
        self.data = folder / "data"
        self.environment = {"LC_ALL": "C", **(environment or {})}

    @property
    def address(self) -> str:
        return f"{self.node.address}:{self.port}"

    def run(self, program: str, *arguments: str) -> str:
        own = [f"{name}={value}" for name, value in self.environment.items()]
        command = self.node.command(*become_postgres(), "env", *own, str(self.programs / program), *arguments)
        done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, f"{program}: {done.stderr or done.stdout}"
        return done.stdout

    def create(self, settings: str = "") -> None:
        """Create the files of a new server, and a folder for its archived log."""
        make_folder(self.folder)
        make_folder(self.folder / "archive")
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
        self.configure(SETTINGS + settings)

    def configure(self, settings: str) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"{settings}\nport = {self.port}\n")
        (self.data / "pg_hba.conf").write_text(f"local all all trust\n{ACCESS}")

    def copy_from(self, primary: "Postgres", *options: str) -> None:
        """Make a base backup of a running server here; with `-R` this server becomes its standby."""
        make_folder(self.folder)
        host, port = primary.address.split(":")
        source = ("-h", host, "-p", port, "-U", "postgres")
        self.run("pg_basebackup", "-D", str(self.data), *source, "-X", "stream", "-c", "fast", "--no-sync", *options)

    def start(self, *, wait: bool = True) -> None:
        log = self.folder / "log.txt"
        self.run("pg_ctl", "start", "-D", str(self.data), "-l", str(log), "-t", str(PATIENCE_S), "-w" if wait else "-W")

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-t", str(PATIENCE_S))

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-D", str(self.data), "-t", str(PATIENCE_S))

    @property
    def runs(self) -> bool:
        command = [*become_postgres(), str(self.programs / "pg_ctl"), "status", "-D", str(self.data)]
        return subprocess.run(command, cwd="/", capture_output=True).returncode == 0

    def connect(self, database: str = "postgres", user: str = "postgres", application_name: str = "") -> psycopg.Connection[Any]:
        url = f"postgresql://{user}@{self.address}/{database}"
        return psycopg.connect(url, autocommit=True, connect_timeout=2, tcp_user_timeout=2000, application_name=application_name)

    def ask(self, sql: str, database: str = DATABASE) -> list[Any]:
        with self.connect(database) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def set(self, **settings: str | None) -> None:
        """Change settings of the running server; None restores the default."""
        with self.connect() as connection:
            for name, value in settings.items():
                change = f"SET {name} = '{value}'" if value is not None else f"RESET {name}"
                connection.execute(f"ALTER SYSTEM {change}".encode())
            connection.execute("SELECT pg_reload_conf()")

    def add_database(self) -> None:
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}".encode())

    def kill(self) -> None:
        """End all processes at once, as the loss of the machine does."""
        pid = self.data / "postmaster.pid"
        if self.runs:
            os.kill(int(pid.read_text().split()[0]), signal.SIGQUIT)
            wait_for(lambda: not self.runs, "the server ends")


class Pooler:
    """PgBouncer in transaction mode with four server connections; all else as Debian ships it."""

    def __init__(self, node: Node, folder: Path, server: Postgres) -> None:
        self.node, self.folder, self.server = node, folder, server
        self.port = PORTS["pooler"]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.node.address}:{self.port}"

    def start(self) -> None:
        make_folder(self.folder)
        host, port = self.server.address.split(":")
        config = self.folder / "pgbouncer.ini"
        config.write_text(POOLER.format(host=host, port=port, listen=self.port, folder=self.folder))
        (self.folder / "users.txt").write_text(f'"{ROLE}" ""\n')
        command = self.node.command(*become_postgres(), "pgbouncer", "-q", str(config))
        self.process = subprocess.Popen(command, cwd="/")

    def stop(self) -> None:
        """End it at once; its clients lose their connections."""
        if self.process:
            self.process.terminate()
            self.process.wait(PATIENCE_S)
            self.process = None


def wait_for(condition: Any, what: str, patience_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, f"not within {patience_s} s: {what}"
        time.sleep(0.1)
