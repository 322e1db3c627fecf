"""/v1/views: named sets of the board's filters."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from headway.actions.access import tokens
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import PATIENCE_S, Client
from tests.tables import each_row

NAMES = ("status", "conversation_id", "agent_id", "proof", "q", "priority", "label", "overdue")
NO_FILTERS = dict.fromkeys(NAMES)


def test_a_view_is_saved_listed_changed_and_deleted(client: Client) -> None:
    texts = {"status": "cancelled", "conversation_id": "tenant", "agent_id": "ci", "proof": "broken", "q": "deploy"}
    filters = {**texts, "priority": "high", "label": "home", "overdue": True}
    with open_stream(client) as stream:
        view = client.ok("POST", "/v1/views", 201, json={"name": "Broken", "filters": filters})["view"]
        listed = client.ok("GET", "/v1/views")
        path = f"/v1/views/{view['id']}"
        changed = client.ok("PATCH", path, json={"name": "Only this list", "filters": {"conversation_id": 12.0}, "revision": 0.0})[
            "view"
        ]
        taken = client.refused("PATCH", path, 409, "conflict", json={"filters": filters, "revision": 0})
        assert client.ok("DELETE", path) == {"deleted": True}
        events = [(event.event, event.data["change"], event.data["view"]) for event in stream.take(3)]

    assert view["filters"] == filters | {"status": "canceled"}
    assert (view["name"], view["person"], view["revision"]) == ("Broken", "a test", 0)
    assert 0 <= time.time() - view["created_at"] < PATIENCE_S
    assert listed == {"views": [view]}
    assert changed == view | {
        "name": "Only this list",
        "filters": NO_FILTERS | {"conversation_id": 12},
        "revision": 1,
        "updated_at": changed["updated_at"],
    }
    assert taken == "a test changed the view 'Only this list' meanwhile. Nothing was changed. Read it again first."
    assert events == [("view_changed", "created", view), ("view_changed", "updated", changed), ("view_changed", "deleted", changed)]
    assert client.ok("GET", "/v1/views") == {"views": []}
    assert client.refused("DELETE", path, 404, "not_found") == f"No saved view {view['id']}."
    assert client.refused("PATCH", path, 404, "not_found", json={"name": "x"}) == f"No saved view {view['id']}."


def test_of_simultaneous_views_with_one_name_one_is_saved(client: Client) -> None:
    def save(name: str) -> int:
        return client.post("/v1/views", json={"name": name, "filters": {}}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(save, ["Mine", "mine", "MINE", "mINE"])) == [201, 409, 409, 409]
    assert len(client.ok("GET", "/v1/views")["views"]) == 1


@each_row(
    "body",
    [
        {},
        {"name": "x"},
        {"name": " ", "filters": {}},
        {"name": "x" * 201, "filters": {}},
        {"name": "x", "filters": {"status": "asleep"}},
        {"name": "x", "filters": {"conversation_id": 0}},
        {"name": "x", "filters": {"conversation_id": "7"}},
        {"name": "x", "filters": {"proof": "maybe"}},
        {"name": "x", "filters": {"q": "x" * 1_001}},
        {"name": "x", "filters": {"agent_id": "\n"}},
        {"name": "x", "filters": {"turn_id": "x"}},
        {"name": "x", "filters": "status=pending"},
        {"name": "x", "filters": {}, "person": "the boss"},
    ],
)
def test_a_body_that_cannot_be_is_refused(sqlite_client: Client, body: dict[str, Any]) -> None:
    assert sqlite_client.post("/v1/views", json=body).status_code == 422
    assert sqlite_client.ok("GET", "/v1/views")["views"] == []


def test_a_view_is_saved_under_the_name_of_the_person_and_only_by_those_who_may_write(sqlite_client: Client) -> None:
    def sign_in(name: str, scope: str) -> dict[str, str]:
        secret = sqlite_client.desk.write(tokens.create_token, name, scope=scope).secret
        opened = sqlite_client.desk.database.write(partial(tokens.open_session, secret_digest=tokens.hash_secret(secret)))
        return {"Authorization": f"Bearer {opened.secret}"}

    ada, reader = sign_in("ada", "write"), sign_in("reader", "read")
    body = {"name": "Mine", "filters": {"q": "door"}}
    view = sqlite_client.ok("POST", "/v1/views", 201, json=body, headers=ada)["view"]
    assert view["person"] == "ada"
    assert sqlite_client.ok("GET", "/v1/views", headers=reader)["views"] == [view]
    sqlite_client.refused("POST", "/v1/views", 403, "read_only_token", json=body, headers=reader)
    sqlite_client.refused("DELETE", f"/v1/views/{view['id']}", 403, "read_only_token", headers=reader)
