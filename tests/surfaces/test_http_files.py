"""/v1/files: what agents wrote is listed, read, downloaded and compared."""

from typing import Any

import pytest

from headway.actions.history import files
from headway.ledger.file_versions import FileOrigin, WrittenFiles, build_written
from tests.model_server import ModelServer, calls, text
from tests.sample_files import PNG
from tests.surfaces.conversation_client import reply_in_order, say, wait_for_turn
from tests.surfaces.server_harness import Client


def record(client: Client, path: str, content: bytes, run_id: str = "") -> dict[str, Any]:
    """Record a file as an agent's tool does."""
    written = WrittenFiles((build_written(path, content),))
    reference: dict[str, Any] = client.desk.write(files.record_files, "", written, FileOrigin("write_file", "index", run_id))[
        "files"
    ][0]
    return reference


def test_what_a_turn_wrote_is_listed_read_downloaded_and_compared(chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(
        calls(("write_file", {"path": "report.md", "content": "# Report\nDraft.\n"})),
        calls(("edit_file", {"path": "report.md", "old": "Draft.", "new": "Final."})),
        text("Written."),
    )
    conversation = chatter.conversation()
    turn = say(chatter, conversation, "Write the report.")
    wait_for_turn(chatter, turn)

    (file,) = chatter.ok("GET", "/v1/files", params={"turn_id": turn})["files"]
    path = f"/v1/files/{file['id']}"
    assert (file["path"], file["latest"], file["version"]["turn_id"]) == ("report.md", 2, turn)
    assert chatter.ok("GET", "/v1/files", params={"conversation_id": conversation, "q": "REPORT"})["files"] == [file]
    shown = chatter.ok("GET", path)
    assert (shown["file"], [version["n"] for version in shown["versions"]]) == (file, [2, 1])
    content = chatter.get(f"{path}/content", params={"version": 1})
    assert (content.text, content.headers["content-type"]) == ("# Report\nDraft.\n", "text/plain; charset=utf-8")
    diff = chatter.ok("GET", f"{path}/diff")
    assert (diff["from"]["n"], diff["to"]["n"], diff["added"], diff["deleted"], diff["obstacle"]) == (1, 2, 1, 1, None)
    assert [(line["kind"], line["text"]) for line in diff["hunks"][0]["lines"]] == [
        ("same", "# Report"),
        ("deleted", "Draft."),
        ("added", "Final."),
    ]
    assert chatter.refused("GET", f"{path}/content", 404, "not_found", params={"version": 3}) == "This file has no version 3."


@pytest.mark.parametrize(
    ("path", "content", "media_type", "name"),
    [
        ("a/page.html", b"<script>alert(1)</script>", "text/plain; charset=utf-8", "page.html"),
        ("image.svg", b"<svg onload='alert(1)'/>", "text/plain; charset=utf-8", "image.svg"),
        ("photo", PNG, "image/png", "photo"),
        ("data.bin", b"\xff\x00", "application/octet-stream", "data.bin"),
        (
            'a\r\nSet-Cookie: x="1"; \u202egpj',
            b"x",
            "text/plain; charset=utf-8",
            "a%20%20Set-Cookie%3A%20x%3D%221%22%3B%20%EF%BF%BDgpj",
        ),
    ],
)
def test_a_download_is_never_run_by_a_browser(sqlite_client: Client, path: str, content: bytes, media_type: str, name: str) -> None:
    file = record(sqlite_client, path, content)
    answer = sqlite_client.get(f"/v1/files/{file['id']}/content")

    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, content, media_type)
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
    assert answer.headers.get_list("content-security-policy") == ["sandbox; default-src 'none'"]
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers["cache-control"] == "no-store"


def test_what_cannot_be_is_refused(sqlite_client: Client) -> None:
    file = record(sqlite_client, "a.txt", b"x")
    path = f"/v1/files/{file['id']}"

    assert sqlite_client.refused("GET", "/v1/files/nobody's", 404, "not_found") == 'No file "nobody\'s".'
    assert sqlite_client.refused("GET", "/v1/files", 404, "not_found", params={"goal_id": 77}) == "No goal #77."
    assert sqlite_client.refused("GET", "/v1/files", 404, "not_found", params={"sub_goal_id": 7}) == "No sub-goal #7."
    for query in ({"version": 0}, {"version": "x"}, {"from": -1}, {"to": 0}, {"version": 2**63}):
        assert sqlite_client.get(f"{path}/{'content' if 'version' in query else 'diff'}", params=query).status_code == 422
    assert sqlite_client.get("/v1/files", params={"path": "x" * 1_001}).status_code == 422
    assert sqlite_client.refused("GET", "/v1/files", 422, "bad_cursor", params={"cursor": "x"})
    assert sqlite_client.post("/v1/files").status_code == sqlite_client.delete(path).status_code == 405
