"""Schemas of chat front ends' requests. Their protocols evolve, so unknown fields are ignored."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from headway.ledger.errors import Invalid
from headway.ledger.text import NAME_LIMIT
from headway.surfaces.http.schemas.todos import Name, NullIsAbsent

Mode = Literal["plan", "queue"]
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
    mode: Mode = "plan"


def get_request_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last user message."""
    last: dict[str, Any] = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    said = join_text_parts(last.get("parts") or last.get("content"))
    if not said.strip():
        raise Invalid(NO_USER_TEXT)
    return said


def join_text_parts(content: Any) -> str:
    """Return the text of a message, whose content is either a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    return "\n".join(texts)
