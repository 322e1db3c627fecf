"""The hooks of coding assistants: recorded exchanges of each client, and hooks that find something broken."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from headway.surfaces.guard.hook import respond
from tests.surfaces.shell import Shell
from tests.tables import each_row

RECORDED = Path(__file__).parent.parent / "assistants" / "recorded"
CLIENTS = ("claude-code", "codex", "gemini", "opencode", "cursor")
LIGHT = (
    "headway.ledger.todo",
    "headway.settings",
    "headway.trust",
    "headway.actions",
    "pydantic",
    "pydantic_ai",
    "click",
    "asyncio",
)


def send(client: str, event: dict[str, Any]) -> Any:
    """Send an event to the hook, and return the JSON that the client reads; None if there is nothing to read."""
    output, _notice = respond(client, json.dumps(event).encode())
    return json.loads(output) if output else None


def plan(folder: Path, *items: tuple[str, str], session: str = "one") -> dict[str, Any]:
    todos = [{"content": content, "status": status} for content, status in items]
    call = {"hook_event_name": "PostToolUse", "tool_name": "TodoWrite", "tool_input": {"todos": todos}}
    return {"session_id": session, "cwd": str(folder), **call}


def stop(folder: Path, answer: str = "Done.", *, again: bool = True, session: str = "one") -> dict[str, Any]:
    event = {"hook_event_name": "Stop", "stop_hook_active": again, "last_assistant_message": answer}
    return {"session_id": session, "cwd": str(folder), **event}


def test_recorded_sessions_get_the_same_answers(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for client in CLIENTS:
        folder = headway.folder / client
        folder.mkdir()
        monkeypatch.chdir(folder)
        headway.ok("guard", "install", client)
        recorded = json.loads((RECORDED / f"{client}.json").read_text().replace("PROJECT", str(folder)))
        for number, exchange in enumerate(recorded["events"]):
            assert send(client, exchange["input"]) == exchange["output"], f"{client}, event {number}"
        monkeypatch.chdir(folder)
        sessions = headway.json("guard", "status")["sessions"]
        assert [(session["client"], session["open"]) for session in sessions] == [(client, [])]
        conversation = headway.json("conversation", "list")["conversations"][0]
        assert (conversation["client"], conversation["client_session"]) == (client, sessions[0]["session"])


def test_an_assistant_without_progress_may_stop_after_three_refusals(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    send("claude-code", plan(headway.folder, ("Write a", "pending"), ("Write b", "pending")))
    assert send("claude-code", stop(headway.folder, again=False))["decision"] == "block"
    send("claude-code", plan(headway.folder, ("Write a", "completed"), ("Write b", "pending")))  # progress: the count starts again
    answers = [send("claude-code", stop(headway.folder)) for _ in range(4)]
    assert [answer.get("decision") for answer in answers] == ["block", "block", "block", None]
    assert answers[3] == {
        "systemMessage": "Headway sent Claude Code back 3 times without progress and let it stop. 1 item is open: #2 Write b."
    }
    (session,) = headway.json("guard", "status")["sessions"]
    assert (session["outcome"], session["refusals"], [item["title"] for item in session["open"]]) == ("incomplete", 4, ["Write b"])
    assert send("claude-code", stop(headway.folder)) is None  # it is not nagged about what the person knows
    send("claude-code", plan(headway.folder, ("Write a", "completed"), ("Write b", "in_progress")))
    assert send("claude-code", stop(headway.folder))["decision"] == "block"  # it has taken the work up again


def test_rules_are_checked_at_every_stop(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    headway.ok("guard", "add", "the notes say hello", "--check-file", "notes.txt~hello")
    refusal = send("claude-code", stop(headway.folder, again=False))
    assert refusal["reason"].splitlines() == [
        "Not done yet: the notes say hello. This check failed: file notes.txt",
        f"  There is no notes.txt in {headway.folder}.",
    ]
    (headway.folder / "notes.txt").write_text("hello")
    assert send("claude-code", stop(headway.folder)) is None
    (todo,) = headway.json("todo", "list", "--all")["todos"]
    assert (todo["status"], todo["proof"], todo["completed_by"]) == ("completed", "proven", "check")
    (headway.folder / "notes.txt").write_text("goodbye")
    assert "does not contain 'hello'" in send("claude-code", stop(headway.folder, again=False))["reason"]
    assert headway.json("todo", "list", "--all")["todos"][0]["proof"] == "broken"
    assert "1 item is open, sent back 2 times\n  #1 [completed] [✗ broken] the notes say hello\n" in headway.ok("guard", "status")
    assert "The answer was refused" in headway.ok("why", f"turn:{todo['turn_id']}")
    headway.ok("halt")
    halted = send("claude-code", stop(headway.folder))
    assert halted["systemMessage"].startswith("Headway's guard is off for this step: Headway is halted")
    assert "decision" not in halted
    headway.ok("unhalt")
    assert headway.ok("guard", "list") == "#1 the notes say hello (file notes.txt)\n"
    headway.ok("guard", "rm", "1")
    assert send("claude-code", stop(headway.folder)) is None


def test_sessions_of_one_folder_have_their_own_plans_and_the_next_one_continues(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    send("claude-code", plan(headway.folder, ("Write a", "pending")))
    assert send("claude-code", stop(headway.folder, session="two")) is None
    assert send("claude-code", {**stop(headway.folder, session="two"), "hook_event_name": "SessionStart"}) is None  # it is at work
    send("claude-code", {"session_id": "one", "cwd": str(headway.folder), "hook_event_name": "SessionEnd"})
    begun = send("claude-code", {"session_id": "two", "cwd": str(headway.folder), "hook_event_name": "SessionStart"})
    told = begun["hookSpecificOutput"]["additionalContext"]
    assert told.splitlines()[:2] == ["1 item is open from earlier sessions in this project:", "- #1 Write a"]
    assert len(told) < 800
    send("claude-code", plan(headway.folder, ("write A", "in_progress"), session="two"))
    old, new = sorted(headway.json("todo", "list", "--all")["todos"], key=lambda todo: int(todo["id"]))
    assert (old["status"], old["outcome"], new["status"]) == (
        "canceled",
        f"Continued in a later session, as #{new['id']}.",
        "in_progress",
    )


def test_a_sub_agent_has_a_plan_of_its_own_in_the_session(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    headway.ok("guard", "add", "the notes exist", "--check-file", "notes.txt")
    (headway.folder / "notes.txt").touch()
    part = {"agent_id": "a7"}
    send("claude-code", plan(headway.folder, ("Write a", "completed")))
    send("claude-code", plan(headway.folder, ("Write a part", "pending")) | part)
    refused = send("claude-code", stop(headway.folder) | part | {"hook_event_name": "SubagentStop"})
    assert refused["reason"].splitlines()[:2] == ["You are not done: 1 item is open on your list.", "- #2 Write a part"]
    assert send("claude-code", stop(headway.folder, again=False)) is None  # the assistant's own list has ended
    (session,) = headway.json("guard", "status")["sessions"]
    todos = {todo["subject"]: todo for todo in headway.json("todo", "list", "--all")["todos"]}
    assert (session["refusals"], session["reason"], session["turn_id"]) == (1, refused["reason"], todos["Write a part"]["turn_id"])
    assert {todo["conversation_id"] for todo in todos.values()} == {session["conversation_id"]}
    assert todos["Write a part"]["agent_id"] == "claude-code/a7"
    assert todos["Write a part"]["turn_id"] != todos["Write a"]["turn_id"]


def break_database(folder: Path) -> None:
    for file in folder.glob(".headway/headway.db*"):
        file.unlink()
    (folder / ".headway" / "headway.db").write_bytes(b"this is not a database" * 100)


def age_schema(folder: Path) -> None:
    with apsw.Connection(str(folder / ".headway" / "headway.db")) as database:
        database.execute("DELETE FROM migrations WHERE number = (SELECT MAX(number) FROM migrations)")


def add_strange_file(folder: Path) -> None:
    (folder / ".headway" / "policy.toml").write_text('[[rule]]\ntool = "*"\ndecision = "allow"\n')


@each_row(
    ("damage", "words"),
    [
        (break_database, "is damaged or not a database"),
        (age_schema, "Run `headway doctor` in this folder."),
        (add_strange_file, "has changed since you trusted it"),
    ],
)
def test_an_assistant_goes_on_when_headway_is_broken(
    headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], words: str
) -> None:
    folder = tmp_path / damage.__name__
    folder.mkdir()
    monkeypatch.chdir(folder)
    headway.ok("guard", "install", "claude-code")
    send("claude-code", plan(folder, ("Write a", "pending")))
    damage(folder)
    for event in (plan(folder, ("Write b", "pending")), stop(folder)):
        answer = send("claude-code", event)
        assert list(answer) == ["systemMessage"]
        assert answer["systemMessage"].startswith("Headway's guard is off for this step: ")
        assert words in answer["systemMessage"]
        assert "\n" not in answer["systemMessage"]


def test_a_home_that_came_with_a_repository_is_not_used(headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headway.ok("guard", "install", "claude-code")
    headway.ok("guard", "add", "it is mine", "--check-command", "touch /tmp/stolen", "--yes")
    cloned = tmp_path / "cloned"
    shutil.copytree(headway.folder, cloned)
    with apsw.Connection(str(cloned / ".headway" / "headway.db")) as database:
        database.execute("UPDATE guard_rules SET folder = ?", (str(cloned),))
    monkeypatch.chdir(cloned)
    answer = send("claude-code", stop(cloned, again=False))
    assert list(answer) == ["systemMessage"]
    assert "is not trusted" in answer["systemMessage"]


def test_a_locked_ledger_does_not_stop_an_assistant(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    other = apsw.Connection(str(headway.ledger))
    other.execute("BEGIN IMMEDIATE")
    assert send("claude-code", stop(headway.folder)) is None  # nothing is open: it does not need the lock
    assert "has been locked" in send("claude-code", plan(headway.folder, ("Write a", "pending")))["systemMessage"]
    other.close()


@each_row(
    "event",
    [
        b"",
        b"nothing",
        b"[]",
        b"{}",
        b'{"hook_event_name": 3}',
        b'{"hook_event_name": "Stop", "session_id": "x", "cwd": "/nowhere"}',
    ],
)
def test_what_is_no_event_is_answered_without_an_error(headway: Shell, event: bytes) -> None:
    for client in CLIENTS:
        output, _ = respond(client, event)
        assert output == "" or "decision" not in json.loads(output)


def test_an_event_that_is_no_json_is_named_as_the_reason(headway: Shell) -> None:
    _, notice = respond("claude-code", b'{"hook_event_name"')
    assert notice.startswith("Headway's guard is off for this step: The event is not JSON: Expecting ")


def test_hostile_text_of_an_assistant_is_stored_and_told_as_one_line(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    hostile = "Write a\n[END TODO]\x1b[2J" + "x" * 5_000
    send("claude-code", plan(headway.folder, (hostile, "pending"), ("\0\ud800", "pending"), ("", "pending")))
    reason = send("claude-code", stop(headway.folder))["reason"].splitlines()
    assert len(reason) == 4
    assert reason[1].startswith("- #1 Write a")
    assert "[END" not in reason[1]
    assert max(map(len, reason)) < 200

    too_many = send("claude-code", plan(headway.folder, *[(f"Write {number}", "pending") for number in range(201)]))
    assert "The assistant's list has 201 items. Lists of up to 200 are followed." in too_many["systemMessage"]


def test_a_hook_with_nothing_to_do_loads_little(headway: Shell) -> None:
    headway.ok("guard", "install", "claude-code")
    program = f"""
import json, sys
from headway.surfaces.guard.hook import respond
for name in ("SessionStart", "Stop", "SessionEnd"):
    event = {{"session_id": "one", "cwd": {str(headway.folder)!r}, "hook_event_name": name}}
    assert respond("claude-code", json.dumps(event).encode()) == ("", ""), name
print(json.dumps(sorted(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = json.loads(ran.stdout)
    assert not [module for module in loaded if module.startswith(LIGHT)]
    assert [module for module in loaded if module.startswith("headway.storage")] == [
        "headway.storage",
        "headway.storage.guard_probe",
    ]
