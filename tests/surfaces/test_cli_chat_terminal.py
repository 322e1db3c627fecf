"""`headway chat` on a terminal: the answer streams, the todo list is shown, and Ctrl-C stops the turn."""

import json
from threading import Event

import pytest

from tests.model_server import ModelServer, Reply, Request, calls, error, pause_midway, text
from tests.surfaces.conversation_client import (
    count_conversations,
    list_statuses,
    plan_and_drain,
    read_rows,
    reply_in_order,
    run_at_another_terminal,
)
from tests.surfaces.shell import Shell, render_screen

PROMPT = " ›"


def test_the_list_is_seen_while_it_is_worked_off(talker: Shell, model: ModelServer) -> None:
    plan = plan_and_drain("buy milk", "buy bread", "buy eggs", answer="The shopping is done.")
    waiting = Event()

    def script(request: Request) -> Reply:
        if len(request.tool_results) == 2:
            model.hold()
            waiting.set()
        return plan(request)

    model.script = script
    with talker.seated("chat", "Go shopping.") as terminal:
        for expected in ("1 of 3 done", "✔ buy milk", "▶ buy bread", "○ buy eggs"):
            assert terminal.sees(expected), expected
        assert waiting.wait(30)  # the list is shown before the next model request
        model.release()
        ran = terminal.leave()
    screen = render_screen(ran.out)

    assert ran.code == 0
    assert [line for line in screen if "shopping is done" in line] == ["The shopping is done."]
    assert "buy milk" not in "\n".join(screen)  # the panel disappears when the work is done
    assert "headway chat --conversation 1" in "\n".join(screen)


def test_words_are_seen_as_they_come_and_stay_once(talker: Shell, model: ModelServer) -> None:
    model.script = lambda _: pause_midway(text("alpha beta gamma delta epsilon"))
    model.hold()
    with talker.seated("chat", "hello") as terminal:
        assert terminal.sees("alpha beta")
        assert b"epsilon" not in terminal.seen
        model.release()
        ran = terminal.leave()

    assert [line for line in render_screen(ran.out) if "alpha" in line] == ["alpha beta gamma delta epsilon"]


def test_a_refused_answer_is_withdrawn(talker: Shell, model: ModelServer) -> None:
    def script(request: Request) -> Reply:
        if not request.tool_results:
            return calls(("create_todo", {"items": [{"title": "buy milk"}]}))
        if "Not finished" not in str(request.texts):
            return text("Premature words.")
        return plan(request)

    plan = plan_and_drain("buy milk")
    model.script = script
    ran = talker.terminal("chat", "Buy milk.")
    screen = "\n".join(render_screen(ran.out))

    assert ran.code == 0
    assert "Premature" not in screen
    assert "not done yet: 1 item is still open." in screen
    assert "All done." in screen


def test_the_attempt_is_shown_while_it_runs(talker: Shell, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL_RETRIES", "3")

    def script(request: Request) -> Reply:
        if len(model.requests) == 1:
            return error(503, "busy", retry_after=0)
        model.hold()
        waiting.set()
        return text("hello")

    waiting = Event()
    model.script = script
    with talker.seated("chat", "hi") as terminal:
        assert terminal.sees("retrying: attempt 2 of 3")
        assert waiting.wait(30)
        model.release()
        ran = terminal.leave()

    assert ran.code == 0
    screen = "\n".join(render_screen(ran.out))
    assert "hello" in screen
    assert "attempt" not in screen


def test_the_assessors_decision_is_shown(talker: Shell, model: ModelServer) -> None:
    """003: "log evaluator decisions for tuning"."""

    def script(request: Request) -> Reply:
        if "Judge whether" in request.system:
            return text(json.dumps({"ok": "Two." in request.last, "reason": "the second will do"}))
        if not request.tool_results:
            return calls(("manage_todos", {"add": ["bake", "frost"]}))
        return text("Two." if "Answer it again" in str(request.texts) else "One.")

    model.script = script
    ran = talker.terminal("chat", "--queue", "A cake!")
    screen = "\n".join(render_screen(ran.out))

    assert ran.code == 0
    assert "not done yet: the second will do" in screen
    assert "Accepted: the second will do" in screen
    assert "Continuing: frost" in screen


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08\r[red]bold[/red]"


def test_nothing_that_a_model_says_plays_tricks(talker: Shell, model: ModelServer) -> None:
    def script(request: Request) -> Reply:
        if not request.tool_results:
            items = [{"title": f"milk {HOSTILE}"}, {"title": "bread"}]
            return calls(("create_todo", {"items": items}), ("calculate", {"expression": HOSTILE}), text=f"first {HOSTILE}")
        if "Not finished" not in str(request.texts):
            model.hold()
        return pause_midway(text(f"alpha {HOSTILE} beta {HOSTILE} gamma"))

    model.script = script
    with talker.seated("chat", "hello") as terminal:
        assert terminal.sees("○ bread")
        assert terminal.sees("alpha ")  # the reply is held now, and may be released
        model.release()
        ran = terminal.leave()

    for trick in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e", "\x08"):
        assert trick not in ran.out, repr(trick)
    assert "owned" in ran.out
    assert "[red]bold[/red]" in ran.out
    assert list_statuses(talker) == ["finished"]


def test_a_chat_continues_until_ctrl_d(talker: Shell, model: ModelServer) -> None:
    model.script = lambda request: text(f"heard {request.last}")
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("the first\n")
        assert terminal.sees("heard the first")
        assert terminal.sees(PROMPT)
        terminal.type("the second\n")
        assert terminal.sees("heard the second")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        ran = terminal.leave()

    assert ran.code == 0
    assert "openai-chat:fake-1" in ran.out
    assert count_conversations(talker) == 1
    assert [content for (content,) in read_rows(talker, "SELECT content FROM messages ORDER BY id")] == [
        "the first",
        "heard the first",
        "the second",
        "heard the second",
    ]


def test_lines_with_a_slash_are_commands_and_not_paid_messages(talker: Shell, model: ModelServer) -> None:
    model.script = lambda request: text(f"heard {request.last} as {request.body['model']}")
    with talker.seated("chat", "-m", "openai-chat:second", width=120) as terminal:
        assert terminal.sees("Chatting with openai-chat:second. /help lists the commands")
        for typed, seen in (
            ("/help", "start a new conversation"),
            ("/attahc photo.png", "Unknown command /attahc. There are /attach, /clear, /continue, /exit, /help, /model."),
            ("hello", "heard hello as second"),
            ("/model openai-chat:third", "The model is openai-chat:third."),
            ("/clear", "A new conversation begins."),
            (" /etc is a folder", "heard /etc is a folder as third"),
        ):
            assert terminal.sees(PROMPT)
            terminal.type(f"{typed}\n")
            assert terminal.sees(seen)
        assert terminal.sees(PROMPT)
        terminal.type("exit\n")
        assert terminal.leave().code == 0
    assert [request.last for request in model.requests] == ["hello", "/etc is a folder"]
    assert count_conversations(talker) == 2

    with talker.seated("chat", "-c", width=120) as terminal:
        assert terminal.sees("Continuing conversation 2: /etc is a folder")
        assert terminal.sees("assistant › heard /etc is a folder as third")
        assert terminal.sees(PROMPT)
        terminal.type("/exit\n")
        assert terminal.leave().code == 0


def test_a_talk_outlives_a_turn_that_fails(talker: Shell, model: ModelServer) -> None:
    model.script = reply_in_order(error(400, "not today"), text("better now"))
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("hello\n")
        assert terminal.sees("not today")
        assert terminal.sees(PROMPT)
        terminal.type("hello?\n")
        assert terminal.sees("better now")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        ran = terminal.leave()

    assert ran.code == 0
    assert "Traceback" not in ran.out
    assert list_statuses(talker) == ["failed", "finished"]


def test_the_first_chat_says_that_the_rehearsal_is_no_llm(headway: Shell) -> None:
    with headway.seated("chat") as terminal:
        assert terminal.sees("not an LLM")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        assert terminal.leave().code == 0


@pytest.mark.parametrize("middle", [False, True])
def test_ctrl_c_stops_the_turn(talker: Shell, model: ModelServer, middle: bool) -> None:
    model.script = lambda _: pause_midway(text("one two three four")) if middle else text("too late")
    model.hold()
    with talker.seated("chat", "hello") as terminal:
        model.wait_for_requests(1)
        assert terminal.sees("one" if middle else "thinking")
        terminal.type("\x03")
        ran = terminal.leave()

    assert ran.code == 1
    screen = render_screen(ran.out)
    assert any("Stopped." in line for line in screen)
    assert any(line.startswith("one") for line in screen) == middle
    assert "Traceback" not in ran.out
    assert list_statuses(talker) == ["canceled"]


def test_nothing_of_the_live_view_stays_on_the_screen(talker: Shell, model: ModelServer) -> None:
    """The answer is taller than the screen."""
    lines = "\n\n".join(f"line {number}" for number in range(60))
    model.script = lambda _: pause_midway(text(f"{lines}\n\nlast"))
    model.hold()
    with talker.seated("chat", "hello") as terminal:
        assert terminal.sees("line 5")
        terminal.type("\x03")
        stopped = render_screen(terminal.leave().out)
    model.release()
    model.script = lambda _: text(lines)
    finished = render_screen(talker.terminal("chat", "hello").out)

    for screen in (stopped, finished):
        assert not any("thinking" in line or "⠋" in line for line in screen), screen
    assert list(filter(None, finished))[-1] == "· conversation 2: continue with `headway chat --conversation 2`"
    *kept, last = (line for line in stopped if line.startswith("line"))  # what was said stays, once
    assert kept == [f"line {number}" for number in range(len(kept))]
    assert f"line {len(kept)}".startswith(last)
    assert [line for line in finished if line.startswith("line")] == [f"line {number}" for number in range(60)]


def test_ctrl_c_stops_a_turn_and_not_the_talk(talker: Shell, model: ModelServer) -> None:
    model.hold()
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("hello\n")
        model.wait_for_requests(1)
        assert terminal.sees("thinking")
        terminal.type("\x03")
        assert terminal.sees("Stopped.")
        assert terminal.sees(PROMPT)
        model.release()
        terminal.type("once more\n")
        assert terminal.sees("hello")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        ran = terminal.leave()

    assert ran.code == 0
    assert list_statuses(talker) == ["canceled", "finished"]


def test_ctrl_c_in_a_script_stops_the_turn_too(talker: Shell, model: ModelServer) -> None:
    model.hold()
    with run_at_another_terminal("chat", "hello") as process:
        model.wait_for_requests(1)
        process.send_signal(2)
        out, _ = process.communicate(timeout=30)

    assert (process.returncode, out) == (1, "")
    assert list_statuses(talker) == ["canceled"]


def test_json_wants_a_message(talker: Shell) -> None:
    ran = talker.terminal("chat", "--json")

    assert ran.code == 2
    assert "--json needs a MESSAGE" in ran.out
    assert count_conversations(talker) == 0
