"""`headway serve` is killed in the middle of a turn and started again: the turn ends by itself, and whoever listened hears the
rest of it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.ledger.events import TURN_ENDS
from tests.journeys import party_home
from tests.journeys.crew import lapse
from tests.journeys.lives import Life
from tests.journeys.party_model import CHEAP, FINAL, REQUEST, STRONG, party_model
from tests.journeys.reckoning import check_log, check_money, check_story
from tests.journeys.remains import read
from tests.surfaces.listening import log_of
from tests.surfaces.serving import Client, plain, serving

HELD = 5  # the request whose answer never comes: the one after the refusal


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])
def test_a_turn_goes_on_after_its_server_was_killed_and_nobody_misses_an_event(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for what the user's tools import
    with party_model() as model:
        settle(tmp_path, model.url, database_url)
        with serving(database_url, tmp_path) as first, first.tenant() as client:
            conversation_id = client.conversation()
            tenant_id = client.desk.tenant.id
            life = Life(str(tmp_path / "home"), database_url, tenant_id, conversation_id)
            party_home.stock(life.workspace)
            path = f"/v1/conversations/{conversation_id}"
            heard: list[tuple[int, str]] = []
            with client.stream("GET", f"{path}/events", params={"after": 0}) as stream:
                told = durable(stream)
                client.ok("POST", f"{path}/messages", 202, json={"content": REQUEST})
                model.wait_for_requests(HELD)
                first.end(signal.SIGKILL)
                with pytest.raises(httpx.TransportError):
                    heard.extend(told)
            assert heard[-1][1] != "turn_finished"
            model.release()
            lapse(client.desk)
            with serving(database_url, tmp_path) as second, returned(client, second.url) as visitor:
                last = {"Last-Event-ID": str(heard[-1][0])}
                with visitor.stream("GET", f"{path}/events", headers=last) as stream:
                    for event in durable(stream):
                        heard.append(event)
                        if event[1] in TURN_ENDS:
                            break
                said = visitor.get(f"{path}/messages").json()["messages"]
            numbers = [number for number, _ in heard]
            assert numbers == sorted(set(numbers)) == log_of(client)
            assert said[-1]["content"] == FINAL
        left = read(database_url, tenant_id)
        for check in (check_story, check_money, check_log):
            check(left)
        assert model.violations == []


def settle(folder: Path, model_url: str, database_url: str) -> None:
    """Everything a server finds in the folder it is started in."""
    party_home.furnish(folder / "home")
    settings = {
        "HEADWAY_HOME": folder / "home",
        "HEADWAY_MODEL": f"openai-chat:{STRONG}",
        "HEADWAY_MODEL_CHEAP": f"openai-chat:{CHEAP}",
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": f"hold.{HELD}",
    }
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def returned(client: Client, url: str) -> httpx.Client:
    """The same program, at the server's new address."""
    return httpx.Client(headers={"Authorization": f"Bearer {client.secret}"}, **plain(url))


def durable(stream: httpx.Response) -> Iterator[tuple[int, str]]:
    """(number, kind) of the events that are in the log: neither heartbeats nor what a model says while it says it."""
    assert stream.status_code == 200, stream.read()
    fields: dict[str, Any] = {}
    for line in stream.iter_lines():
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
            continue
        json.loads(fields["data"])
        if "id" in fields and fields["event"] != "ping":
            yield int(fields["id"]), fields["event"]
        fields = {}
