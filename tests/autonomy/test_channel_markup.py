"""Tenant text in the operator's channels is text: it mentions nobody, and it hides no link. A web server records what is sent."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.google_chat import NotifyGoogleChat
from apprise.plugins.slack import NotifySlack
from apprise.plugins.telegram import NotifyTelegram

from headway.autonomy import check_ins

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # a warning from a dependency of apprise

HOSTILE = (
    "@everyone @here @channel <!channel> <!here|x> <@U024BE7LH> <@&4711> <users/all> <b>bold</b> <a href='https://evil.example'>ok</a>"
    " [ok](https://evil.example) <https://evil.example|ok> **loud** # title"
)
LINK = "https://headway.example/goals/7"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general"
# Markup that each service would act on.
MENTIONS = ("@everyone", "@here", "@channel", "<@U024BE7LH>", "<@&4711>")
SERVICES = {
    "discord://4711/abcdefghijklmnop": (*MENTIONS, "[ok](", "**loud**"),
    SLACK: (*MENTIONS, "<!channel>", "<!here|x>", "<https://evil.example|ok>"),
    f"{SLACK}?blocks=yes": (*MENTIONS, "<!channel>", "<!here|x>", "<https://evil.example|ok>"),
    "tgram://123456789:abcdefg_hijklmnop/12315544/": (*MENTIONS, "<b>bold", "<a "),
    "mmost://127.0.0.1:{port}/3ccdd113474722377935511fc85d3dd4": (*MENTIONS, "[ok](", "**loud**"),
    "rocket://a/1234567890abcdefghijklmnopqrst@127.0.0.1:{port}/#general": (*MENTIONS, "[ok](", "**loud**"),
    "gchat://workspace/key/token": (*MENTIONS, "<users/all>", "<https://evil.example|ok>", "**loud**"),
    "matrix://token@127.0.0.1:{port}/?mode=slack": (*MENTIONS, "<b>bold", "<a "),
}


class Recorder(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.bodies: list[Any] = []


class Desk(BaseHTTPRequestHandler):
    server: Recorder

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the access log."""

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answer = b"ok" if "/slack" in self.path else b'{"ok": true}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """The server of every service."""
    with Recorder() as server:
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(NotifyDiscord, "notify_url", f"{url}/discord")
        monkeypatch.setattr(NotifySlack, "webhook_url", f"{url}/slack")
        monkeypatch.setattr(NotifyTelegram, "notify_url", f"{url}/bot")
        monkeypatch.setattr(NotifyGoogleChat, "notify_url", f"{url}/chat")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def list_texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [text for item in (value.values() if isinstance(value, dict) else value) for text in list_texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("service", SERVICES)
def test_no_markup_of_a_tenant_is_live(recorder: Recorder, service: str) -> None:
    assert check_ins.send(service.format(port=recorder.server_port), "budget", HOSTILE, LINK)

    (body,) = recorder.bodies
    sent = "\n".join(list_texts(body))
    assert "everyone" in sent  # the text is there
    assert [markup for markup in SERVICES[service] if markup in sent] == []


def test_a_program_gets_the_text_as_it_is(recorder: Recorder) -> None:
    assert check_ins.send(f"json://127.0.0.1:{recorder.server_port}/", "budget", HOSTILE, LINK)

    assert recorder.bodies[0]["message"] == f"{HOSTILE}\n{LINK}"
