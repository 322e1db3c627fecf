"""`headway chat` in scripts: answers on standard output, everything else on standard error."""

import json
import os
import re
from pathlib import Path

import pytest

from headway.storage.direct import DirectDatabase
from tests.model_server import ModelServer, Reply, Request, Script, calls, environment, error, filtered_text, flaky, text, to_script
from tests.surfaces.conversation_client import (
    count_conversations,
    list_statuses,
    plan_and_drain,
    read_rows,
    reply_in_order,
    run_at_another_terminal,
)
from tests.surfaces.server_harness import wait_until
from tests.surfaces.shell import PATIENCE_S, Shell, get_error_line


def test_a_script_gets_the_answer_and_nothing_else(talker: Shell, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", "buy bread", answer="Done:\n- milk\n- bread")
    assert talker("chat", "Buy milk and bread.") == (0, "Done:\n- milk\n- bread\n", "")


def test_chat_shows_until_when_it_waits_for_a_model(talker: Shell, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL_RETRIES", "2")
    model.script = flaky(1, error(429, "slow down", retry_after=1), text("hello"))
    code, out, err = talker("chat", "hi")
    assert (code, out) == (0, "hello\n")
    assert re.fullmatch(r"headway: waiting to retry until .*\d\d:\d\d:\d\d: .*: The model .* is rate limited .*\n", err)
    assert "Attempt 1 of 2 failed, next in 1 s" in err


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (filtered_text(), "filtered"),
        (text(""), "incomplete"),
        (lambda _: calls(("now", {})), "limit"),
    ],
)
def test_a_turn_that_ended_early_has_an_exit_code_of_its_own(
    talker: Shell, model: ModelServer, script: Script | Reply, outcome: str, flags: list[str]
) -> None:
    model.script = to_script(script)
    code, out, err = talker("chat", "hi", *flags)
    assert code == 6
    if flags:
        document = json.loads(out)
        assert (document["turn"]["outcome"], document["messages"][-1]["kind"], err) == (outcome, "closing", "")
    else:
        assert out == ""  # there is no answer
        assert err.startswith("headway: ")
        assert "was stopped" in err or "withheld" in err


def test_a_script_continues_the_open_todos_of_the_last_turn(talker: Shell, model: ModelServer) -> None:
    def script(request: Request) -> Reply:
        drain = plan_and_drain("buy milk", "buy bread")
        is_continued = any("Continue with the open todos." in words for words in request.texts)
        return drain(request) if is_continued or not request.tool_results else text("All done!")

    model.script = script
    code, out, err = talker("chat", "Buy milk and bread.")
    assert (code, out) == (6, "")
    assert "Incomplete:\n- buy milk\n- buy bread" in err
    document = talker.json("chat", "-c", "/continue")
    assert (document["turn"]["outcome"], document["messages"][-1]["content"]) == ("drained", "All done.")
    assert [todo["status"] for todo in talker.json("todo", "list", "--all")["todos"]] == ["completed"] * 2
    code, out, err = talker("chat", "-c", "/continue")
    assert (code, out) == (4, "")
    assert "no open todos to continue with" in err


def test_so_does_a_process_of_its_own(talker: Shell) -> None:
    assert talker.process("chat", "hi", stdin=b"not looked at") == (0, "hello\n", "")


def test_json_output_is_one_document(talker: Shell, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk")
    document = talker.json("chat", "Buy milk.")

    assert list(document) == ["turn", "messages"]
    assert document["turn"]["request"] == "Buy milk."
    assert (document["turn"]["status"], document["turn"]["outcome"]) == ("finished", "drained")
    assert [(message["role"], message["content"]) for message in document["messages"]] == [
        ("user", "Buy milk."),
        ("assistant", "All done."),
    ]
    assert {message["turn_id"] for message in document["messages"]} == {document["turn"]["id"]}


def test_the_document_holds_this_turn_alone(talker: Shell) -> None:
    talker.ok("chat", "first")
    document = talker.json("chat", "-c", "second")

    assert [message["content"] for message in document["messages"]] == ["second", "hello"]


def test_a_message_comes_from_standard_input(talker: Shell, model: ModelServer) -> None:
    assert talker("chat", stdin="Two lines,\nžluťoučký kůň.\n") == (0, "hello\n", "")
    assert model.requests[0].last == "Two lines,\nžluťoučký kůň."


@pytest.mark.parametrize("words", ["", " \n\t", "\u3000"])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_empty_message_is_refused_and_leaves_nothing(talker: Shell, words: str, flags: list[str]) -> None:
    typed = talker("chat", words, *flags)
    piped = talker("chat", *flags, stdin=words)

    assert get_error_line(typed, 2) == get_error_line(piped, 2)
    assert count_conversations(talker) == 0


@pytest.mark.parametrize("stdin", [b"\xff\xfe", b"nul\0"])
def test_input_that_is_no_text_is_refused(talker: Shell, stdin: bytes) -> None:
    get_error_line(talker("chat", stdin=stdin), 2)
    assert count_conversations(talker) == 0


def test_a_message_that_is_too_long_is_refused(talker: Shell) -> None:
    get_error_line(talker("chat", stdin="x" * 200_001), 2)
    assert count_conversations(talker) == 0


@pytest.mark.parametrize("reference", ["1", "nobody", "-1", "9" * 30])
def test_a_conversation_that_is_not_there(talker: Shell, reference: str) -> None:
    get_error_line(talker("chat", "hello", "--conversation", reference), 3)
    assert count_conversations(talker) == 0


def test_a_conversation_continues_by_its_name_its_number_or_as_the_newest(talker: Shell, model: ModelServer) -> None:
    model.script = lambda request: text(str(len([message for message in request.messages if message["role"] == "user"])))
    talker.ok("conversation", "new", "--key", "ours")

    assert talker("chat", "one", "--conversation", "ours").out == "1\n"
    assert talker("chat", "anew").out == "1\n"
    assert talker("chat", "two", "-c").out == "2\n"
    assert talker("chat", "three", "--continue").out == "3\n"
    assert talker("chat", "two", "--conversation", "1").out == "2\n"
    assert count_conversations(talker) == 2


def test_continuing_without_a_conversation_starts_one(talker: Shell) -> None:
    assert talker("chat", "hello", "-c") == (0, "hello\n", "")
    assert count_conversations(talker) == 1


def test_a_queue_is_worked_off_by_the_rehearsal(headway: Shell) -> None:
    document = headway.json("chat", "--queue", "1. calculate 2+3\n2. calculate 4*5")

    assert (document["turn"]["mode"], document["turn"]["outcome"], document["turn"]["resubmissions"]) == ("queue", "drained", 1)
    answers = [message["content"] for message in document["messages"] if message["role"] == "assistant"]
    assert [answer.splitlines()[0] for answer in answers] == ["2+3 = 5", "4 * 5 = 20"]


def test_without_a_key_and_a_network_it_rehearses_and_says_so(headway: Shell) -> None:
    answer = headway.ok("chat", "Calculate 6*7 and then write the result to answer.txt.")

    assert "42" in answer
    assert "not an LLM" in answer
    (written,) = (headway.folder / ".headway" / "workspace").rglob("answer.txt")
    assert "42" in written.read_text()


def test_during_a_halt_chat_is_refused_and_leaves_nothing(talker: Shell, model: ModelServer) -> None:
    talker.ok("halt", "--why", "lunch")
    assert "lunch" in get_error_line(talker("chat", "hello"), 5)
    get_error_line(talker("chat", "hello", "--json"), 5)
    assert count_conversations(talker) == 0
    talker.ok("unhalt")

    assert talker("chat", "hello") == (0, "hello\n", "")
    assert len(model.requests) == 1


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_provider_that_refuses_is_a_sentence(talker: Shell, model: ModelServer, flags: list[str]) -> None:
    key = "sk-proj-0123456789abcdefghijklmnop"
    model.script = reply_in_order(error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key"))
    ran = talker("chat", "hello", *flags)

    assert ran.code == 1
    assert ran.err.startswith("headway: The model openai-chat:fake-1 failed (HTTP 401): ")
    assert len(ran.err.splitlines()) == 1
    assert key not in ran.err
    if flags:
        assert json.loads(ran.out)["turn"]["status"] == "failed"
    else:
        assert ran.out == ""
    assert list_statuses(talker) == ["failed"]


@pytest.mark.parametrize("name", ["openai-chat:x", "nobody:x", "no-colon", "groq:x"])
def test_a_model_that_cannot_be_made_is_a_sentence(headway: Shell, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HEADWAY_MODEL", name)
    ran = headway("chat", "hello")

    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert name in ran.err


def test_nothing_that_a_model_says_plays_tricks(talker: Shell, model: ModelServer) -> None:
    model.script = reply_in_order(text("one\x1b[2J\x07\ttwo\r\nthree\u2028four\u202e"))
    answer = talker.ok("chat", "hello")

    assert answer.splitlines()[0].startswith("one\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}    two")
    assert all(character.isprintable() for character in answer.replace("\n", ""))


def test_a_dotenv_file_sets_the_address_of_the_model(headway: Shell, model: ModelServer) -> None:
    Path(".env").write_text("".join(f"{name}={value}\n" for name, value in environment(model).items()))
    headway.trust()
    ran = headway.loaded("chat", "hello")

    assert ran == (0, "hello\n", "")
    assert len(model.requests) == 1


def test_a_conversation_with_a_running_turn_is_busy(talker: Shell, model: ModelServer) -> None:
    model.hold()
    with run_at_another_terminal("chat", "first") as other:
        model.wait_for_requests(1)
        (conversation,) = (str(id) for (id,) in read_rows(talker, "SELECT id FROM conversations"))
        busy = talker("chat", "second", "--conversation", conversation)
        model.release()
        out, _ = other.communicate(timeout=PATIENCE_S)

    assert "running" in get_error_line(busy, 4)
    assert (other.returncode, out) == (0, "hello\n")
    assert talker("chat", "second", "--conversation", conversation) == (0, "hello\n", "")
    assert list_statuses(talker) == ["finished", "finished"]


def test_the_turn_of_a_killed_process_is_finished_first(talker: Shell, model: ModelServer) -> None:
    model.script = lambda request: text(f"you said {request.last}")
    model.hold()
    with run_at_another_terminal("chat", "first") as other:
        model.wait_for_requests(1)
        other.kill()
        other.wait(PATIENCE_S)
    model.release()
    (conversation,) = (str(id) for (id,) in read_rows(talker, "SELECT id FROM conversations"))
    with DirectDatabase(f"sqlite:///{talker.ledger}") as database:
        database.write(lambda tx: tx.run("UPDATE worker_leases SET beat_at = beat_at + 3600000"))  # valid for an hour
        refused = talker("chat", "second", "--conversation", conversation)
        database.write(lambda tx: tx.run("UPDATE worker_leases SET beat_at = 0"))
    ran = talker("chat", "second", "--conversation", conversation)

    assert refused.code == 4  # the other process may still be working on it
    assert (ran.code, ran.out) == (0, "you said first\nyou said second\n")
    assert "interrupted" in ran.err
    assert list_statuses(talker) == ["finished", "finished"]
    contents = [content for (content,) in read_rows(talker, "SELECT content FROM messages ORDER BY id")]
    assert contents == ["first", "you said first", "second", "you said second"]


def test_a_halted_turn_waits_for_the_next_call(talker: Shell, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk")
    model.hold()
    with run_at_another_terminal("chat", "Buy milk.") as other:
        model.wait_for_requests(1)
        talker.ok("halt")
        model.release()
        out, _ = other.communicate(timeout=PATIENCE_S)
    talker.ok("unhalt")
    (conversation,) = (str(id) for (id,) in read_rows(talker, "SELECT id FROM conversations"))
    wait_until(lambda: read_rows(talker, "SELECT owner FROM jobs") == [("",)], "it is handed back")
    model.script = plan_and_drain("buy milk")
    ran = talker("chat", "And now?", "--conversation", conversation)

    assert (other.returncode, out) == (5, "")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "All done."
    assert list_statuses(talker) == ["finished", "finished"]


def test_the_current_folder_is_left_as_it_was(talker: Shell) -> None:
    talker.ok("chat", "hello")
    assert os.listdir() == [".headway"]
    assert {name.partition("-")[0] for name in os.listdir(".headway")} == {".gitignore", "headway.db"}
