"""Fetching pages: from allowed hosts, on public addresses, within limits, and from servers that misbehave."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.web import fetch
from headway.ledger.errors import Invalid, OutOfReach
from headway.outbound import Address, is_host_allowed, is_public
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import build_caller
from tests.tables import each_row

# Self-signed for these tests, so no client trusts it.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgAc3ccAXDJ9J7NjDv
AHBi+aKeR/6QnDVG77nIftMe4H+hRANCAARhDimufp5smZXRlUDg8l3AGtDc3tOY
vLGeYQYLMl/x5gJk4gXNpQdczPEmjtfDMY9hk6oi5gOAwpxETtWMZbac
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBlTCCATugAwIBAgIUOh4RIJL3SM81OaGvBAvNkmyq0PowCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTA2MTkzMVoYDzIxMjYxMDIy
MDYxOTMxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARhDimufp5smZXRlUDg8l3AGtDc3tOYvLGeYQYLMl/x5gJk4gXNpQdc
zPEmjtfDMY9hk6oi5gOAwpxETtWMZbaco2kwZzAdBgNVHQ4EFgQU2b9eO1eyHP5J
tZgxunl/qh4/g4UwHwYDVR0jBBgwFoAU2b9eO1eyHP5JtZgxunl/qh4/g4UwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
SAAwRQIhAN6WYegNlGBWf+yFQ8XTQTmCSTcHFfo/uW/uo2bNMCtaAiAkFNjX7iRb
NxkWF9kz2cO6SOLdOaxkmN1ES+H1y66PYg==
-----END CERTIFICATE-----
"""
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGr\xc3\xbc\xc3\x9fe"


class Site:
    """A local server that sends exactly the given pieces, one at a time, to every client."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.requests: list[str] = []
        self.pieces: Callable[[str], Iterator[bytes]] = lambda _path: iter([PAGE])
        self.over = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self.listener.accept()
                with line, suppress(OSError):
                    request = line.recv(65_536).decode("latin-1")
                    self.requests.append(request)
                    for piece in self.pieces(request.partition(" ")[2].partition(" ")[0]):
                        line.sendall(piece)

    def send(self, *pieces: bytes) -> None:
        self.pieces = lambda _path: iter(pieces)

    def fetch(self, url: str | None = None, **options: Any) -> dict[str, Any]:
        """Fetch as the tool does, except that 127.0.0.1 counts as a public address."""
        return fetch(url or self.url, ("*",), lambda address: address == "127.0.0.1", **options)


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.over.set()
    with suppress(OSError):
        server.listener.shutdown(socket.SHUT_RDWR)
    server.listener.close()


def get_refusal(work: Callable[[], Any]) -> str:
    with pytest.raises(Invalid) as refused:
        work()
    assert str(refused.value).endswith(".")
    return str(refused.value)


# Responses


def test_a_page_comes_back_as_text_with_where_it_is_from(site: Site) -> None:
    assert site.fetch() == {"status": 200, "url": site.url, "content_type": "text/plain; charset=utf-8", "text": "Grüße"}
    (request,) = site.requests
    assert request.startswith("GET / HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{site.port}\r\n" in request


def test_paths_and_queries_arrive_as_they_were_meant(site: Site) -> None:
    site.fetch(f"{site.url}käse/a%20b?q=ü&x=%26#part")

    assert site.requests[0].startswith("GET /k%C3%A4se/a%20b?q=%C3%BC&x=%26 HTTP/1.1\r\n")


def test_an_error_of_the_site_is_an_answer(site: Site) -> None:
    site.send(b"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\n\r\n{}")

    answer = site.fetch()
    assert (answer["status"], answer["text"]) == (404, "{}")


@each_row(
    ("charset", "text"),
    [
        ("iso-8859-1", "é"),
        ('"windows-1252"', "é"),
        ("nonsense", "\ufffd"),
        ("punycode", "\ufffd"),
        ("utf-8", "\ufffd"),
        ("gb_nonsense", "\ufffd"),
    ],
)
def test_text_is_read_in_the_charset_it_names_if_it_is_one(site: Site, charset: str, text: str) -> None:
    site.send(f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset={charset}\r\n\r\n".encode(), b"\xe9")

    assert site.fetch()["text"] == text


@each_row("kind", ["image/png", "application/octet-stream", "application/pdf", "application/zip", "video/mp4", "\x1b[2J"])
def test_content_that_is_not_text_is_refused(site: Site, kind: str) -> None:
    site.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode(), b"\x89PNG")

    assert "not text" in (message := get_refusal(site.fetch))
    assert message.isprintable()


def test_compressed_content_is_refused(site: Site) -> None:
    site.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b")

    assert "compressed" in get_refusal(site.fetch)
    assert "Accept-Encoding: identity" in site.requests[0]


def test_a_huge_page_is_shown_from_its_beginning_and_not_read_to_its_end(site: Site) -> None:
    def endless(_path: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
        while not site.over.is_set():
            yield b"x" * 100_000

    site.pieces = endless
    answer = site.fetch()
    assert answer["text"] == "x" * 50_000
    assert "truncated" in answer


def test_characters_that_no_database_keeps_are_replaced(site: Site) -> None:
    site.send(b"HTTP/1.1 200 OK\r\n\r\na\0b")

    assert site.fetch()["text"] == "a\ufffdb"


# Timeouts and invalid responses


def drip_after(site: Site, *head: bytes) -> Callable[[str], Iterator[bytes]]:
    def drip(_path: str) -> Iterator[bytes]:
        yield from head
        while not site.over.wait(0.02):
            yield b"x"

    return drip


@each_row("head", [(), (b"HTTP/1.1 200 OK\r\nX-Slow: ",), (b"HTTP/1.1 200 OK\r\n\r\n",)])
def test_a_page_that_drips_in_is_given_up_at_the_deadline(site: Site, head: tuple[bytes, ...]) -> None:
    site.pieces = drip_after(site, *head)
    started_at = time.monotonic()

    assert "took too long" in get_refusal(lambda: site.fetch(total_s=0.3))
    assert time.monotonic() - started_at < 20


def test_a_site_that_says_nothing_is_given_up_at_the_deadline(site: Site) -> None:
    def silence(_path: str) -> Iterator[bytes]:
        site.over.wait()
        yield b""

    site.pieces = silence
    assert "took too long" in get_refusal(lambda: site.fetch(total_s=0.2))


@each_row(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_a_malformed_http_answer_is_an_error_in_one_sentence(site: Site, answer: bytes) -> None:
    site.send(answer)

    assert "could not be fetched" in get_refusal(site.fetch)


def test_a_refused_connection_is_an_error_in_one_sentence(site: Site) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

        assert "could not be fetched" in get_refusal(lambda: site.fetch(f"http://127.0.0.1:{port}/"))


# Allowed hosts and addresses


@each_row(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "//127.0.0.1/",
        "127.0.0.1",
        "http://",
        "http:///path",
        "http://user@127.0.0.1/",
        "http://user:word@127.0.0.1/",
        "http://@127.0.0.1/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:abc/",
        "http://[::1/",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nX-Injected: 1",
        "http://127.0.0.1\\@example.org/",
        "http://127.0.0.1/" + "x" * 5000,
        "http://" + "ü" * 300 + "/",
        "http://" + "x" * 300 + "/",
        "http://a..b/",
    ],
)
def test_a_url_that_is_not_plain_http_is_refused(site: Site, url: str) -> None:
    assert get_refusal(lambda: site.fetch(url))


PRIVATE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.1",
    "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0",
    "fc00::1", "fd12::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "2002:7f00:1::",
    "2002:a00:1::1", "2001:0:1::1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "fec0::1",
    "::ffff:0:127.0.0.1",
]  # fmt: skip


@each_row("address", PRIVATE)
def test_private_network_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@each_row("address", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::200e", "64:ff9b::808:808"])
def test_addresses_on_the_internet_are(address: str) -> None:
    assert is_public(address)


@each_row(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0177.0.0.1",
        "0x7f.1",
        "127.0.1",
        "１２７.０.０.１",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "0",
        "0.0.0.0",
    ],
)
def test_no_way_of_writing_this_machine_gets_past_the_tool(sqlite_agent: Agent, site: Site, host: str) -> None:
    caller = build_caller(sqlite_agent, world=ExternalAccess(http_hosts=("*",)))

    assert caller.refused("http_get", url=f"http://{host}:{site.port}/")
    assert site.requests == []


def test_a_name_with_a_single_forbidden_address_is_not_asked_at_all(site: Site) -> None:
    def one_of_each(_host: str, port: int) -> list[Address]:
        return [Address(socket.AF_INET, ("127.0.0.1", port)), Address(socket.AF_INET, ("10.0.0.1", port))]

    assert "public address" in get_refusal(lambda: site.fetch("http://example.org/", look_up=one_of_each))
    assert site.requests == []


def test_a_name_is_looked_up_once_so_that_it_cannot_lead_elsewhere_later(site: Site) -> None:
    answers = iter(["127.0.0.1", "10.0.0.1"])

    def rebinding(_host: str, port: int) -> list[Address]:
        return [Address(socket.AF_INET, (next(answers), port))]

    assert site.fetch(f"http://example.org:{site.port}/", look_up=rebinding)["text"] == "Grüße"
    assert f"Host: example.org:{site.port}\r\n" in site.requests[0]
    assert list(answers) == ["10.0.0.1"]


def test_of_several_addresses_the_next_is_tried_when_one_does_not_answer(site: Site) -> None:
    def two(_host: str, port: int) -> list[Address]:
        return [Address(socket.AF_INET, ("127.0.0.1", 1)), Address(socket.AF_INET, ("127.0.0.1", port))]

    assert site.fetch(f"http://example.org:{site.port}/", look_up=two)["status"] == 200


def test_a_host_that_does_not_exist_is_an_error_in_a_sentence(site: Site) -> None:
    assert get_refusal(lambda: site.fetch("http://nowhere.invalid/")) == "There is no host nowhere.invalid."


@each_row(
    ("host", "hosts", "allowed"),
    [
        ("example.org", ("example.org",), True),
        ("example.org", ("Example.ORG",), True),
        ("www.example.org", ("example.org",), False),
        ("www.example.org", ("*.example.org",), True),
        ("a.b.example.org", ("*.example.org",), True),
        ("example.org", ("*.example.org",), False),
        ("evilexample.org", ("*.example.org", "example.org"), False),
        ("example.org.evil.net", ("*.example.org", "example.org"), False),
        ("anything.net", ("*",), True),
        ("anything.net", (), False),
    ],
)
def test_an_allow_list_matches_names_their_subdomains_or_everything(host: str, hosts: tuple[str, ...], allowed: bool) -> None:
    assert is_host_allowed(host, hosts) is allowed


def test_a_host_that_is_not_listed_is_not_even_looked_up(sqlite_agent: Agent) -> None:
    caller = build_caller(sqlite_agent, world=ExternalAccess(http_hosts=("example.org", "*.example.net")))

    message = caller.refused("http_get", url="http://localhost/")
    assert message == "localhost is not an allowed host. Allowed: example.org, *.example.net."


# Redirects


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


def test_a_redirect_is_followed_and_the_answer_says_where_it_led(site: Site) -> None:
    site.pieces = lambda path: iter([PAGE if path == "/new" else redirect("/new")])

    assert site.fetch()["url"] == f"{site.url}new"


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.2:{port}/",
        "http://169.254.169.254/latest",
        "http://[::1]:{port}/",
        "file:///etc/passwd",
        "http://me:pw@127.0.0.1:{port}/",
        "//10.0.0.1/",
    ],
)
def test_a_redirect_to_a_forbidden_address_is_refused(site: Site, to: str) -> None:
    site.send(redirect(to.format(port=site.port)))

    assert get_refusal(site.fetch)
    assert len(site.requests) == 1


def test_a_redirect_to_a_host_that_is_not_listed_is_refused(site: Site) -> None:
    site.send(redirect(f"http://localhost:{site.port}/"))

    assert "is not an allowed host" in get_refusal(lambda: fetch(site.url, ("127.0.0.1",), lambda _address: True))
    assert len(site.requests) == 1


def test_redirects_end(site: Site) -> None:
    site.send(redirect("/again"))

    assert get_refusal(site.fetch) == "The page redirects more than 5 times."
    assert len(site.requests) == 6


# The environment and certificates


def test_a_proxy_named_in_the_environment_is_not_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")

    assert site.fetch()["status"] == 200


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "certificate.pem").write_text(CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            line, _ = listener.accept()
            with line, suppress(OSError), context.wrap_socket(line, server_side=True) as secured:
                secured.recv(65_536)
                secured.sendall(PAGE)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    yield listener.getsockname()[1]
    listener.close()
    server.join(5)


def fetch_tls(port: int) -> dict[str, Any]:
    return fetch(f"https://localhost:{port}/", ("localhost",), lambda _address: True)


def test_a_site_with_an_untrusted_certificate_is_refused(tls_port: int) -> None:
    assert "certificate verify failed" in get_refusal(lambda: fetch_tls(tls_port))


def test_a_site_with_a_certificate_of_its_name_is_asked(tls_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))

    assert fetch_tls(tls_port)["text"] == "Grüße"


def test_a_certificate_of_another_name_is_refused(tls_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))

    assert "certificate verify failed" in get_refusal(
        lambda: fetch(f"https://127.0.0.1:{tls_port}/", ("*",), lambda _address: True)
    )


@each_row("status", [429, 502, 503, 504])
def test_a_server_that_is_overloaded_is_a_failure_that_may_pass(site: Site, status: int) -> None:
    site.send(b"HTTP/1.1 %d Busy\r\nContent-Type: text/plain\r\n\r\nLater." % status)
    with pytest.raises(OutOfReach, match=f"127.0.0.1 answered with status {status}"):
        site.fetch()
