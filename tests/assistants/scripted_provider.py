"""A server on loopback that speaks the protocols of model providers, for the real assistants. It answers by a script."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

USAGE: Final = {"input_tokens": 10, "output_tokens": 5}


class Say(NamedTuple):
    text: str


class Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]


Answer = Say | Call


class ScriptedProvider:
    """Each request with tools takes the next answer of the script; after the last one, the last is repeated."""

    def __init__(self, answers: list[Answer], hold_at: int = 0) -> None:
        self.answers = answers
        self.hold_at = hold_at  # the number of the request that gets no answer before `release`; 0: none
        self.is_held = threading.Event()
        self.released = threading.Event()
        self.requests: list[dict[str, Any]] = []  # those that took an answer of the script
        self.lock = threading.Lock()
        self.url = ""

    def take(self, request: dict[str, Any]) -> tuple[int, Answer]:
        with self.lock:
            if not has_tools(request):
                return 0, Say("ok")
            self.requests.append(request)
            number = len(self.requests)
        if number == self.hold_at:
            self.is_held.set()
            self.released.wait()
        return number, self.answers[min(number, len(self.answers)) - 1]

    def release(self) -> None:
        self.released.set()

    @property
    def texts(self) -> list[str]:
        """What each request ended with: the prompt, the result of a call, or what a hook said."""
        messages = (request.get("messages") or request.get("input") or request.get("contents") for request in self.requests)
        return [json.dumps(found[-1], ensure_ascii=False) for found in messages if found]


def has_tools(request: dict[str, Any]) -> bool:
    """Whether a request is of the assistant's loop. Those that invent titles and the like have no tools, or one with a schema."""
    return bool(request.get("tools"))


@contextmanager
def serve(answers: list[Answer], hold_at: int = 0) -> Iterator[ScriptedProvider]:
    provider = ScriptedProvider(answers, hold_at)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def do_HEAD(self) -> None:
            self.respond("application/json", "")

        def do_GET(self) -> None:
            self.respond("application/json", json.dumps({"data": [], "models": []}))

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            path = self.path.partition("?")[0]
            if path.endswith(("/count_tokens", ":countTokens")):
                self.respond("application/json", json.dumps({"input_tokens": 10, "totalTokens": 10}))
                return
            encode = next((encode for suffix, encode in ENCODERS.items() if path.endswith(suffix)), None)
            if encode is None:
                self.respond("application/json", "{}")
                return
            number, answer = provider.take(request)
            is_stream = request.get("stream", "stream" in path)
            content_type = "text/event-stream" if is_stream else "application/json"
            self.respond(content_type, encode(number, answer, is_stream))

        def respond(self, content_type: str, body: str) -> None:
            data = body.encode()
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(data)))
            with suppress(BrokenPipeError, ConnectionResetError):  # the assistant was killed
                self.end_headers()
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.release()
        server.shutdown()
        server.server_close()


def encode_events(events: list[dict[str, Any]], *, named: bool) -> str:
    return "".join((f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events)


def encode_anthropic(number: int, answer: Answer, is_stream: bool) -> str:
    is_call = isinstance(answer, Call)
    block: dict[str, Any] = (
        {"type": "tool_use", "id": f"call_{number}", "name": answer.tool, "input": answer.arguments}
        if isinstance(answer, Call)
        else {"type": "text", "text": answer.text}
    )
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [block],
        "stop_reason": "tool_use" if is_call else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }
    if not is_stream:
        return json.dumps(message)
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        if isinstance(answer, Call)
        else {"type": "text_delta", "text": answer.text}
    )
    empty = {**block, "input": {}} if is_call else {**block, "text": ""}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return encode_events(events, named=True)


def encode_responses(number: int, answer: Answer, is_stream: bool) -> str:
    item: dict[str, Any]
    if isinstance(answer, Call):
        is_patch = "input" in answer.arguments and answer.tool == "apply_patch"
        item = (
            {"type": "custom_tool_call", "name": answer.tool, "input": answer.arguments["input"]}
            if is_patch
            else {"type": "function_call", "name": answer.tool, "arguments": json.dumps(answer.arguments)}
        )
        item |= {"id": f"item_{number}", "call_id": f"call_{number}", "status": "completed"}
    else:
        item = {
            "type": "message",
            "id": f"item_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
        }
    usage = {**USAGE, "input_tokens_details": None, "output_tokens_details": None, "total_tokens": 15}
    response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    if not is_stream:
        return json.dumps(response)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return encode_events(events, named=True)


def encode_gemini(number: int, answer: Answer, is_stream: bool) -> str:
    part = (
        {"functionCall": {"id": f"call_{number}", "name": answer.tool, "args": answer.arguments}}
        if isinstance(answer, Call)
        else {"text": answer.text}
    )
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    document: dict[str, Any] = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "scripted",
        "responseId": f"resp_{number}",
    }
    return f"data: {json.dumps(document)}\n\n" if is_stream else json.dumps(document)


def encode_chat(number: int, answer: Answer, is_stream: bool) -> str:
    if isinstance(answer, Call):
        function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
        calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": calls}
        reason = "tool_calls"
    else:
        message, reason = {"role": "assistant", "content": answer.text}, "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    base = {"id": f"chat_{number}", "created": 1, "model": "scripted", "object": "chat.completion.chunk"}
    if not is_stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
    chunks: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return encode_events(chunks, named=False) + "data: [DONE]\n\n"


ENCODERS: Final = {
    "/messages": encode_anthropic,
    "/responses": encode_responses,
    ":streamGenerateContent": encode_gemini,
    ":generateContent": encode_gemini,
    "/chat/completions": encode_chat,
}
