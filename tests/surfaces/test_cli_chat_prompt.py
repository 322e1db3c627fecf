"""The prompt of `headway chat`: editing keys, history, pastes, attached files, Ctrl-C and Ctrl-D."""

import json
import os
import stat
from pathlib import Path
from threading import Event

import pytest

from headway.surfaces.cli.keyboard.line_editor import SIZE_LIMIT, HistoryFile
from headway.surfaces.cli.keyboard.typed_lines import LEAVE_PASTES, PASTE_BEGINS, PASTE_ENDS, TypedLine
from tests.model_server import ModelServer, Reply, Request, text
from tests.sample_files import PNG, PNG_URL
from tests.surfaces.conversation_client import read_rows
from tests.surfaces.shell import Shell, render_screen

PROMPT = " ›"
LEFT, UP, HOME, WORD_LEFT = "\x1b[D", "\x1b[A", "\x1b[H", "\x1bb"


def read_messages(headway: Shell) -> list[str]:
    return [content for (content,) in read_rows(headway, "SELECT content FROM messages WHERE role = 'user' ORDER BY id")]


def get_history_path(headway: Shell) -> Path:
    return headway.folder / ".headway" / "chat_history" / "1" / "typed.jsonl"


def test_a_line_is_edited_pasted_and_typed_again_in_the_next_chat(talker: Shell, model: ModelServer) -> None:
    model.script = lambda request: text(f"heard {len(request.last)} characters")
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type(f"helo 日本{LEFT * 4}l{HOME}oh, \n")
        assert terminal.sees("heard 12 characters")
        assert terminal.sees(PROMPT)
        terminal.type(f"{PASTE_BEGINS}one\rtwo\rthree{PASTE_ENDS}")
        assert terminal.sees("three")
        terminal.type("\n")
        assert terminal.sees("heard 13 characters")
        assert terminal.sees(PROMPT)
        terminal.type(" a secret\n")
        assert terminal.sees("heard 8 characters")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        ran = terminal.leave()
    assert ran.code == 0
    assert "^[" not in "\n".join(render_screen(ran.out))

    with talker.seated("chat", "-c") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type(f"{UP * 4}!\n")  # three lines of the paste are three rows
        assert terminal.sees("heard 13 characters")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        assert terminal.leave().code == 0

    assert read_messages(talker) == ["oh, hello 日本", "one\ntwo\nthree", "a secret", "oh, hello 日本!"]
    path = get_history_path(talker)
    assert [json.loads(line) for line in path.read_text().splitlines()] == ["oh, hello 日本", "one\ntwo\nthree", "oh, hello 日本!"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ctrl_c_clears_the_line_and_twice_ends_the_chat(talker: Shell, model: ModelServer) -> None:
    model.script = lambda _: text("I heard it.")
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("never mind")
        assert terminal.sees("mind")
        terminal.type("\x03hello\n")
        assert terminal.sees("I heard it.")
        assert terminal.sees(PROMPT)
        terminal.type("\x03")
        assert terminal.sees("Press Ctrl-C again to end")
        assert terminal.sees(PROMPT)
        terminal.type("\x03")
        ran = terminal.leave()

    assert (ran.code, "Traceback" in ran.out) == (0, False)
    assert [request.last for request in model.requests] == ["hello"]


def test_files_are_attached_to_the_next_message(talker: Shell, model: ModelServer) -> None:
    (talker.folder / "my photo.png").write_bytes(PNG)
    with talker.seated("chat", width=200) as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("/attach missing.png\n")
        assert terminal.sees("'missing.png' cannot be read: No such file or directory.")
        assert terminal.sees(PROMPT)
        terminal.type("/attach my ph\t\n")  # Tab completes the name
        assert terminal.sees("Attached my photo.png (image/png, ")
        assert terminal.sees(PROMPT)
        terminal.type("What is this?\n")
        assert terminal.sees("hello")
        assert terminal.sees(PROMPT)
        terminal.type("And now?\n")
        assert terminal.sees("hello")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        assert terminal.leave().code == 0

    first, second = model.requests
    assert {"type": "image_url", "image_url": {"url": PNG_URL}} in first.messages[-1]["content"]
    assert second.messages[-1]["content"] == "And now?"


def test_a_file_that_the_model_refuses_is_dropped_and_one_that_it_writes_is_named_with_its_place(headway: Shell) -> None:
    (headway.folder / "photo.png").write_bytes(PNG)
    with headway.seated("chat", width=300) as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("/attach photo.png\n")
        assert terminal.sees("Attached photo.png")
        assert terminal.sees(PROMPT)
        terminal.type("hello\n")
        assert terminal.sees("The files are no longer attached.")
        assert terminal.sees(PROMPT)
        terminal.type("hello\n")
        assert terminal.sees("is not an LLM")
        assert terminal.sees(PROMPT)
        terminal.type("Calculate 6*7, then write the result to answer.txt\n")
        assert terminal.sees("wrote .headway/workspace/1/answer.txt")
        assert terminal.sees("I went through 2 steps")
        rest = len(terminal.seen)
        assert terminal.sees(PROMPT)
        assert b"is not an LLM" not in terminal.seen[rest - 200 :]  # the first answer said so
        terminal.type("\x04")
        assert terminal.leave().code == 0


def test_what_was_typed_during_a_turn_stays_in_the_line(talker: Shell, model: ModelServer) -> None:
    waiting = Event()

    def script(request: Request) -> Reply:
        if len(model.requests) == 1:
            model.hold()
            waiting.set()
        return text(f"heard {request.messages[-1]['content'] if len(model.requests) == 1 else 'more'}")

    model.script = script
    (talker.folder / "notes.txt").write_text("the notes")
    with talker.seated("chat") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("first\n")
        assert waiting.wait(30)
        terminal.type("/attach notes.txt\n")
        assert terminal.sees("Attached notes.txt")
        terminal.type("secon")
        assert terminal.sees("secon")
        model.release()
        assert terminal.sees("heard first")
        assert terminal.sees(LEAVE_PASTES.decode())  # the turn no longer reads keys
        assert terminal.sees(PROMPT)
        assert terminal.sees("secon")
        terminal.type("d\n")
        assert terminal.sees("heard more")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        assert terminal.leave().code == 0

    assert read_messages(talker) == ["first", "second"]
    assert "the notes" in str(model.requests[-1].messages[-1]["content"])


def make_folder(path: Path) -> None:
    path.mkdir(parents=True)


def make_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [make_folder, make_pipe, make_link])
def test_a_history_that_is_no_file_is_left_alone(tmp_path: Path, make: object) -> None:
    path = tmp_path / "history" / "typed.jsonl"
    assert callable(make)
    make(path)
    history = HistoryFile(str(path))
    history.add("hello")

    assert history.load() == []
    assert not path.is_file() or path.is_symlink()


def test_lines_that_are_no_messages_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    hostile = [b"\xff\xfe", b"{", b"[" * 100_000, b'{"a": 1}', b'"\\u0000"', b'"\\ud800"', b'"\\u001b]0;owned\\u0007 \\u202e x"']
    path.write_bytes(b"\n".join([b'"first"', *hostile, b'"last"', b'"cut of']))

    first, owned, last = HistoryFile(str(path)).load()
    assert (first, last) == ("first", "last")
    assert owned.isprintable()


def test_a_long_history_is_shortened(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    history = HistoryFile(str(path))
    path.write_text("".join(f'"message {number} {"x" * 1_000}"\n' for number in range(600)))
    entries = history.load()
    history.add("x" * 10_001)  # too long to keep
    history.add("the newest")

    assert entries[-1].startswith("message 599 ")
    assert path.stat().st_size <= SIZE_LIMIT + 100
    assert history.load() == [*entries, "the newest"]


def test_line_ends_in_a_paste_during_a_turn_do_not_send_it() -> None:
    sent: list[str] = []
    line = TypedLine(lambda _: None, sent.append)
    line.type(f"{PASTE_BEGINS}y\rn\n{PASTE_ENDS}".encode())

    assert (sent, line.text) == ([], "y\nn\n")
    line.type(b"\r")
    assert (sent, line.text) == (["y\nn\n"], "")


def test_a_key_is_no_message_where_the_output_goes_elsewhere(talker: Shell, model: ModelServer, tmp_path: Path) -> None:
    model.script = lambda request: text("heard")
    with (tmp_path / "answers").open("w") as output, talker.seated("chat", output=output) as terminal:
        assert terminal.sees(PROMPT)
        terminal.type(f"{UP}\n")
        assert terminal.sees(PROMPT)
        terminal.type(f"{UP}hello{LEFT}\n")
        assert terminal.sees(PROMPT)
        terminal.type("\x04")
        assert terminal.leave().code == 0

    assert read_messages(talker) == ["hello"]


def test_a_chat_that_cannot_open_says_so_and_ends_before_a_message_is_sent(talker: Shell) -> None:
    tools = talker.folder / ".headway" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "broken.py").write_text("def (")
    with talker.seated("chat", "--home", ".headway") as terminal:
        assert terminal.sees(PROMPT)
        terminal.type("hel")  # the agents are loaded meanwhile
        ran = terminal.leave()

    assert ran.code == 2
    assert "broken.py cannot be loaded: SyntaxError" in "\n".join(render_screen(ran.out))
    assert read_messages(talker) == []


@pytest.mark.parametrize(("name", "reason"), [("nobody:x", "Unknown"), ("no-colon", "write it as provider:name")])
def test_a_chat_whose_model_cannot_be_used_ends_before_a_message_is_sent(talker: Shell, name: str, reason: str) -> None:
    with talker.seated("chat", "-m", name) as terminal:
        ran = terminal.leave()

    shown = " ".join("\n".join(render_screen(ran.out)).split())
    assert ran.code == 2
    assert f"headway: The model '{name}' cannot be used" in shown
    assert reason in shown
