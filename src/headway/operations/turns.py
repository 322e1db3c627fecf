"""Operations on turns: /turns. Messages and tools have their schemas here."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from headway.actions.engine import run_ends
from headway.actions.guard import stops
from headway.actions.todos import conversations
from headway.actions.turns import steering, turns
from headway.agents.instructions.roles import SUPERVISOR
from headway.agents.mcp.config import ServerStatus
from headway.ledger import attachment
from headway.ledger.guard import StopRequest
from headway.ledger.run import TurnMode
from headway.ledger.text import NAME_LIMIT, SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_LIMIT
from headway.ledger.todo import DEFAULT_AGENT
from headway.operations.fields import Id, ListId, Name, PageQuery, QueryModel, StrictModel, Text
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one
from headway.values import turns as values_turns
from headway.values.value import Meaning

MAX_WAIT_S = 300
BASE64_SCHEMA = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}


def decode_data(value: Any) -> Any:
    return attachment.decode_base64(value) if isinstance(value, str) else value


class NewAttachment(StrictModel):
    """An image (PNG, JPEG, GIF, WebP), a PDF, or text in UTF-8."""

    name: Annotated[str, Field(min_length=1, max_length=SUBJECT_LIMIT, examples=["notes.txt"])]
    media_type: Annotated[str, Field(max_length=NAME_LIMIT, description="Used for text only; other types are detected")] = ""
    data: Annotated[
        bytes,
        BeforeValidator(decode_data),
        Field(description=f"In base64; at most {attachment.SIZE_LIMIT:,} bytes when decoded", examples=["aGVsbG8="]),
        WithJsonSchema(BASE64_SCHEMA),
    ]


class NewMessage(StrictModel):
    content: Annotated[
        str,
        Field(
            min_length=1,
            max_length=TEXT_LIMIT,
            examples=["Plan a small party."],
            json_schema_extra={"pattern": SUBJECT_PATTERN},
        ),
    ]
    mode: Annotated[
        TurnMode | None,
        Field(
            description="queue: one item at a time, each answer checked by an assessor. Default: the mode of `continues`, or plan"
        ),
    ] = None
    attachments: Annotated[list[NewAttachment], Field(max_length=attachment.MAX_ATTACHMENTS)] = []
    continues: Annotated[
        Name | None,
        Field(description="An ended turn of the conversation. Its open todos move to the new turn, which works on them"),
    ] = None


def build_attachments(message: NewMessage) -> list[attachment.Attachment]:
    return [attachment.build_attachment(file.name, file.data, file.media_type) for file in message.attachments]


class NewSteering(StrictModel):
    content: Annotated[
        str,
        Field(
            min_length=1,
            max_length=TEXT_LIMIT,
            examples=["Use the second file instead."],
            json_schema_extra={"pattern": SUBJECT_PATTERN},
        ),
    ]


class NewTurn(StrictModel):
    conversation_id: Id


class NewStop(StrictModel):
    answer: Annotated[Text, Field(description="The agent's last words. If they end with a question to the user, it may wait")] = ""


class ToolCall(StrictModel):
    arguments: dict[str, Any] = {}
    conversation_id: ListId = 0
    turn_id: Name | None = None
    agent_id: Name = DEFAULT_AGENT
    role: str = SUPERVISOR  # the OpenAPI document lists the roles


class WritText(StrictModel):
    text: Annotated[Text, Field(examples=["/todo add write the post-mortem"])]
    conversation_id: ListId = 0
    agent_id: Name = DEFAULT_AGENT
    role: str = SUPERVISOR  # the OpenAPI document lists the roles


class MessagesQuery(PageQuery):
    before: Annotated[Id | None, Field(description="Only messages older than this one")] = None


class TimelineQuery(PageQuery):
    before: Annotated[Id | None, Field(description="Only entries with a lower number")] = None


class WaitQuery(QueryModel):
    wait: Annotated[
        float | None,
        Field(
            ge=0,
            le=MAX_WAIT_S,
            allow_inf_nan=False,
            description="Seconds to wait for a running turn to end. A turn that waits for a person is refused at once",
        ),
    ] = None


# Answers


class TurnAccepted(BaseModel):
    turn_id: str


class FileChange(BaseModel):
    path: str
    added: Annotated[int | None, Field(description="Lines; null for a binary file")]
    deleted: int | None
    renamed_from: str | None = None


class Changes(BaseModel):
    """The changes of an agent in a git repository."""

    repository: str
    branch: str
    base: Annotated[str, Field(description="The commit that the work started from")]
    commit: Annotated[str, Field(description="The last commit of the work")]
    merged: Annotated[bool, Field(description="Whether a sub-agent's work is in its parent's branch")]
    files: list[FileChange]
    omitted_files: Annotated[int, Field(description="Changed files beyond the first 200")]
    diff: Annotated[str | None, Field(description="At most 50,000 characters; not in lists and events")] = None


class QueueItem(BaseModel):
    id: int
    description: str
    status: Literal["pending", "current", "done"]


class Queue(BaseModel):
    total: int
    remaining: int
    current: QueueItem | None
    items: list[QueueItem]


class Words(BaseModel):
    """The text of an answer that is still being streamed."""

    step: Annotated[int, Field(description="Number of the answer within the turn")]
    n: Annotated[int, Field(description="Number of `text_delta` events so far; later ones continue the numbering")]
    text: str


class Timeline(BaseModel):
    seq: Annotated[int, Field(description="Number of the last event in the log; newer events come after it")]
    entries: Annotated[
        list[Annotated[dict[str, Any], Meaning(schema="TimelineEntry")]], Field(description="Events of the log, oldest first")
    ]
    running: Annotated[values_turns.Turn | None, Field(description="The turn that an agent is answering")]
    saying: Words | None
    turn_id: Annotated[str | None, Field(description="The latest turn, whose list is in `todos`")]
    todos: Queue | None


class Tool(BaseModel):
    name: str
    description: str
    input_schema: dict[str, Any]
    server: Annotated[str | None, Field(description="The MCP server of a tool that only agents which run here can call")] = None


class McpServer(BaseModel):
    name: str
    status: Annotated[
        ServerStatus,
        Field(description="Only a server that is `ready`, or was, has tools in this list"),
    ]


class ManyTools(BaseModel):
    tools: list[Tool]
    servers: Annotated[list[McpServer], Field(description="The MCP servers of mcp.json")]


class ToolResult(BaseModel):
    result: Annotated[Any, Field(description="The tool's own result")]
    is_error: bool


class WritResult(BaseModel):
    output: Annotated[str, Field(description="The framed results")]
    visible: Annotated[str, Field(description="The text without the writs")]


# Operations on turns: /turns


table = OperationTable("turns")

ONE_TURN = one("turn", values_turns.Turn)
SENT_MESSAGE = one("message", values_turns.SentMessage)
SENT_MESSAGES = AnswerShape("ManySentMessages", {"messages": list[values_turns.SentMessage]})


def encode_turn(call: OperationCall, turn_id: str) -> Document:
    return {"turn": turns.show_turn(call.tx, call.tenant_id, turn_id, call.host.settings.limits)}


@table.add(
    "POST /turns",
    "Open a turn without running an agent, for clients with their own agent loop",
    {201: ONE_TURN},
    errors=(404,),
)
def create_turn(call: OperationCall, body: NewTurn) -> Document:
    return encode_turn(call, conversations.open_turn(call.tx, call.tenant_id, body.conversation_id).id)


@table.add("GET /turns/{turn_id}", "Get a turn", ONE_TURN, errors=(404,))
def get_turn(call: OperationCall, turn_id: str) -> Document:
    return encode_turn(call, turn_id)


@table.add(
    "POST /turns/{turn_id}/cancel",
    "Cancel a running turn. What its agent was saying is kept as a message of the kind stopped",
    ONE_TURN,
    errors=(404, 409),
)
def cancel_turn(call: OperationCall, turn_id: str) -> Document:
    call.interrupt(run_ends.cancel_turn(call.tx, call.tenant_id, turn_id, call.host.live_text))
    return encode_turn(call, turn_id)


@table.add(
    "POST /turns/{turn_id}/stop",
    "Ask whether the agent of your own loop may stop: not while its plan is open or its checks fail, which run for this",
    {200: one("stop", values_turns.StopDecision)},
    errors=(404, 409),
)
def stop_turn(call: OperationCall, turn_id: str, body: NewStop) -> Document:
    limit = call.host.settings.limits.guard_refusals
    return {"stop": stops.decide_stop(call.tx, call.tenant_id, turn_id, StopRequest(body.answer), limit).as_json()}


@table.add(
    "POST /turns/{turn_id}/messages",
    "Send a message to a running turn, whose agent reads it at its next step",
    {202: SENT_MESSAGE},
    errors=(404,),
)
def steer_turn(call: OperationCall, turn_id: str, body: NewSteering) -> Document:
    return {"message": steering.send_to_turn(call.tx, call.tenant_id, turn_id, body.content, call.caller_name).as_json()}


@table.add(
    "GET /turns/{turn_id}/messages",
    "List the messages that were sent to a turn while it ran, oldest first",
    SENT_MESSAGES,
    errors=(404,),
)
def list_turn_messages(call: OperationCall, turn_id: str, query: PageQuery) -> Document:
    messages = steering.list_by_turn(call.tx, call.tenant_id, turn_id, query.limit)
    return {"messages": [message.as_json() for message in messages]}
