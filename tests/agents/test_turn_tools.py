"""Tool calls of a turn: whatever a model sends, it gets a result it can act on."""

import json
import re
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from headway.agents.transcripts import transcript
from headway.testing import scripted_model
from tests.agents.turn_harness import Talk, in_order, open_talk, plan_call
from tests.model_server import Call, Reply, Request, call, calls, text

DONE = text("Done.")

OWN = '''
import asyncio
import threading
from headway.agents.tools.custom import tool

NEVER = threading.Event()

@tool(timeout_s=0.05)
def stuck() -> str:
    """Never ends."""
    NEVER.wait(5)

@tool(timeout_s=0.05, idempotent=True)
def stuck_reader() -> str:
    """Never ends, and changes nothing."""
    NEVER.wait(5)

@tool
def broken(why: str) -> str:
    """Breaks."""
    raise RuntimeError(f"broken: {why}\\n\\x00")

@tool
def large(characters: int) -> str:
    """Says a lot."""
    return "x" * characters

@tool
def many(entries: int) -> list[int]:
    """Many numbers."""
    return list(range(entries))

@tool
def silent() -> None:
    """Says nothing."""

@tool
def leave() -> None:
    """Tries to take the whole process with it."""
    raise SystemExit(3)

@tool
async def leave_later() -> None:
    """Tries the same."""
    raise SystemExit(3)

@tool
async def called_off() -> None:
    """Waits for something that somebody else calls off."""
    waited = asyncio.create_task(asyncio.sleep(30))
    asyncio.get_running_loop().call_later(0.01, waited.cancel)
    await waited

@tool
def exhausted() -> int:
    """Asks for more than there is."""
    return next(iter([]))

@tool
async def awaited(word: str) -> str:
    """Says it again."""
    return word
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(OWN)
    return tmp_path


def list_results(talk: Talk) -> list[str]:
    """Return the tool results that the model got, in order."""
    return [result.content for result in talk.server.requests[-1].tool_results]


def run_one_call(url: str, home: Path, tool_call: Call) -> tuple[str, str]:
    """Return (state, result) of one tool call, in a turn that then continues and answers."""
    with open_talk(url, home, in_order(calls(tool_call), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        (effect,) = talk.effects()
        (result,) = list_results(talk)
        assert effect.result == result or "read_result" in result
        (event,) = talk.list_event_data("tool_result")
        assert (event["call_id"], event["tool"], event["is_error"]) == (effect.call_id, effect.tool, effect.state != "succeeded")
        assert len(talk.list_event_data("tool_call")) == 1
        return effect.state, result


@pytest.mark.parametrize(
    "raw", ['{"text": ', "remember this", '["text"]', "null", "3", '"{}"', '{"text": NaN}', '{"text": "a"}}', "[" * 3000]
)
def test_arguments_that_are_no_json_object_are_an_error_result(sqlite_url: str, home: Path, raw: str) -> None:
    state, result = run_one_call(sqlite_url, home, call("remember", raw_arguments=raw))
    assert state == "failed"
    assert "Invalid arguments" in json.loads(result)["error"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "text"),
        ({"text": ["a"]}, "text"),
        ({"text": "a", "colour": "red"}, "colour"),
        ({"text": "  "}, "text"),
        ({"text": "a", "kind": 10**30}, "kind"),
        ({"text": "a\0b"}, "NUL"),
        ({"text": "a\ud800b"}, "text"),
        ({"te\ud800xt": "a"}, "arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_named(sqlite_url: str, home: Path, arguments: dict[str, object], named: str) -> None:
    state, result = run_one_call(sqlite_url, home, call("remember", arguments))
    assert state == "failed"
    assert named in json.loads(result)["error"]


@pytest.mark.parametrize("raw", ["", "  ", "{}"])
def test_no_arguments_are_an_empty_object(sqlite_url: str, home: Path, raw: str) -> None:
    assert run_one_call(sqlite_url, home, call("now", raw_arguments=raw))[0] == "succeeded"


def test_deeply_nested_arguments_do_no_harm(sqlite_url: str, home: Path) -> None:
    """Nesting just below and above the limit of Python's JSON parser."""
    replies = [calls(call("remember", raw_arguments='{"text":' + "[" * n + "]" * n + "}")) for n in range(900, 1000, 9)]
    with open_talk(sqlite_url, home, in_order(*replies, DONE), max_iterations="20") as talk:
        assert talk.say()["outcome"] == "answered"
        assert {effect.state for effect in talk.effects()} == {"failed"}


def test_an_unknown_tool_is_answered_with_the_known_ones(sqlite_url: str, home: Path) -> None:
    state, result = run_one_call(sqlite_url, home, call("bake_cake", {"kind": "lemon"}))
    assert state == "failed"
    message = json.loads(result)["error"]
    assert "'bake_cake'" in message
    assert "create_todo" in message
    assert "awaited" in message
    assert "manage_todos" not in message  # it belongs to queue mode


@pytest.mark.parametrize("name", ["functions.now", "now()", "remember it all", "x" * 100, "näh"])
def test_a_name_that_no_provider_takes_back_does_not_fail_the_turn(sqlite_url: str, home: Path, name: str) -> None:
    with open_talk(sqlite_url, home, in_order(calls(call(name, {})), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert "There is no tool named" in list_results(talk)[0]


def test_a_role_without_the_grant_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text('tools = ["now"]\n')
    with open_talk(
        sqlite_url, tmp_path, in_order(calls(("remember", {"text": "x"}), ("write_file", {"path": "a", "content": ""})), DONE)
    ) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.state for effect in talk.effects()] == ["failed", "failed"]
        assert all("not granted" in result for result in list_results(talk))
        assert talk.server.requests[0].tools == ["now", "read_result"]
        assert talk.database.read(lambda tx: tx.all("SELECT * FROM memory_entries")) == []


def test_several_calls_are_made_in_order_and_answered_together(database_url: str, home: Path) -> None:
    reply = calls(
        ("write_file", {"path": "a.txt", "content": "one"}),
        ("read_file", {"path": "a.txt"}),
        ("bake_cake", {}),
        ("remember", {"text": "two"}),
        ("recall", {}),
        ("awaited", {"word": "three"}),
    )
    with open_talk(database_url, home, in_order(reply, DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.call_index for effect in talk.effects()] == [0, 1, 2, 3, 4, 5]
        assert [effect.state for effect in talk.effects()] == ["succeeded"] * 2 + ["failed"] + ["succeeded"] * 3
        texts = list_results(talk)
        assert "one" in texts[1]
        assert "two" in texts[4]
        assert texts[5] == "three"
        assert [kind for kind, _ in talk.events("tool_call", "tool_result")] == ["tool_call", "tool_result"] * 6
        assert len(talk.server.requests) == 2


@pytest.mark.parametrize("ids", [("same", "same", "same"), ("", "", ""), ("a", "", "a"), ("a\0", "a\ud800", "b")])
def test_ids_that_are_missing_or_not_unique_do_no_harm(sqlite_url: str, home: Path, ids: tuple[str, ...]) -> None:
    reply = calls(*(call("awaited", {"word": f"word {n}"}, id=call_id) for n, call_id in enumerate(ids)))
    with open_talk(sqlite_url, home, in_order(reply, calls(call("awaited", {"word": "again"}, id="same")), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert list_results(talk) == ["word 0", "word 1", "word 2", "again"]
        assert [effect.state for effect in talk.effects()] == ["succeeded"] * 4
        call_events, result_events = talk.list_event_data("tool_call"), talk.list_event_data("tool_result")
        assert [event["call_id"] for event in call_events] == [event["call_id"] for event in result_events]
        assert len({event["call_id"] for event in call_events[:3]}) == 3


def test_missing_ids_from_a_model_of_another_provider_do_no_harm(sqlite_url: str, home: Path) -> None:
    responses = [
        ModelResponse([ToolCallPart("now", {}, ""), ToolCallPart("now", "{}", "")], finish_reason="tool_call"),
        ModelResponse([TextPart("Late.")], finish_reason="stop"),
    ]
    with open_talk(sqlite_url, home, scripted_model(responses)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert len({event["call_id"] for event in talk.list_event_data("tool_call")}) == 2


def test_an_exception_is_a_result(sqlite_url: str, home: Path) -> None:
    state, result = run_one_call(sqlite_url, home, call("broken", {"why": "no flour"}))
    assert state == "failed"
    assert "broken failed with RuntimeError: broken: no flour" in json.loads(result)["error"]


@pytest.mark.parametrize(
    ("tool", "error"),
    [("leave", "SystemExit"), ("leave_later", "SystemExit"), ("called_off", "CancelledError"), ("exhausted", "StopIteration")],
)
def test_an_exception_with_meaning_to_the_runtime_becomes_a_result_too(sqlite_url: str, home: Path, tool: str, error: str) -> None:
    state, result = run_one_call(sqlite_url, home, call(tool))
    assert state == "failed"
    assert error in result


def test_a_tool_that_takes_too_long_may_have_had_its_effect(sqlite_url: str, home: Path) -> None:
    state, result = run_one_call(sqlite_url, home, call("stuck"))
    assert state == "unknown"
    assert "did not finish within 0.05 s" in result
    assert "check before you call it again" in result


def test_a_slow_tool_that_may_be_repeated_has_only_failed(sqlite_url: str, home: Path) -> None:
    state, result = run_one_call(sqlite_url, home, call("stuck_reader"))
    assert state == "failed"
    assert "did not finish within 0.05 s" in result


@pytest.mark.parametrize(("tool", "arguments"), [("large", {"characters": 200_000}), ("many", {"entries": 50_000})])
def test_a_huge_result_is_shortened(sqlite_url: str, home: Path, tool: str, arguments: dict[str, int]) -> None:
    state, result = run_one_call(sqlite_url, home, call(tool, arguments))
    assert state == "succeeded"
    assert len(result) < 50_200
    assert re.search(r"\n… \([0-9,]+ more characters: read_result with handle [0-9a-f]{8}\.1\.0, offset [0-9]+\)$", result)


def test_the_rest_of_a_huge_result_can_be_read(sqlite_url: str, home: Path) -> None:
    """The result is read to its end through the handle that the shortened one names."""

    def read_on(request: Request) -> Reply:
        shortened, *parts = [result.content for result in request.tool_results]
        match = re.search(r"handle (\S+), offset (\d+)\)$", shortened)
        assert match is not None
        offset = json.loads(parts[-1])["next_offset"] if parts else int(match[2])
        return calls(("read_result", {"handle": match[1], "offset": offset, "limit": 50_000})) if offset else DONE

    def script(request: Request) -> Reply:
        return read_on(request) if request.tool_results else calls(call("many", {"entries": 50_000}))

    with open_talk(sqlite_url, home, script) as talk:
        assert talk.say()["outcome"] == "answered"
        shortened, *parts = list_results(talk)
        pieces = [json.loads(part) for part in parts]
        assert {piece["total"] for piece in pieces} == {len(json.dumps([*range(50_000)]))}
        whole = shortened.rpartition("\n…")[0] + "".join(piece["content"] for piece in pieces)
        assert json.loads(whole) == [*range(50_000)]
        assert pieces[-1]["next_offset"] is None


@pytest.mark.parametrize("handle", ["0", "00000000.1.0", "../../etc/passwd", "00000000.99999999999999999999.0", "%.1.0"])
def test_a_handle_that_names_nothing_is_an_error_result(sqlite_url: str, home: Path, handle: str) -> None:
    state, result = run_one_call(sqlite_url, home, call("read_result", {"handle": handle}))
    assert state == "failed"
    assert "handle" in result or "There is no result" in result


def test_a_tool_that_says_nothing_has_succeeded(sqlite_url: str, home: Path) -> None:
    assert run_one_call(sqlite_url, home, call("silent")) == ("succeeded", "null")


def test_unstorable_text_is_repaired_in_the_stream_too(database_url: str, home: Path) -> None:
    script = in_order(
        calls(call("awaited", raw_arguments='{"word": "x\0\ud800"}'), text="a\0b\ud800c \ud83d\ude00"),
        calls(call("awaited", raw_arguments=r'{"word": "y\u0000\ud800"}', id="b\0\ud800")),
        calls(call("no\0\ud800pe", raw_arguments=r'{"\ud800": "\ud800"}')),
        text("\0\ud800"),
    )
    with open_talk(database_url, home, script) as talk:
        talk.wait(talk.headway.feed.open(talk.tenant_id, talk.conversation_id, None))
        assert talk.say()["status"] == "finished"
        assert talk.answers() == ["a\ufffdb\ufffdc \N{GRINNING FACE}", "\ufffd\ufffd"]
        assert [effect.state for effect in talk.effects()] == ["succeeded", "failed", "failed"]
        assert talk.list_event_data("tool_call")[1]["arguments"] == {"word": "y\0\ufffd"}


def test_arguments_sent_as_an_object_are_repaired_too() -> None:
    response = ModelResponse([ToolCallPart("now", {"zone": "a\0\ud800"}, "a")])
    (tool_call,) = transcript.clean_response(response).tool_calls
    assert tool_call.args == r'{"zone": "a\u0000\ud800"}'


def test_the_effect_and_the_result_of_a_ledger_tool_are_stored_together(database_url: str, tmp_path: Path) -> None:
    """The call, its rows, its result and its events are stored in one commit, so they have the same timestamp."""
    with open_talk(database_url, tmp_path, in_order(plan_call("Bake"), text("1"), text("2"), text("3"))) as talk:
        talk.say()
        (effect,) = talk.database.read(lambda tx: tx.all("SELECT started_at, ended_at, state FROM effects"))
        (todo,) = talk.plan()
        answer_time, result_time = talk.database.read(lambda tx: tx.all("SELECT at FROM transcript WHERE n IN (1, 2) ORDER BY n"))
        moments = talk.database.read(lambda tx: tx.all("SELECT at FROM events WHERE kind IN ('tool_call', 'tool_result')"))
        assert effect == (todo.created_at, todo.created_at, "succeeded")
        assert {answer_time, result_time, *moments} == {(todo.created_at,)}


def test_a_refused_ledger_tool_changes_nothing(sqlite_url: str, tmp_path: Path) -> None:
    reply = calls(("create_todo", {"items": [{"title": "Bake"}, {"title": "Frost", "order": 0}]}), ("now", {}))
    with open_talk(sqlite_url, tmp_path, in_order(reply, DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.plan() == []
        assert [effect.state for effect in talk.effects()] == ["failed", "succeeded"]
        assert talk.list_event_data("todo_changed") == []
