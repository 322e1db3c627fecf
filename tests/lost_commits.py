"""A proxy for Postgres that drops the reply to one commit: the server has stored it, but the client never learns so."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict


class LossyProxy:
    """Forwards everything. The first COMMIT after a message that contains `after` is forwarded too, but its reply is dropped."""

    def __init__(self, url: str, after: bytes) -> None:
        known = conninfo_to_dict(url)
        self.server = f"{known['host']}/.s.PGSQL.{known.get('port', 5432)}"
        self.after = after
        self.lost = 0
        self.door = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://{known['user']}:@127.0.0.1:{self.door.getsockname()[1]}/{known['dbname']}"

    def serve(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self.door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server)
                threading.Thread(target=self.there, args=(client, server), daemon=True).start()
                threading.Thread(target=self.back, args=(client, server), daemon=True).start()

    def there(self, client: socket.socket, server: socket.socket) -> None:
        met = False
        with suppress(OSError):
            while words := client.recv(65536):
                met = met or self.after in words
                if met and b"COMMIT" in words and not self.lost:
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                server.sendall(words)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def back(self, client: socket.socket, server: socket.socket) -> None:
        while words := server.recv(65536):
            with suppress(OSError):  # the client is gone, but the server's replies are still read to the end
                client.sendall(words)
        client.close()
        server.close()


@contextmanager
def lose_commit_answer(url: str, after: bytes) -> Iterator[LossyProxy]:
    way = LossyProxy(url, after)
    threading.Thread(target=way.serve, daemon=True).start()
    try:
        yield way
    finally:
        way.door.close()
