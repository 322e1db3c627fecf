"""A receiver of webhooks on this machine, and a tenant with a webhook to it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from headway.actions.engine import webhooks
from headway.ledger.webhook import NewWebhook
from headway.process.assembly import Headway
from headway.testing import TenantHarness

HOSTS = ("127.0.0.1",)
PATIENCE_S = 60


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def seq(self) -> int:
        return int(self.document["seq"])


class Receiver(ThreadingHTTPServer):
    """Accepts every message, unless `answer` says otherwise: it returns the status of the answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.received: list[Received] = []  # also those that were refused
        self.answer: Callable[[Received], int] = lambda _received: 204
        self.headers: dict[str, str] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about senders that have gone."""

    @property
    def seqs(self) -> list[int]:
        return [received.seq for received in self.received]


class Door(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the access log."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        received = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.server.received.append(received)
        status = self.server.answer(received)
        self.send_response(status)
        for name, value in {"Content-Length": "0", **self.server.headers}.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


class Hook(NamedTuple):
    """A webhook, its secret and its tenant."""

    id: str
    secret: str
    desk: TenantHarness

    def show(self) -> dict[str, Any]:
        return self.desk.read(webhooks.get_webhook, self.id).as_json()

    def list_seqs(self, kind: str = "%") -> list[int]:
        """The numbers of the tenant's events since the webhook was created."""
        rows = self.desk.database.read(
            lambda tx: tx.all("SELECT seq FROM events WHERE tenant_id = ? AND kind LIKE ? ORDER BY seq", self.desk.tenant.id, kind)
        )
        return [int(row[0]) for row in rows]


def subscribe(desk: TenantHarness, receiver: Receiver, path: str = "/", **fields: Any) -> Hook:
    view = desk.write(webhooks.create_webhook, NewWebhook(receiver.url + path, **fields), HOSTS)
    return Hook(view.webhook.id, view.secret, desk)


@asynccontextmanager
async def open_headway(url: str, home: Path) -> AsyncIterator[Headway]:
    async with Headway.open(home=home, database_url=url, webhook_hosts=",".join(HOSTS), retry_delay_s=0.01) as headway:
        yield headway


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)
