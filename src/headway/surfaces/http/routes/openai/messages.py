"""Reads the messages of a request: the instructions, the history, and the new message with its files."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from headway.actions.client_histories import ClientMessage
from headway.ledger.attachment import Attachment, build_attachment
from headway.ledger.errors import BadAttachment, Invalid
from headway.surfaces.http.schemas.front_ends import parse_file_part

Document = dict[str, Any]

INSTRUCTING_ROLES: Final = ("system", "developer")
TEXT_PARTS: Final = ("text", "input_text", "output_text")
FILE_PARTS: Final = ("image_url", "input_image", "file", "input_file", "input_audio")
QUOTED_LIMIT: Final = 100_000  # characters of a history that the ledger does not know
QUOTED_NAME: Final = "earlier messages.md"
NO_REQUEST: Final = "The last message must be a user's, with text: it is the request."


class ClientRequest(NamedTuple):
    """What a client sends: instructions, what was said before, and the new message."""

    instructions: str
    history: list[ClientMessage]
    new: list[ClientMessage]  # one message, or several in a row
    attachments: tuple[Attachment, ...]

    @property
    def content(self) -> str:
        return "\n\n".join(message.content for message in self.new)


def read_messages(messages: Sequence[Document]) -> ClientRequest:
    """Read the messages of a request. The calls and results of a client's tools in its history are left out."""
    talk = [message for message in messages if message.get("role") in ("user", "assistant")]
    count = next((n for n, message in enumerate(reversed(talk)) if message["role"] != "user"), len(talk))
    if not count or messages[-1].get("role") != "user":
        raise Invalid(NO_REQUEST)
    history, new = talk[: len(talk) - count], talk[len(talk) - count :]
    instructions = [join_texts(message) for message in messages if message.get("role") in INSTRUCTING_ROLES]
    files = [part for message in new for part in list_parts(message) if part.get("type") in FILE_PARTS]
    request = ClientRequest(
        "\n\n".join(filter(None, instructions)),
        [message for message in map(to_client_message, history) if message.content.strip()],
        list(map(to_client_message, new)),
        tuple(read_file(part, f"file {n}") for n, part in enumerate(files, 1)),
    )
    if not request.content.strip():
        raise Invalid(NO_REQUEST)
    return request


def to_client_message(message: Document) -> ClientMessage:
    return ClientMessage("user" if message["role"] == "user" else "assistant", join_texts(message))


def list_parts(message: Document) -> list[Document]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def join_texts(message: Document) -> str:
    content = message.get("content")
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
    "tools": (lambda value: value == [], "agents use the tools of the server. Leave it out."),
    "functions": (lambda value: value == [], "agents use the tools of the server. Leave it out."),
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
