"""`headway serve` is killed in the middle of a turn and restarted: the turn ends without help, and a client that reconnects gets
the rest of its events."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.ledger.events import TURN_ENDS
from tests.journeys import turn_home
from tests.journeys.accounts import check_log, check_messages, check_money
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.snapshot import read_snapshot
from tests.journeys.turn_model import CHEAP, FINAL, REQUEST, STRONG, run_turn_model
from tests.journeys.worker_processes import expire_leases
from tests.surfaces.event_stream import list_logged_ids
from tests.surfaces.server_harness import Client, client_options, run_server

HELD = 5  # the request that is never answered: the one after the refusal


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])
def test_a_turn_resumes_after_its_server_was_killed_and_readers_miss_no_event(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for the imports of the user's tools
    with run_turn_model() as model:
        write_home(tmp_path, model.url, database_url)
        with run_server(database_url, tmp_path) as first, first.tenant() as client:
            conversation_id = client.conversation()
            tenant_id = client.desk.tenant.id
            plan = ProcessPlan(str(tmp_path / "home"), database_url, tenant_id, conversation_id)
            turn_home.fill_workspace(plan.workspace)
            path = f"/v1/conversations/{conversation_id}"
            received: list[tuple[int, str]] = []
            with client.stream("GET", f"{path}/events", params={"after": 0}) as stream:
                events = read_stored_events(stream)
                client.ok("POST", f"{path}/messages", 202, json={"content": REQUEST})
                model.wait_for_requests(HELD)
                first.end(signal.SIGKILL)
                with pytest.raises(httpx.TransportError):
                    received.extend(events)
            assert received[-1][1] != "turn_finished"
            model.release()
            expire_leases(client.desk)
            with run_server(database_url, tmp_path) as second, reconnect(client, second.url) as visitor:
                last = {"Last-Event-ID": str(received[-1][0])}
                with visitor.stream("GET", f"{path}/events", headers=last) as stream:
                    for event in read_stored_events(stream):
                        received.append(event)
                        if event[1] in TURN_ENDS:
                            break
                messages = visitor.get(f"{path}/messages").json()["messages"]
            numbers = [number for number, _ in received]
            assert numbers == sorted(set(numbers)) == list_logged_ids(client)
            assert messages[-1]["content"] == FINAL
        left = read_snapshot(database_url, tenant_id)
        check_messages(left, [REQUEST])
        for check in (check_money, check_log):
            check(left)
        assert model.violations == []


def write_home(folder: Path, model_url: str, database_url: str) -> None:
    """Write the home folder and `.env` that a server reads at start."""
    turn_home.make_home(folder / "home")
    settings = {
        "HEADWAY_HOME": folder / "home",
        "HEADWAY_MODEL": f"openai-chat:{STRONG}",
        "HEADWAY_MODEL_CHEAP": f"openai-chat:{CHEAP}",
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": f"hold.{HELD}",
        "HEADWAY_DRIVE": "plan",
    }
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def reconnect(client: Client, url: str) -> httpx.Client:
    """The same client, at the server's new address."""
    return httpx.Client(headers={"Authorization": f"Bearer {client.secret}"}, **client_options(url))


def read_stored_events(stream: httpx.Response) -> Iterator[tuple[int, str]]:
    """(number, kind) of the stored events, without pings and live text."""
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
