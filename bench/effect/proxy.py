"""Stands between all systems and the model: the same sampling for all, counted calls and tokens, and repaired calls.

    /RUN/ARM/v1/chat/completions

In the arm `raw` the model's answer is passed on. In the arm `repair`, calls that the model wrote as text become real calls, with
Headway's own parser, for every system: then plans and gates are compared, and not parsers.
"""

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from itertools import takewhile
from operator import eq
from typing import Any, Final, NamedTuple, get_args
from uuid import uuid4

import httpx2
from pydantic_ai.messages import FinishReason, ModelResponse, TextPart
from pydantic_ai.tools import ToolDefinition
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from bench.effect.systems import CALL_LIMIT, CALL_LIMIT_CODE
from headway.agents.models.text_calls import extract_text_calls

ARMS: Final = ("repair", "raw")
RUN_HEADER: Final = "x-effect-run"
ATTEMPTS: Final = 3
PAUSE_S: Final = 0.5
OWN_FIELDS: Final = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "store", "stream", "stream_options")
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "tool_calls": "tool_call",
    **{reason: reason for reason in get_args(FinishReason)},
}


class Sampling(NamedTuple):
    model: str
    temperature: float = 0.7
    answer_tokens: int = 1024


class Exchange(NamedTuple):
    """One call of the model."""

    input_tokens: int
    output_tokens: int
    text: str
    calls: Sequence[dict[str, str]]
    repaired: bool
    asked: Sequence[Any]  # the messages that the request before did not have
    seconds: float


class RunLog:
    """What one run asked the model."""

    def __init__(self) -> None:
        self.started = 0
        self.exchanges: list[Exchange] = []
        self.errors: list[str] = []
        self.messages: list[Any] = []  # of the last request

    def read_new_messages(self, messages: list[Any]) -> list[Any]:
        known = sum(1 for _ in takewhile(bool, map(eq, self.messages, messages)))
        self.messages = messages
        return messages[known:]


class Proxy:
    def __init__(self, urls: Sequence[str], sampling: Sampling, headers: dict[str, str] | None = None) -> None:
        self.urls = [url.rstrip("/") for url in urls]
        self.sampling = sampling
        self.client = httpx2.AsyncClient(timeout=300, headers=headers, limits=httpx2.Limits(max_connections=None), trust_env=False)
        self.logs: dict[str, RunLog] = {}

    async def complete(self, request: Request) -> Response:
        run, arm = request.path_params["run"], request.path_params["arm"]
        asked: dict[str, Any] = await request.json()
        log = self.logs.setdefault(run, RunLog())
        if log.started >= CALL_LIMIT:
            return refuse(400, "The run has reached its limit of calls.", CALL_LIMIT_CODE)
        log.started += 1
        new_messages = log.read_new_messages(asked["messages"])
        began = time.monotonic()
        answer = await self.ask_model(run, log, asked)
        if answer is None:
            return refuse(500, log.errors[-1], "model_failed")
        choice, usage = answer["choices"][0], answer.get("usage") or {}
        text = choice["message"].get("content") or ""
        is_repaired = arm == "repair" and repair(choice, asked.get("tools") or ())
        calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
        tokens = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        log.exchanges.append(Exchange(*tokens, text, calls, is_repaired, new_messages, time.monotonic() - began))
        return StreamingResponse(stream(answer), media_type="text/event-stream") if asked.get("stream") else JSONResponse(answer)

    async def ask_model(self, run: str, log: RunLog, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Ask with our sampling instead of the system's. The seed depends on the run and on the call."""
        body = {name: value for name, value in asked.items() if name not in OWN_FIELDS}
        wanted_tokens = asked.get("max_completion_tokens") or asked.get("max_tokens") or self.sampling.answer_tokens
        body |= {"model": self.sampling.model, "temperature": self.sampling.temperature}
        body |= {"max_tokens": min(wanted_tokens, self.sampling.answer_tokens), "stream": False}
        url = self.urls[zlib.crc32(run.encode()) % len(self.urls)]
        for attempt in range(ATTEMPTS):
            body["seed"] = zlib.crc32(f"{run} {log.started} {attempt}".encode()) & 0x7FFFFFFF
            try:
                response = await self.client.post(f"{url}/chat/completions", json=body, headers={RUN_HEADER: run})
                if response.status_code == 200:
                    return clean(response.json())
                log.errors.append(f"{response.status_code} {response.text[:300]}")
            except (httpx2.HTTPError, ValueError) as error:
                log.errors.append(repr(error)[:300])
            await asyncio.sleep(PAUSE_S)
        return None


def refuse(status: int, message: str, code: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": code, "code": code}}, status_code=status)


def clean(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep what every client understands, with an id for every call."""
    message = answer["choices"][0]["message"]
    message.pop("reasoning_content", None)
    for call in message.get("tool_calls") or ():
        call["id"] = call.get("id") or f"call_{uuid4().hex}"
    return {name: answer[name] for name in ("id", "object", "created", "model", "choices", "usage") if name in answer}


def repair(choice: dict[str, Any], tools: Sequence[dict[str, Any]]) -> bool:
    """Turn calls in the text of an answer into real ones. Returns whether there were any."""
    message = choice["message"]
    definitions = [
        ToolDefinition(name=tool["function"]["name"], parameters_json_schema=tool["function"].get("parameters") or {})
        for tool in tools
        if "function" in tool
    ]
    if message.get("tool_calls") or not message.get("content") or not definitions:
        return False
    reason = FINISH_REASONS.get(choice.get("finish_reason") or "")
    response = extract_text_calls(ModelResponse([TextPart(message["content"])], finish_reason=reason), definitions)
    if not response.tool_calls:
        return False
    message["content"] = response.text
    message["tool_calls"] = [
        {"id": call.tool_call_id, "type": "function", "function": {"name": call.tool_name, "arguments": call.args_as_json_str()}}
        for call in response.tool_calls
    ]
    choice["finish_reason"] = "tool_calls"
    return True


async def stream(answer: dict[str, Any]) -> AsyncIterator[str]:
    """Send a whole answer as a stream of three parts: the text, the calls and the usage."""
    choice = answer["choices"][0]
    message = choice["message"]
    calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls") or ())]
    delta = {"role": "assistant", "content": message.get("content"), **({"tool_calls": calls} if calls else {})}
    head = {"id": answer.get("id", ""), "object": "chat.completion.chunk", "created": answer.get("created", 0), "model": "effect"}
    for choices in (
        [{"index": 0, "delta": delta, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}],
    ):
        yield f"data: {json.dumps({**head, 'choices': choices})}\n\n"
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': answer.get('usage')})}\n\n"
    yield "data: [DONE]\n\n"
