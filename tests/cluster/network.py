"""The cluster's machines: network namespaces on one bridge, whose packets can be dropped without an answer."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

NUMBER = int(os.environ.get("HEADWAY_CLUSTER_NUMBER", "0"))  # runs with different numbers do not disturb each other
BRIDGE = f"hwcluster{NUMBER or ''}"
LINK = f"hwc{NUMBER or ''}n"
SUBNET = f"10.{213 + NUMBER}.0"
HUB = f"{SUBNET}.1"  # the address of the process that runs the faults, and of the model
LOOPBACK = "127.0.0.1"
NAMES = ("pg1", "pg2", "pooler", "w1", "w2", "w3", "r1", "r2", "r3", "pg3")


class Node(NamedTuple):
    """A machine of the cluster. Without namespaces all of them are this machine."""

    name: str
    address: str
    prefix: tuple[str, ...]  # of every command that runs on it

    def command(self, *arguments: str) -> list[str]:
        return [*self.prefix, *arguments]


class Network:
    def __init__(self, *, separate: bool) -> None:
        self.separate = separate
        self.hub = HUB if separate else LOOPBACK
        self.nodes = {name: self._build_node(name, number) for number, name in enumerate(NAMES, start=11)}

    def _build_node(self, name: str, number: int) -> Node:
        if not self.separate:
            return Node(name, LOOPBACK, ())
        return Node(name, f"{SUBNET}.{number}", ("ip", "netns", "exec", f"{BRIDGE}-{name}"))

    def cut(self, name: str) -> None:
        """Drop every packet from and to this node. Nothing answers that the node cannot be reached."""
        for hook in ("input", "output"):
            run(*self.nodes[name].command("nft", f"add table inet cut; add chain inet cut {hook} {hook_rule(hook)}"))

    def reconnect(self, name: str) -> None:
        """Let packets pass again, if they were dropped."""
        subprocess.run(self.nodes[name].command("nft", "delete table inet cut"), check=False, capture_output=True)

    def reconnect_all(self) -> None:
        for name in self.nodes if self.separate else ():
            self.reconnect(name)


def hook_rule(hook: str) -> str:
    return f"{{ type filter hook {hook} priority 0; policy drop; }}"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def can_separate() -> bool:
    """Whether network namespaces, a bridge and packet filters can be made here."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nft"))):
        return False
    trial = f"{BRIDGE}-trial"
    try:
        run("ip", "netns", "add", trial)
        run("ip", "netns", "exec", trial, "nft", f"add table inet cut; add chain inet cut input {hook_rule('input')}")
        run("ip", "link", "add", f"{BRIDGE}t", "type", "bridge")
    except subprocess.CalledProcessError:
        return False
    finally:
        delete_all([trial], [f"{BRIDGE}t"])
    return True


def delete_all(namespaces: Sequence[str], links: Sequence[str]) -> None:
    """Delete those that exist."""
    for command in (*(("netns", "del", name) for name in namespaces), *(("link", "del", name) for name in links)):
        subprocess.run(["ip", *command], check=False, capture_output=True)


@contextmanager
def open_network() -> Iterator[Network]:
    network = Network(separate=can_separate())
    if not network.separate:
        yield network
        return
    namespaces = [f"{BRIDGE}-{name}" for name in NAMES]
    links = [BRIDGE, *(f"{LINK}{number}" for number in range(len(NAMES)))]
    if used := [name for name in namespaces if list_processes(name)]:
        raise SystemExit(f"Another run uses the network namespaces {', '.join(used)}. `ip netns pids` lists its processes.")
    delete_all(namespaces, links)  # left by a run that was killed
    try:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{HUB}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for number, node in enumerate(network.nodes.values()):
            connect(node, f"{LINK}{number}")
        yield network
    finally:
        delete_all(namespaces, links)


def list_processes(namespace: str) -> list[str]:
    return subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True).stdout.split()


def connect(node: Node, link: str) -> None:
    namespace = f"{BRIDGE}-{node.name}"
    run("ip", "netns", "add", namespace)
    run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    run("ip", "link", "set", link, "master", BRIDGE, "up")
    run(*node.command("ip", "addr", "add", f"{node.address}/24", "dev", "eth0"))
    for device in ("lo", "eth0"):
        run(*node.command("ip", "link", "set", device, "up"))
