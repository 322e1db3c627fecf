"""A proxy for Postgres that drops the reply to one commit: the server has stored it, but the client never learns so."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict

COMMITTED = b"COMMIT\x00"  # the server's reply, however the statement was sent: as text, or prepared


class LossyProxy:
    """Forwards everything, except the reply to the first COMMIT after a message that contains `after`: it ends the connection."""

    def __init__(self, url: str, after: bytes) -> None:
        options = conninfo_to_dict(url)
        self.server = f"{options['host']}/.s.PGSQL.{options.get('port', 5432)}"
        self.after = after
        self.lost = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://{options['user']}:@127.0.0.1:{self.listener.getsockname()[1]}/{options['dbname']}"

    def serve(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server)
                armed = threading.Event()
                threading.Thread(target=self.forward_requests, args=(client, server, armed), daemon=True).start()
                threading.Thread(target=self.forward_replies, args=(client, server, armed), daemon=True).start()

    def forward_requests(self, client: socket.socket, server: socket.socket, armed: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.after in data:
                    armed.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def forward_replies(self, client: socket.socket, server: socket.socket, armed: threading.Event) -> None:
        with client, server, suppress(ConnectionResetError):  # the server may end a connection that it has not read to the end
            while data := server.recv(65536):
                with suppress(OSError):  # the client is gone, but the server's replies are still read to the end
                    if armed.is_set() and COMMITTED in data and not self.lost:
                        self.lost += 1
                        client.shutdown(socket.SHUT_RDWR)
                    else:
                        client.sendall(data)


@contextmanager
def lose_commit_answer(url: str, after: bytes) -> Iterator[LossyProxy]:
    proxy = LossyProxy(url, after)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.listener.close()
