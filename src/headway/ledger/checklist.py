"""Todos as a Markdown checklist, both ways.

- [ ] pending
- [/] in progress
- [x] completed
  > lines of description
  - [-] canceled, and nested: the item above waits for it
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headway.ledger.text import to_lines, to_one_line
from headway.ledger.todo import Status, Todo

MARKS: Final[dict[Status, str]] = {"pending": " ", "in_progress": "/", "completed": "x", "canceled": "-"}
STATUS_BY_MARK: Final[dict[str, Status]] = {mark: status for status, mark in MARKS.items()} | {"X": "completed"}
ITEM: Final = re.compile(r"^(\s*)(?:[-*+]|\d+[.)])\s+\[([ xX/-])\]\s+(\S.*)$")
LIST_LINE: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\S")
HORIZONTAL_RULE: Final = re.compile(r"^\s*([-*])(?:\s*\1){2,}$")
FENCE: Final = re.compile(r"^\s*(`{3,}(?=[^`]*$)|~{3,})")
MARGIN: Final = re.compile(r"^\s*(?:> ?)?")
UNSUPPORTED_FIELDS: Final = {
    "outcome": "outcome",
    "completion_criteria": "completion criteria",
    "agent_type": "agent type",
    "conversation_id": "conversation",
    "turn_id": "turn",
}


class ChecklistItem(NamedTuple):
    """One line of a checklist. `parent` is the place, in the list, of the item that waits for this one."""

    subject: str
    status: Status
    description: str
    parent: int | None


class RenderedChecklist(NamedTuple):
    text: str
    lost: list[str]  # what a checklist cannot say


class ChecklistLine(NamedTuple):
    text: str
    item: re.Match[str] | None
    parent: int | None  # the place of the item that it belongs to


def parse(document: str) -> list[ChecklistItem]:
    """The items in order. Headings, prose and fenced code are not items."""
    items: list[ChecklistItem] = []
    details: list[list[str]] = []
    for line in parse_lines(document):
        if line.item:
            items.append(ChecklistItem(line.item[3], STATUS_BY_MARK[line.item[2]], "", line.parent))
            details.append([])
        elif line.parent is not None:
            details[line.parent].append(MARGIN.sub("", line.text))
    return [item._replace(description="\n".join(said)) for item, said in zip(items, details, strict=True)]


def count_skipped_lines(document: str) -> int:
    """How many lines of lists are neither items nor part of one."""
    left = (line.text for line in parse_lines(document) if not line.item and line.parent is None)
    return sum(bool(LIST_LINE.match(text)) and not HORIZONTAL_RULE.match(text) for text in left)


def parse_lines(document: str) -> Iterator[ChecklistLine]:
    """The lines that say something, each with the item that it belongs to."""
    above: list[tuple[int, int]] = []  # (indent, place) of the items this line may belong to
    items = 0
    for line in strip_fenced_code(document.expandtabs(4).splitlines()):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        above = [(width, place) for width, place in above if width < indent]
        found = ChecklistLine(line.rstrip(), ITEM.match(line.rstrip()), above[-1][1] if above else None)
        if found.item:
            above.append((indent, items))
            items += 1
        yield found


def strip_fenced_code(document: Iterable[str]) -> Iterator[str]:
    """The lines that are not code. A fence is closed by one of its kind, at least as long; else it reaches to the end."""
    fence = ""
    for line in document:
        if fence:
            mark = line.strip()
            if len(mark) >= len(fence) and set(mark) == {fence[0]}:
                fence = ""
        elif opening := FENCE.match(line):
            fence = opening[1]
        else:
            yield line


def render(todos: Iterable[Todo]) -> RenderedChecklist:
    """A checklist in which what a todo waits for is nested below it."""
    by_id = {todo.id: todo for todo in todos}
    waits: dict[int, list[int]] = {}  # who waits for this one
    for todo in by_id.values():
        for other in todo.depends_on:
            waits.setdefault(other, []).append(todo.id)
    written: list[str] = []
    stack = [(todo, 0) for todo in reversed(by_id.values()) if todo.id not in waits]
    seen: set[int] = set()
    while stack:
        todo, depth = stack.pop()
        if todo.id in seen:
            continue
        seen.add(todo.id)
        margin = "  " * depth
        written.append(f"{margin}- [{MARKS[todo.status]}] {to_one_line(todo.subject)}")
        written += [f"{margin}  > {line}".rstrip() for line in to_lines(todo.description.rstrip())]
        stack += [(by_id[other], depth + 1) for other in reversed(todo.depends_on) if other in by_id]
    return RenderedChecklist("".join(f"{line}\n" for line in written), describe_losses(by_id, waits))


def describe_losses(by_id: dict[int, Todo], waits: dict[int, list[int]]) -> list[str]:
    shared = [todo for todo in by_id.values() if len(waits.get(todo.id, ())) > 1]
    said = [f"that several todos wait for #{todo.id} ({to_one_line(todo.subject)[:60]})" for todo in shared]
    for field, word in UNSUPPORTED_FIELDS.items():
        having = sum(bool(getattr(todo, field)) for todo in by_id.values())
        if having:
            said.append(f"the {word} of {having} todo{'s' if having > 1 else ''}")
    return said
