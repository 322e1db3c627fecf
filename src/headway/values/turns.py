"""Turns, messages, conversations and what turns cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from headway.ledger.events import StreamedKind
from headway.ledger.run import TurnMode, TurnOutcome
from headway.ledger.tenancy import ConversationState, PlanSource, TurnStatus
from headway.ledger.todo import Status
from headway.values.todos import Todo
from headway.values.value import Meaning, Value

Changes = Annotated[Mapping[str, Any], Meaning(schema="Changes")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Usage(Value):
    """Tokens and cost, including sub-agents. `input_tokens` includes `cached_tokens`, which were read from the provider's
    cache."""

    input_tokens: int = 0
    cached_tokens: Annotated[int, Meaning("The input tokens that were read from the provider's prompt cache")] = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def total_tokens(self) -> int:
        """The input tokens and the output tokens together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Wait(Value):
    """The approval or the question that a turn or a goal waits for."""

    kind: Literal["approval", "question"]
    id: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IncompleteItem(Value):
    """An item of a turn's plan that is still open."""

    id: int
    title: str
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ForkOrigin(Value):
    """The turn that a turn is a fork of."""

    turn_id: str
    at: Annotated[int, Meaning("How many of its steps were copied")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Turn(Value):
    """One message and everything that agents do until it is answered."""

    id: str
    conversation_id: int
    status: Annotated[TurnStatus, Meaning("`waiting`: an agent of the turn waits for a person")]
    outcome: TurnOutcome | None = None
    request: str = ""
    mode: TurnMode = "plan"
    answer: Annotated[str | None, Meaning("The final answer; null until it has finished")] = None
    error: Annotated[str | None, Meaning("Why it failed")] = None
    waiting_for: Wait | None = None
    iterations: int = 0
    limit: int = 0
    resubmissions: int = 0
    incomplete: tuple[IncompleteItem, ...] = ()
    forked_from: Annotated[ForkOrigin | None, Meaning("The turn that it is a fork of")] = None
    retry_at: Annotated[datetime | None, Meaning("When a failed call is retried, in epoch seconds; 0: no retry is scheduled")] = (
        None
    )
    plan_source: Annotated[
        PlanSource | None,
        Meaning("Who made its plan; request: Headway, from the request; null: it has none, or this was not recorded"),
    ] = None
    models: Annotated[tuple[str, ...], Meaning("The models that its agents have asked, in order of the first call")] = ()
    usage: Annotated[Usage, Meaning("Of the model calls of the turn and its sub-agents so far")] = field(default_factory=Usage)
    duration_s: Annotated[float, Meaning("0 until it has ended")] = 0.0
    changes: Annotated[Changes | None, Meaning("Only if it worked in a repository and has ended")] = None
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StopDecision(Value):
    """Whether the agent of a loop outside Headway may stop."""

    may_stop: bool
    reason: Annotated[str, Meaning("For the agent, if it may not stop: the open items, and the checks that failed")] = ""
    notice: Annotated[str, Meaning("For the person, if something is open nevertheless")] = ""
    refusals: Annotated[int, Meaning("How often in a row it was not allowed to stop, without progress")] = 0
    incomplete: tuple[IncompleteItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TurnReport(Value):
    """The result of a turn, for the program that asked."""

    id: str
    conversation_id: int
    status: TurnStatus
    outcome: TurnOutcome | None
    answer: str
    plan: tuple[Todo, ...]
    usage: Usage
    models: tuple[str, ...] = ()
    duration_s: float = 0.0
    changes: Mapping[str, Any] | None = None  # in its repository, if it worked in one

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The todos of the turn's plan, by position."""
        return self.plan

    @property
    def cost_usd(self) -> float:
        """The cost of the turn's model calls."""
        return self.usage.cost_usd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Conversation(Value):
    """A thread of messages. `key` is the caller's own name for it."""

    id: int
    key: str
    title: str = ""
    state: Annotated[
        ConversationState,
        Meaning("That of the unfinished turn; `waiting`: for a person; `paused`: for money; `idle`: no turn"),
    ] = "idle"
    task_file: Annotated[str, Meaning("Path of the task list below HEADWAY_HOME")] = ""
    client: Annotated[str | None, Meaning("The coding assistant whose session it is")] = None
    client_session: Annotated[str | None, Meaning("The assistant's own id of the session")] = None
    excerpt: Annotated[
        str | None, Meaning("In the results of a search: the place in the newest message that has the words", is_omitted=True)
    ] = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Attachment(Value):
    """A file that came with a message."""

    name: str
    media_type: str
    size: Annotated[int, Meaning("In bytes")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Message(Value):
    """A message in a conversation."""

    id: int
    turn_id: str
    role: Literal["user", "assistant"]
    content: str
    kind: Annotated[
        Literal["text", "closing", "stopped"],
        Meaning(
            "`closing`: the runtime's own words, why a turn ended early and what is left. `stopped`: what an agent had said "
            "when its turn was canceled"
        ),
    ] = "text"
    attachments: Annotated[
        tuple[Attachment, ...],
        Meaning("Download them from /v1/turns/{turn_id}/attachments/{n}, numbered from 1"),
    ] = ()
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SentMessage(Value):
    """A message that was sent to an agent while it worked. `read_at` is None until the agent has read it."""

    id: int
    run_id: str
    turn_id: Annotated[str | None, Meaning("The turn that the agent works for; null if it works for a goal")] = None
    content: str
    sender: Annotated[str, Meaning("The label of the sender's token")] = ""
    created_at: datetime
    read_at: Annotated[datetime | None, Meaning("When the agent read it; 0: not yet")] = None


@dataclass(frozen=True, slots=True, repr=False)
class Event(Value):
    """An event of the log, or a piece of text that a model is writing. Those pieces have no number: they are not in the log."""

    kind: StreamedKind
    data: Mapping[str, Any]
    number: int | None = None

    @property
    def text(self) -> str:
        """The text of a `text_delta`; empty for all other kinds."""
        return str(self.data.get("text", "")) if self.kind == "text_delta" else ""

    @property
    def withdraws(self) -> bool:
        """Whether the text before it no longer counts: the answer was refused, or the model is asked again."""
        return self.kind == "refused" or bool(self.data.get("restart"))

    @property
    def turn_id(self) -> str | None:
        """The turn that it belongs to, if it names one."""
        return self.data.get("turn_id")
