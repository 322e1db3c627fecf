"""Roles: what an agent is and what it may do. A role has a prompt and a model tier, and grants tool families and writs."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

from headway.ledger.errors import Invalid
from headway.ledger.tiers import Tier

FixedFamily = Literal[
    "turn_plan", "queue", "tasks", "ledger", "agents", "goals", "people", "outcome", "builtin", "own", "mcp", "runtime"
]
ToolFamily = str  # a fixed family, or mcp:SERVER for the tools of one MCP server; mcp stands for all servers
WritGrant = Literal["todos", "agents", "schedules"]

FAMILIES: Final[tuple[ToolFamily, ...]] = tuple(family for family in get_args(FixedFamily) if family != "runtime")
# Offered to external agents through REST and MCP. The other families act on this machine and are for agents that run here.
REMOTE_FAMILIES: Final[tuple[ToolFamily, ...]] = ("turn_plan", "queue", "tasks", "ledger")
COMPATIBLE_FAMILIES: Final[tuple[ToolFamily, ...]] = (
    "queue",
    "tasks",
)  # see docs/tools.md
READING_TOOLS: Final = frozenset(("list_todo", "ListTasks", "todo_list", "todo_ready"))  # their tools that change nothing
WRIT_GRANTS: Final[tuple[WritGrant, ...]] = get_args(WritGrant)
ROLE_FOLDER: Final = "agents"  # of the home: the operator's roles, a TOML file each
INDEX: Final = "index"  # the role that answers users
SUPERVISOR: Final = "supervisor"  # alias of the index role
CODE_TOOLS: Final = frozenset(("search_files", "run_python"))  # rarely needed, except by roles that work on code
# Families and tools that are rarely needed. Their schemas are not sent with every request: the model calls them with use_tool.
RARELY_NEEDED: Final = frozenset(
    (
        *("tasks", "ledger", "goals", "people"),
        *("list_todo", "read_result", "spawn_agent", "await_agent", "check_agent", "cancel_agent", "remember", "recall"),
        *CODE_TOOLS,
    )
)


class UnknownRole(Invalid):
    """There is no such role."""


class Role(NamedTuple):
    name: str
    description: str
    tools: frozenset[str]  # tool families or single tool names
    writs: frozenset[WritGrant]
    prompt: str = ""
    tier: Tier = "strong"
    on_demand: frozenset[str] = RARELY_NEEDED  # families or single tools whose schemas are not sent with every request
    steps: int | None = None  # model calls per task. Without a number, the limits of the installation apply, which may be extended
    repository: str = ""  # the git repository that its agents work in: absolute, or relative to the tenant's workspace
    network: bool = False  # whether programs in the sandbox may use the network

    def grants(self, family: ToolFamily, tool: str) -> bool:
        """Whether the role may call a tool. The runtime's own tools are part of every role that has tools."""
        return family == "runtime" or tool in self.tools or not self.tools.isdisjoint(list_names(family))

    def is_on_demand(self, family: ToolFamily, tool: str) -> bool:
        return tool in self.on_demand or not self.on_demand.isdisjoint(list_names(family))


def list_names(family: ToolFamily) -> tuple[str, ...]:
    """Return the names that stand for a family in a role."""
    return (family, "mcp") if family.startswith("mcp:") else (family,)


def build_worker(name: str, description: str, prompt: str, on_demand: frozenset[str] = RARELY_NEEDED) -> Role:
    """Build a worker role. Workers have their own task list and can update the conversation's todos, but not the turn's plan."""
    return Role(
        name,
        description,
        frozenset({"tasks", "ledger", "agents", "people", "outcome", "builtin", "own", "mcp"}),
        frozenset({"todos"}),
        prompt,
        "mid",
        on_demand,
    )


BUILT_IN_ROLES: Final = (
    Role(
        INDEX,
        "The supervisor: plans a turn, works through the plan and delegates.",
        frozenset(FAMILIES),
        frozenset(WRIT_GRANTS),
        "You are the supervisor. See each request through, and answer when it is done.",
    ),
    build_worker(
        "researcher",
        "Finds things out and reports them with their sources.",
        "You are a researcher. Find out what was asked, name the source of each fact, and say what you could not find.",
    ),
    build_worker(
        "coder",
        "Writes and changes code.",
        "You are a programmer. Make the requested change as small as possible, and check that it works.",
        RARELY_NEEDED - CODE_TOOLS,
    ),
    build_worker(
        "writer",
        "Writes text for people.",
        "You are a writer. Write for the reader named in the task: plainly, completely, without filler.",
    ),
    build_worker(
        "reviewer",
        "Reviews the work of others.",
        "You are a reviewer. Find what is wrong or missing, and say where and why. If you find nothing, say so.",
        RARELY_NEEDED - CODE_TOOLS,
    ),
)


class Roles:
    """All roles by name: the built-in ones and the user's, which may override them."""

    def __init__(self, custom_roles: Iterable[Role] = ()) -> None:
        self.by_name = {role.name: role for role in (*BUILT_IN_ROLES, *custom_roles)}

    def find(self, name: str) -> Role:
        role = self.by_name.get(INDEX if name == SUPERVISOR else name)
        if role is None:
            raise UnknownRole(f"Unknown role {name[:80]!r}. Known: {', '.join(self.by_name)}, and {SUPERVISOR} for index.")
        return role
