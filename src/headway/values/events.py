"""The data of every event, by kind. Each docstring says in the reference what the event means.

Type checkers, the OpenAPI document and the reference read this module. Nothing loads it while Headway runs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from headway.ledger.events import GOAL_TEXTS, RUN_TEXTS, SUB_GOAL_TEXTS, TODO_TEXTS, RowChange, StreamedKind
from headway.ledger.inbox import DECISION_FIELDS, PersonRequest
from headway.ledger.run import EffectState, MessageKind, MessageRole, TurnMode, TurnOutcome
from headway.ledger.tenancy import ConversationState
from headway.values.turns import Changes, Event
from headway.values.value import Meaning

KindT = TypeVar("KindT", bound=StreamedKind)
DataT = TypeVar("DataT", bound=Mapping[str, Any])

OmittedTexts = Annotated[list[str], Meaning("Long texts that did not change, and are left out here. Keep the ones you have")]

# States in events, as REST answers with them. These can lack the texts above, and what is only known to a request.
CHANGED_STATES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "ChangedTodo": ("Todo", TODO_TEXTS),
    "ChangedGoal": ("GoalSummary", (*GOAL_TEXTS, "usage", "waiting_for")),
    "ChangedSubGoal": ("SubGoal", SUB_GOAL_TEXTS),
    "ChangedAgent": ("Agent", RUN_TEXTS),
    "Decision": ("PersonRequest", tuple(sorted({*PersonRequest._fields} - {*DECISION_FIELDS}))),
}

TodoState = Annotated[Mapping[str, Any], Meaning(schema="ChangedTodo")]
GoalState = Annotated[Mapping[str, Any], Meaning(schema="ChangedGoal")]
SubGoalState = Annotated[Mapping[str, Any], Meaning(schema="ChangedSubGoal")]
AgentState = Annotated[Mapping[str, Any], Meaning(schema="ChangedAgent")]
ApprovalState = Annotated[Mapping[str, Any], Meaning(schema="Approval")]
QuestionState = Annotated[Mapping[str, Any], Meaning(schema="Question")]
OpenItem = Annotated[Mapping[str, Any], Meaning(schema="IncompleteItem")]
QueueItem = Annotated[Mapping[str, Any], Meaning(schema="QueueItem")]
DecisionState = Annotated[Mapping[str, Any], Meaning(schema="Decision")]


# The board


class TodoChangedData(TypedDict):
    """A todo was created, changed or deleted."""

    change: RowChange
    todo: TodoState
    omitted: NotRequired[OmittedTexts]


class TodosMovedData(TypedDict):
    """Todos of one list have another position, and did not change otherwise."""

    conversation_id: int
    turn_id: str | None
    positions: Annotated[dict[str, int], Meaning("The new positions by the number of the todo")]
    updated_at: int


class CommentChangedData(TypedDict):
    """A comment was written, changed or deleted. Its text is not in the event."""

    change: RowChange
    id: int
    todo_id: int
    person: str


class ViewChangedData(TypedDict):
    """A saved view of the board was created, changed or deleted."""

    change: RowChange
    view: Annotated[Mapping[str, Any], Meaning(schema="View")]


class ChecksRanData(TypedDict):
    """Checks ran, or a person completed a todo without them. It names a todo, a goal or a sub-goal."""

    receipt_id: int
    todo_id: NotRequired[int]
    goal_id: NotRequired[int]
    sub_goal_id: NotRequired[int]
    ok: bool
    override: Annotated[str | None, Meaning("Why a person completed it without its checks")]
    failures: list[Annotated[Mapping[str, str], Meaning(schema="CheckFailure")]]


# Goals


class GoalChangedData(TypedDict):
    """A goal was set or changed."""

    goal: GoalState
    omitted: NotRequired[OmittedTexts]


class SubGoalChangedData(TypedDict):
    """A step of a goal's plan was added or changed."""

    goal_id: int
    sub_goal: SubGoalState
    omitted: NotRequired[OmittedTexts]


class JournalAppendedData(TypedDict):
    """The journal of a goal has a new entry."""

    goal_id: int
    entry: Annotated[Mapping[str, Any], Meaning(schema="JournalEntry")]


class GoalDeletedData(TypedDict):
    """A goal was deleted for good, because of its age."""

    goal_id: int


# Conversations and memory


class ConversationChangedData(TypedDict):
    """A conversation was renamed, deleted or restored, or its turn began or ended. Every stream of the tenant has this event."""

    id: int
    change: Literal["renamed", "deleted", "restored", "state"]
    state: NotRequired[ConversationState]


class ConversationDeletedData(TypedDict):
    """A conversation was deleted for good."""

    conversation_id: int


class MemoryChangedData(TypedDict):
    """A note was written, changed or deleted. Its text is not in the event."""

    change: RowChange
    id: int
    conversation_id: Annotated[int, Meaning("0: the note belongs to no conversation")]
    revision: int


# Turns


class RunData(TypedDict):
    """Names the turn or the goal of an agent."""

    turn_id: str | None
    goal_id: NotRequired[Annotated[int, Meaning("Only of an agent that works for a goal")]]
    replayed: NotRequired[Annotated[bool, Meaning("A fork has it from the record")]]


class TurnStartedData(RunData):
    """A turn begins."""

    conversation_id: int
    run_id: str
    mode: TurnMode
    continues: NotRequired[Annotated[str, Meaning("The turn whose open todos it took over")]]
    client_tools: NotRequired[Annotated[list[str], Meaning("The tools of its client")]]
    forked_from: NotRequired[Annotated[Mapping[str, Any], Meaning(schema="ForkOrigin")]]


class TextDeltaData(TypedDict):
    """A piece of the text that the turn's agent is writing. It has no number and is never repeated. With Postgres it can come from
    another process."""

    turn_id: str | None
    run_id: str
    text: str
    n: NotRequired[Annotated[int, Meaning("The number of the piece in the answer")]]
    step: NotRequired[Annotated[int, Meaning("The number of the answer")]]
    restart: NotRequired[Annotated[bool, Meaning("The earlier pieces of the answer are withdrawn")]]


class MessageData(RunData):
    """A message of the conversation: the text of an agent, or what a user wrote."""

    id: int
    role: MessageRole
    content: str
    kind: Annotated[
        MessageKind,
        Meaning("`closing`: the runtime's words, why the turn ends early. `stopped`: what an interrupted agent had said"),
    ]
    attachments: list[Annotated[Mapping[str, Any], Meaning(schema="Attachment")]]
    created_at: int


class ToolCallData(RunData):
    """An agent calls a tool."""

    run_id: str
    depth: Annotated[int, Meaning("0: the agent that answers the turn or pursues the goal")]
    step: Annotated[int, Meaning("The number of the model's answer in the transcript")]
    call_id: str
    tool: str
    arguments: Any
    has_text: NotRequired[Annotated[bool, Meaning("Whether the answer has text before its first call")]]
    at: Annotated[float, Meaning("Epoch seconds")]


class WrittenFileData(TypedDict):
    """A file that a call wrote or deleted."""

    id: str
    version: int
    path: str
    change: str


class ToolResultData(RunData):
    """A call has its result."""

    run_id: str
    depth: NotRequired[int]
    step: NotRequired[int]
    call_id: str
    tool: str
    result: Any
    is_error: bool
    state: EffectState
    files: NotRequired[Annotated[list[WrittenFileData], Meaning("The first files that it wrote")]]
    omitted_files: NotRequired[Annotated[int, Meaning("How many more it wrote")]]
    at: NotRequired[Annotated[float, Meaning("Epoch seconds")]]


class RefusedData(RunData):
    """The answer was refused, because work is open. Withdraw its text."""

    remaining: Annotated[int, Meaning("How many items are open")]
    reason: str
    refusals: NotRequired[Annotated[int, Meaning("In a row; only of an agent that Headway does not run")]]


class AgentChangedData(TypedDict):
    """An agent started, changed its state or ended."""

    run: AgentState
    omitted: NotRequired[OmittedTexts]


class AgentMessageData(TypedDict):
    """Someone wrote to a sub-agent, or to an agent of a goal."""

    run_id: str
    turn_id: str | None
    goal_id: int | None
    message: Annotated[Mapping[str, Any], Meaning(schema="SentMessage")]


class MessagesReadData(RunData):
    """An agent has read messages that it got while it worked."""

    run_id: str
    messages: list[int]


class CompactedData(RunData):
    """Older messages of a transcript were shortened or summarised."""

    run_id: str
    tokens_before: int
    tokens_after: int


class TurnDelayedData(TypedDict):
    """A call failed and is made again at that time."""

    turn_id: str | None
    retry_at: Annotated[int, Meaning("Epoch seconds")]
    delay_s: int
    reason: str
    attempt: Annotated[int, Meaning("The number of the next attempt")]
    attempts: Annotated[int, Meaning("After so many, the turn fails")]


class TurnPausedData(RunData):
    """The turn waits, because the money is spent."""

    reason: str


class TurnResumedData(RunData):
    """A paused turn continues, or a failed one is tried again."""


class TurnSpentData(RunData):
    """Says what a turn used. Turns of agents that Headway does not run have none of this."""

    models: NotRequired[list[str]]
    usage: NotRequired[Annotated[Mapping[str, Any], Meaning(schema="Usage")]]
    duration_s: NotRequired[float]


class TurnFinishedData(TurnSpentData):
    """The turn has ended with an answer."""

    outcome: TurnOutcome
    incomplete: Annotated[list[OpenItem], Meaning("The items that are still open")]
    changes: NotRequired[Annotated[Changes, Meaning("What it changed in its repository")]]


class TurnFailedData(TurnSpentData):
    """The turn has ended with an error."""

    error: str
    code: str


class TurnCanceledData(TurnSpentData):
    """The turn was stopped."""

    incomplete: Annotated[list[OpenItem], Meaning("The items that are still open")]


# The list of a turn


class TodosCurrentData(TypedDict):
    """The current item of a turn's list, after any change of the list."""

    current: QueueItem | None
    remaining: int
    total: int


class TodosUpdatedData(TodosCurrentData):
    """The whole list of a turn, after any change of it."""

    items: list[QueueItem]


class TodosAssessedData(RunData):
    """The assessor has judged the work on an item."""

    ok: bool
    reason: str


class TodosResubmittingData(RunData):
    """The agent gets the next item."""

    next: str
    state: TodosUpdatedData


class TodosLimitData(RunData):
    """The agent has been given as many items as a turn may have."""

    max: int
    remaining: int
    message: str


# People


class ApprovalData(TypedDict):
    """Names the approval."""

    turn_id: str | None
    goal_id: int | None
    approval: ApprovalState


class ApprovalRequestedData(ApprovalData):
    """Someone has to approve a call."""


class ApprovalDecidedData(ApprovalData):
    """An approval was decided, has expired or was canceled."""


class QuestionData(TypedDict):
    """Names the question."""

    turn_id: str | None
    goal_id: int | None
    question: QuestionState


class QuestionAskedData(QuestionData):
    """An agent asks a question."""


class QuestionAnsweredData(QuestionData):
    """A question was answered or canceled."""


class DecisionData(TypedDict):
    """Names the decision."""

    turn_id: str | None
    goal_id: int | None
    decision: DecisionState


class DecisionRequestedData(DecisionData):
    """A goal waits for a decision."""


class DecisionMadeData(DecisionData):
    """Someone has decided about a goal, or the decision is no longer needed."""


class WaitingChangedData(TypedDict):
    """How many requests are open in the tenant."""

    approvals: int
    questions: int
    decisions: int


class OperatorNoticeData(TypedDict):
    """A notice to the operator, which is also sent to the channels in `HEADWAY_NOTIFY`."""

    id: int
    kind: str
    text: str
    turn_id: str | None
    goal_id: int | None
    url: Annotated[str, Meaning("The path of the place to respond; empty: none")]


# Money, jobs and the installation


class CostChangedData(TypedDict):
    """A call was paid."""

    run_id: str
    cost_usd: Annotated[float, Meaning("Of the call")]
    spent_usd: Annotated[float, Meaning("Of the tenant so far")]
    limit_usd: float


class CostLimitChangedData(TypedDict):
    """The limit of the tenant's costs was changed."""

    old_usd: Annotated[float | None, Meaning("null: the default")]
    limit_usd: float


class JobDeadData(TypedDict):
    """A job has failed for good, and is a dead letter."""

    job: Annotated[Mapping[str, Any], Meaning(schema="Job")]


class JobRecoveredData(TypedDict):
    """A job was taken over from a process that is gone."""

    job_id: str
    kind: str
    turn_id: str | None
    goal_id: int | None


class RecoveredData(TypedDict):
    """Interrupted work continues."""

    runs: Annotated[int, Meaning("How many jobs were taken over")]
    goals: int
    at: int


class ScheduleChangedData(TypedDict):
    """A schedule was created, changed or deleted, or has started its work."""

    change: RowChange
    schedule: Annotated[Mapping[str, Any], Meaning(schema="Schedule")]
    omitted: NotRequired[OmittedTexts]


class WebhookChangedData(TypedDict):
    """A webhook was created, changed or deleted, its secret was rotated, or it delivers older events again."""

    change: Literal["create", "change", "delete", "rotate", "replay"]
    webhook_id: str
    paused: bool


class HaltData(TypedDict):
    """Names the halt."""

    why: str
    since: int
    by: str


class HaltedData(HaltData):
    """All work is halted."""


class UnhaltedData(HaltData):
    """The halt is over."""


# Events of streams, which are not in the log


class LogPrunedData(TypedDict):
    """Events that you have not seen were deleted because of their age. Load again what you show."""

    after: Annotated[int, Meaning("The last event that you have seen")]
    pruned: Annotated[int, Meaning("The last event that was deleted")]


class PingData(TypedDict):
    """The stream lives. It comes first, and then every 15 seconds."""


class TenantMovedData(TypedDict):
    """The tenant has moved to another cell, and the stream ends. Continue there after the last number that you have seen."""

    cell: str
    location: Annotated[str, Meaning("The address of the cell; empty: unknown")]


if TYPE_CHECKING:

    class EventOf(Event, Generic[KindT, DataT]):
        """An event of one kind. Streams yield plain events; type checkers take them to be one of these."""

        kind: KindT
        data: DataT

else:  # the pair of a kind and its data

    class EventOf(Generic[KindT, DataT]):
        __slots__ = ()


TypedEvent = (
    EventOf[Literal["agent_changed"], AgentChangedData]
    | EventOf[Literal["agent_message"], AgentMessageData]
    | EventOf[Literal["approval_decided"], ApprovalDecidedData]
    | EventOf[Literal["approval_requested"], ApprovalRequestedData]
    | EventOf[Literal["checks_ran"], ChecksRanData]
    | EventOf[Literal["comment_changed"], CommentChangedData]
    | EventOf[Literal["compacted"], CompactedData]
    | EventOf[Literal["conversation_changed"], ConversationChangedData]
    | EventOf[Literal["conversation_deleted"], ConversationDeletedData]
    | EventOf[Literal["cost_changed"], CostChangedData]
    | EventOf[Literal["cost_limit_changed"], CostLimitChangedData]
    | EventOf[Literal["decision_made"], DecisionMadeData]
    | EventOf[Literal["decision_requested"], DecisionRequestedData]
    | EventOf[Literal["goal_changed"], GoalChangedData]
    | EventOf[Literal["goal_deleted"], GoalDeletedData]
    | EventOf[Literal["halted"], HaltedData]
    | EventOf[Literal["job_dead"], JobDeadData]
    | EventOf[Literal["job_recovered"], JobRecoveredData]
    | EventOf[Literal["journal_appended"], JournalAppendedData]
    | EventOf[Literal["log_pruned"], LogPrunedData]
    | EventOf[Literal["memory_changed"], MemoryChangedData]
    | EventOf[Literal["message"], MessageData]
    | EventOf[Literal["messages_read"], MessagesReadData]
    | EventOf[Literal["operator_notice"], OperatorNoticeData]
    | EventOf[Literal["ping"], PingData]
    | EventOf[Literal["question_answered"], QuestionAnsweredData]
    | EventOf[Literal["question_asked"], QuestionAskedData]
    | EventOf[Literal["recovered"], RecoveredData]
    | EventOf[Literal["refused"], RefusedData]
    | EventOf[Literal["schedule_changed"], ScheduleChangedData]
    | EventOf[Literal["sub_goal_changed"], SubGoalChangedData]
    | EventOf[Literal["text_delta"], TextDeltaData]
    | EventOf[Literal["todo_changed"], TodoChangedData]
    | EventOf[Literal["todos_assessed"], TodosAssessedData]
    | EventOf[Literal["todos_current"], TodosCurrentData]
    | EventOf[Literal["todos_limit"], TodosLimitData]
    | EventOf[Literal["todos_moved"], TodosMovedData]
    | EventOf[Literal["todos_resubmitting"], TodosResubmittingData]
    | EventOf[Literal["todos_updated"], TodosUpdatedData]
    | EventOf[Literal["tool_call"], ToolCallData]
    | EventOf[Literal["tool_result"], ToolResultData]
    | EventOf[Literal["turn_canceled"], TurnCanceledData]
    | EventOf[Literal["turn_delayed"], TurnDelayedData]
    | EventOf[Literal["turn_failed"], TurnFailedData]
    | EventOf[Literal["turn_finished"], TurnFinishedData]
    | EventOf[Literal["turn_paused"], TurnPausedData]
    | EventOf[Literal["turn_resumed"], TurnResumedData]
    | EventOf[Literal["turn_started"], TurnStartedData]
    | EventOf[Literal["unhalted"], UnhaltedData]
    | EventOf[Literal["view_changed"], ViewChangedData]
    | EventOf[Literal["waiting_changed"], WaitingChangedData]
    | EventOf[Literal["webhook_changed"], WebhookChangedData]
)
