"""Limits of turns, of goals, and of the programs that agents run."""

from typing import Final, Literal, NamedTuple, get_args

from headway.ledger.money import NANOS_PER_DOLLAR

SandboxMode = Literal["auto", "off", "required"]
DiscoveryPolicy = Literal["ask", "auto"]  # whether a goal that an agent discovers waits for approval or starts at once

SANDBOX_MODES: Final[tuple[SandboxMode, ...]] = get_args(SandboxMode)
DISCOVERY_POLICIES: Final[tuple[DiscoveryPolicy, ...]] = get_args(DiscoveryPolicy)
MEBIBYTE: Final = 2**20
ADDED_ITERATIONS: Final = 50  # so many more steps, at most, for the items that an agent adds to its plan while it works


class Limits(NamedTuple):
    """Limits on a turn and its agents."""

    iterations: int = 10
    iterations_with_plan: int = 50
    iterations_per_item: int = 3  # with a long plan, this many per item may exceed iterations_with_plan; 0: they may not
    sub_agent_iterations: int = 20  # per sub-agent, and per sub-goal that a main agent works on itself
    sub_agent_iterations_max: int = 50  # while it makes progress
    resubmissions: int = 5
    refusals: int = 3  # consecutive, without a change to the list: the turn has stalled
    guard_refusals: int = 3  # the same for agents that Headway does not run, before they may stop
    attempts: int = 5  # at a call with transient failures
    retry_delay_ms: int = 1_000  # after the first failure; doubles with each further one
    retry_after_max_ms: int = 3_600_000  # cap on the delay that a provider asks for
    tool_retries_ms: int = 300_000  # tool calls are retried for at most this long after the first attempt
    approval_ms: int = 24 * 3600 * 1000  # a proposed call expires after this long
    per_parent: int = 4  # concurrent sub-agents per parent
    depth: int = 2  # nesting of sub-agents
    breadth: int = 16  # sub-agents per turn at once, including waiting ones
    lifetime: int = 64  # sub-agents per turn in total
    budget: int = 5 * NANOS_PER_DOLLAR  # per tenant and rolling 24 hours

    def extend_iterations(self, limit: int, used: int, planned: int, added: int = 0) -> int:
        """Return the limit for a turn with an open plan: `iterations` more than used, up to a maximum that a long plan raises.

        `added` of the planned items were added by the agent after it had made its plan.
        """
        maximum = min(self.limit_plan(planned), self.limit_plan(planned - added) + ADDED_ITERATIONS)
        return max(limit, min(maximum, used + self.iterations))

    def limit_plan(self, planned: int) -> int:
        return max(self.iterations_with_plan, self.iterations_per_item * planned + 10 if self.iterations_per_item else 0)


class ExactFolder(NamedTuple):
    """A folder that a program may see only as long as it is this one. Agents can put another in its place, or a link."""

    path: str
    identity: str  # the numbers of its device and inode
    is_writable: bool


class Sandbox(NamedTuple):
    """The limits of a program that an agent runs: the operator's settings, and the additions of one call.

    All paths are absolute. A path inside another one overrides it: a folder that is shown read-only can contain a writable one, and
    the reverse.
    """

    mode: SandboxMode = "auto"
    readable: tuple[str, ...] = ()  # files and folders that are shown besides the system's
    writable: tuple[str, ...] = ()  # the same, besides the folder that the program runs in
    hidden: tuple[str, ...] = ()  # folders and files that appear empty where one of the others contains them
    exact: tuple[ExactFolder, ...] = ()
    has_network: bool = False
    memory: int = 2_048 * MEBIBYTE  # bytes, of all processes together
    processes: int = 256


class GoalLimits(NamedTuple):
    """Limits on what a goal's pursuit does without an operator."""

    replans: int = 5  # after this many, an operator decides
    discovery: DiscoveryPolicy = "ask"
    check_in_ms: int = 30_000  # interval between check-ins on a running sub-goal
    stuck_after_ms: int = 600_000  # time without progress after which a sub-goal counts as stuck
