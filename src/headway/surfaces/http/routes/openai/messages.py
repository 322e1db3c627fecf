"""Reads the messages of a request: the instructions, the history, and the new message with its files."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from headway.actions.history.client_histories import ClientMessage
from headway.ledger.attachment import Attachment, build_attachment
from headway.ledger.errors import BadAttachment, Invalid, NotFound
from headway.operations.front_ends import ClientTool, parse_file_part
from headway.surfaces.http.person_answers import QUOTE_LIMIT
from headway.surfaces.http.problems import to_validation_problem

Document = dict[str, Any]

INSTRUCTING_ROLES: Final = ("system", "developer")
TEXT_PARTS: Final = ("text", "input_text", "output_text")
FILE_PARTS: Final = ("image_url", "input_image", "file", "input_file", "input_audio")
QUOTED_LIMIT: Final = 100_000  # characters of a history that the ledger does not know
QUOTED_NAME: Final = "earlier messages.md"
CLIENT_TOOLS: Final = TypeAdapter(list[ClientTool])
CALL_ID: Final = re.compile(r"call_([0-9a-f]{32})_([0-9]{1,18})")
NO_REQUEST: Final = "The last message must be a user's, with text: it is the request."


class ClientRequest(NamedTuple):
    """A client's request: instructions, the earlier messages, and the new message."""

    instructions: str
    history: list[ClientMessage]
    new: list[ClientMessage]  # one message, or several in a row; none if there are results
    attachments: tuple[Attachment, ...]
    results: dict[str, str]  # what the client's own tools returned, by the id of the call, if the request continues a turn

    @property
    def content(self) -> str:
        return "\n\n".join(message.content for message in self.new)


def read_messages(messages: Sequence[Document]) -> ClientRequest:
    """Read the messages of a request. It ends with a user's message, or with the results of the client's own tools; those in its
    history are left out."""
    results = {find_call_id(message): join_texts(message) for message in takewhile(is_result, reversed(messages))}
    talk = [message for message in messages if message.get("role") in ("user", "assistant")]
    count = 0 if results else next((n for n, message in enumerate(reversed(talk)) if message["role"] != "user"), len(talk))
    if not results and (not count or messages[-1].get("role") != "user"):
        raise Invalid(NO_REQUEST)
    history, new = talk[: len(talk) - count], talk[len(talk) - count :]
    instructions = [join_texts(message) for message in messages if message.get("role") in INSTRUCTING_ROLES]
    files = [part for message in new for part in list_parts(message) if part.get("type") in FILE_PARTS]
    request = ClientRequest(
        "\n\n".join(filter(None, instructions)),
        [message for message in map(to_client_message, history) if message.content.strip()],
        list(map(to_client_message, new)),
        tuple(read_file(part, f"file {n}") for n, part in enumerate(files, 1)),
        results,
    )
    if not results and not request.content.strip():
        raise Invalid(NO_REQUEST)
    return request


def is_result(message: Document) -> bool:
    return message.get("role") == "tool" or message.get("type") == "function_call_output"


def find_call_id(message: Document) -> str:
    return str(message.get("tool_call_id") or message.get("call_id"))


def to_client_message(message: Document) -> ClientMessage:
    return ClientMessage("user" if message["role"] == "user" else "assistant", join_texts(message))


def list_parts(message: Document) -> list[Document]:
    content = message.get("content", message.get("output"))
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def join_texts(message: Document) -> str:
    content = message.get("content", message.get("output"))
    if isinstance(content, str):
        return content
    parts = [part["text"] for part in list_parts(message) if part.get("type") in TEXT_PARTS and isinstance(part.get("text"), str)]
    return "\n".join(parts)


def read_file(part: Document, default_name: str) -> Attachment:
    """Read a file of either API. Only files whose content is in the request are accepted."""
    kind = part.get("type")
    if kind == "input_audio":
        raise BadAttachment("Audio is not supported.")
    if kind in ("image_url", "input_image"):
        url = part.get("image_url")
        return parse_file_part({"url": url.get("url") if isinstance(url, dict) else url}, default_name)
    nested = part.get("file")
    file = nested if isinstance(nested, dict) else part
    data = file.get("file_data")
    is_url = isinstance(data, str) and data.startswith("data:")
    return parse_file_part({"filename": file.get("filename"), "url" if is_url else "data": data}, default_name)


def quote_history(history: Sequence[ClientMessage]) -> Attachment:
    """Return a history that the ledger does not know as a file for the agent, so that nothing of it is lost."""
    quoted = "\n\n".join(f"## {message.role}\n\n{message.content}" for message in history)
    if len(quoted) > QUOTED_LIMIT:
        quoted = f"(The beginning was left out.)\n\n{quoted[-QUOTED_LIMIT:]}"
    return build_attachment(QUOTED_NAME, quoted.encode(errors="replace"), "text/markdown")


# The client's own tools


def read_tools(parameters: dict[str, Any]) -> list[ClientTool]:
    """Read the tools of a request. Only functions are tools that a client runs itself."""
    documents = [] if parameters.get("tool_choice") == "none" else parameters.get("tools") or []
    if not isinstance(documents, list) or not all(isinstance(tool, dict) and tool.get("type") == "function" for tool in documents):
        raise UnsupportedParameter("tools", "only functions are accepted; the agent has the tools of the server beside them.")
    try:
        return CLIENT_TOOLS.validate_python([tool.get("function", tool) for tool in documents])
    except ValidationError as error:
        raise UnsupportedParameter("tools", to_validation_problem(error).detail) from None


def build_call_id(hex_id: str, question_id: int) -> str:
    return f"call_{hex_id}_{question_id}"


def parse_call_ids(call_ids: Iterable[str]) -> tuple[str, dict[str, int]]:
    """Return the turn whose calls these are, and the question of each."""
    found = {call_id: CALL_ID.fullmatch(call_id) for call_id in call_ids}
    questions = {call_id: int(match[2]) for call_id, match in found.items() if match}
    turns = {match[1] for match in found.values() if match}
    if len(questions) < len(found) or len(turns) != 1:
        raise NotFound(f"No call of an agent has the id {next(iter(found))[:QUOTE_LIMIT]!r}.")
    return str(UUID(hex=turns.pop())), questions


# Parameters that change the meaning of an answer and that agents cannot follow


class UnsupportedParameter(Invalid):
    """The request asks for something that agents cannot do."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} is not supported: {why}")
        self.param = name


def is_text_format(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "text"


def is_plain_text(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("format") is None or is_text_format(value["format"]))


HARMLESS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "n": (lambda value: value == 1, "a turn has one answer. Send several requests."),
    "functions": (lambda value: value == [], "send tools."),
    "tool_choice": (
        lambda value: value in ("auto", "none"),
        "the agent decides which tools it calls, of the server's and of yours.",
    ),
    "response_format": (is_text_format, "agents answer in text. Say in the message which form the answer should have."),
    "text": (is_plain_text, "agents answer in text. Say in the message which form the answer should have."),
    "stop": (lambda value: value in ([], ""), "an answer ends where the agent ends it."),
    "logprobs": (lambda value: value is False, "probabilities are not recorded."),
    "audio": (lambda _value: False, "agents answer in text."),
    "web_search_options": (lambda _value: False, "which tools an agent has is set on the server, by its role."),
    "prompt": (lambda _value: False, "prompts are not stored here. Send the text as instructions."),
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise UnsupportedParameter for a parameter that would change the meaning of the answer."""
    for name, (is_harmless, why) in HARMLESS.items():
        value = parameters.get(name)
        if value is not None and not is_harmless(value):
            raise UnsupportedParameter(name, why)
