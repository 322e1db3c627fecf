"""A stand-in for Restate in one process: its ingress, its admin API and its calls to workers, as far as the adapter uses them.

It keeps nothing and checks no keys. Tests with the real server are in test_restate_server.py and in `make cluster`.
"""

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

START, ERROR, END, INPUT, OUTPUT = 0x0000, 0x0002, 0x0003, 0x0400, 0x0401
INVOCATION = "application/vnd.restate.invocation.v5"
MANIFEST = "application/vnd.restate.endpointmanifest.v4+json"
RETRY_S = 0.05


class Announcement(NamedTuple):
    service: str
    delay: str
    key: str
    body: bytes


class StandIn:
    def __init__(self) -> None:
        self.announcements: list[Announcement] = []
        self.attempts: list[str] = []  # what each call of a worker ended with
        self.deployments: list[dict[str, Any]] = []  # the registrations
        self.services: dict[str, str] = {}  # the URL of each service
        self.manifests: list[dict[str, Any]] = []
        self.refusal = ""  # of every registration
        self.ended = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._build_handler())
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def wipe(self) -> None:
        """Forget the registrations."""
        self.services.clear()

    def _build_handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.removeprefix("/services/")
                is_known = name in stand_in.services or self.path == "/restate/health"
                self.answer(200 if is_known else 404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                url = urlsplit(self.path)
                if url.path == "/deployments":
                    status, content = stand_in.register(json.loads(body))
                else:
                    delay = parse_qs(url.query).get("delay", [""])[0]
                    service = url.path.split("/")[1]
                    status, content = stand_in.accept(Announcement(service, delay, self.headers["idempotency-key"], body))
                self.answer(status, content)

            def answer(self, status: int, content: object) -> None:
                answer = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def register(self, request: dict[str, Any]) -> tuple[int, object]:
        self.deployments.append(request)
        if self.refusal:
            return 500, {"message": self.refusal.format(uri=request["uri"])}
        try:
            status, content = call(request["uri"], "GET", "/discover", b"", {"accept": MANIFEST})
        except (OSError, HTTPException) as error:
            return 500, {"message": str(error)}
        if status != 200:
            return 400, {"message": f"the endpoint answered {status}"}
        manifest = json.loads(content)
        self.manifests.append(manifest)
        self.services |= {service["name"]: request["uri"] for service in manifest["services"]}
        return 201, {"id": "dp_1"}

    def accept(self, announcement: Announcement) -> tuple[int, object]:
        if announcement.service not in self.services:
            return 404, {"message": "service not found"}
        self.announcements.append(announcement)
        delay_s = int(announcement.delay.removesuffix("ms") or 0) / 1000
        timer = threading.Timer(delay_s, self._deliver, [announcement])
        timer.daemon = True
        timer.start()
        return 202, {"invocationId": "inv_1", "status": "Accepted"}

    def _deliver(self, announcement: Announcement) -> None:
        """Call a worker until it has answered, unless the stand-in ends."""
        delay_s = 0.0
        while not self.ended.wait(delay_s):
            delay_s = RETRY_S
            with suppress(OSError, HTTPException, KeyError):
                outcome = invoke(self.services[announcement.service], announcement.service, announcement.body)
                self.attempts.append(outcome)
                if outcome in ("done", "failed"):
                    return


def invoke(endpoint: str, service: str, body: bytes, headers: dict[str, str] | None = None) -> str:
    """Call a worker as Restate does, and say how the call ended: done, failed (for good), retry, or an HTTP status."""
    start = frame(START, field(1, b"id") + field(2, b"inv_1") + b"\x18\x01")  # one known entry: the input
    request = start + frame(INPUT, field(14, field(1, body)))
    status, content = call(endpoint, "POST", f"/invoke/{service}/deliver", request, {"content-type": INVOCATION, **(headers or {})})
    if status != 200:
        return str(status)
    frames = read_frames(content)
    if ERROR in frames or END not in frames:
        return "retry"
    return "failed" if b"\x7a" in frames[OUTPUT][:1] else "done"  # the tag of field 15


def call(url: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request(method, parts.path + path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def frame(kind: int, message: bytes) -> bytes:
    return struct.pack(">HHI", kind, 0, len(message)) + message


def field(number: int, content: bytes) -> bytes:
    return encode_integer(number << 3 | 2) + encode_integer(len(content)) + content


def encode_integer(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def read_frames(content: bytes) -> dict[int, bytes]:
    frames: dict[int, bytes] = {}
    while content:
        kind, _, length = struct.unpack(">HHI", content[:8])
        frames[kind] = content[8 : 8 + length]
        content = content[8 + length :]
    return frames


@contextmanager
def run_stand_in() -> Iterator[StandIn]:
    stand_in = StandIn()
    thread = threading.Thread(target=stand_in.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.ended.set()
        stand_in.server.shutdown()
        stand_in.server.server_close()
        thread.join()
