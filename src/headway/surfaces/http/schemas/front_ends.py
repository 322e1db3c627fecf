"""What chat front ends send. Their protocols grow, so what we do not know is let through, and what we need is checked."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from headway.ledger.errors import Invalid
from headway.ledger.text import NAME_LIMIT
from headway.surfaces.http.schemas.todos import Name, NullIsAbsent

Mode = Literal["plan", "queue"]
NO_USER_TEXT = "messages must hold a message of the user with text in it: the last one is what is asked for."


def check_finite(document: Any) -> Any:
    """What is told again must be JSON, which has no NaN."""
    json.dumps(document, allow_nan=False)
    return document


Messages = Annotated[list[dict[str, Any]], Field(min_length=1), AfterValidator(check_finite)]


class FrontEndModel(NullIsAbsent):
    """A document in somebody else's protocol."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, json_schema_extra={"additionalProperties": True})


class ForwardedProps(FrontEndModel):
    mode: Mode = "plan"


class RunAgentInput(FrontEndModel):
    """AG-UI. Of the messages only the last one of the user counts: the history is the ledger's."""

    threadId: Annotated[Name, Field(description="The conversation's key; it is created on first use")]
    runId: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, description="Told again")]
    messages: Annotated[Messages, Field(examples=[[{"id": "1", "role": "user", "content": "Plan a small party."}]])]
    state: Annotated[Any, AfterValidator(check_finite), Field(description="Told again with the turn's list as `todos`")] = None
    tools: Annotated[Any, Field(description="Ignored: agents use the tools of the server")] = None
    context: Annotated[Any, Field(description="Ignored")] = None
    forwardedProps: ForwardedProps | None = None

    @property
    def mode(self) -> Mode:
        return self.forwardedProps.mode if self.forwardedProps else "plan"


class UiMessages(FrontEndModel):
    """What `useChat` sends. Of the messages only the last one of the user counts: the history is the ledger's."""

    id: Annotated[Name, Field(description="The conversation's key; it is created on first use")]
    messages: Annotated[
        Messages, Field(examples=[[{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Plan a small party."}]}]])
    ]
    trigger: Annotated[Any, Field(description="Ignored: to regenerate is to ask again")] = None
    mode: Mode = "plan"


def get_request_text(messages: list[dict[str, Any]]) -> str:
    """What the user said last."""
    last: dict[str, Any] = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    said = join_text_parts(last.get("parts") or last.get("content"))
    if not said.strip():
        raise Invalid(NO_USER_TEXT)
    return said


def join_text_parts(content: Any) -> str:
    """The words of a message that is one text, or has texts among its parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    return "\n".join(texts)
