"""Schemas of the requests that clients of OpenAI's API send, and of the answers. Fields that are not listed are ignored."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headway.ledger.text import NAME_LIMIT
from headway.operations.schemas.front_ends import FrontEndModel

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
