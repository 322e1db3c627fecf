"""`headway chat` asks the person at the terminal. Without one it ends, and the turn stays waiting."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.model_server import ModelServer
from tests.surfaces.conversation_client import list_statuses, read_rows
from tests.surfaces.shell import Shell, render_screen
from tests.surfaces.waiting_turns import ask_then_answer, call_then_answer

ECHO = {"command": ["echo", "hello"]}
HINT = "[e]dit the arguments"
READY = "\x1b[?2004h"  # the prompt reads keys from now on: it has asked the terminal to mark what is pasted


@pytest.fixture
def commander(talker: Shell, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A folder in which `headway chat` may run echo, with a model that calls it."""
    monkeypatch.setenv("HEADWAY_COMMANDS", "echo")
    monkeypatch.setenv("HEADWAY_SANDBOX", "off")  # so that it needs approval
    monkeypatch.setenv("HEADWAY_WORKSPACE", str(talker.folder))
    model.script = call_then_answer("run_command", ECHO, "All said.")
    return talker


def read_approval(headway: Shell) -> dict[str, Any]:
    (approval,) = headway.json("approvals", "list", "--state", "all")["approvals"]
    return dict(approval)


def read_result(headway: Shell) -> dict[str, Any]:
    """Return the result of the one tool call, as the model got it."""
    ((data,),) = read_rows(headway, "SELECT data FROM events WHERE kind = 'tool_result'")
    return dict(json.loads(str(data)))


def test_a_call_is_shown_and_approved(commander: Shell) -> None:
    with commander.seated("chat", "Say hello.") as terminal:
        assert terminal.sees("asks to call run_command")
        assert terminal.sees('"hello"')
        assert terminal.sees(HINT)
        terminal.type("y\n")
        assert terminal.sees("All said.")
        ran = terminal.leave()
    screen = "\n".join(render_screen(ran.out))

    assert ran.code == 0
    assert "run_command approved by cli" in screen
    assert HINT not in screen  # the question is gone once it is answered
    assert read_result(commander)["result"]["output"] == "hello\n"


def test_a_call_is_rejected_with_a_reason(commander: Shell, model: ModelServer) -> None:
    with commander.seated("chat", "Say hello.") as terminal:
        assert terminal.sees(HINT)
        terminal.type("what?\n")
        assert terminal.sees("Type y, n, a or e.")
        terminal.type("n whisper it\n")
        assert terminal.sees("All said.")
        assert terminal.leave().code == 0

    assert (read_approval(commander)["state"], read_approval(commander)["reason"]) == ("rejected", "whisper it")
    assert "A person rejected this call: whisper it." in model.requests[-1].tool_results[-1].content


def test_always_is_remembered_in_the_policy(commander: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX", "required")
    policy = commander.folder / ".headway" / "policy.toml"
    policy.parent.mkdir(exist_ok=True)
    policy.write_text('[[rule]]\ntool = "run_command"\ndecision = "ask"\n')
    commander.trust()
    with commander.seated("chat", "Say hello.") as terminal:
        assert terminal.sees(HINT)
        terminal.type("a\n")
        assert terminal.sees("All said.")
        assert terminal.leave().code == 0
    again = commander.loaded("chat", "Say hello again.")

    assert (again.code, again.out) == (0, "All said.\n")
    assert len(commander.json("approvals", "list", "--state", "all")["approvals"]) == 1


def test_arguments_are_edited_in_an_editor(commander: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "the editor is open"\nread line\nsed -i "s/hello/$line/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    with commander.seated("chat", "Say hello.") as terminal:
        assert terminal.sees(HINT)
        terminal.type("e\n")
        assert terminal.sees("the editor is open")
        terminal.type("goodbye\n")
        assert terminal.sees("All said.")
        assert terminal.leave().code == 0

    assert read_approval(commander)["arguments"] == {"command": ["echo", "goodbye"]}
    assert read_result(commander)["result"]["output"] == "goodbye\n"


def test_an_edit_that_is_no_json_is_refused_and_the_call_still_waits(commander: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "sed -i s/command/commands/")
    with commander.seated("chat", "Say hello.") as terminal:
        assert terminal.sees(HINT)
        terminal.type("e\n")
        assert terminal.sees("commands")
        terminal.type("\x03")
        assert terminal.sees("Stopped.")
        assert terminal.leave().code == 1

    assert read_approval(commander)["state"] == "canceled"


def test_a_question_is_answered_with_the_number_of_a_choice(talker: Shell, model: ModelServer) -> None:
    model.script = ask_then_answer("Which colour?\x1b[2J", ("red", "blue"))
    with talker.seated("chat", "Paint it.", width=300) as terminal:
        for expected in ("Which colour?", "1. red", "2. blue", "Type a number or an answer"):
            assert terminal.sees(expected), expected
        terminal.type("green\n")
        assert terminal.sees("Answer with one of: red, blue.")
        terminal.type("2\n")
        assert terminal.sees("I heard")
        ran = terminal.leave()

    assert ran.code == 0
    assert "\x1b[2J" not in ran.out
    ((answer, by),) = read_rows(talker, "SELECT answer, decided_by FROM requests")
    assert (answer, by) == ("blue", "cli")


def test_a_question_is_gone_once_its_answer_is_shown(talker: Shell, model: ModelServer) -> None:
    model.script = ask_then_answer("Which colour?")
    with talker.seated("chat", "Paint it.", width=300) as terminal:
        assert terminal.sees("Type your answer")
        model.hold()
        terminal.type("green\n")
        assert terminal.sees("answered: green")
        answered = terminal.place
        assert terminal.sees("thinking")
        drawn_since = terminal.seen[answered : terminal.place].decode()
        model.release()
        assert terminal.sees("I heard")
        assert terminal.leave().code == 0

    assert "waiting for you" not in drawn_since
    assert "Type your answer" not in drawn_since


def test_a_turn_that_is_left_waiting_continues_in_the_next_chat(talker: Shell, model: ModelServer) -> None:
    model.script = ask_then_answer("Which colour?")
    with talker.seated("chat", "Paint it.", width=300) as terminal:
        assert terminal.sees("Type your answer")
        terminal.type("\x04")
        assert terminal.sees("headway inbox answer 1 TEXT")
        assert terminal.leave().code == 7
    assert list_statuses(talker) == ["running"]
    with talker.seated("chat", "-c") as terminal:
        assert terminal.sees("Which colour?")
        assert terminal.sees("Type your answer")
        terminal.type("green\n")
        assert terminal.sees("I heard")
        assert terminal.sees("Ctrl-D ends the chat.")
        assert terminal.sees(READY)
        terminal.type("\x04")
        assert terminal.leave().code == 0

    assert list_statuses(talker) == ["finished"]


def test_a_decision_on_another_surface_ends_the_question(commander: Shell) -> None:
    with commander.seated("chat", "Say hello.") as terminal:
        assert terminal.sees(HINT)
        commander.ok("approvals", "approve", "1")
        assert terminal.sees("All said.")
        ran = terminal.leave()

    assert ran.code == 0
    assert HINT not in "\n".join(render_screen(ran.out))


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_without_a_terminal_the_turn_stays_waiting(commander: Shell, flags: tuple[str, ...]) -> None:
    ran = commander.loaded("chat", "Say hello.", *flags)
    approved = commander("approvals", "approve", "1")
    continued = commander.loaded("chat", "And now?", "-c")

    assert ran.code == 7
    assert ran.err == (
        "headway: The turn waits for approval #1, to call run_command. Decide with `headway inbox approve 1` or "
        "`headway inbox reject 1`; then `headway serve`, `headway worker` or `headway chat --conversation 1` continues it.\n"
    )
    assert ran.out == "" or json.loads(ran.out)["turn"]["waiting_for"] == {"kind": "approval", "id": 1}
    assert approved.code == continued.code == 0
    assert continued.out == "All said.\nAll said.\n"
    assert list_statuses(commander) == ["finished", "finished"]
