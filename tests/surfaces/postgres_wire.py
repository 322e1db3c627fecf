"""A proxy to Postgres whose connections can be cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict

from tests.free_ports import find_ports


class Wire:
    """Forwards connections from a local port to the server until it is cut."""

    def __init__(self, database_url: str) -> None:
        self.options = conninfo_to_dict(database_url)
        self.port = find_ports()
        self.lock = threading.Lock()
        self.ends: list[socket.socket] = []
        self.reconnect()

    @property
    def url(self) -> str:
        name, user, password = (self.options.get(option) or "" for option in ("dbname", "user", "password"))
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{name}"

    def accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # cut
            while True:
                near, _ = listener.accept()
                far = self.connect()
                with self.lock:
                    if listener.fileno() < 0:  # cut meanwhile
                        hang_up(near)
                        hang_up(far)
                        return
                    self.ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=forward, args=(source, target), daemon=True).start()

    def connect(self) -> socket.socket:
        host, port = str(self.options["host"]), int(self.options.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{host}/.s.PGSQL.{port}")
        return far

    def cut(self) -> None:
        with self.lock:
            hang_up(self.listener)
            while self.ends:
                hang_up(self.ends.pop())

    def reconnect(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()


def hang_up(end: socket.socket) -> None:
    with suppress(OSError):  # the other side closed it first
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # cut
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def open_wire(database_url: str) -> Iterator[Wire]:
    wire = Wire(database_url)
    yield wire
    wire.cut()
