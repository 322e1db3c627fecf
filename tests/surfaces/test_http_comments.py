"""/v1/todos/{todo_id}/comments and /dependencies."""

from functools import partial
from typing import Any

from headway.actions.access import tokens
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client
from tests.tables import each_row


def test_a_comment_is_written_listed_and_deleted(client: Client) -> None:
    todo = client.add("paint the door")
    path = f"/v1/todos/{todo['id']}/comments"
    with open_stream(client) as stream:
        comment = client.ok("POST", path, 201, json={"text": "Which colour?"})["comment"]
        listed = client.ok("GET", path)
        edited = client.ok("PATCH", f"{path}/{comment['id']}", json={"text": "Which green?"})["comment"]
        assert client.ok("DELETE", f"{path}/{comment['id']}") == {"deleted": True}
        events = [(event.event, event.data["change"], event.data["todo_id"]) for event in stream.take(3)]

    assert (comment["person"], comment["text"], comment["todo_id"], comment["deletable"]) == (
        "a test",
        "Which colour?",
        todo["id"],
        True,
    )
    assert listed == {"comments": [comment], "next_cursor": None}
    assert edited == comment | {"text": "Which green?", "edited_at": edited["edited_at"]}
    assert (comment["edited_at"], edited["edited_at"] > 0) == (0, True)
    assert events == [("comment_changed", change, todo["id"]) for change in ("created", "updated", "deleted")]
    assert client.ok("GET", path)["comments"] == []
    assert client.refused("DELETE", f"{path}/{comment['id']}", 404, "not_found").startswith("No comment")
    lines = [line["text"] for line in client.ok("GET", f"/v1/why/todo/{todo['id']}")["why"]]
    assert {"a test commented on it.", "a test edited a comment."} <= set(lines)


@each_row("body", [{}, {"text": " "}, {"text": "x" * 10_001}, {"text": "x", "person": "the boss"}, {"text": None}])
def test_a_body_that_cannot_be_is_refused(sqlite_client: Client, body: dict[str, Any]) -> None:
    todo = sqlite_client.add("paint the door")
    assert sqlite_client.post(f"/v1/todos/{todo['id']}/comments", json=body).status_code == 422
    assert sqlite_client.patch(f"/v1/todos/{todo['id']}/comments/1", json=body).status_code == 422
    assert sqlite_client.ok("GET", f"/v1/todos/{todo['id']}/comments")["comments"] == []


def test_dependencies_are_named_in_both_directions(sqlite_client: Client) -> None:
    first = sqlite_client.add("dig")
    second = sqlite_client.add("plant", depends_on=[first["id"]])
    around = sqlite_client.ok("GET", f"/v1/todos/{first['id']}/dependencies")
    assert around == {
        "waits_for": [],
        "needed_by": [{"id": second["id"], "subject": "plant", "status": "pending", "proof": "none"}],
        "has_more": False,
    }
    assert [one["subject"] for one in sqlite_client.ok("GET", f"/v1/todos/{second['id']}/dependencies")["waits_for"]] == ["dig"]


def test_people_who_signed_in_on_the_page_delete_only_their_own_comments(sqlite_client: Client) -> None:
    todo = sqlite_client.add("paint the door")
    path = f"/v1/todos/{todo['id']}/comments"
    sessions = {}
    for name in ("ada", "bob", "admin"):
        scope = "admin" if name == "admin" else "write"
        secret = sqlite_client.desk.write(tokens.create_token, name, scope=scope).secret
        opened = sqlite_client.desk.database.write(partial(tokens.open_session, secret_digest=tokens.hash_secret(secret)))
        sessions[name] = {"Authorization": f"Bearer {opened.secret}"}
    comment = sqlite_client.ok("POST", path, 201, json={"text": "Green."}, headers=sessions["ada"])["comment"]

    assert (comment["person"], comment["deletable"], comment["editable"]) == ("ada", True, True)
    seen = sqlite_client.ok("GET", path, headers=sessions["bob"])["comments"]
    assert [(one["deletable"], one["editable"]) for one in seen] == [(False, False)]
    for_admin = sqlite_client.ok("GET", path, headers=sessions["admin"])["comments"]
    assert [(one["deletable"], one["editable"]) for one in for_admin] == [(True, False)]
    body = {"text": "Red."}
    refused = sqlite_client.refused("PATCH", f"{path}/{comment['id']}", 403, "forbidden", json=body, headers=sessions["admin"])
    assert refused == f"Comment {comment['id']} was written by ada. Only they can edit it."
    refused = sqlite_client.refused("DELETE", f"{path}/{comment['id']}", 403, "forbidden", headers=sessions["bob"])
    assert refused == f"Comment {comment['id']} was written by ada. Only they or an administrator can delete it."
    assert sqlite_client.ok("DELETE", f"{path}/{comment['id']}", headers=sessions["ada"]) == {"deleted": True}
