"""A way to Postgres on which the answer to one commit gets lost: the server has stored it, and whoever asked never hears so."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict


class LossyProxy:
    """Passes everything on, until a commit follows on what is looked for: that one is passed on, and its answer is not."""

    def __init__(self, url: str, after: bytes) -> None:
        known = conninfo_to_dict(url)
        self.server = f"{known['host']}/.s.PGSQL.{known.get('port', 5432)}"
        self.after = after
        self.lost = 0
        self.door = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://{known['user']}:@127.0.0.1:{self.door.getsockname()[1]}/{known['dbname']}"

    def serve(self) -> None:
        with suppress(OSError):  # the door was closed
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
            with suppress(OSError):  # nobody is there any more: the server is heard to its end all the same
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
