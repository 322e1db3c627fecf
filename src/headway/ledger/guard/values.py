"""What the guard of coding assistants knows: sessions, the items of their lists, rules, and stops."""

from typing import Any, Final, NamedTuple

from headway.ledger.text import NAME_LIMIT
from headway.ledger.todo import Status, Todo

CLIENT_TITLES: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "cursor": "Cursor",
}
RULE_AGENT: Final = "guard"  # the agent of the items that are copies of rules


class AssistantSession(NamedTuple):
    """A session of a coding assistant, or of one of its sub-agents, as its client names it."""

    client: str
    id: str
    folder: str  # the project that it works on
    agent: str = ""  # the client's id of the sub-agent; empty: the assistant itself

    @property
    def key(self) -> str:
        """The key of its conversation."""
        return f"{self.client}:{self.id}"

    @property
    def agent_id(self) -> str:
        """Who is named as the agent of the items of its list."""
        return f"{self.client}/{self.agent}"[:NAME_LIMIT] if self.agent else self.client

    @property
    def title(self) -> str:
        return CLIENT_TITLES.get(self.client, self.client)


class MirroredItem(NamedTuple):
    """An item of an assistant's own list. None leaves a field as it is."""

    subject: str | None
    status: Status | None
    key: str = ""  # the assistant's own id of it; empty: the list has none, and its text identifies it
    description: str = ""


class GuardRule(NamedTuple):
    """What must hold before an assistant in a folder may stop."""

    id: int
    folder: str
    subject: str
    checks: str  # JSON
    is_confirmed: bool  # a person agreed that its commands run without a sandbox
    created_at: int


class StopRequest(NamedTuple):
    """An agent's wish to stop."""

    answer: str = ""  # its last words
    is_repeated: bool = True  # False: the client says that the agent was not sent back before this one


class StopRuling(NamedTuple):
    may_stop: bool
    reason: str = ""  # for the agent, if it may not stop
    notice: str = ""  # for the person, in one line
    refusals: int = 0  # in a row
    incomplete: tuple[Todo, ...] = ()

    def as_json(self) -> dict[str, Any]:
        items = [{"id": todo.id, "title": todo.subject, "status": todo.status} for todo in self.incomplete]
        return {**self._asdict(), "incomplete": items}
