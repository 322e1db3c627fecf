"""The model of the token benchmarks: answers agents over HTTP as their own prompts ask, and counts what each request costs.

It speaks OpenAI's chat completions and decides each answer from the request, so no agent can fall out of step. Tokens are counted
with OpenAI's o200k vocabulary, for all agents in the same way.
"""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

from bpe_openai import get_encoding

from bench.peers import stations
from bench.peers.answering import serve
from tests.model_server import Call, ModelServer, Reply, Request, calls, get_text, text

# Dollars per million tokens: Anthropic's published prices of Claude Sonnet.
INPUT, OUTPUT, CACHE_WRITE, CACHE_READ = 3.00, 15.00, 3.75, 0.30
CACHE_MINIMUM = 1_024  # tokens; providers do not cache shorter prefixes
MESSAGE_OVERHEAD = 4  # tokens around each message
PROBES = 3  # facts out of view that are looked up at the end, to see that the handles work
PLAN_TOOLS = {"create_todo", "start_todo", "complete_todo", "list_todo", "write_todos"}
HANDLE = re.compile(r"\b[0-9a-f]{8}\.\d+\.\d+\b")  # of a result that Headway's read_result returns
OFFSET = re.compile(r"offset\W+(\d+)")
SENTENCE = re.compile(rf"({stations.CODE.pattern})")
ENCODING = get_encoding("o200k_base")
TOKENS: dict[str, tuple[int, ...]] = {}


def encode(content: str) -> tuple[int, ...]:
    if content not in TOKENS:
        TOKENS[content] = tuple(ENCODING.encode_ordinary(content))
    return TOKENS[content]


# Requests as token counts


class Segment(NamedTuple):
    """A piece of a request, in the order in which providers build the prompt: tools, system, messages."""

    kind: str
    content: str
    overhead: int

    @property
    def tokens(self) -> int:
        return self.overhead + len(encode(self.content))


def split(request: Request) -> list[Segment]:
    tools = [Segment("tools", json.dumps(tool["function"], separators=(",", ":")), 0) for tool in request.body.get("tools") or []]
    names = {call.id: call.name for call in request.calls}
    parts: list[Segment] = []
    for place, message in enumerate(request.messages):
        kind = name_kind(message, place, request, names)
        parts.append(Segment(kind, f"{message['role']}\n{get_text(message)}", MESSAGE_OVERHEAD))
        for call in message.get("tool_calls") or []:
            function = call["function"]
            call_kind = "plan calls" if function["name"] in PLAN_TOOLS else "other calls"
            parts.append(Segment(call_kind, f"{function['name']} {function['arguments']}", MESSAGE_OVERHEAD))
    return [*tools, *parts]


def name_kind(message: dict[str, Any], place: int, request: Request, names: dict[str, str]) -> str:
    """Name what a message is, to show where the tokens go."""
    role = message["role"]
    if role == "tool":
        return "plan results" if names[message["tool_call_id"]] in PLAN_TOOLS else "file results"
    if role == "user":
        is_first = all(earlier["role"] != "user" for earlier in request.messages[:place])
        return "request" if is_first else "context"
    return "system" if role in ("system", "developer") else "answers"


def count_common(one: list[Segment], other: list[Segment]) -> int:
    """Count the tokens with which both requests begin."""
    total = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            if mine.kind == theirs.kind:
                pairs = zip(encode(mine.content), encode(theirs.content), strict=False)
                total += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            break
        total += mine.tokens
    return total


class Exchange(NamedTuple):
    """A request and its answer, in tokens."""

    input: int
    cached: int  # a prefix that the provider has seen in this run
    output: int
    by_kind: dict[str, int]
    is_step: bool  # False: a summary that the agent asked for

    @property
    def input_dollars(self) -> float:
        fresh = CACHE_WRITE if self.input >= CACHE_MINIMUM else INPUT
        return (self.cached * CACHE_READ + (self.input - self.cached) * fresh) / 1e6

    @property
    def dollars(self) -> float:
        return self.input_dollars + self.output * OUTPUT / 1e6


# The script


@dataclass
class Run:
    """One agent that does the job."""

    protocol: str  # headway, todos or no plan
    steps: int
    read_arguments: dict[str, Any]  # of its read_file; the first one is the path, here with what comes before the name
    exchanges: list[Exchange] = field(default_factory=list)
    seen: list[list[Segment]] = field(default_factory=list)
    item_ids: list[Any] = field(default_factory=list)
    call_count: int = 0
    view: dict[str, int] | None = None  # what the last request of the job held
    probes: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        is_step = bool({"read_file", "create_todo"} & set(request.tools)) and request.body.get("tool_choice") != "none"
        is_over = self.view is not None  # what is looked up after the job is not part of it
        if is_step:
            self.look_at(request)
        reply = self.number(self.take_step(request) if is_step else summarise(request))
        segments = split(request)
        total = sum(segment.tokens for segment in segments)
        written = count_output(reply if is_over or self.view is None else text(stations.report_codes(self.steps)))
        if not is_over:
            cached = max((count_common(segments, earlier) for earlier in self.seen), default=0)
            by_kind: dict[str, int] = {}
            for segment in segments:
                by_kind[segment.kind] = by_kind.get(segment.kind, 0) + segment.tokens
            self.seen.append(segments)
            self.exchanges.append(Exchange(total, cached if cached >= CACHE_MINIMUM else 0, written, by_kind, is_step))
        return replace(reply, usage=(total, written))

    def number(self, reply: Reply) -> Reply:
        """Give every call an id of its own."""
        first, self.call_count = self.call_count, self.call_count + len(reply.calls)
        return replace(reply, calls=tuple(call._replace(id=f"call_{first + n}") for n, call in enumerate(reply.calls)))

    def look_at(self, request: Request) -> None:
        """Take the ids of the plan's items from the result that names them, and note errors."""
        for result in request.tool_results:
            if result.name == "create_todo" and not self.item_ids:
                self.item_ids = [item["id"] for item in json.loads(result.content)["created"]]
            if result.content.lower().startswith(('{"error', "error")) and result.content not in self.errors:
                self.errors.append(result.content[:300])

    def take_step(self, request: Request) -> Reply:
        if len(self.exchanges) > 3 * self.steps + 20:
            return text("I give up.")
        if self.view is not None:
            return self.report(request)
        station = max((find_station(call.arguments) for call in request.calls if call.name == "read_file"), default=0)
        last_tools = {call["function"]["name"] for call in find_last_answer(request).get("tool_calls") or []}
        if station and stations.state_code(station) not in "\n".join(request.texts):
            return read_on(request)
        if station == self.steps and (self.protocol == "no plan" or not last_tools & {"read_file", "read_result"}):
            return self.conclude(request)
        return self.end_step(request, station)

    def end_step(self, request: Request, station: int) -> Reply:
        """Note the fact of one file and read the next one, in one answer."""
        reads = [self.read(station + 1)] if station < self.steps else []
        if self.protocol == "no plan":
            return ask(*reads)
        if self.protocol == "todos":
            return ask(("write_todos", {"todos": self.list_todos(station)}), *reads)
        if not station and not self.item_ids:
            return ask(("create_todo", {"items": [{"title": stations.name_step(n)} for n in range(1, self.steps + 1)]}))
        if not station:
            return ask(("start_todo", {"todoId": self.item_ids[0]}), *reads)
        completion = {"todoId": self.item_ids[station - 1], "outcome": stations.state_code(station)}
        starts_next = {"startNext": True} if reads and has_parameter(request, "complete_todo", "startNext") else {}
        return ask(("complete_todo", completion | starts_next), *reads)

    def list_todos(self, done: int) -> list[dict[str, str]]:
        words = ["completed"] * done + ["in_progress"] * (done < self.steps) + ["pending"] * (self.steps - done - 1)
        return [{"content": stations.name_step(n), "status": word} for n, word in enumerate(words, 1)]

    def read(self, station: int) -> tuple[str, dict[str, Any]]:
        name, prefix = next(iter(self.read_arguments.items()))
        return "read_file", {**self.read_arguments, name: f"{prefix}{stations.name_file(station)}"}

    def conclude(self, request: Request) -> Reply:
        """Note what is in view when the job ends, and look up some of what is not."""
        everything = "\n".join([*request.texts, *(call.arguments for call in request.calls)])
        numbers = range(1, self.steps + 1)
        missing = [n for n in numbers if stations.state_keeper(n) not in everything]
        handles = {n: handle for n in missing if (handle := find_handle_of(request, n))}
        self.view = {
            "codes": sum(stations.state_code(n) in everything for n in numbers),
            "keepers": self.steps - len(missing),
            "one_call_away": len(handles),
        }
        self.probes = list(handles)[:: max(1, len(handles) // PROBES)][:PROBES]
        return ask(*(("read_result", {"handle": handles[n]}) for n in self.probes)) if handles else self.report(request)

    def report(self, request: Request) -> Reply:
        everything = "\n".join(request.texts)
        self.errors += [f"read_result did not return log {n}" for n in self.probes if stations.state_keeper(n) not in everything]
        return text(stations.report_codes(self.steps))


def ask(*made: tuple[str, dict[str, Any]]) -> Reply:
    """Call tools, with arguments written as models write them, without spaces."""
    return calls(*(Call(name, json.dumps(arguments, separators=(",", ":")), None) for name, arguments in made))


def count_output(reply: Reply) -> int:
    return len(encode(reply.text)) + sum(len(encode(f"{call.name} {call.arguments}")) for call in reply.calls)


def find_station(arguments: str) -> int:
    return next(stations.find_station(value) for value in json.loads(arguments).values() if isinstance(value, str))


def find_last_answer(request: Request) -> dict[str, Any]:
    return next((message for message in reversed(request.messages) if message["role"] == "assistant"), {})


def has_parameter(request: Request, tool: str, name: str) -> bool:
    functions = (offered["function"] for offered in request.body.get("tools") or [])
    return any(name in function["parameters"]["properties"] for function in functions if function["name"] == tool)


def read_on(request: Request) -> Reply:
    """Read the rest of a result that was cut off before the fact."""
    result = request.tool_results[-1].content
    handle, offset = find_handle(result), OFFSET.findall(result)
    if handle is None:
        raise ValueError(f"the fact is out of view, and no handle leads to it: {result[-300:]}")
    return ask(("read_result", {"handle": handle, **({"offset": int(offset[-1])} if offset else {})}))


def find_handle(content: str) -> str | None:
    found = HANDLE.findall(content)
    return found[-1] if found else None


def find_handle_of(request: Request, station: int) -> str | None:
    """Find the handle of a file's result: in the stub that replaced it, or in a line that names the file."""
    call_ids = {call.id for call in request.calls if call.name == "read_file" and find_station(call.arguments) == station}
    stubs = [get_text(message) for message in request.messages if message.get("tool_call_id") in call_ids]
    lines = [line for content in request.texts for line in content.splitlines() if stations.name_file(station) in line]
    return next((handle for content in (*stubs, *lines) if (handle := find_handle(content))), None)


def summarise(request: Request) -> Reply:
    """Write the summary that an agent asks for: every code in the request. If there is a tool for it, call it."""
    codes = sorted({found[0] for content in request.texts for found in SENTENCE.findall(content)})
    forced = [tool["function"] for tool in request.body.get("tools") or []]
    if not forced or request.body.get("tool_choice") == "none":
        return text("Log books read so far, with the codes that they state:\n" + "\n".join(codes))
    fields = forced[0]["parameters"]["properties"]
    return ask((forced[0]["name"], {name: fill(schema, codes) for name, schema in fields.items()}))


def fill(schema: dict[str, Any], codes: list[str]) -> Any:
    return codes if schema.get("type") == "array" else "\n".join(codes)


# The server


class Model:
    """Serves one run at a time."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.run: Run | None = None
        self.server: ModelServer | None = None

    def open(self, protocol: str, steps: int, read_arguments: dict[str, Any]) -> str:
        """Start a server for one run and return its address."""
        self.run = Run(protocol, steps, read_arguments)
        self.server = self.stack.enter_context(ModelServer(self.run.answer))
        return self.server.url

    def close(self) -> dict[str, Any]:
        """Stop the server and return the run's figures."""
        assert self.run is not None
        assert self.server is not None
        self.stack.close()
        exchanges, errors = self.run.exchanges, [*self.run.errors, *self.server.violations]
        return {
            "calls": len(exchanges),
            "input": sum(one.input for one in exchanges),
            "cached": sum(one.cached for one in exchanges),
            "output": sum(one.output for one in exchanges),
            "dollars": sum(one.dollars for one in exchanges),
            "largest": max((one.input for one in exchanges), default=0),
            "view": self.run.view,
            "errors": errors,
            "exchanges": [{**one._asdict(), "input_dollars": one.input_dollars} for one in exchanges],
        }


if __name__ == "__main__":
    MODEL = Model()
    serve(open=MODEL.open, close=MODEL.close)
