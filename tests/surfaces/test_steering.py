"""Messages to a running agent, from HTTP, the command line and the keyboard in `headway chat`."""

import json
import termios
from typing import Any
from uuid import uuid4

from headway.surfaces.cli.keyboard.typed_lines import TypedLine
from tests.model_server import ModelServer, Reply, Request, text
from tests.surfaces.conversation_client import list_messages, list_statuses, read_rows, say, wait_for_turn
from tests.surfaces.server_harness import Client
from tests.surfaces.shell import Shell, get_error_line, render_screen
from tests.surfaces.test_cli_engine_jobs import start_agents
from tests.tables import each_row

PROMPT = " ›"


def greet(request: Request) -> Reply:
    return text("hallo" if "in German" in str(request.texts) else "hello")


def path_to(turn_id: str) -> str:
    return f"/v1/turns/{turn_id}/messages"


def test_a_message_over_http_is_accepted_once_and_read(chatter: Client, model: ModelServer) -> None:
    model.script = greet
    model.hold()
    conversation = chatter.conversation()
    turn_id = say(chatter, conversation)
    model.wait_for_requests(1)
    body: dict[str, Any] = {"json": {"content": "in German"}, "headers": {"Idempotency-Key": "once"}}
    sent = chatter.ok("POST", path_to(turn_id), 202, **body)["message"]
    assert chatter.ok("POST", path_to(turn_id), 202, **body)["message"] == sent
    assert chatter.ok("GET", path_to(turn_id)) == {"messages": [sent]}
    model.release()
    wait_for_turn(chatter, turn_id)

    run_id = sent["run_id"]
    assert sent == {
        "id": sent["id"],
        "run_id": run_id,
        "turn_id": turn_id,
        "content": "in German",
        "sender": sent["sender"],
        "created_at": sent["created_at"],
        "read_at": 0,
    }
    assert sent["sender"]
    (read,) = chatter.ok("GET", f"/v1/agents/{run_id}/messages")["messages"]
    assert read == {**sent, "read_at": read["read_at"]}
    assert read["read_at"] >= sent["created_at"]
    (event,) = (json.loads(data) for kind, data in chatter.desk.events() if kind == "messages_read")
    assert event == {"turn_id": turn_id, "run_id": run_id, "messages": [sent["id"]]}
    expected = [("user", "hello"), ("user", "in German"), ("assistant", "hello"), ("assistant", "hallo")]
    assert list_messages(chatter, conversation) == expected


def test_a_message_that_cannot_be_read_is_refused(chatter: Client) -> None:
    conversation = chatter.conversation()
    ended, own = say(chatter, conversation), chatter.turn(conversation)
    wait_for_turn(chatter, ended)
    chatter.refused("POST", path_to(ended), 409, "turn_ended", json={"content": "wait"})
    assert "outside Headway" in chatter.refused("POST", path_to(own), 409, "conflict", json={"content": "wait"})
    chatter.refused("POST", path_to(own), 422, "invalid", json={"content": ""})
    chatter.refused("POST", path_to(own), 422, "invalid", json={"content": "x", "mode": "queue"})
    chatter.refused("POST", path_to(str(uuid4())), 404, "not_found", json={"content": "wait"})
    chatter.refused("POST", f"/v1/agents/{uuid4()}/messages", 404, "not_found", json={"content": "wait"})
    assert chatter.ok("GET", path_to(own)) == chatter.ok("GET", path_to(ended)) == {"messages": []}


# The command line


def test_messages_are_sent_from_the_shell(headway: Shell) -> None:
    main, helper = start_agents(headway)
    turn_id = str(main.turn_id)

    assert headway.ok("turn", "send", turn_id, "in German") == f"sent to {turn_id}\n"
    assert headway.ok("agents", "send", helper.id, "shorter") == f"sent to {helper.id}\n"
    sent = headway.json("agents", "send", main.id, "and politely")["message"]
    assert (sent["run_id"], sent["turn_id"], sent["sender"], sent["read_at"]) == (main.id, turn_id, "cli", 0)
    rows = read_rows(headway, "SELECT run_id, content FROM steering ORDER BY id")
    assert rows == [(main.id, "in German"), (helper.id, "shorter"), (main.id, "and politely")]

    headway.ok("tenant", "add", "other")
    get_error_line(headway("turn", "send", turn_id, "hi", "--tenant", "other"), 3)
    assert "must not be blank" in get_error_line(headway("turn", "send", turn_id, " "), 2)
    headway.ok("turn", "cancel", turn_id)
    assert "already ended" in get_error_line(headway("turn", "send", turn_id, "hi"), 4)
    assert "already ended" in get_error_line(headway("agents", "send", helper.id, "hi"), 4)


# The keyboard, while a turn is shown


def test_a_line_typed_while_a_turn_runs_is_sent_to_it(talker: Shell, model: ModelServer) -> None:
    model.script = greet
    model.hold()
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("greet me\n")
        model.wait_for_requests(1)
        assert terminal.sees("thinking")
        terminal.type("in Gemr\x7f\x7frman\x1b[D")
        assert terminal.sees("you › in German")
        terminal.type("\n")
        assert terminal.sees("you: in German")
        model.release()
        assert terminal.sees("hallo")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        ran = terminal.leave()

    assert ran.code == 0
    screen = render_screen(ran.out)
    assert [line for line in screen if "German" in line] == ["· you: in German"]
    contents = [content for (content,) in read_rows(talker, "SELECT content FROM messages ORDER BY id")]
    assert contents == ["greet me", "in German", "hello", "hallo"]


def test_a_line_that_was_not_finished_is_shown_again_and_the_terminal_is_as_before(talker: Shell, model: ModelServer) -> None:
    model.hold()
    with talker.seated("chat", "greet me") as terminal:
        model.wait_for_requests(1)
        terminal.type("in Ger")
        assert terminal.sees("you › in Ger")
        model.release()
        ran = terminal.leave()
        modes = termios.tcgetattr(terminal.descriptor)

    assert ran.code == 0
    assert "· Not sent: in Ger" in render_screen(ran.out)
    assert modes[3] & termios.ECHO
    assert modes[3] & termios.ICANON
    assert read_rows(talker, "SELECT id FROM steering") == []


def test_ctrl_c_stops_a_turn_while_a_line_is_typed(talker: Shell, model: ModelServer) -> None:
    model.hold()
    with talker.seated("chat", "greet me") as terminal:
        model.wait_for_requests(1)
        terminal.type("in Ger")
        assert terminal.sees("you › in Ger")
        terminal.type("\x03")
        ran = terminal.leave()

    assert (ran.code, list_statuses(talker)) == (1, ["canceled"])
    assert "Traceback" not in ran.out


@each_row(
    ("keys", "lines", "draft"),
    [
        (["hello\r", "x"], ["hello"], "x"),
        (["a\nb\nc"], ["a", "b"], "c"),
        ([" \n", "\n"], [], ""),
        (["gone\x15kept"], [], "kept"),
        (["\x7f\x7fa\bb"], [], "b"),
        (["\x1b[A\x1bOP\x1b[1;5Cx\x1b[200~y\x1bz"], [], "xy"),
        (["a\x00\x07\x04\x9bb\tc"], [], "ab c"),
    ],
)
def test_keys_become_lines(keys: list[str], lines: list[str], draft: str) -> None:
    drafts: list[str] = []
    sent: list[str] = []
    line = TypedLine(drafts.append, sent.append)
    for pressed in keys:
        for byte in pressed.encode():
            line.type(bytes([byte]))
    assert (sent, drafts[-1]) == (lines, draft)
