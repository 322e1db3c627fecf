"""What an agent is and what it may do. A role has a prompt and a model tier, and grants families of tools and of writs."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

from headway.ledger.errors import Invalid

Family = Literal["turn_plan", "queue", "tasks", "ledger", "agents", "goals", "outcome", "builtin", "own"]
Writs = Literal["todos", "agents", "schedules"]
Tier = Literal["strong", "mid", "cheap"]

FAMILIES: Final[tuple[Family, ...]] = get_args(Family)
# What other programs' agents are handed through REST and MCP. The rest works on this machine, for agents that run here.
HANDS: Final[tuple[Family, ...]] = ("turn_plan", "queue", "tasks", "ledger")
WRITS: Final[tuple[Writs, ...]] = get_args(Writs)
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
SUPERVISOR: Final = "supervisor"  # another word for the index role


class UnknownRole(Invalid):
    """There is no such role."""


class Role(NamedTuple):
    name: str
    description: str
    tools: frozenset[str]  # families, or tools by their own names
    writs: frozenset[Writs]
    prompt: str = ""
    tier: Tier = "strong"

    def grants(self, family: Family, tool: str) -> bool:
        return family in self.tools or tool in self.tools


def worker(name: str, description: str, prompt: str) -> Role:
    """Workers keep their own task list and mark progress on the conversation's todos; the turn's plan is not theirs."""
    return Role(
        name,
        description,
        frozenset({"tasks", "ledger", "agents", "outcome", "builtin", "own"}),
        frozenset({"todos"}),
        prompt,
        "mid",
    )


BUILT_IN: Final = (
    Role(
        "index",
        "The supervisor: plans a turn, works the plan off and delegates.",
        frozenset(FAMILIES),
        frozenset(WRITS),
        "You are the supervisor: you take a request, see it through, and answer when it is done.",
    ),
    worker(
        "researcher",
        "Finds things out and reports them with their sources.",
        "You are a researcher. Find out what was asked, name where each fact comes from, and say what you could not find.",
    ),
    worker(
        "coder",
        "Writes and changes code.",
        "You are a programmer. Make the change that was asked for, as small as it can be, and check that it works.",
    ),
    worker(
        "writer",
        "Writes text for people.",
        "You are a writer. Write for the reader named in the task: plainly, completely, without filler.",
    ),
    worker(
        "reviewer",
        "Looks for what is wrong in the work of others.",
        "You are a reviewer. Look for what is wrong or missing, say where and why, and say so when you found nothing.",
    ),
)


class Roles:
    """The roles there are, by name: the built-in ones, and those that add to or take the place of them."""

    def __init__(self, own: Iterable[Role] = ()) -> None:
        self.by_name = {role.name: role for role in (*BUILT_IN, *own)}

    def find(self, name: str) -> Role:
        role = self.by_name.get("index" if name == SUPERVISOR else name)
        if role is None:
            raise UnknownRole(f"Unknown role {name[:80]!r}. Known: {', '.join(self.by_name)}, and {SUPERVISOR} for index.")
        return role
