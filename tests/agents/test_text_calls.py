"""Tool calls that a model wrote as text: which texts are calls, and which stay answers."""

import json
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.text_calls import StreamedText, extract_text_calls, split_calls
from headway.agents.tools.results import list_callable_names
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import text
from tests.tables import each_row

NAMES = frozenset(("write_file", "now", "spawn_agent"))
WRITE: tuple[str, dict[str, Any]] = ("write_file", {"path": "a.txt", "content": "hi"})
ARGUMENTS = '{"path": "a.txt", "content": "hi"}'
CALL = f'{{"name": "write_file", "arguments": {ARGUMENTS}}}'
NOW: tuple[str, dict[str, Any]] = ("now", {})

# Texts of real models.
CALLS: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "bare": (CALL, [WRITE]),
    "with spaces around it": (f"\n\n  {CALL}\n", [WRITE]),
    "Qwen in a fence": (f"```json\n{CALL}\n```", [WRITE]),
    "Qwen with a fence that was not opened": (f"{{{CALL}}}\n```", [WRITE]),
    "Qwen with doubled braces": (f"{{{CALL}}}", [WRITE]),
    "Qwen in tags with doubled braces": (f"<tool_call>\n{{{CALL}}}\n</tool_call>", [WRITE]),
    "in a fence without a language": (f"```\n{CALL}\n```\n", [WRITE]),
    "in a fence that is called tool_call": (f"```tool_call\n{CALL}\n```", [WRITE]),
    "in a fence that is called tool_code": (f"```tool_code\n{CALL}\n```", [WRITE]),
    "in a fence that is not closed": (f"```json\n{CALL}", [WRITE]),
    "Hermes": (f"<tool_call>\n{CALL}\n</tool_call>", [WRITE]),
    "Hermes, two calls": (
        f'<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{{"name": "now", "arguments": {{}}}}\n</tool_call>',
        [WRITE, NOW],
    ),
    "Hermes without the end": (f"<tool_call>\n{CALL}", [WRITE]),
    "Llama": (f'{{"name": "write_file", "parameters": {ARGUMENTS}}}', [WRITE]),
    "Llama with a type": (f'{{"type": "function", "name": "write_file", "parameters": {ARGUMENTS}}}', [WRITE]),
    "Llama with a tag": (f'<|python_tag|>{{"name": "write_file", "parameters": {ARGUMENTS}}}<|eom_id|>', [WRITE]),
    "Llama, two calls": (f'{CALL}; {{"name": "now", "parameters": {{}}}}', [WRITE, NOW]),
    "with a tool that is not offered": (
        f'{CALL}\n{{"name": "read_file", "arguments": {{"path": "a.txt"}}}}',
        [WRITE, ("read_file", {"path": "a.txt"})],
    ),
    "Mistral": (f'[TOOL_CALLS] [{{"name": "write_file", "arguments": {ARGUMENTS}}}]', [WRITE]),
    "Mistral with arguments": (f"[TOOL_CALLS]write_file[ARGS]{ARGUMENTS}", [WRITE]),
    "Mistral with ids": (f"[TOOL_CALLS]write_file[CALL_ID]abc123[ARGS]{ARGUMENTS}[TOOL_CALLS]now[ARGS]{{}}", [WRITE, NOW]),
    "DeepSeek V3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write_file\n```json\n"
        f"{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [WRITE],
    ),
    "DeepSeek V3.1": (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>"
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [WRITE, NOW],
    ),
    "Qwen's coding models": (
        "<tool_call>\n<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n<parameter=content>\nhi\n</parameter>\n"
        "</function>\n</tool_call>",
        [WRITE],
    ),
    "OpenAI's form": (json.dumps({"id": "1", "type": "function", "function": {"name": WRITE[0], "arguments": ARGUMENTS}}), [WRITE]),
    "OpenAI's message": (json.dumps({"tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]}), [NOW]),
    "a list": (f'[{CALL}, {{"tool": "now", "args": null}}]', [WRITE, NOW]),
    "tool and input": (f'{{"tool": "write_file", "input": {ARGUMENTS}}}', [WRITE]),
    "a function by name": (f'{{"function": "write_file", "arguments": {ARGUMENTS}}}', [WRITE]),
    "arguments as text": (json.dumps({"name": "write_file", "arguments": ARGUMENTS}), [WRITE]),
    "empty arguments as text": ('{"name": "now", "arguments": ""}', [NOW]),
    "Qwen between the tags of its tools": (f"<tools>\n{CALL}\n</tools>", [WRITE]),
    "Qwen with a copy of a tool before the call": (
        f'<tools>\n{{"function": {{"name": "now", "description": "The time.", "parameters": {{}}}}}}\n</tools>\n{CALL}',
        [WRITE],
    ),
    "Qwen between the tags of a result": (f"<tool_response>\n{CALL}\n</tool_response>", [WRITE]),
    "a call, and a result that was made up": (f"<tool_call>{CALL}</tool_call><tool_response>Wrote it.</tool_response>", [WRITE]),
    "braces too many": (f"{{{CALL}}}}}\n{{{CALL}}}}}", [WRITE, WRITE]),
    "a value in single quotes": ("""{"name": "write_file", "arguments": {"path": 'a.txt', "content": 'hi'}}""", [WRITE]),
    "an element with attributes": ('<write_file path="a.txt" content="hi"/>', [WRITE]),
    "elements with JSON": (f"<write_file>\n{ARGUMENTS}\n</write_file>\n<now>{{}}</now>", [WRITE, NOW]),
    "another spelling": ('{"name": "spawn-agent", "arguments": {}}', [("spawn_agent", {})]),
}


@each_row("name", CALLS)
def test_a_text_that_is_a_call_becomes_the_call(name: str) -> None:
    content, expected = CALLS[name]
    prose, calls = split_calls(content, NAMES)
    assert (prose, [(call.tool, json.loads(call.arguments)) for call in calls]) == ("", expected)


@each_row(
    ("content", "prose"),
    [
        (f"I write the file.\n\n```json\n{CALL}\n```", "I write the file."),
        (f"I write the file.\n```json\n{CALL}\n```\nThen I am done.", "I write the file.\nThen I am done."),
        (f"I write the file. <tool_call>{CALL}</tool_call>", "I write the file."),
        (f"I write the file:\n{CALL}\nThen I am done.", "I write the file:\n\nThen I am done."),
        (f"I write the file:\n\n{{{CALL}}}}}", "I write the file:"),
        (f"I write the file.[TOOL_CALLS] [{CALL}]", "I write the file."),
        (f"{CALL}\n```\nThis writes the file.", "This writes the file."),
        (f"```python\nprint(1)\n```\nNow I save it.\n```json\n{CALL}\n```", "```python\nprint(1)\n```\nNow I save it."),
    ],
)
def test_the_words_around_a_call_are_kept(content: str, prose: str) -> None:
    said, calls = split_calls(content, NAMES)
    assert (said, [(call.tool, json.loads(call.arguments)) for call in calls]) == (prose, [WRITE])


ANSWERS = {
    "another tool": '{"name": "launch_rocket", "arguments": {}}',
    "a person": '```json\n{"name": "Ada", "arguments": {"for": 1, "against": 2}}\n```',
    "no arguments": '{"name": "now"}',
    "more keys": f'{{"name": "write_file", "arguments": {ARGUMENTS}, "returns": "nothing"}}',
    "two kinds of arguments": '{"name": "now", "arguments": {}, "parameters": {}}',
    "arguments that are a list": '{"name": "now", "arguments": [1]}',
    "arguments that are words": '{"name": "now", "arguments": "right away"}',
    "a tool's description": '{"name": "now", "parameters": {}, "description": "The time."}',
    "a call among other things": f'[{CALL}, {{"name": "Ada"}}]',
    "a call among words": f"Send {CALL} to the server.",
    "an example with an id": f'Like this:\n```json\n{{"id": "1", "name": "write_file", "arguments": {ARGUMENTS}}}\n```',
    "an example in code": f"```python\nrequest = {CALL}\nsend(request)\n```",
    "an example in a document": f"````markdown\nWrite this:\n```json\n{CALL}\n```\n````",
    "a result that was made up": "<tool_response>now: 12:00</tool_response> {}",
    "a tag that is not a call": f"<tool_call>{CALL}</tool_call> and <tool_call>nothing</tool_call>",
    "the same key twice": '{"name": "now", "name": "write_file", "arguments": {}}',
    "the same argument twice": '{"name": "write_file", "arguments": {"path": "a", "path": "/etc/passwd"}}',
    "half a call": CALL[:-1],
    "a number": "42",
    "words about a tool": "I would use write_file for that {if asked}.",
    "nothing": "",
}


@each_row("name", ANSWERS)
def test_any_other_text_stays_the_answer(name: str) -> None:
    assert split_calls(ANSWERS[name], NAMES) == (ANSWERS[name], [])


@each_row(
    "content",
    [
        '{"name": "now", "arguments": ' + '{"a": ' * 100_000 + "1" + "}" * 100_000 + "}",
        '{"name": "now", "arguments": ' + "[" * 500_000,
        '{"name": "now", ' + " " * 900_000,
        "now <tool_call>" * 60_000,
        "now [TOOL_CALLS]" + "a" * 900_000,
        "now {" + "\n```" * 200_000,
        "now {\n```" + " " * 900_000 + "x y",
        "now {<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now" + " " * 900_000,
        "<tool_call><function=now>" + "<parameter=a>" * 60_000 + "</function></tool_call>",
        "{" * 900_000 + "now",
        "1 " * 300_000 + "now {",
        "now <tools>{" * 60_000,
        "now\n{" * 200_000,
        "{now: '" * 200_000,
        "now\n{" + "}" * 900_000,
    ],
)
def test_hostile_texts_take_no_time_and_call_nothing_odd(content: str) -> None:
    _, calls = split_calls(content, NAMES)
    assert all(call.tool == "now" and len(call.arguments) < 1_000_000 for call in calls)


def test_tools_on_demand_can_be_called_by_name() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "enum": ["todo_add"]}, "arguments": {"type": "object"}}}
    tools = [ToolDefinition(name="now"), ToolDefinition(name="use_tool", parameters_json_schema=schema)]
    assert list_callable_names(tools) == ["now", "use_tool", "todo_add"]
    for content in ('{"name": "todo_add", "arguments": {"subject": "milk"}}', '{"name": "use_tool", "arguments": {}}'):
        response = extract_text_calls(ModelResponse([TextPart(content)], finish_reason="stop"), tools)
        assert [call.tool_name for call in response.tool_calls] == [json.loads(content)["name"]]
        assert response.finish_reason == "tool_call"


@each_row("reason", ["content_filter", "error"])
def test_an_answer_that_is_not_whole_calls_nothing(reason: str) -> None:
    response = ModelResponse([TextPart('{"name": "now", "arguments": {}}')], finish_reason=reason)  # type: ignore[arg-type]
    assert extract_text_calls(response, [ToolDefinition(name="now")]) is response


def test_the_whole_calls_of_a_cut_off_answer_are_made() -> None:
    tools = [ToolDefinition(name="now"), ToolDefinition(name="write_file")]
    cut = ModelResponse([TextPart(f'{{{CALL}}}\n{{"name": "now", "arguments": {{}}}}\n{{"name": "wri')], finish_reason="length")
    assert [call.tool_name for call in extract_text_calls(cut, tools).tool_calls] == ["write_file", "now"]
    prose = ModelResponse([TextPart(f"{CALL}\nI have written it, and")], finish_reason="length")
    assert extract_text_calls(prose, tools) is prose


def test_thinking_is_kept() -> None:
    response = ModelResponse([ThinkingPart("Hm."), TextPart('{"name": "now", "arguments": {}}')], finish_reason="stop")
    assert extract_text_calls(response, [ToolDefinition(name="now")]).thinking == "Hm."


# In a turn


def test_a_call_written_as_text_is_executed_and_never_shown_as_the_answer(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(text(f"```json\n{CALL}\n```"), text("It is written."))) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [(effect.tool, effect.state) for effect in talk.effects()] == [("write_file", "succeeded")]
        assert talk.answers() == ["It is written."]
        assert talk.read_streamed_text() == "It is written."
        assert [call.name for call in talk.requests[1].calls] == ["write_file"]
        assert len(talk.requests[1].tool_results) == 1


def test_the_words_beside_a_call_are_shown(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(text(f"First I write it.\n```json\n{CALL}\n```"), text("It is written."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        assert talk.answers() == ["First I write it.", "It is written."]
        assert talk.read_streamed_text() == "First I write it.It is written."


def test_json_that_the_user_asked_for_is_the_answer(sqlite_url: str, tmp_path: Path) -> None:
    answer = '```json\n{"name": "Ada", "arguments": ["for", "against"]}\n```'
    with open_talk(sqlite_url, tmp_path, text(answer)) as talk:
        assert talk.say("Show me an example in JSON.")["outcome"] == "answered"
        assert (talk.answers(), talk.effects()) == ([answer], [])
        assert talk.read_streamed_text() == answer


class Reader:
    """The parts of a streamed answer that a user sees, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_text(self, text: str) -> None:
        self.seen.append(text)

    def on_withdrawn(self) -> None:
        self.seen.append("withdrawn")


def stream(content: str, accepted: str | None) -> list[str]:
    """Return what a user sees of an answer that arrives in pieces of seven characters."""
    reader = Reader()
    streamed = StreamedText(reader)
    for start in range(0, len(content), 7):
        streamed.on_text(content[start : start + 7])
    streamed.finish(content, accepted)
    return reader.seen


@each_row("name", CALLS)
def test_a_user_never_sees_the_text_of_a_call(name: str) -> None:
    content, _ = CALLS[name]
    prose, _ = split_calls(content, NAMES)
    if content.lstrip()[0] in "{`<[":
        assert stream(content, prose) == ([prose] if prose else [])


@each_row(
    "content",
    [
        "Hello to you, whoever you are, and welcome.",
        '{"a": 1, "names": ["Ada", "Bob", "Cleo", "Dora", "Emil"], "more": true, "x": 2}',
        "[1]",
    ],
)
def test_other_text_is_passed_on_while_it_arrives(content: str) -> None:
    seen = stream(content, content)
    assert "".join(seen) == content
    assert (len(seen) > 1) == (len(content) > 60 or content[0] == "H")


def test_a_call_after_words_is_withdrawn() -> None:
    assert stream(f"I do it now.\n{CALL}", "I do it now.")[-2:] == ["withdrawn", "I do it now."]
