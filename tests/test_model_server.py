"""The fake model works with the same client libraries as the real one, and refuses the same requests."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.tools import ToolDefinition

from tests.model_server import (
    PATIENCE_S,
    ModelServer,
    Reply,
    Request,
    RuleServer,
    Script,
    by_rules,
    by_turn,
    call,
    calls,
    drop,
    environment,
    error,
    filtered_text,
    flaky,
    pause_midway,
    run_model_process,
    slow,
    text,
)

HELLO = [{"role": "user", "content": "hello"}]
CREATE_TODO = {"type": "function", "function": {"name": "create_todo", "parameters": {"type": "object"}}}
ASKED: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "create_todo", "arguments": "{}"}} for id in ("call_a", "call_b")
    ],
}
A, B = ({"role": "tool", "tool_call_id": id, "content": f"todo {id}"} for id in ("call_a", "call_b"))
PROGRAM = f"import openai; openai.OpenAI(max_retries=0).chat.completions.create(model='fake-1', messages={HELLO})"


def build_client(url: str, retries: int = 0) -> openai.OpenAI:
    http = httpx2.Client(verify=False, trust_env=False)  # loading certificates takes 0.1 s
    return openai.OpenAI(base_url=url, api_key="test-key", max_retries=retries, http_client=http)


def ask(server: ModelServer, messages: Any = HELLO, retries: int = 0, **options: Any) -> Any:
    with build_client(server.url, retries) as client:
        return client.chat.completions.create(**{"model": "fake-1", "messages": messages, **options})


@contextmanager
def open_stream(server: ModelServer, **options: Any) -> Iterator[Any]:
    options |= {"model": "fake-1", "messages": HELLO, "stream": True}
    with build_client(server.url) as client, client.chat.completions.create(**options) as stream:
        yield stream


def read_stream(server: ModelServer, **options: Any) -> list[Any]:
    with open_stream(server, **options) as stream:
        return list(stream)


def get_refusal(server: ModelServer, **body: Any) -> str:
    """Send a request that the server must refuse, and return its message."""
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(server, **body)
    assert refusal.value.type == "invalid_request_error"
    return refusal.value.message


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(text("Hello to you.")) as running:
        yield running


def test_text_comes_word_by_word_with_its_usage(server: ModelServer) -> None:
    chunks = read_stream(server, stream_options={"include_usage": True})
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert words == ["", "Hello", " to", " you.", None]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == chunks[-1].usage.prompt_tokens + chunks[-1].usage.completion_tokens
    assert all(chunk.usage is None for chunk in read_stream(server))
    assert ask(server).choices[0].message.content == "Hello to you."
    assert ask(server) == ask(server)
    assert server.violations == []


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([], "empty array"),
        ([*HELLO, A], "Nobody called 'call_a'"),
        ([*HELLO, ASKED, A], "did not have response messages: call_b"),
        ([*HELLO, ASKED, A, *HELLO, B], "did not have response messages: call_b"),
        ([*HELLO, ASKED, A, B, A], "Duplicate value for 'tool_call_id' of 'call_a'"),
        ([*HELLO, ASKED, A, B, *HELLO, A], "Nobody called 'call_a'"),
        ([{"role": "wizard", "content": "hello"}], "Invalid value: 'wizard'"),
        ([{"role": "user"}], "Invalid value for 'content'"),
    ],
)
def test_a_dialogue_that_does_not_add_up_is_refused(server: ModelServer, messages: Any, wrong: str) -> None:
    assert wrong in get_refusal(server, messages=messages)
    assert wrong in server.violations[0]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"tools": [CREATE_TODO, CREATE_TODO]}, "unique: create_todo"),
        ({"tools": []}, "empty array"),
        ({"tool_choice": "auto"}, "only allowed when 'tools' are specified"),
        ({"tools": [CREATE_TODO], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "not found in 'tools'"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled"),
        ({"model": ""}, "you must provide a model"),
    ],
)
def test_options_that_contradict_each_other_are_refused(server: ModelServer, body: Any, wrong: str) -> None:
    assert wrong in get_refusal(server, **body)
    assert len(server.violations) == 1


def test_a_dialogue_in_order_is_recorded_and_can_be_asked_about(server: ModelServer) -> None:
    ask(server, [{"role": "system", "content": "Be kind."}, *HELLO, ASKED, B, A], tools=[CREATE_TODO])
    [request] = server.requests
    assert server.violations == []
    assert (request.system, request.last, request.assistant_turns) == ("Be kind.", "todo call_a", 1)
    assert (request.model, request.tools) == ("fake-1", ["create_todo"])
    assert [called.id for called in request.calls] == ["call_a", "call_b"]
    assert request.tool_results == [("create_todo", "todo call_b"), ("create_todo", "todo call_a")]


def test_errors_have_a_status_a_code_and_a_time_to_come_back() -> None:
    with ModelServer(flaky(1, error(429, "too fast", retry_after=7), error(400, "too long", code="too_long"))) as server:
        with pytest.raises(openai.RateLimitError, match="too fast") as limited:
            ask(server)
        with pytest.raises(openai.BadRequestError) as refusal:
            ask(server)
    assert limited.value.response.headers["retry-after"] == "7"
    assert refusal.value.code == "too_long"
    assert server.violations == []


def test_a_flaky_server_recovers() -> None:
    with ModelServer(flaky(2, error(503, retry_after=0.01), text("At last."))) as server:
        assert ask(server, retries=2).choices[0].message.content == "At last."
        assert len(server.requests) == 3


@pytest.mark.parametrize("stream", [True, False])
def test_a_dropped_connection_is_noticed(stream: bool) -> None:
    with ModelServer(drop()) as server, pytest.raises((openai.APIConnectionError, httpx2.RemoteProtocolError)):
        read_stream(server) if stream else ask(server)
    assert server.violations == []


def test_a_script_without_an_answer_says_so_at_once() -> None:
    with ModelServer(by_turn()) as server, pytest.raises(openai.InternalServerError, match="0 replies"):
        ask(server, retries=5)
    assert len(server.violations) == len(server.requests) == 1


def run_in_background(work: Callable[[], object]) -> threading.Thread:
    def patiently() -> None:
        with suppress(openai.APIConnectionError):  # one test closes the server first
            work()

    thread = threading.Thread(target=patiently)
    thread.start()
    return thread


def test_a_held_reply_comes_when_it_is_released(server: ModelServer) -> None:
    server.hold()
    replies: list[Any] = []
    asking = run_in_background(lambda: replies.append(ask(server)))
    server.wait_for_requests(1)
    assert replies == []
    server.release()
    asking.join()
    assert len(replies) == 1


def test_a_reply_can_be_held_in_its_middle() -> None:
    with ModelServer(pause_midway(text("one two three four"))) as server:
        server.hold()
        with open_stream(server) as stream:
            received = [next(stream).choices[0].delta.content for _ in range(3)]
            assert received == ["", "one", " two"]
            server.release()
            assert len(list(stream)) == 3


def test_a_server_closes_despite_a_waiting_client() -> None:
    with ModelServer(slow(60, text("zzz"))) as server:
        asking = run_in_background(lambda: ask(server))
        server.wait_for_requests(1)
    asking.join()


def test_rules_choose_replies() -> None:
    rules: list[dict[str, Any]] = [
        {"when": {"contains": "flaky"}, "reply": {"error": {"status": 500, "retry_after": 0.01}}, "times": 1},
        {"when": {"last_contains": "hell", "not_contains": "bye", "model": "fake-1"}, "reply": {"text": "hi", "usage": [5, 2]}},
        {"when": {"tool_results": 2}, "reply": {"calls": [{"name": "a", "raw_arguments": "{", "id": "x"}], "finish": "length"}},
        {"when": {"system_contains": "be odd"}, "reply": {"filtered": ""}},
    ]
    with ModelServer(by_rules(rules)) as server:
        assert ask(server).usage.total_tokens == 7
        cut = ask(server, [*HELLO, ASKED, A, B]).choices[0]
        assert (cut.finish_reason, cut.message.tool_calls[0].function.arguments) == ("length", "{")
        assert ask(server, [{"role": "system", "content": "be odd"}]).choices[0].finish_reason == "content_filter"
        assert ask(server, [*HELLO, {"role": "user", "content": "flaky hell"}], retries=1).choices[0].message.content == "hi"
        with pytest.raises(openai.InternalServerError, match="no rule fits"):
            ask(server, [{"role": "user", "content": "bye"}])
    with pytest.raises(ValueError, match="no part of a rule: containz"):
        by_rules([{"when": {"containz": "x"}, "reply": {"text": ""}}])


def test_a_rule_is_chosen_before_its_request_is_seen() -> None:
    """A test that has seen a client's request may kill it: the rule is used up, and the client's successor gets the next one."""
    begun, go_on = threading.Event(), threading.Event()
    choose = by_rules([{"reply": {"text": "once"}, "times": 1}, {"reply": {"text": "from then on"}}])

    def choose_slowly(request: Request) -> Reply:
        begun.set()
        go_on.wait(PATIENCE_S)
        return choose(request)

    with RuleServer(choose_slowly) as server:
        replies: list[Any] = []
        asking = run_in_background(lambda: replies.append(ask(server)))
        assert begun.wait(PATIENCE_S)
        assert server.requests == []
        go_on.set()
        server.wait_for_requests(1)
        assert ask(server).choices[0].message.content == "from then on"
        asking.join()
        assert replies[0].choices[0].message.content == "once"


def test_a_model_process_outlives_its_client(tmp_path: Path) -> None:
    with run_model_process([{"reply": {"text": "still here"}}], tmp_path) as server:
        server.hold()
        with subprocess.Popen([sys.executable, "-c", PROGRAM], env={**os.environ, **environment(server)}) as asking:
            server.wait_for_requests(1)
            asking.send_signal(signal.SIGKILL)
        server.release()
        with build_client(server.url) as client:
            assert client.models.list().data
        assert [request.last for request in server.requests] == ["hello"]
        server.forget()
        assert server.requests == []
        assert server.violations == []


def talk(script: Script | Reply, *, answering: bool = False) -> ModelResponse:
    """The last reply as pydantic-ai parses it. With `answering`, the tool calls of the first reply are answered."""
    with ModelServer(script) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(server).items():
            patch.setenv(name, value)
        response = asyncio.run(request_replies(answering))
    assert server.violations == []
    return response


async def request_replies(answering: bool) -> ModelResponse:
    history: list[ModelMessage] = [ModelRequest.user_text_prompt("hello", instructions="Be kind.")]
    tools = ModelRequestParameters(function_tools=[ToolDefinition(name="create_todo")])
    async with infer_model(os.environ["HEADWAY_MODEL"]) as model:
        for _ in range(1 + answering):
            async with model_request_stream(model, history, model_request_parameters=tools) as stream:
                async for _ in stream:
                    pass
            response = stream.get()
            results = [ToolReturnPart(tool_call.tool_name, "done", tool_call.tool_call_id) for tool_call in response.tool_calls]
            history += [response, ModelRequest(results)]
    return response


def test_pydantic_ai_reads_text_and_why_it_ended() -> None:
    whole = talk(text("Hello to you.", usage=(11, 3)))
    assert (whole.text, whole.finish_reason, whole.usage.input_tokens, whole.usage.output_tokens) == (
        "Hello to you.",
        "stop",
        11,
        3,
    )
    assert talk(text("Hello to", finish="length")).finish_reason == "length"
    assert talk(filtered_text()).finish_reason == "content_filter"


def test_pydantic_ai_reads_tool_calls_and_answers_them() -> None:
    two = calls(("create_todo", {"subject": "buy milk"}), call("create_todo", raw_arguments='{"subj'), text="Two things.")
    asked = talk(two)
    assert (asked.text, asked.finish_reason) == ("Two things.", "tool_call")
    assert [one.tool_call_id for one in asked.tool_calls] == ["call_1_1", "call_1_2"]
    assert [one.args for one in asked.tool_calls] == ['{"subject": "buy milk"}', '{"subj']
    assert talk(by_turn(two, text("Done.")), answering=True).text == "Done."


def test_pydantic_ai_receives_errors() -> None:
    with pytest.raises(ModelHTTPError, match="made up") as failed:
        talk(error(400))
    assert failed.value.status_code == 400
