"""Calls that a model writes as text, or in a broken form, recognised also while the text streams."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol
from uuid import uuid4

from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.connections import MAX_CALLS
from headway.agents.tools.results import list_callable_names
from headway.agents.tools.toolbox import match_name
from headway.ledger.parsing.read_calls import CallJudge, is_always_own
from headway.storage.stores.spending import ModelCall

NAME_KEYS: Final = ("name", "tool", "tool_name", "function")
ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input")
OTHER_KEYS: Final = frozenset(("id", "type"))
TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
QUOTED_CALLS: Final = "quoted_calls"  # the key in a response's metadata
UNFINISHED_REASONS: Final = ("content_filter", "error")

# No pattern backtracks over what a model can repeat, because an answer may have a million characters.
FENCE: Final = re.compile(r" {0,3}(`{3,}+)[ \t]*+([\w-]*+)[ \t]*+")
SEPARATORS: Final = re.compile(r"[\s;,]*+")
# Hermes, Qwen and others. The last closing tag may be missing, because some servers end the answer there. Small models write a call
# between the tags in which their template shows them the tools or a result.
TAG: Final = re.compile(r"<(tool_call|function_call|tools|tool_response)>(.*?)(?:</\1>|\Z)", re.DOTALL)
CALL_TAGS: Final = ("tool_call", "function_call")
# A text in single quotes as a value, which is no JSON.
SINGLE_QUOTES: Final = re.compile(r"(:[ \t]*+)'([^'\n]*+)'(?=\s*+[,}])")
CALL_START: Final = re.compile(r"\s*+(?:`{3,}+\w*+\s++)?(?:<[\w|]++>\s*+)?\{++\s*+\"(?:name|tool|tool_name|function)\"")
ARGUMENTS_START: Final = re.compile(r'"(?:arguments|parameters|args|input)"\s*+:\s*+\{')
CALL_ENDS: Final = ("}", "`", ">")
LINE_START: Final = re.compile(r"^(?=\{)", re.MULTILINE)
# Qwen's coding models write the arguments one by one between the same tags.
FUNCTION: Final = re.compile(r"<function=([\w-]++)>(.*)</function>", re.DOTALL)
PARAMETER: Final = re.compile(r"([\w-]++)>(.*)</parameter>\s*+", re.DOTALL)
# An element that is named after the tool.
ELEMENT: Final = re.compile(r'<([\w-]++)((?:[ \t\n]++[\w-]++="[^"]*+")*+)[ \t\n]*+(/?)>')
ATTRIBUTE: Final = re.compile(r'(?<![\w-])([\w-]++)="([^"]*+)"')
# Mistral: a list of calls after the marker, or for each call the marker, its name and its arguments.
MISTRAL: Final = re.compile(r"\[TOOL_CALLS\](.*)", re.DOTALL)
MISTRAL_CALL: Final = re.compile(r"(?<![\w-])([\w-]++)(?:\[CALL_ID\]\w*+)?\[ARGS\](.*?)(?:\[TOOL_CALLS\]|\Z)", re.DOTALL)
LLAMA: Final = re.compile(r"<\|python_tag\|>(.*?)(?:<\|eo[tm]_id\|>|\Z)", re.DOTALL)
DEEPSEEK: Final = re.compile(r"<｜tool▁calls▁begin｜>(.*?)(?:<｜tool▁calls▁end｜>|\Z)", re.DOTALL)
DEEPSEEK_CALL: Final = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?([\w-]++)(?:<｜tool▁sep｜>)?(.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL
)


class Call(NamedTuple):
    tool: str
    arguments: str  # a JSON object


class DuplicateKey(ValueError):
    """A JSON object has the same key twice, so that readers would disagree about its meaning."""


def extract_text_calls(response: ModelResponse, tools: Sequence[ToolDefinition], judge: CallJudge = is_always_own) -> ModelResponse:
    """Turn the calls in the answer's text into tool calls, and keep the rest of the text. Other answers are returned unchanged.

    A call that the model quotes from what it has read is text, and the answer is marked, so that the model is asked whether it
    means it. If it was asked, an answer that is nothing but the call means it.
    """
    if response.tool_calls or response.finish_reason in UNFINISHED_REASONS or not response.text:
        return response
    is_cut_off = response.finish_reason == "length"
    names = frozenset(list_callable_names(tools))
    prose, calls = ("", parse_calls(response.text, names, is_cut_off=True)) if is_cut_off else split_calls(response.text, names)
    if not calls:
        return response
    origins = [judge(*call) for call in calls]
    if "quoted" in origins:
        quoted = [list(call) for call, origin in zip(calls, origins, strict=True) if origin == "quoted"]
        return replace(response, metadata={**(response.metadata or {}), QUOTED_CALLS: quoted})
    if "confirmed" in origins and prose:
        return response
    others = [part for part in response.parts if not isinstance(part, TextPart)]
    parts: list[ModelResponsePart] = [*others, *([TextPart(prose)] if prose else []), *map(to_part, calls)]
    return replace(response, parts=parts, finish_reason="tool_call")


def may_contain_call(text: str) -> bool:
    return "{" in text or "<" in text


def looks_like_call(text: str) -> bool:
    """Whether an answer is nothing but a call that could not be read, so that showing it to people would tell them nothing."""
    return bool(CALL_START.match(text) and ARGUMENTS_START.search(text)) and text.rstrip().endswith(CALL_ENDS)


def to_part(call: Call) -> ToolCallPart:
    return ToolCallPart(call.tool, call.arguments, f"call_{uuid4().hex}")


def split_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Split a text into what it says and the calls that it contains."""
    if not may_contain_call(text) or not any(name in text for name in (*names, *(name.replace("_", "-") for name in names))):
        return text, []
    if calls := parse_calls(text.rstrip().removesuffix("```"), names):  # it may close a fence that was never opened
        return "", calls
    for find in (
        find_leading_calls,
        find_tagged_calls,
        find_elements,
        find_mistral_calls,
        find_llama_calls,
        find_deepseek_calls,
        find_fenced_calls,
        find_calls_on_lines,
    ):
        prose, calls = find(text, names)
        if calls:
            return prose.strip(), calls
    return text, []


def find_leading_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Find calls at the beginning that only a closing fence separates from the words after them."""
    head, _, tail = text.partition("```\n")
    calls = parse_calls(head, names, is_strict=True) if tail and head.lstrip().startswith("{") else []
    return (tail.rstrip("`\n"), calls) if calls else (text, [])


def find_elements(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Find elements that are named after a tool. The arguments are its attributes, or JSON in it."""
    calls: list[Call] = []
    prose: list[str] = []
    position = 0
    for match in ELEMENT.finditer(text):
        if match[1] not in names or match.start() < position:
            continue
        end = match.end() if match[3] else text.find(f"</{match[1]}>", match.end())
        body = dict(ATTRIBUTE.findall(match[2])) if match[3] else text[match.end() : end] if end > 0 else None
        arguments = encode_arguments(body) if body else None
        if arguments is None:
            return text, []
        calls.append(Call(match[1], arguments))
        prose.append(text[position : match.start()])
        position = end if match[3] else end + len(match[1]) + 3
    return "".join([*prose, text[position:]]), calls


def find_tagged_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Find calls between tags. Other text between the tags of tools and results was copied or invented, and is left out."""
    calls: list[Call] = []
    for match in TAG.finditer(text):
        found = parse_calls(match[2], names) or parse_function(match[2].strip(), names)
        if not found and match[1] in CALL_TAGS:
            return text, []
        calls += found
    prose = TAG.sub("", text)
    if calls:
        return prose, calls
    if prose == text:
        return text, []
    bare = "\n".join(line for line in prose.splitlines() if not FENCE.fullmatch(line))  # fences around what was left out
    return ("", found) if (found := parse_calls(bare, names)) else split_calls(prose, names)


def find_mistral_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    def parse(match: re.Match[str]) -> list[Call]:
        return parse_calls(match[1], names) or parse_named_calls(MISTRAL_CALL.findall(match[1]), names)

    return replace_each(MISTRAL, text, parse)


def find_llama_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    return replace_each(LLAMA, text, lambda match: parse_calls(match[1], names))


def find_deepseek_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    return replace_each(DEEPSEEK, text, lambda match: parse_named_calls(DEEPSEEK_CALL.findall(match[1]), names))


def replace_each(pattern: re.Pattern[str], text: str, parse: Callable[[re.Match[str]], list[Call]]) -> tuple[str, list[Call]]:
    """Take the calls out of each match. If one match is not a call, nothing is: half of what a model asked for is not done."""
    calls: list[Call] = []
    for match in pattern.finditer(text):
        found = parse(match)
        if not found:
            return text, []
        calls += found
    return (pattern.sub("", text) if calls else text), calls


def find_fenced_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Find code blocks that are calls.

    If the text is one code block, every form of a call counts. Among other words, a block might be an example, so it counts only
    if it has exactly the two keys of a call.
    """
    if "```" not in text:
        return text, []
    prose: list[str] = []
    calls: list[Call] = []
    blocks = list(split_blocks(text))
    is_alone = sum(bool(block.strip()) for _, block in blocks) == 1
    for is_code, block in blocks:
        found = parse_calls(strip_fence(block), names, is_strict=not is_alone) if is_code and "{" in block else []
        calls += found
        prose += [] if found else [block]
    return "".join(prose), calls


def find_calls_on_lines(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Find calls that begin a line, in a text without code. Like a code block among other words, each has exactly the two keys of a
    call."""
    if "```" in text:
        return text, []
    prose: list[str] = []
    calls: list[Call] = []
    position = 0
    for match in LINE_START.finditer(text):
        if match.end() < position:  # inside of the last one
            continue
        try:
            document, end = decode_document(text, match.end())
        except (ValueError, RecursionError):
            return text, []
        call = parse_call(document, names, is_strict=True)
        if call is None:
            return text, []
        calls.append(call)
        prose.append(text[position : match.start()])
        position = end
    return "".join([*prose, text[position:]]), calls


def split_blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Split a text into code blocks, with their fences, and the text between them. An open fence ends with the text."""
    fence = ""
    block: list[str] = []
    for line in text.splitlines(keepends=True):
        mark = FENCE.fullmatch(line.rstrip("\r\n"))
        if not fence and mark:
            yield False, "".join(block)
            fence, block = mark[1], []
        block.append(line)
        if len(block) > 1 and mark and not mark[2] and len(mark[1]) >= len(fence) > 0:
            yield True, "".join(block)
            fence, block = "", []
    yield bool(fence), "".join(block)


def strip_fence(block: str) -> str:
    lines = block.strip().splitlines()
    return "\n".join(lines[1:-1] if FENCE.fullmatch(lines[-1]) else lines[1:])


def parse_calls(text: str, names: Collection[str], *, is_strict: bool = False, is_cut_off: bool = False) -> list[Call]:
    """Parse a text that is nothing but calls: JSON objects, or lists of them. Returns nothing if any part of it is not a call.

    Among calls of known tools, there may be some of tools that the model invented or is not offered now. Their answer says so.
    """
    calls: list[Call] = []
    is_known = False
    text = SINGLE_QUOTES.sub(requote, text) if "'" in text else text
    try:
        for document in decode_documents(text, is_cut_off=is_cut_off):
            inner = document["tool_calls"] if isinstance(document, dict) and document.keys() == {"tool_calls"} else document
            items = inner if isinstance(inner, list) else [inner]
            if not items:
                return []
            for item in items:
                known = parse_call(item, names, is_strict=is_strict)
                call = known or parse_unknown_call(item)
                if call is None:
                    return []
                is_known |= known is not None
                calls.append(call)
                if len(calls) > MAX_CALLS:  # the rest would be dropped
                    return calls if is_known else []
    except (ValueError, RecursionError):
        return []
    return calls if is_known else []


def requote(match: re.Match[str]) -> str:
    return match[1] + json.dumps(match[2], ensure_ascii=False)


def parse_named_calls(pairs: list[tuple[str, str]], names: Collection[str]) -> list[Call]:
    """Build calls from names and arguments that the model's markers separate. The arguments may be in a code block."""
    stripped = [(name, text.strip()) for name, text in pairs]
    documents = [{"name": name, "arguments": strip_fence(text) if text.startswith("```") else text} for name, text in stripped]
    calls = [call for document in documents if (call := parse_call(document, names))]
    return calls if len(calls) == len(pairs) else []


def parse_function(text: str, names: Collection[str]) -> list[Call]:
    """Parse a call whose arguments are elements. All of them are text, which the tools convert."""
    function = FUNCTION.fullmatch(text)
    name = match_name(function[1], names) if function else ""
    if not function or name not in names:
        return []
    parameters = [PARAMETER.fullmatch(element) for element in function[2].split("<parameter=")[1:]]
    arguments = {match[1]: match[2].strip("\n") for match in parameters if match}
    return [Call(name, json.dumps(arguments, ensure_ascii=False))] if len(arguments) == len(parameters) else []


def decode_documents(text: str, *, is_cut_off: bool = False) -> Iterator[Any]:
    """Decode a sequence of JSON objects and lists, one at a time. Raises ValueError where the text contains anything else.

    With `is_cut_off`, the last one may be incomplete, and is left out. Some chat templates show a model doubled braces around a
    call, and it copies them, often with one too many at the end.
    """
    position = 0
    while (position := skip_separators(text, position)) < len(text):
        if not text.startswith(("{", "["), position):
            raise ValueError
        try:
            document, position = decode_document(text, position)
        except (ValueError, RecursionError):
            if is_cut_off:
                return
            raise
        yield document


def decode_document(text: str, position: int) -> tuple[Any, int]:
    """Decode the document that begins here, and return it with the position behind it."""
    document, end = DECODER.raw_decode(text, position + text.startswith("{{", position))
    while text.startswith("}", end):
        end += 1
    return document, end


def skip_separators(text: str, position: int) -> int:
    match = SEPARATORS.match(text, position)
    return match.end() if match else position


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise DuplicateKey
    return document


DECODER: Final = json.JSONDecoder(object_pairs_hook=refuse_duplicates)


def parse_call(document: Any, names: Collection[str], *, is_strict: bool = False) -> Call | None:
    """Read a JSON object as a call of a known tool, in any of the forms that models use.

    Other keys than the name, the arguments, an id and a type mean that it is something else. With `is_strict` there are none.
    """
    if not isinstance(document, dict):
        return None
    function = document.get("function")
    if isinstance(function, dict) and document.keys() <= {"function", *OTHER_KEYS}:
        return parse_call(function, names, is_strict=is_strict)
    name_keys = [key for key in NAME_KEYS if isinstance(document.get(key), str)]
    argument_keys = [key for key in ARGUMENT_KEYS if key in document]
    if len(name_keys) != 1 or len(argument_keys) != 1:
        return None
    others = document.keys() - {name_keys[0], argument_keys[0]}
    name = match_name(document[name_keys[0]], names)
    arguments = encode_arguments(document[argument_keys[0]])
    if name not in names or arguments is None or not others <= (frozenset() if is_strict else OTHER_KEYS):
        return None
    return Call(name, arguments)


def parse_unknown_call(document: Any) -> Call | None:
    """Read a JSON object as a call of a tool that is not known. It has exactly the two keys of a call."""
    name = document.get("name") if isinstance(document, dict) else None
    return parse_call(document, (name,), is_strict=True) if isinstance(name, str) and TOOL_NAME.fullmatch(name) else None


def encode_arguments(value: Any) -> str | None:
    """Encode the arguments as a JSON object. They may be one already, as text. Returns None if they are anything else."""
    try:
        arguments = (DECODER.decode(value) if value.strip() else {}) if isinstance(value, str) else {} if value is None else value
        return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else None
    except (ValueError, RecursionError):
        return None


# Model calls that broke off after their answer had begun. Providers bill for these, so their runs pay for them.


BROKEN_CALLS: ContextVar[list[ModelCall] | None] = ContextVar("the broken calls of the current work", default=None)


@contextmanager
def collect_broken_calls() -> Iterator[list[ModelCall]]:
    """Yield a list that gets the broken calls of the work in the context."""
    calls: list[ModelCall] = []
    token = BROKEN_CALLS.set(calls)
    try:
        yield calls
    finally:
        BROKEN_CALLS.reset(token)


def report_broken_call(call: ModelCall) -> None:
    calls = BROKEN_CALLS.get()
    if calls is not None and call.cost:
        calls.append(call)


# Passes a model's text on while it streams, but keeps back what begins like a tool call written as text.


DECISIVE_LENGTH: Final = 60  # characters, without leading space: what begins a call is shorter
FIRST_CHARACTERS: Final = ("{", "`", "<", "[")
STREAMED_CALL_START: Final = re.compile(
    r"""(?:```\w*+\s*+)?+  # a code fence
    (?:\[?+\s*+\{\{?+\s*+"(?:id"\s*+:\s*+"[^"]*+"\s*+,\s*+")?+(?:name|tool|tool_name|function|tool_calls|type"\s*+:\s*+"function)"
    |<(?:tool_call|function_call|tools|tool_response)>|<\|python_tag\|>|<｜tool|\[TOOL_CALLS\]
    |<[a-z]++(?:_[a-z]++)++[\s>])  # an element that is named after a tool""",
    re.VERBOSE,
)


class TextListener(Protocol):
    """Receives a model's text as it streams. `on_withdrawn` is called when the answer fails partway."""

    def on_text(self, text: str) -> None: ...

    def on_withdrawn(self) -> None: ...


class StreamedText:
    """The text of one answer on its way to a listener."""

    def __init__(self, listener: TextListener) -> None:
        self.listener = listener
        self.start = ""  # the first characters
        self.held: list[str] | None = []  # None once it does not begin like a call: everything is passed on

    def on_text(self, text: str) -> None:
        if self.held is None:
            self.listener.on_text(text)
            return
        self.held.append(text)
        if len(self.start) < DECISIVE_LENGTH:
            self.start = (self.start + text[: 2 * DECISIVE_LENGTH]).lstrip()
            if self.start and not begins_like_call(self.start):
                self.release()

    def release(self) -> None:
        if self.held:
            self.listener.on_text("".join(self.held))
        self.held = None

    def finish(self, received: str | None, accepted: str | None) -> None:
        """End the answer with the text that is left of it without its calls."""
        if accepted == received:
            self.release()
            return
        if self.held is None:  # users saw the call
            self.listener.on_withdrawn()
        if accepted:
            self.listener.on_text(accepted)


def begins_like_call(start: str) -> bool:
    """Return whether the start of a text is that of a call, or too short to tell."""
    return bool(STREAMED_CALL_START.match(start)) or (len(start) < DECISIVE_LENGTH and start.startswith(FIRST_CHARACTERS))
