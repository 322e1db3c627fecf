"""Todos as a Markdown checklist, both ways.

- [ ] pending
- [/] in progress
- [x] completed
  > lines of description
  - [-] canceled, and nested: the item above waits for it
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from headway.ledger.text import lines, one_line
from headway.ledger.todo import Status, Todo

MARKS: Final[dict[Status, str]] = {"pending": " ", "in_progress": "/", "completed": "x", "canceled": "-"}
MEANINGS: Final[dict[str, Status]] = {mark: status for status, mark in MARKS.items()} | {"X": "completed"}
ITEM: Final = re.compile(r"^(\s*)(?:[-*+]|\d+[.)])\s+\[([ xX/-])\]\s+(.*\S)\s*$")
FENCE: Final = re.compile(r"^\s*(```|~~~)")


class Item(NamedTuple):
    """One line of a checklist. `parent` is the place, in the list, of the item that waits for this one."""

    subject: str
    status: Status
    description: str
    parent: int | None


class Rendering(NamedTuple):
    text: str
    lost: list[str]  # what a checklist cannot say, in sentences


def parse(document: str) -> list[Item]:
    """The items in order. Headings, prose and fenced code are not items."""
    items: list[Item] = []
    above: list[tuple[int, int]] = []  # (indent, place) of the items this line may belong to
    fence = ""
    for line in document.expandtabs(4).splitlines():
        if mark := FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
            continue
        if fence:
            continue
        found = ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if found:
            above = [(width, place) for width, place in above if width < indent]
            items.append(Item(found[3], MEANINGS[found[2]], "", above[-1][1] if above else None))
            above.append((indent, len(items) - 1))
        elif line.strip() and above and indent > above[-1][0]:
            item = items[above[-1][1]]
            detail = line.strip().removeprefix("> ").removeprefix(">")
            items[above[-1][1]] = item._replace(description=f"{item.description}\n{detail}".lstrip("\n"))
        elif line.strip() and indent == 0:
            above = []
    return items


def render(todos: Iterable[Todo]) -> Rendering:
    """A checklist in which what a todo waits for is nested below it."""
    by_id = {todo.id: todo for todo in todos}
    waits: dict[int, list[int]] = {}  # who waits for this one
    for todo in by_id.values():
        for other in todo.depends_on:
            waits.setdefault(other, []).append(todo.id)
    written: list[str] = []
    lost: list[str] = []
    stack = [(todo, 0) for todo in reversed(by_id.values()) if not any(one in by_id for one in waits.get(todo.id, ()))]
    seen: set[int] = set()
    while stack:
        todo, depth = stack.pop()
        if todo.id in seen:
            lost.append(f"that several todos wait for #{todo.id} ({one_line(todo.subject)[:60]})")
            continue
        seen.add(todo.id)
        margin = "  " * depth
        written.append(f"{margin}- [{MARKS[todo.status]}] {one_line(todo.subject)}")
        written += [f"{margin}  > {line}".rstrip() for line in lines(todo.description)]
        stack += [(by_id[other], depth + 1) for other in reversed(todo.depends_on) if other in by_id]
    return Rendering("\n".join(written) + "\n" if written else "", lost)
