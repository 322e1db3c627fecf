"""What an agent may do. A role grants families of tools and of writs."""

from typing import Final, Literal, NamedTuple

from headway.ledger.errors import Invalid

Family = Literal["turn_plan", "queue", "tasks", "ledger"]
Writs = Literal["todos", "agents", "schedules"]

SUPERVISOR: Final = "supervisor"  # another word for the index role


class UnknownRole(Invalid):
    """There is no such role."""


class Role(NamedTuple):
    name: str
    description: str
    tools: frozenset[Family]
    writs: frozenset[Writs]


def worker(name: str, description: str) -> Role:
    """Workers keep their own task list and mark progress on the conversation's todos; the turn's plan is not theirs."""
    return Role(name, description, frozenset({"tasks", "ledger"}), frozenset({"todos"}))


BUILT_IN: Final = {
    role.name: role
    for role in (
        Role(
            "index",
            "The supervisor: plans a turn, works the plan off and delegates.",
            frozenset({"turn_plan", "queue", "tasks", "ledger"}),
            frozenset({"todos", "agents", "schedules"}),
        ),
        worker("researcher", "Finds things out and reports them with their sources."),
        worker("coder", "Writes and changes code."),
        worker("writer", "Writes text for people."),
        worker("reviewer", "Looks for what is wrong in the work of others."),
    )
}


def find(name: str) -> Role:
    role = BUILT_IN.get("index" if name == SUPERVISOR else name)
    if role is None:
        raise UnknownRole(f"Unknown role {name[:80]!r}. Known: {', '.join(BUILT_IN)}, and {SUPERVISOR} for index.")
    return role
