"""/v1/webhooks: only admin tokens may see or change them, and a secret is shown once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.actions.access import tokens
from headway.actions.installation.tenants import write_rows
from tests.surfaces.server_harness import Client, Service, run_server, wait_until
from tests.webhooks.receiver import HOSTS, Receiver, run_receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as server:
        yield server


def admin_of(client: Client) -> Client:
    """Let the client use an administrator's token."""
    client.headers["Authorization"] = f"Bearer {client.desk.write(tokens.create_token, 'admin', scope='admin').secret}"
    return client


def test_a_webhook_is_created_changed_tested_replayed_and_deleted(sqlite_url: str, tmp_path: Path, receiver: Receiver) -> None:
    with (
        run_server(sqlite_url, tmp_path, environment={"HEADWAY_WEBHOOK_HOSTS": ",".join(HOSTS)}) as service,
        service.tenant() as client,
    ):
        admin_of(client)
        body = {"url": f"{receiver.url}/in?key=hidden", "kinds": ["todo_changed"], "description": "to the other system"}
        created = client.ok("POST", "/v1/webhooks", 201, json=body, headers={"Idempotency-Key": "once"})
        secret, hook = created["secret"], created["webhook"]
        path = f"/v1/webhooks/{hook['id']}"
        assert secret.startswith("whsec_")
        again = client.ok("POST", "/v1/webhooks", 201, json=body, headers={"Idempotency-Key": "once"})
        assert (again["webhook"]["id"], again["secret"]) == (hook["id"], None)

        delivery = client.ok("POST", f"{path}/test", headers={"Idempotency-Key": "tried"})["delivery"]
        assert client.ok("POST", f"{path}/test", headers={"Idempotency-Key": "tried"})["delivery"] == delivery  # sent once
        assert (delivery["status"], delivery["error"], delivery["type"]) == (204, None, "webhook_test")
        for number in range(3):
            client.add(f"todo {number}")
        wait_until(lambda: len(receiver.received) == 4, "the events arrive")
        wait_until(lambda: client.ok("GET", path)["webhook"]["after"] == receiver.received[-1].seq, "the position is stored")
        deliveries = client.ok("GET", f"{path}/deliveries")["deliveries"]
        assert [one["seq"] for one in deliveries] == [*(received.seq for received in reversed(receiver.received[1:])), None]

        replayed = client.ok("POST", f"{path}/replay", json={"after": receiver.received[1].seq})["webhook"]
        assert replayed["after"] == receiver.received[1].seq
        wait_until(lambda: len(receiver.received) == 6, "two events arrive again")
        ids = [received.headers["webhook-id"] for received in receiver.received]
        assert ids[4:] == ids[2:4]
        assert client.ok("PATCH", path, json={"paused": True, "kinds": []})["webhook"]["state"] == "paused"
        rotated = client.ok("POST", f"{path}/rotate", 201, json={"overlap_s": 60})
        assert rotated["secret"] != secret

        check_nothing_leaks(service, client, secret, rotated["secret"])
        assert client.ok("DELETE", path) == {"deleted": True}
        client.refused("GET", path, 404, "not_found")
        actions = [entry["action"] for entry in client.ok("GET", "/v1/audit", params={"action": "webhook"})["entries"]]
        assert actions == [f"webhook.{verb}" for verb in ("delete", "rotate", "change", "replay", "create")]


def check_nothing_leaks(service: Service, client: Client, *secrets: str) -> None:
    """The secrets are in no answer, event, row of another table, export or log, and the address is only shown to administrators."""
    exported: list[bytes] = []

    class Archive:
        def add_lines(self, name: str, lines: Iterator[bytes]) -> None:
            exported.extend(lines)

    client.desk.read(write_rows, Archive(), lambda _table, _count: None)
    seen = [b"".join(exported).decode(), service.log.read_text()]
    seen += [client.get(path).text for path in ("/v1/webhooks", "/v1/audit", "/v1/jobs")]
    for secret in secrets:
        assert all(secret.removeprefix("whsec_") not in text for text in seen)
    for kind in ("events", "jobs", "audit", "idempotency_keys", "notices"):
        rows = client.desk.database.read(lambda tx, kind=kind: tx.all(f"SELECT * FROM {kind}"))  # type: ignore[misc]
        assert not any(word in json.dumps(rows, default=str) for word in (*secrets, "hidden") if kind != "idempotency_keys")
        assert not any(secret in json.dumps(rows, default=str) for secret in secrets)


def test_only_operators_see_webhooks(sqlite_client: Client) -> None:
    body = {"url": "https://example.com/"}
    for method, path, sent in (
        ("GET", "/v1/webhooks", None),
        ("POST", "/v1/webhooks", body),
        ("GET", "/v1/webhooks/x", None),
        ("PATCH", "/v1/webhooks/x", {}),
        ("DELETE", "/v1/webhooks/x", None),
        ("POST", "/v1/webhooks/x/rotate", {}),
        ("POST", "/v1/webhooks/x/replay", {"after": 0}),
        ("POST", "/v1/webhooks/x/test", None),
        ("GET", "/v1/webhooks/x/deliveries", None),
    ):
        sqlite_client.refused(method, path, 403, "forbidden", json=sent)


def test_bad_subscriptions_are_refused(sqlite_client: Client) -> None:
    client = admin_of(sqlite_client)
    for body in (
        {"url": "http://example.com/"},
        {"url": "https://example.com/", "kinds": ["Turn Finished"]},
        {"url": "https://example.com/", "kinds": ["conversation_created"]},
        {"url": "https://u:p@example.com/"},
        {"url": "https://example.com/", "secret": "mine"},
        {},
    ):
        client.refused("POST", "/v1/webhooks", 422, "invalid", json=body)
    client.refused("POST", "/v1/webhooks", 404, "not_found", json={"url": "https://example.com/", "conversation_id": 5})
    hook = client.ok("POST", "/v1/webhooks", 201, json={"url": "https://example.com/"})["webhook"]
    client.refused("POST", f"/v1/webhooks/{hook['id']}/replay", 422, "invalid", json={"after": 2**60})
    client.refused("POST", f"/v1/jobs/{hook['id']}/cancel", 409, "conflict")
    client.ok("DELETE", f"/v1/webhooks/{hook['id']}")
