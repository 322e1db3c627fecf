"""Coding assistants under guard: rules, sessions, reasons to continue, and the texts that they read."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headway.ledger.framing import format_inline
from headway.ledger.text import NAME_LIMIT, to_one_line
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
    """A condition that must hold before an assistant in a folder may stop."""

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


# The texts that assistants and their users read from the guard.


ITEMS_SHOWN: Final = 6
TITLE_LIMIT: Final = 70  # characters of an item's title
TOKENS_LIMIT: Final = 200  # of what an assistant is told at the start of a session
OPENING_FORMS: Final = ((6, TITLE_LIMIT), (6, 45), (6, 30), (4, 30), (3, 20), (2, 12), (1, 8))  # items, characters of a title
LETTERS: Final = frozenset(string.ascii_letters + " ")
FAILURES_SHOWN: Final = 3
OUTPUT_LINES: Final = 15
OUTPUT_LIMIT: Final = 1_500  # characters of a check's output in a reason
OFFER: Final = re.compile(
    r"\b(anything else|(shall|should|can|may) i (continue|go on|proceed|keep going|start)|"
    r"(want|like) me to (continue|go on|proceed|keep going|start|do (it|that|this|the rest)))\b",
    re.IGNORECASE,
)
CHOICE: Final = re.compile(r"\s*([-*•]|\(?\w{1,2}[.):])\s")  # an item of a list
QUESTION_MARKS: Final = ("?", "？", "؟")


class FailedCheck(NamedTuple):
    """An item whose checks did not pass."""

    todo: Todo
    failures: Sequence[Mapping[str, str]]


def count_items(number: int) -> str:
    return "1 item is open" if number == 1 else f"{number or 'no'} items are open"


def list_titles(todos: Sequence[Todo], shown: int = ITEMS_SHOWN, limit: int = TITLE_LIMIT) -> list[str]:
    """List todos, each as a line that cannot be mistaken for anything else."""
    lines = [
        f"- #{todo.id} {format_inline(todo.subject, limit)}{' (in progress)' if todo.status == 'in_progress' else ''}"
        for todo in todos[:shown]
    ]
    return [*lines, *([f"- and {len(todos) - shown} more"] if len(todos) > shown else [])]


def describe_open(own: Sequence[Todo], earlier: Sequence[Todo], rules: Sequence[GuardRule]) -> str:
    """Tell an assistant in a few lines, of at most 200 tokens, what is open in its project. Empty if nothing is."""
    texts = (render_opening(own, earlier, rules, form) for form in OPENING_FORMS)
    return next((text for text in texts if count_most_tokens(text) <= TOKENS_LIMIT), "")


def render_opening(own: Sequence[Todo], earlier: Sequence[Todo], rules: Sequence[GuardRule], form: tuple[int, int]) -> str:
    lines: list[str] = []
    if own:
        lines += [f"{count_items(len(own))} in this session's list, which Headway keeps:", *list_titles(own, *form)]
    if earlier and not own:
        lines += [f"{count_items(len(earlier))} from earlier sessions in this project:", *list_titles(earlier, *form)]
        lines.append("If the user wants to continue, put them on your own list with the same titles.")
    if rules:
        names = [format_inline(rule.subject, form[1]) for rule in rules[:FAILURES_SHOWN]]
        more = [f"{len(rules) - len(names)} more"] if len(rules) > len(names) else []
        lines.append(f"Before you stop, Headway checks: {'; '.join([*names, *more])}.")
    return "\n".join(lines)


def count_most_tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few: scripts and signs have far fewer characters per token than
    English prose."""
    others = [character for character in text if character not in LETTERS]
    return (len(text) - len(others)) // 3 + sum(map(count_character_tokens, others)) // 2 + 1


def count_character_tokens(character: str) -> int:
    """Return twice the tokens of a character that is no ASCII letter."""
    size = len(character.encode(errors="replace"))
    return 2 * size if size in (1, 4) else size


def describe_refusal(todos: Sequence[Todo], failed: Sequence[FailedCheck]) -> str:
    """Tell an assistant why it may not stop: which items are open, which checks failed, and the end of their output."""
    lines: list[str] = []
    if todos:
        lines += [f"You are not done: {count_items(len(todos))} on your list.", *list_titles(todos)]
        lines.append(
            "Finish each and mark it as completed, or take it off the list and tell the user why. If you need the user, ask."
        )
    for todo, failures in failed[:FAILURES_SHOWN]:
        for failure in failures[:FAILURES_SHOWN]:
            lines.append(f"Not done yet: {format_inline(todo.subject, TITLE_LIMIT)}. This check failed: {failure['check']}")
            lines += [f"  {line}" for line in cut_output(failure["detail"])]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"{len(failed) - FAILURES_SHOWN} more checks failed.")
    return "\n".join(lines)


def cut_output(detail: str) -> list[str]:
    """Return the last lines of a check's output, each as a safe line."""
    return [to_one_line(line.replace("\t", "    ")) for line in detail[-OUTPUT_LIMIT:].splitlines()[-OUTPUT_LINES:]]


def describe_left(title: str, refusals: int, todos: Sequence[Todo]) -> str:
    """Tell the person in one line what is open when an assistant stops nevertheless."""
    names = "; ".join(f"#{todo.id} {format_inline(todo.subject, TITLE_LIMIT)}" for todo in todos[:ITEMS_SHOWN])
    more = f" and {len(todos) - ITEMS_SHOWN} more" if len(todos) > ITEMS_SHOWN else ""
    times = "once" if refusals == 1 else f"{refusals} times"
    return f"Headway sent {title} back {times} without progress and let it stop. {count_items(len(todos))}: {names}{more}."


def is_question(answer: str) -> bool:
    """Whether an answer ends with a question that only the user can answer, or with such a question and a list of the choices. An
    offer to go on with the work is none."""
    lines = [line for line in answer.splitlines() if line.strip()]
    while len(lines) > 1 and CHOICE.match(lines[-1]):
        lines.pop()
    line = lines[-1].strip(" \t*_`>\"')”’") if lines else ""
    sentence = re.split(r"(?<=[.!?])\s+", line)[-1]
    return sentence.endswith(QUESTION_MARKS) and not OFFER.search(sentence)
