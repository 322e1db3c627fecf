"""Agents, jobs, schedules, notes and costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from headway.ledger.run import EffectState, RunStatus
from headway.values.goals import AgentResult
from headway.values.turns import Changes
from headway.values.value import Meaning, Value

JobState = Literal["queued", "running", "delayed", "completed", "canceled", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Agent(Value):
    """A run of an agent: one that answers a turn, one that pursues a goal, or a sub-agent of either."""

    id: str
    role: str
    task: str
    status: RunStatus
    parent_run_id: str | None = None
    conversation_id: int = 0
    turn_id: str | None = None
    goal_id: int | None = None
    sub_goal_id: int | None = None
    depth: int = 0
    result: Annotated[
        str | AgentResult | None,
        Meaning("The answer of a turn's main agent; the result of a sub-agent or a goal's main agent; null until it ends"),
    ] = None
    iterations: int = 0
    limit: int = 0
    changes: Annotated[Changes | None, Meaning("Only if it worked in a repository and has ended")] = None
    cost_usd: float = 0.0
    retry_at: Annotated[datetime | None, Meaning("When a failed call is retried, in epoch seconds; 0: no retry is scheduled")] = (
        None
    )
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    start_ms: Annotated[int, Meaning("`created_at` in epoch milliseconds")] = 0
    end_ms: Annotated[int, Meaning("`ended_at` in epoch milliseconds")] = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AgentCall(Value):
    """A tool call of an agent."""

    call_id: Annotated[str, Meaning("Empty for a writ")]
    tool: str
    arguments: Annotated[str, Meaning("JSON; at most 4,000 characters")] = ""
    state: EffectState
    result: Annotated[str, Meaning("Text or JSON; at most 4,000 characters, and empty until the call has ended")] = ""
    run_id: Annotated[str | None, Meaning("The sub-agent that the call started")] = None
    replayed: Annotated[bool, Meaning("Whether a fork got the result from the record")] = False
    started_at: Annotated[datetime, Meaning("Epoch seconds", has_fraction=True)]
    ended_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: it has not ended", has_fraction=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AgentStep(Value):
    """One answer of an agent's model, with its tool calls. Answers that were withdrawn are not steps."""

    n: Annotated[int, Meaning("The number of the answer in the transcript")]
    text: Annotated[str, Meaning("At most 20,000 characters")] = ""
    calls: tuple[AgentCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    at: Annotated[datetime, Meaning("Epoch seconds", has_fraction=True)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job(Value):
    """A unit of work of the engine."""

    id: str
    kind: str
    state: JobState
    attempts: int = 0
    max_attempts: int = 0
    error: str | None = None
    errors: tuple[str, ...] = ()
    payload: Mapping[str, Any]
    result: Any = None
    due_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Schedule(Value):
    """Work that starts again and again. It has `cron` and `timezone`, or `every_s`, and one of `goal`, `message` and `tool`."""

    name: str
    cron: Annotated[str | None, Meaning(is_omitted=True)] = None
    timezone: Annotated[str | None, Meaning(is_omitted=True)] = None
    every_s: Annotated[float | None, Meaning(is_omitted=True)] = None
    goal: Annotated[Mapping[str, Any] | None, Meaning(schema="ScheduledGoal", is_omitted=True)] = None
    message: Annotated[Mapping[str, Any] | None, Meaning(schema="ScheduledMessage", is_omitted=True)] = None
    tool: Annotated[Mapping[str, Any] | None, Meaning(schema="ScheduledTool", is_omitted=True)] = None
    paused: bool = False
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_job: str | None = None
    skipped: int = 0
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Note(Value):
    """A note in the memory of agents."""

    id: int
    text: str
    kind: str
    conversation_id: Annotated[int, Meaning("0: tenant-wide; agents in every conversation recall it")] = 0
    revision: Annotated[int, Meaning("How often it was edited")] = 0
    origin: Annotated[Mapping[str, Any], Meaning(schema="Origin")]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CallTotals(Value):
    """The tokens and the cost of model calls."""

    calls: int = 0
    input_tokens: Annotated[int, Meaning("Includes the cached tokens")] = 0
    cached_tokens: Annotated[int, Meaning("The input tokens that were read from the provider's prompt cache")] = 0
    cache_write_tokens: Annotated[int, Meaning("The input tokens that were written to it")] = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelCosts(CallTotals):
    """The tokens and the cost of the calls of one model."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunCosts(CallTotals):
    """The tokens and the cost of one agent's model calls."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Costs(Value):
    """The tenant's spending within the last `window_s` seconds, and its limit."""

    spent_usd: float
    limit_usd: float
    window_s: int
    by_model: tuple[ModelCosts, ...] = ()
    by_run: tuple[RunCosts, ...] = ()
    unpriced: Annotated[
        tuple[str, ...], Meaning("Configured models without a known price. Their calls cost 0, so the limit cannot stop them")
    ] = ()
