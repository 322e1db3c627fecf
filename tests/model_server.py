"""A fake model behind the OpenAI chat-completions API, over real sockets: as strict as the real one, with scripted replies.

In a thread, with a script that maps a request to a reply:

    with ModelServer(by_turn(calls(("create_todo", {"subject": "buy milk"})), text("Done."))) as server:
        ...
    assert server.violations == []

In a separate process, which outlives the process under test, with rules in a JSON file (see `by_rules`):

    with run_model_process(rules, tmp_path) as server:
        ...

The same request always gets the same reply, except from `flaky` and from rules with `times`.
"""

import argparse
import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, build_opener
from urllib.request import Request as HttpRequest

PATIENCE_S = 60
TEXT_PIECES = 16  # a longer text is streamed in about so many, each of several words
MODEL = "fake-1"
ROLES = {"system", "developer", "user", "assistant", "tool"}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Document = dict[str, Any]


# Requests


class RecordedCall(NamedTuple):
    id: str
    name: str
    arguments: str


class ToolResult(NamedTuple):
    name: str
    content: str


class Request(NamedTuple):
    messages: list[Document]
    tools: list[str]
    model: str
    body: Document

    @classmethod
    def of(cls, body: Document) -> "Request":
        return cls(body["messages"], [tool["function"]["name"] for tool in body.get("tools") or []], body["model"], body)

    @property
    def texts(self) -> list[str]:
        return [get_text(message) for message in self.messages]

    @property
    def last(self) -> str:
        return self.texts[-1]

    @property
    def system(self) -> str:
        return "\n".join(get_text(message) for message in self.messages if message["role"] in ("system", "developer"))

    @property
    def assistant_turns(self) -> int:
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def calls(self) -> list[RecordedCall]:
        """The tool calls so far, oldest first."""
        return [
            RecordedCall(one["id"], one["function"]["name"], one["function"]["arguments"])
            for message in self.messages
            for one in message.get("tool_calls") or []
        ]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results of tools so far, oldest first."""
        names = {called.id: called.name for called in self.calls}
        return [ToolResult(names.get(one["tool_call_id"], "?"), get_text(one)) for one in self.messages if one["role"] == "tool"]


def get_text(message: Document) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


# Replies


class Call(NamedTuple):
    name: str
    arguments: str
    id: str | None


class Failure(NamedTuple):
    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None
    param: str | None = None


@dataclass(frozen=True)
class Reply:
    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    usage: tuple[int, int] | None = None
    """Tokens in and out; without it, a quarter of the characters."""
    failure: Failure | None = None
    cut: bool = False
    """The connection is closed in the middle."""
    seconds: float = 0
    midway: bool = False
    """Whether it is in the middle, and not before the beginning, that a reply is held back."""
    raw: bytes | None = None
    """A whole HTTP response instead, whatever it is; the connection is closed after it."""
    cached: int = 0
    """The tokens in that were read from the prompt cache."""


Script = Callable[[Request], Reply]


def text(said: str, finish: str = "stop", usage: tuple[int, int] | None = None) -> Reply:
    return Reply(said, finish=finish, usage=usage)


def call(name: str, arguments: Document | None = None, *, id: str | None = None, raw_arguments: str | None = None) -> Call:
    """A tool call. Without an id it gets `call_{assistant turn}_{place}`, both counted from 1."""
    return Call(name, json.dumps(arguments or {}) if raw_arguments is None else raw_arguments, id)


def calls(
    *made: Call | tuple[str, Document], text: str = "", finish: str = "tool_calls", usage: tuple[int, int] | None = None
) -> Reply:
    return Reply(text, tuple(one if isinstance(one, Call) else call(*one) for one in made), finish, usage)


def filtered_text(said: str = "") -> Reply:
    return Reply(said, finish="content_filter")


def error(status: int, message: str = "made up", retry_after: float | None = None, code: str | None = None) -> Reply:
    return Reply(failure=Failure(status, message, code, retry_after))


def raw(body: str | bytes, status: int = 200, kind: str = "text/event-stream", **headers: str) -> Reply:
    """A response with this body, which need not be valid for the API."""
    sent = body.encode() if isinstance(body, str) else body
    named = {"Content-Type": kind, "Content-Length": str(len(sent)), "Connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return Reply(raw=f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + sent)


def encode_stream(*data: Any, done: bool = True) -> str:
    """The body of a stream: one event per document; strings are sent as they are."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in data] + ["[DONE]"] * done
    return "".join(f"data: {line}\n\n" for line in lines)


def chunk(delta: Any, finish: Any = None, **more: Any) -> Document:
    """One event of a stream; `more` replaces its other fields."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_750_000_000, "model": MODEL}
    return {**frame, "choices": [choice], **more}


def drop(said: str = "This sentence will not be heard to its end.") -> Reply:
    return Reply(said, cut=True)


def slow(seconds: float, reply: Reply) -> Reply:
    """A reply after a delay. Use `hold` and `release` for a delay that the test controls."""
    return replace(reply, seconds=seconds)


def pause_midway(reply: Reply) -> Reply:
    """A reply that is held in the middle: the first half is sent even while the server holds replies."""
    return replace(reply, midway=True)


# Scripts


class NoReply(Exception):
    """The script has no reply for a request."""


def by_turn(*replies: Reply) -> Script:
    """The first reply to a conversation without assistant messages, the second to one with one, and so on."""

    def script(request: Request) -> Reply:
        if request.assistant_turns >= len(replies):
            raise NoReply(f"{len(replies)} replies, and {request.assistant_turns} assistant messages already")
        return replies[request.assistant_turns]

    return script


def flaky(times: int, failure: Reply, then: Script | Reply, when: Callable[[Request], bool] = lambda _: True) -> Script:
    """Fail the first `times` requests that match `when`; answer all others with `then`."""
    matches, after = count(), to_script(then)
    return lambda request: failure if when(request) and next(matches) < times else after(request)


CONDITIONS: dict[str, Callable[[Request, Any], bool]] = {
    "contains": lambda request, wanted: any(wanted in one for one in request.texts),
    "not_contains": lambda request, unwanted: not any(unwanted in one for one in request.texts),
    "last_contains": lambda request, wanted: wanted in request.last,
    "system_contains": lambda request, wanted: wanted in request.system,
    "model": lambda request, name: request.model == name,
    "tool": lambda request, name: name in request.tools,
    "tool_results": lambda request, number: len(request.tool_results) == number,
    "assistant_turns": lambda request, number: request.assistant_turns == number,
}


def by_rules(rules: Sequence[Document]) -> Script:
    """The reply of the first matching rule: `{"when": {condition: value, ...}, "reply": {...}, "times": 2}`.

    All conditions of a rule must hold; a rule without conditions always matches. `times` limits how often a rule is used.
    A reply is one of `{"text": ""}`, `{"calls": [{"name": "", "arguments": {}, "raw_arguments": "", "id": ""}], "text": ""}`,
    `{"error": {"status": 429, "message": "", "retry_after": 1, "code": ""}}`, `{"filtered": ""}` and `{"drop": ""}`.
    It may also have `finish`, `usage`, `seconds` and `midway`.
    """
    unknown = {name for rule in rules for name in rule.get("when", {})} - CONDITIONS.keys()
    unknown |= {name for rule in rules for name in rule} - {"when", "reply", "times"}
    if unknown:
        raise ValueError(f"no part of a rule: {', '.join(sorted(unknown))}")
    prepared = [(rule.get("when", {}), parse_reply(rule["reply"]), rule.get("times"), count()) for rule in rules]

    def script(request: Request) -> Reply:
        for when, reply, times, asked in prepared:
            fits = all(CONDITIONS[name](request, value) for name, value in when.items())
            if fits and (times is None or next(asked) < times):
                return reply
        raise NoReply(f"no rule fits a request to {request.model} that ends with {request.last!r}")

    return script


def parse_reply(document: Document) -> Reply:
    rest = dict(document)
    if "error" in rest:
        made = error(**rest.pop("error"))
    elif "filtered" in rest:
        made = filtered_text(rest.pop("filtered"))
    elif "drop" in rest:
        made = drop(rest.pop("drop"))
    elif "calls" in rest:
        made = calls(*(call(**one) for one in rest.pop("calls")), text=rest.pop("text", ""))
    else:
        made = text(rest.pop("text"))
    return replace(made, **rest)


def to_script(script: Script | Reply) -> Script:
    return (lambda _: script) if isinstance(script, Reply) else script


# Requests that the real API refuses. The messages are the API's own where known.


class Violation(NamedTuple):
    param: str
    message: str


def list_body_errors(body: Any) -> Iterator[Violation]:
    """The errors in the body that make it an invalid request."""
    if not isinstance(body, dict):
        yield Violation("body", "We could not parse the JSON body of your request.")
        return
    if not (isinstance(body.get("model"), str) and body["model"]):
        yield Violation("model", "you must provide a model parameter")
    for name in ("messages", "tools"):
        if not is_object_list(body.get(name, [] if name == "tools" else None)):
            yield Violation(name, f"Invalid type for '{name}': expected an array of objects.")
            return
    for place, message in enumerate(body["messages"]):
        yield from list_message_errors(f"messages[{place}]", message)
    for place, tool in enumerate(body.get("tools", [])):
        name = tool.get("function", {}).get("name")
        if tool.get("type") != "function" or not TOOL_NAME.fullmatch(str(name)):
            yield Violation(f"tools[{place}]", f"not a function with a proper name: {name!r}")


def is_object_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def list_message_errors(place: str, message: Document) -> Iterator[Violation]:
    role, content, tool_calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ROLES:
        yield Violation(f"{place}.role", f"Invalid value: {role!r}. Supported values are: {', '.join(sorted(ROLES))}.")
    if not (isinstance(content, str) or is_object_list(content) or (role == "assistant" and content is None and tool_calls)):
        yield Violation(f"{place}.content", f"Invalid value for 'content': expected a string or parts, got {content!r}.")
    if tool_calls is None:
        return
    if role != "assistant" or not tool_calls or not is_object_list(tool_calls):
        yield Violation(f"{place}.tool_calls", "tool_calls belong to an assistant message: an array of objects, and never empty")
        return
    for tool_call in tool_calls:
        function = tool_call.get("function", {})
        if tool_call.get("type") != "function" or not all(
            isinstance(part, str) for part in (tool_call.get("id"), function.get("arguments"))
        ):
            yield Violation(f"{place}.tool_calls", f"not a call of a function with an id and arguments as text: {tool_call}")
        elif not TOOL_NAME.fullmatch(str(function.get("name"))):
            yield Violation(f"{place}.tool_calls", f"not the name of a function: {function.get('name')!r}")


def list_violations(request: Request) -> Iterator[Violation]:
    """The errors in a request whose body is well formed."""
    if not request.messages:
        yield Violation("messages", "Invalid 'messages': empty array. Expected an array with minimum length 1.")
    yield from list_dialogue_errors(request.messages)
    body = request.body
    if "tools" in body and not request.tools:
        yield Violation("tools", "Invalid 'tools': empty array. Expected an array with minimum length 1.")
    for name in list_repeated(request.tools):
        yield Violation("tools", f"Tool names must be unique: {name}")
    for option in ("tool_choice", "parallel_tool_calls"):
        if option in body and not request.tools:
            yield Violation(option, f"'{option}' is only allowed when 'tools' are specified.")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("function", {}).get("name") not in request.tools:
        yield Violation("tool_choice", f"Tool choice {choice} not found in 'tools' parameter.")
    if body.get("stream_options") is not None and not body.get("stream"):
        yield Violation("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")


def list_dialogue_errors(messages: Sequence[Document]) -> Iterator[Violation]:
    """Check that every tool call has one result, directly after it, and that every result has a call."""
    ids: list[str] = []
    waiting: list[str] = []
    for place, message in enumerate(messages):
        param = f"messages[{place}]"
        if message["role"] == "tool":
            answered = message.get("tool_call_id")
            if answered in waiting:
                waiting.remove(answered)
            elif answered in ids:
                yield Violation(param, f"Duplicate value for 'tool_call_id' of {answered!r}.")
            else:
                yield Violation(
                    param,
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                    f" Nobody called {answered!r}.",
                )
            continue
        yield from list_unanswered(param, waiting)
        ids = [made["id"] for made in message.get("tool_calls") or []]
        waiting = list(ids)
        for id in list_repeated(ids):
            yield Violation(param, f"Duplicate id in 'tool_calls': {id}")
    yield from list_unanswered(f"messages[{len(messages)}]", waiting)


def list_unanswered(param: str, ids: Sequence[str]) -> Iterator[Violation]:
    if ids:
        yield Violation(
            param,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
            f" The following tool_call_ids did not have response messages: {', '.join(ids)}",
        )


def list_repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


# Replies on the wire


def build_envelope(request: Request, kind: str) -> Document:
    digest = hashlib.sha256(json.dumps(request.body, sort_keys=True).encode()).hexdigest()
    return {"id": f"chatcmpl-{digest[:24]}", "object": kind, "created": 1_750_000_000, "model": request.model}


def estimate_usage(request: Request, reply: Reply) -> Document:
    read = sum(len(json.dumps(message)) for message in request.messages)
    written = len(reply.text) + sum(len(one.name) + len(one.arguments) for one in reply.calls)
    taken, given = reply.usage or (read // 4 + 1, written // 4 + 1)
    counts = {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}
    return counts | {"prompt_tokens_details": {"cached_tokens": reply.cached}}


def build_tool_calls(request: Request, reply: Reply) -> list[Document]:
    turn = request.assistant_turns + 1
    return [
        {"id": one.id or f"call_{turn}_{place}", "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
        for place, one in enumerate(reply.calls, start=1)
    ]


def build_completion(request: Request, reply: Reply) -> Document:
    content = reply.text if reply.text or not reply.calls else None
    message: Document = {"role": "assistant", "content": content, "refusal": None}
    if reply.calls:
        message["tool_calls"] = build_tool_calls(request, reply)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return {**build_envelope(request, "chat.completion"), "choices": [choice], "usage": estimate_usage(request, reply)}


def list_deltas(request: Request, reply: Reply) -> Iterator[Document]:
    yield {"role": "assistant", "content": None if reply.calls else ""}
    words = re.findall(r"\s*\S+|\s+", reply.text)
    stride = max(1, len(words) // TEXT_PIECES)
    for start in range(0, len(words), stride):
        yield {"content": "".join(words[start : start + stride])}
    for index, made in enumerate(build_tool_calls(request, reply)):
        arguments = made["function"]["arguments"]
        half = len(arguments) // 2
        yield {"tool_calls": [{**made, "index": index, "function": {**made["function"], "arguments": ""}}]}
        for part in (arguments[:half], arguments[half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def list_stream_events(request: Request, reply: Reply) -> Iterator[str]:
    """The data of a stream, line by line."""
    frame = build_envelope(request, "chat.completion.chunk")
    counted = (request.body.get("stream_options") or {}).get("include_usage")
    if counted:
        frame["usage"] = None
    for delta, finish in [*((delta, None) for delta in list_deltas(request, reply)), ({}, reply.finish)]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        yield json.dumps({**frame, "choices": [choice]})
    if counted:
        yield json.dumps({**frame, "choices": [], "usage": estimate_usage(request, reply)})
    yield "[DONE]"


def error_document(failure: Failure) -> Document:
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(failure.status, "server_error" if failure.status >= 500 else "invalid_request_error")
    return {"error": {"message": failure.message, "type": kind, "param": failure.param, "code": failure.code}}


# The server


class ChatHandler(BaseHTTPRequestHandler):
    server: "ModelServer"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the access log."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/v1/models":
            entry = {"id": MODEL, "object": "model", "created": 1_750_000_000, "owned_by": "headway"}
            self.send({"object": "list", "data": [entry]})
        elif address.path == "/_requests":
            self.server.wait_for_requests(int(parse_qs(address.query).get("at_least", ["0"])[0]))
            self.send({"requests": [one.body for one in self.server.requests], "violations": self.server.violations})
        else:
            self.lost()

    def do_DELETE(self) -> None:
        self.control({"/_requests": self.server.forget, "/_hold": self.server.release})

    def do_PUT(self) -> None:
        self.control({"/_hold": self.server.hold})

    def control(self, knobs: dict[str, Callable[[], None]]) -> None:
        if self.path not in knobs:
            self.lost()
            return
        knobs[self.path]()
        self.send({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length)
        if len(sent) < length:  # the client was killed or canceled while it sent
            self.close_connection = True
        elif self.path != "/v1/chat/completions":
            self.lost()
        elif not re.fullmatch(r"Bearer \S+", self.headers.get("Authorization", "")):
            self.refuse(Failure(401, "You didn't provide an API key.", "invalid_api_key"))
        else:
            self.complete(parse_body(sent))

    def complete(self, body: Any) -> None:
        wrong = list(list_body_errors(body))
        if not wrong:
            request = Request.of(body)
            wrong = list(list_violations(request))
            if wrong:
                self.server.record(request)
        if wrong:
            self.refuse(*(Failure(400, breach.message, param=breach.param) for breach in wrong))
            return
        try:
            reply = self.server.take(request)
        except Exception as error:  # noqa: BLE001  otherwise the client would hang, and the test would not see the error
            self.refuse(Failure(500, f"the script failed: {type(error).__name__}: {error}"))
            return
        self.say(request, reply)

    def say(self, request: Request, reply: Reply) -> None:
        if not reply.midway:
            self.server.pause(reply)
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            self.close_connection = True
            return
        if reply.failure:
            after = reply.failure.retry_after
            headers = {} if after is None else {"Retry-After": f"{after:g}"}
            self.send(error_document(reply.failure), reply.failure.status, headers)
            return
        if request.body.get("stream"):
            data = [f"data: {event}\n\n".encode() for event in list_stream_events(request, reply)]
            parts = [b"%x\r\n%s\r\n" % (len(one), one) for one in data] + [b"0\r\n\r\n"]
            middle = (len(list(list_deltas(request, reply))) + 1) // 2  # the finish reason belongs to the second half
            self.begin(200, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"})
        else:
            whole = json.dumps(build_completion(request, reply)).encode()
            parts, middle = [whole[: len(whole) // 2], whole[len(whole) // 2 :]], 1
            self.begin(200, {"Content-Type": "application/json", "Content-Length": str(len(whole))})
        self.write_all(parts[:middle])
        if reply.cut:
            self.close_connection = True
            return
        if reply.midway:
            self.server.pause(reply)
        self.write_all(parts[middle:])

    def write_all(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self.wfile.write(part)

    def refuse(self, *failures: Failure) -> None:
        """Refuse an invalid request. The client must not retry it, because it would fail again."""
        self.server.violations += [f"{one.param}: {one.message}" if one.param else one.message for one in failures]
        self.send(error_document(failures[0]), failures[0].status, {"x-should-retry": "false"})

    def lost(self) -> None:
        self.refuse(Failure(404, f"Invalid URL ({self.command} {self.path})"))

    def send(self, document: Document, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.begin(status, {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})})
        self.wfile.write(body)

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def parse_body(sent: bytes) -> Any:
    with suppress(ValueError):  # invalid JSON
        return json.loads(sent)
    return None


class ModelServer(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for them, so that no thread outlives its test
    request_queue_size = 128

    def __init__(self, script: Script | Reply, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), ChatHandler)
        self.script = to_script(script)
        self.url = f"http://{host}:{self.server_port}/v1"
        self.violations: list[str] = []
        self._requests: list[Request] = []
        self._arrival = threading.Condition()
        self._holds = False
        self._releases = 0
        self._handler = threading.local()
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()

    @property
    def requests(self) -> list[Request]:
        with self._arrival:
            return list(self._requests)

    def take(self, request: Request) -> Reply:
        """Record a request, and return its reply. The script comes last, because it may block until the test lets it continue."""
        self.record(request)
        return self.script(request)

    def record(self, request: Request) -> None:
        with self._arrival:
            self._requests.append(request)
            self._handler.releases = self._releases
            self._handler.is_held = self._holds
            self._arrival.notify_all()

    def wait_for_requests(self, number: int) -> list[Request]:
        """Wait for this many requests, and return them. Their replies may still be held."""
        with self._arrival:
            enough = self._arrival.wait_for(lambda: len(self._requests) >= number, PATIENCE_S)
            assert enough, f"{len(self._requests)} requests instead of {number}"
            return list(self._requests)

    def forget(self) -> None:
        """Clear the requests, but keep the violations."""
        with self._arrival:
            self._requests.clear()

    def hold(self) -> None:
        """Hold the replies to all requests from now on, until `release`. A script holds its own reply, unless the test has seen the
        request and released its reply already."""
        with self._arrival:
            if hasattr(self._handler, "is_held"):
                self._handler.is_held = True
            else:
                self._holds = True

    def release(self) -> None:
        with self._arrival:
            self._holds = False
            self._releases += 1
            self._arrival.notify_all()

    def pause(self, reply: Reply) -> None:
        with self._arrival:
            self._arrival.wait_for(lambda: not self._handler.is_held or self._releases > self._handler.releases)
        self._closing.wait(reply.seconds)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected or were killed; any other error is a violation."""
        if not isinstance(error := sys.exception(), ConnectionError):
            self.violations.append(f"the model server failed: {error!r}")

    def __enter__(self) -> "ModelServer":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._closing.set()
        self.release()
        for connection in list(self._connections):
            with suppress(OSError):  # the client closed it first
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class RuleServer(ModelServer):
    """Chooses the rule of a request before the request is seen. Otherwise a test could kill the client, and its successor could use
    up the rule that was meant for the killed one, for example to get no answer once."""

    def take(self, request: Request) -> Reply:
        try:
            return self.script(request)
        finally:
            self.record(request)


# In a separate process


class ModelProcess:
    """A server in another process, with the interface of `ModelServer` over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str) -> Document:
        request = HttpRequest(f"{self.url.removesuffix('/v1')}{path}", method=method)
        with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE_S + 1) as answer:
            document: Document = json.load(answer)
            return document

    @property
    def requests(self) -> list[Request]:
        return self.wait_for_requests(0)

    @property
    def violations(self) -> list[str]:
        violations: list[str] = self.ask("GET", "/_requests")["violations"]
        return violations

    def wait_for_requests(self, number: int) -> list[Request]:
        return [Request.of(body) for body in self.ask("GET", f"/_requests?at_least={number}")["requests"]]

    def forget(self) -> None:
        self.ask("DELETE", "/_requests")

    def hold(self) -> None:
        self.ask("PUT", "/_hold")

    def release(self) -> None:
        self.ask("DELETE", "/_hold")


@contextmanager
def run_model_process(rules: Sequence[Document], folder: Path) -> Iterator[ModelProcess]:
    """Run the server with these rules in a separate process until the block ends."""
    script = folder / "model script.json"
    script.write_text(json.dumps(rules), encoding="utf-8")
    with subprocess.Popen([sys.executable, __file__, str(script)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ModelProcess(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()


class Reachable(Protocol):
    url: str


def environment(server: Reachable) -> dict[str, str]:
    """The environment that points Headway at this server. It has no certificates: loading them takes longer than a short turn."""
    model = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "test-key", "HEADWAY_MODEL": f"openai-chat:{MODEL}"}
    model["HEADWAY_DRIVE"] = "plan"  # the server has a private address, and would count as a small model
    return model | {"SSL_CERT_FILE": "", "SSL_CERT_DIR": str(Path(__file__).parent)}


def main() -> None:
    parser = argparse.ArgumentParser(description="A made-up model behind the OpenAI chat-completions API.")
    parser.add_argument("script", type=Path, help="rules as JSON")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before any thread starts: threads inherit the mask
    with RuleServer(by_rules(json.loads(options.script.read_text(encoding="utf-8"))), options.port) as server:
        print(json.dumps({"url": server.url}), flush=True)
        signal.sigwait(ends)


if __name__ == "__main__":
    main()
