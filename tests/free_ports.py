"""Ports for servers that tests start later, or start again."""

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST_OF_CONNECTIONS = int(RANGE.read_text(encoding="ascii").split()[0]) if RANGE.exists() else 32_768


def find_ports(number: int = 1) -> int:
    """Return the first of so many free ports in a row. They are below the ports that the system gives to connections and to servers
    without a port of their own, so nothing takes them before they are used."""
    while True:
        first = random.randrange(10_000, FIRST_OF_CONNECTIONS - number)
        with suppress(OSError), ExitStack() as stack:
            for port in range(first, first + number):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
