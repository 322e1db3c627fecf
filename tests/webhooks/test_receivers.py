"""Receivers that hang, redirect, answer too much or are on a private address harm nobody else."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headway.ledger.errors import Invalid
from headway.ledger.webhook import DeliveryAttempt, Secrets
from headway.outbound import Address, check_receiver
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from headway.webhooks import Sender, WebhookMessage
from tests.webhooks.receiver import HOSTS, open_headway, run_receiver, subscribe, until

MESSAGE = WebhookMessage("id_1", 1, "todo_changed", b"{}")
SECRETS = Secrets(("whsec_c2VjcmV0",))


def send(sender: Sender, url: str) -> DeliveryAttempt:
    return asyncio.run(sender.send(url, MESSAGE, SECRETS))


@contextmanager
def run_site(head: bytes, endless: bytes) -> Iterator[str]:
    """A server that answers with a head, and then with the same piece until its client has gone."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            line, _ = listener.accept()
            with line:
                line.recv(65_536)
                line.sendall(head)
                while endless:
                    line.sendall(endless)
                line.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_hanging_receivers_of_one_tenant_do_not_delay_another_one(sqlite_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        with DirectDatabase(sqlite_url) as database, run_receiver() as slow, run_receiver() as quick:
            over = threading.Event()

            def hang(_received: object) -> int:
                over.wait()
                return 204

            slow.answer = hang
            patient = TenantHarness(database, "patient")
            for _ in range(8):
                subscribe(patient, slow)
            async with open_headway(sqlite_url, tmp_path):
                await until(lambda: len(slow.received) >= 4)
                hook = subscribe(TenantHarness(database, "busy"), quick)
                for number in range(5):
                    hook.desk.add(f"todo {number}")
                await until(lambda: quick.seqs == hook.list_seqs())
                assert not over.is_set()
                assert len(slow.received) == 4  # the others of the same tenant wait for their turn
                over.set()

    asyncio.run(run())


def test_redirects_are_not_followed() -> None:
    with run_receiver() as first, run_receiver() as second:
        first.answer, first.headers = (lambda _received: 307), {"Location": second.url}
        attempt = send(Sender(HOSTS), first.url)
        assert attempt.status == 307
        assert "redirect" in attempt.error
        assert second.received == []


def test_a_receiver_asks_for_a_delay() -> None:
    with run_receiver() as server:
        server.answer, server.headers = (lambda _received: 429), {"Retry-After": "120"}
        attempt = send(Sender(HOSTS), server.url)
        assert (attempt.status, attempt.retry_after_s) == (429, 120)


@pytest.mark.parametrize(
    ("head", "endless", "status", "error"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536, 200, ""),
        (b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * 65_536, 0, "could not be reached"),
        (b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", 0, "could not be reached"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", b"", 0, "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n", b"", 0, "took too long"),
    ],
)
def test_answers_are_bounded(head: bytes, endless: bytes, status: int, error: str) -> None:
    with run_site(head, endless) as url:
        attempt = send(Sender(HOSTS, total_s=2 if error == "took too long" else 60), url)
        assert (attempt.status, bool(attempt.error)) == (status, bool(error))
        assert error in attempt.error


def test_only_public_addresses_are_reached_and_a_name_is_looked_up_once() -> None:
    with run_receiver() as server:
        asked: list[str] = []

        def look_up(host: str, port: int) -> list[Address]:
            asked.append(host)
            mixed = [("93.184.215.14", 443), ("127.0.0.1", server.server_port)]
            return [Address(socket.AF_INET, address) for address in mixed]

        attempt = send(Sender(("*",), look_up), "https://rebinding.example/")
        assert attempt.error == "rebinding.example does not resolve to a public address."
        assert asked == ["rebinding.example"]
        assert server.received == []
        # The operator trusts a host that the setting names, whatever address it has.
        named = Sender(
            ("*", "receiver.internal"), lambda _host, _port: [Address(socket.AF_INET, ("127.0.0.1", server.server_port))]
        )
        assert send(named, "http://receiver.internal/").error == ""
        assert server.received[0].headers["host"] == "receiver.internal"


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://example.com/", "https://"),
        ("https://user:secret@example.com/", "user name"),
        ("ftp://example.com/", "https://"),
        ("https://example.com/a b", "without spaces"),
        ("https://example.com\r\nX-Evil: 1/", "without spaces"),
        ("https://", "name a host"),
    ],
)
def test_bad_addresses_are_refused_before_anything_is_stored(url: str, error: str) -> None:
    with pytest.raises(Invalid, match=error) as raised:
        check_receiver(url, ("*",))
    assert "secret" not in str(raised.value)
    with pytest.raises(Invalid, match="not an allowed host"):
        check_receiver("https://example.org/", ("example.com", "*.example.net"))


def test_secrets_do_not_show_in_values() -> None:
    assert "c2Vj" not in repr(SECRETS)
