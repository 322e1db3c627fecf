"""A run: one agent at work. Its next step is always derived from its transcript."""

from typing import Any, Literal, NamedTuple

from headway.ledger.attachment import AttachmentInfo

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "canceled"]
TurnOutcome = Literal["drained", "answered", "incomplete", "filtered", "limit", "needs_live"]
EffectState = Literal["proposed", "started", "succeeded", "failed", "unknown"]
TurnMode = Literal["plan", "queue"]
SpendingGroup = Literal["model", "role", "goal"]  # what the spending of a day can be divided by


class Run(NamedTuple):
    id: str
    tenant_id: int
    conversation_id: int
    turn_id: str | None
    parent_run_id: str | None
    role: str
    task: str
    depth: int
    status: RunStatus
    created_at: int
    updated_at: int
    limit: int  # maximum number of model calls
    iterations: int = 0  # model calls so far
    result: str | None = None
    resubmissions: int = 0
    refusals: int = 0  # consecutive refused answers while the list matches plan_mark
    plan_mark: str = ""
    reserved: int = 0
    cost: int = 0
    ended_at: int = 0
    goal_id: int | None = None
    sub_goal_id: int | None = None  # the sub-goal it works on; a goal's main agent works on one at a time
    begins_at: int = 0  # the first message of the transcript about that sub-goal
    hint: str = ""  # supervisor's hint that the agent has not received yet
    unread: int = 0  # messages from people that the agent has not received yet
    repository: str = ""  # the git repository that it works in: relative to the tenant's workspace, or as a role file names it
    base: str = ""  # the commit that its work in the repository starts from
    changes: str = ""  # JSON: what it changed in the repository, without the diff
    model: str = ""  # the model that it asks instead of its role's
    added_items: int = 0  # items that it has added to its plan after the plan was made
    replays: str = ""  # whose recorded results answer its calls: the id of a run, or goal:ID; empty: its calls are made

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def answers_turn(self) -> bool:
        """Whether this is the agent that answers a turn."""
        return self.turn_id is not None and self.parent_run_id is None

    @property
    def is_main(self) -> bool:
        """Whether this is the main agent of a goal."""
        return self.goal_id is not None and self.parent_run_id is None


class RunEnd(NamedTuple):
    """The end of a run. A turn shows the answer and the outcome, a goal and a parent agent receive the rest."""

    status: RunStatus
    answer: str = ""
    data: Any = None  # structured result, if the agent reported one
    error: str | None = None
    outcome: TurnOutcome | None = None  # missing if the run broke or was canceled
    code: str = ""  # error code of a run that broke; its job becomes a dead letter
    closing: str = ""  # the runtime's own words: why the run ended before its work was done, and what is left

    @classmethod
    def finish(cls, outcome: TurnOutcome, answer: str, closing: str = "") -> "RunEnd":
        """End with an answer. One that was cut short by a limit or a filter is a failure to a goal or a parent agent."""
        if outcome in ("answered", "drained"):
            return cls("completed", answer, outcome=outcome)
        return cls("failed", answer, error=outcome, outcome=outcome, closing=closing)

    @classmethod
    def report(cls, summary: str, data: Any, *, success: bool) -> "RunEnd":
        """End a task with the result that the agent itself reported."""
        return cls("completed" if success else "failed", summary, data, None if success else summary)

    @classmethod
    def fail(cls, message: str, code: str) -> "RunEnd":
        """End with an error that no retry can fix."""
        return cls("failed", error=message, code=code)

    @property
    def text(self) -> str:
        """The answer and the closing words, for those who get one text."""
        return "\n\n".join(part for part in (self.answer.strip(), self.closing) if part) if self.closing else self.answer

    def as_result(self) -> dict[str, Any]:
        return {"status": self.status, "summary": self.text, "data": self.data, "error": self.error}


class Effect(NamedTuple):
    """One tool call and its recorded state."""

    n: int  # the message that requested it
    call_index: int  # of the call in that message. Sub-agents that a writ starts, and runs of checks, have higher ones
    call_id: str
    tool: str
    arguments: str
    state: EffectState
    result: str = ""
    started_at: int = 0
    images: str = ""  # JSON: a list of media types and base64 data
    replayed: int = 0  # 1: the result was recorded by another run, and this run did not make the call

    def key(self, run_id: str) -> str:
        """Return an idempotency key for the call, so that an external service can recognize a repeated call."""
        return f"{run_id}.{self.n}.{self.call_index}"


MessageRole = Literal["user", "assistant"]
# closing: the runtime's own words at the end of a turn. stopped: the part of an answer that was written when the turn was stopped.
MessageKind = Literal["text", "closing", "stopped"]


class Message(NamedTuple):
    """A message of a conversation as people read it."""

    id: int
    turn_id: str
    role: MessageRole
    content: str
    created_at: int
    kind: MessageKind = "text"
    attachments: tuple[AttachmentInfo, ...] = ()

    @property
    def speaker(self) -> str:
        """Who wrote it, for lists: the role, or what the message is instead of an answer."""
        return self.role if self.kind == "text" else self.kind

    def as_json(self) -> dict[str, Any]:
        attachments = [attachment.as_json() for attachment in self.attachments]
        return self._asdict() | {"created_at": self.created_at // 1000, "attachments": attachments}


class SteeringMessage(NamedTuple):
    """A message that a person sent to a run while it worked."""

    id: int
    run_id: str
    turn_id: str | None
    content: str
    sender: str
    created_at: int
    read_at: int  # 0: the run has not read it

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"created_at": self.created_at // 1000, "read_at": self.read_at // 1000}
