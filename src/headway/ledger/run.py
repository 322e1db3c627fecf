"""One agent at work, and what it says. A run's next step is always derived from its transcript."""

from typing import Any, Final, Literal, NamedTuple

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "canceled"]
TurnOutcome = Literal["drained", "answered", "incomplete", "filtered", "limit"]
EffectState = Literal["started", "succeeded", "failed", "unknown"]
TurnMode = Literal["plan", "queue"]

REHEARSAL_MODEL: Final = "rehearsal"  # the model that needs no key: a stand-in, not an LLM
NANOS_PER_DOLLAR: Final = 1_000_000_000  # money is counted in billionths of a dollar


def to_dollars(nanos: int) -> float:
    return nanos / NANOS_PER_DOLLAR


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
    limit: int  # of model calls,
    iterations: int = 0  # and how many there were
    result: str | None = None
    resubmissions: int = 0
    refusals: int = 0  # answers refused in a row, with the list as plan_mark tells
    plan_mark: str = ""
    reserved: int = 0
    cost: int = 0
    ended_at: int = 0
    goal_id: int | None = None
    sub_goal_id: int | None = None  # what it is for; a goal's main agent works on one at a time,
    begins_at: int = 0  # from this message of its transcript on
    hint: str = ""  # what whoever looks after it has to say, and it has not heard yet

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def is_main(self) -> bool:
        """Whether it is the main agent of a goal."""
        return self.goal_id is not None and self.parent_run_id is None


class Effect(NamedTuple):
    """One tool call with its recorded state."""

    n: int  # the message it was asked for in,
    place: int  # and where in it
    call_id: str
    tool: str
    arguments: str
    state: EffectState
    result: str = ""
    started_at: int = 0

    def key(self, run_id: str) -> str:
        """Identifies this call towards the outside, so that a service can recognise a repeated call."""
        return f"{run_id}.{self.n}.{self.place}"


class Message(NamedTuple):
    """What a person reads of a conversation."""

    id: int
    turn_id: str
    role: Literal["user", "assistant"]
    content: str
    created_at: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"created_at": self.created_at // 1000}


class Limits(NamedTuple):
    """How far a turn may go."""

    iterations: int = 10
    iterations_with_plan: int = 50
    sub_agent_iterations: int = 20  # of a sub-agent, and of a main agent for each sub-goal that it works on itself
    resubmissions: int = 5
    refusals: int = 3  # in a row with no change to the list: a stagnation
    attempts: int = 5  # at a call that fails in a way that may pass,
    retry_delay_ms: int = 1_000  # with so much time after the first, and twice as much each time,
    retry_after_max_ms: int = 3_600_000  # or as long as the provider asks, up to this
    tool_retries_ms: int = 300_000  # a tool call is retried for at most this long after it was first made
    per_parent: int = 4  # sub-agents of one parent at work at once
    depth: int = 2  # of sub-agents within sub-agents
    breadth: int = 16  # sub-agents of a turn at once, waiting ones included
    lifetime: int = 64  # and in all
    budget: int = 5 * NANOS_PER_DOLLAR  # of a tenant, per rolling 24 hours

    def extend_iterations(self, limit: int, used: int, *, has_open: bool) -> int:
        """A turn that has open todos may take ten more steps from wherever it is, up to a cap."""
        return max(limit, min(self.iterations_with_plan, used + self.iterations)) if has_open else limit
