"""Schemas of chat front ends' requests. Their protocols evolve, so unknown fields are ignored."""

import json
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field

from headway.ledger.attachment import Attachment, build_attachment, decode_base64
from headway.ledger.errors import BadAttachment, Invalid
from headway.ledger.text import NAME_LIMIT
from headway.surfaces.http.schemas.strict_model import NullIsAbsent
from headway.surfaces.http.schemas.todos import Name

Mode = Literal["plan", "queue"]
FILE_PARTS = ("file", "binary", "image", "audio", "video", "document")
RESUME_LIMIT = 1_000
NO_USER_TEXT = "messages must contain a user message with text; the last one is the request."


def check_finite(document: Any) -> Any:
    """Check that a document contains no NaN or infinity. It is sent back, and JSON cannot express them."""
    json.dumps(document, allow_nan=False)
    return document


Messages = Annotated[list[dict[str, Any]], Field(min_length=1), AfterValidator(check_finite)]


class FrontEndModel(NullIsAbsent):
    """A request in a third-party protocol."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, json_schema_extra={"additionalProperties": True})


class ForwardedProps(FrontEndModel):
    mode: Mode = "plan"


class ResumeEntry(FrontEndModel):
    """A person's answer to an interrupt."""

    interruptId: Annotated[str, Field(max_length=NAME_LIMIT, examples=["approval-12", "question-7"])]
    status: Literal["resolved", "cancelled"]
    payload: Annotated[
        Any,
        Field(
            description="The decision about a call, `{approved, editedArgs?, reason?}`, or the answer to a question, `{answer}`",
            examples=[{"approved": True}],
        ),
    ] = None


class RunAgentInput(FrontEndModel):
    """An AG-UI run request. Only the last user message is used, because the ledger holds the history."""

    threadId: Annotated[Name, Field(description="The conversation's key; it is created on first use")]
    runId: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, description="Returned in the events")]
    messages: Annotated[Messages, Field(examples=[[{"id": "1", "role": "user", "content": "Plan a small party."}]])]
    state: Annotated[
        Any, AfterValidator(check_finite), Field(description="Returned in the events, with the turn's list as `todos`")
    ] = None
    tools: Annotated[Any, Field(description="Ignored: agents use the server's tools")] = None
    context: Annotated[Any, Field(description="Ignored")] = None
    forwardedProps: ForwardedProps | None = None
    resume: Annotated[
        list[ResumeEntry],
        Field(max_length=RESUME_LIMIT, description="Answers to the interrupts that ended the last run; continues it"),
    ] = []

    @property
    def mode(self) -> Mode:
        return self.forwardedProps.mode if self.forwardedProps else "plan"


class UiMessages(FrontEndModel):
    """A request from `useChat`. Only the last user message is used, because the ledger holds the history."""

    id: Annotated[Name, Field(description="The conversation's key; it is created on first use")]
    messages: Annotated[
        Messages, Field(examples=[[{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Plan a small party."}]}]])
    ]
    trigger: Annotated[Any, Field(description="Ignored: regenerating sends the message again")] = None
    messageId: Annotated[Any, Field(description="The answer to continue, if it is not the last message")] = None
    sdk: Annotated[Literal[5, 6, 7], Field(description="The version of the AI SDK; 5 has no approvals")] = 7
    mode: Mode = "plan"


class FrontEndRequest(NamedTuple):
    text: str
    attachments: list[Attachment]


def get_request(messages: list[dict[str, Any]]) -> FrontEndRequest:
    """Return the text and the files of the last user message."""
    last: dict[str, Any] = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    content = last.get("parts") or last.get("content")
    text = join_text_parts(content)
    if not text.strip():
        raise Invalid(NO_USER_TEXT)
    files = (
        [part for part in content if isinstance(part, dict) and part.get("type") in FILE_PARTS] if isinstance(content, list) else []
    )
    return FrontEndRequest(text, [parse_file_part(part, f"file {n}") for n, part in enumerate(files, 1)])


def join_text_parts(content: Any) -> str:
    """Return the text of a message, whose content is either a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    return "\n".join(texts)


def parse_file_part(part: dict[str, Any], default_name: str) -> Attachment:
    """Parse a file: `file` of the AI SDK, `binary` of AG-UI before 1.0, or a part of AG-UI 1.0, which has a source."""
    source = part.get("source")
    name = part.get("filename")
    name = name if isinstance(name, str) and name else default_name
    if isinstance(source, dict):
        data, url = (source.get("value"), None) if source.get("type") == "data" else (None, source.get("value"))
        media_type = source.get("mimeType")
    else:
        data, url = part.get("data"), part.get("url")
        media_type = part.get("mediaType") or part.get("mimeType")
    if data is None and isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        if not head.endswith(";base64"):
            raise BadAttachment(f"{name[:80]!r} is a data URL without base64. Send it in base64.")
        media_type = media_type or head.removesuffix(";base64")
    if not isinstance(data, str):
        raise BadAttachment(
            f"{name[:80]!r} has no data. Headway fetches no files: send the content itself, as a data URL or base64."
        )
    try:
        content = decode_base64(data)
    except ValueError:
        raise BadAttachment(f"{name[:80]!r} is not valid base64.") from None
    return build_attachment(name, content, media_type if isinstance(media_type, str) else "")
