"""Bodies of chat front ends and of OpenAI's clients. Their protocols evolve, so fields that are not listed are ignored."""

import json
from collections.abc import Container
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headway.ledger.attachment import Attachment, build_attachment, decode_base64
from headway.ledger.errors import BadAttachment, Invalid
from headway.ledger.run import TurnMode
from headway.ledger.text import NAME_LIMIT
from headway.operations.fields import Name, NullIsAbsent, QueryModel
from headway.operations.turns import WaitQuery

OnDisconnect = Literal["continue", "stop"]
FILE_PARTS = ("file", "binary", "image", "audio", "video", "document")
RESUME_LIMIT = 1_000
TOOLS_LIMIT = 64
TOOLS_LENGTH = 50_000
DESCRIPTION_LIMIT = 2_000
CONTEXT_ENTRIES = 100
NO_USER_TEXT = "messages must contain a user message with text; the last one is the request."


def check_finite(document: Any) -> Any:
    """Check that a document contains no NaN or infinity. It is sent back, and JSON cannot express them."""
    json.dumps(document, allow_nan=False)
    return document


Messages = Annotated[list[dict[str, Any]], Field(min_length=1), AfterValidator(check_finite)]


class FrontEndModel(NullIsAbsent):
    """A request in a third-party protocol."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, json_schema_extra={"additionalProperties": True})


class ClientTool(FrontEndModel):
    """A tool that the client has. The agent calls it, the client makes the call and sends the result."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,64}$")]
    description: Annotated[str, Field(max_length=DESCRIPTION_LIMIT)] = ""
    parameters: Annotated[dict[str, Any] | None, AfterValidator(check_finite), Field(description="A JSON schema")] = None


class ContextEntry(FrontEndModel):
    """Something that the agent should know, such as what the user sees."""

    description: str = ""
    value: str


Tools = Annotated[
    list[ClientTool], Field(max_length=TOOLS_LIMIT, description="Tools that the client has, for this turn. The server's stay")
]
Context = Annotated[list[ContextEntry], Field(max_length=CONTEXT_ENTRIES, description="What the agent should know in this turn")]


class ForwardedProps(FrontEndModel):
    mode: TurnMode = "plan"


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
    tools: Tools = []
    context: Context = []
    forwardedProps: ForwardedProps | None = None
    resume: Annotated[
        list[ResumeEntry],
        Field(max_length=RESUME_LIMIT, description="Answers to the interrupts that ended the last run; continues it"),
    ] = []

    @property
    def mode(self) -> TurnMode:
        return self.forwardedProps.mode if self.forwardedProps else "plan"


class UiMessages(FrontEndModel):
    """A request from `useChat`. Only the last user message is used, because the ledger holds the history."""

    id: Annotated[Name, Field(description="The conversation's key; it is created on first use")]
    messages: Annotated[
        Messages, Field(examples=[[{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Plan a small party."}]}]])
    ]
    trigger: Annotated[Any, Field(description="Ignored: regenerating sends the message again")] = None
    messageId: Annotated[Any, Field(description="The answer to continue, if it is not the last message")] = None
    tools: Tools = []
    context: Context = []
    sdk: Annotated[Literal[5, 6, 7], Field(description="The version of the AI SDK; 5 has no approvals")] = 7
    mode: TurnMode = "plan"


class FrontEndQuery(WaitQuery):
    disconnect: Annotated[
        OnDisconnect,
        Field(description="`stop`: the turn is canceled when the client closes the stream before its end"),
    ] = "continue"


class ResumeQuery(QueryModel):
    sdk: Annotated[int, Field(ge=5, le=7, description="The version of the AI SDK; 5 has no approvals")] = 7


class StoppedTurn(BaseModel):
    turn_id: Annotated[str | None, Field(description="The turn that was canceled; null: none was running")]


class FrontEndRequest(NamedTuple):
    text: str
    attachments: list[Attachment]


def encode_tools(tools: list[ClientTool]) -> str:
    """Encode a client's tools for its turn. Raises Invalid if they are too large, or if two have the same name."""
    if not tools:
        return ""
    if len({tool.name for tool in tools}) < len(tools):
        raise Invalid("tools must have different names.")
    empty = {"type": "object", "properties": {}}
    encoded = json.dumps(
        [{"name": tool.name, "description": tool.description, "parameters": tool.parameters or empty} for tool in tools],
        ensure_ascii=False,
    )
    if len(encoded) > TOOLS_LENGTH:
        raise Invalid(f"tools may have at most {TOOLS_LENGTH:,} characters of JSON, because every model call sends them.")
    return encoded


def check_names(tools: list[ClientTool], taken: Container[str]) -> None:
    names = sorted(tool.name for tool in tools if tool.name in taken)
    if names:
        raise Invalid(f"The server has tools with these names: {', '.join(names)}. Give yours other names.")


def join_context(context: list[ContextEntry]) -> str:
    return "\n\n".join(f"{entry.description}:\n{entry.value}" if entry.description else entry.value for entry in context)


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


# Schemas of the requests that clients of OpenAI's API send, and of the answers. Fields that are not listed are ignored.


METADATA_LIMIT = 16

Model = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, description="A role of the agents", examples=["index"])]
Metadata = Annotated[
    dict[str, Any],
    Field(max_length=METADATA_LIMIT, description="`conversation`: the key of the conversation; created on first use"),
]
User = Annotated[str, Field(max_length=NAME_LIMIT, description="The key of the conversation, if nothing else names it")]
FunctionTools = Annotated[Any, Field(description="Functions that the client runs. The agent has the server's tools beside them")]
RefusedParameter = Annotated[Any, Field(description="Refused, unless it asks for the default")]


class StreamOptions(FrontEndModel):
    include_usage: bool = False


class ChatCompletionRequest(FrontEndModel):
    """A request for `/v1/chat/completions`. Only the last user message is used, because the ledger holds the history."""

    model: Model
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, examples=[[{"role": "user", "content": "Plan a small party."}]])]
    stream: bool = False
    stream_options: StreamOptions | None = None
    metadata: Metadata | None = None
    user: User | None = None
    n: RefusedParameter = None
    tools: FunctionTools = None
    tool_choice: RefusedParameter = None
    functions: RefusedParameter = None
    response_format: RefusedParameter = None
    stop: RefusedParameter = None
    logprobs: RefusedParameter = None
    audio: RefusedParameter = None
    web_search_options: RefusedParameter = None


class ConversationParameter(FrontEndModel):
    id: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]


class ResponseRequest(FrontEndModel):
    """A request for `/v1/responses`. Only the last user message is used, because the ledger holds the history."""

    model: Model
    input: Annotated[
        str | Annotated[list[dict[str, Any]], Field(min_length=1)],
        Field(description="A message, or items: messages, of which the last is the request", examples=["Plan a small party."]),
    ]
    instructions: Annotated[str | None, Field(description="What the agent should know or do beside the message")] = None
    stream: bool = False
    background: Annotated[bool, Field(description="Answer at once; `GET /v1/responses/{id}` has the answer later")] = False
    previous_response_id: Annotated[str | None, Field(max_length=NAME_LIMIT, description="Continues after this response")] = None
    conversation: Annotated[
        str | ConversationParameter | None, Field(description="The key of the conversation; created on first use")
    ] = None
    metadata: Metadata | None = None
    user: User | None = None
    tools: FunctionTools = None
    tool_choice: RefusedParameter = None
    text: RefusedParameter = None
    prompt: RefusedParameter = None


# Answers. Clients know these shapes; only what every answer has is listed.


class OpenAiModel(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    description: str


class OpenAiModels(BaseModel):
    object: Literal["list"]
    data: list[OpenAiModel]


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class OpenAiResponse(BaseModel):
    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "in_progress", "incomplete", "failed", "cancelled"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None
    metadata: dict[str, str]


class OpenAiErrorDetail(BaseModel):
    message: str
    type: str
    code: str | None
    param: str | None


class OpenAiError(BaseModel):
    error: OpenAiErrorDetail
