"""Parse todos from a Markdown checklist and render them as one.

- [ ] pending
- [/] in progress
- [x] completed
  > lines of description
  check: {"kind": "command", "run": "pytest -q"}
  proof: proven
  priority: high
  - [-] canceled; nested, so the item above depends on it
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headway.ledger.check import Check, decode_checks
from headway.ledger.errors import Invalid
from headway.ledger.parsing.todo_fields import WORDS, list_words, parse_words
from headway.ledger.text import to_lines, to_one_line
from headway.ledger.todo import Status, Todo

MARKS: Final[dict[Status, str]] = {"pending": " ", "in_progress": "/", "completed": "x", "canceled": "-"}
STATUS_BY_MARK: Final[dict[str, Status]] = {mark: status for status, mark in MARKS.items()} | {"X": "completed"}
ITEM: Final = re.compile(r"^(\s*)(?:[-*+]|\d+[.)])\s+\[([ xX/-])\]\s+(\S.*)$")
LIST_LINE: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\S")
HORIZONTAL_RULE: Final = re.compile(r"^\s*([-*])(?:\s*\1){2,}$")
FENCE: Final = re.compile(r"^\s*(`{3,}(?=[^`]*$)|~{3,})")
CHECK_LINE: Final = re.compile(r"^\s*check: (\{.*)$")
FIELD_LINE: Final = re.compile(rf"^\s*({WORDS}): (\S.*)$")
PROOF_LINE: Final = re.compile(r"^\s*proof: (?:unproven|proven|overridden|broken)$")
MARGIN: Final = re.compile(r"^\s*(?:> ?)?")
UNSUPPORTED_FIELDS: Final = {
    "outcome": "outcome",
    "completion_criteria": "completion criteria",
    "agent_type": "agent type",
    "conversation_id": "conversation",
    "turn_id": "turn",
}


class ChecklistItem(NamedTuple):
    """One checklist item. `parent` is the list index of the item that depends on this one."""

    subject: str
    status: Status
    description: str
    parent: int | None
    checks: tuple[str, ...] = ()  # each as JSON
    words: tuple[tuple[str, str], ...] = ()  # of its fields: ("label", "home")


class RenderedChecklist(NamedTuple):
    text: str
    losses: list[str]  # what the checklist format cannot express


class ChecklistLine(NamedTuple):
    text: str
    item: re.Match[str] | None
    parent: int | None  # index of the item that this line belongs to


def parse(document: str) -> list[ChecklistItem]:
    """Parse a Markdown document into its checklist items, in order. Headings, prose and fenced code are ignored."""
    items: list[ChecklistItem] = []
    details: list[list[str]] = []
    for line in parse_lines(document):
        if line.item:
            items.append(ChecklistItem(line.item[3], STATUS_BY_MARK[line.item[2]], "", line.parent))
            details.append([])
        elif line.parent is None or PROOF_LINE.match(line.text):
            continue
        elif check := CHECK_LINE.match(line.text):
            item = items[line.parent]
            items[line.parent] = item._replace(checks=(*item.checks, check[1]))
        elif word := read_field(line.text):
            item = items[line.parent]
            items[line.parent] = item._replace(words=(*item.words, word))
        else:
            details[line.parent].append(MARGIN.sub("", line.text))
    return [item._replace(description="\n".join(lines)) for item, lines in zip(items, details, strict=True)]


def read_field(line: str) -> tuple[str, str] | None:
    """Return the word and the value of a field. A line with another value is part of the description."""
    match = FIELD_LINE.match(line)
    try:
        return (match[1], match[2]) if match and parse_words([(match[1], match[2])]) else None
    except Invalid:
        return None


def count_skipped_lines(document: str) -> int:
    """Count the list lines that are neither checklist items nor part of one."""
    texts = (line.text for line in parse_lines(document) if not line.item and line.parent is None)
    return sum(bool(LIST_LINE.match(text)) and not HORIZONTAL_RULE.match(text) for text in texts)


def parse_lines(document: str) -> Iterator[ChecklistLine]:
    """Yield the non-blank lines, each with the index of the item it is nested under."""
    ancestors: list[tuple[int, int]] = []  # (indent, index) of the items that enclose this line
    items = 0
    for line in strip_fenced_code(document.expandtabs(4).splitlines()):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        ancestors = [(width, index) for width, index in ancestors if width < indent]
        parsed_line = ChecklistLine(line.rstrip(), ITEM.match(line.rstrip()), ancestors[-1][1] if ancestors else None)
        if parsed_line.item:
            ancestors.append((indent, items))
            items += 1
        yield parsed_line


def strip_fenced_code(document: Iterable[str]) -> Iterator[str]:
    """Drop fenced code blocks. A fence closes with the same character, at least as long; an unclosed fence runs to the end."""
    fence = ""
    for line in document:
        if fence:
            mark = line.strip()
            if len(mark) >= len(fence) and set(mark) == {fence[0]}:
                fence = ""
        elif match := FENCE.match(line):
            fence = match[1]
        else:
            yield line


def render(todos: Iterable[Todo]) -> RenderedChecklist:
    """Render todos as a checklist, with the dependencies of each todo nested below it."""
    by_id = {todo.id: todo for todo in todos}
    dependants: dict[int, list[int]] = {}  # todo id → ids of the todos that depend on it
    for todo in by_id.values():
        for dependency in todo.depends_on:
            dependants.setdefault(dependency, []).append(todo.id)
    lines: list[str] = []
    stack = [(todo, 0) for todo in reversed(by_id.values()) if todo.id not in dependants]
    seen: set[int] = set()
    while stack:
        todo, depth = stack.pop()
        if todo.id in seen:
            continue
        seen.add(todo.id)
        margin = "  " * depth
        lines.append(f"{margin}- [{MARKS[todo.status]}] {to_one_line(todo.subject)}")
        lines += [f"{margin}  > {line}".rstrip() for line in to_lines(todo.description.rstrip())]
        lines += [f"{margin}  check: {encode_definition(check)}" for check in decode_checks(todo.checks)]
        if todo.checks:
            lines.append(f"{margin}  proof: {todo.proof}")
        lines += [f"{margin}  {word}: {value}" for word, value in list_words(todo)]
        stack += [(by_id[dependency], depth + 1) for dependency in reversed(todo.depends_on) if dependency in by_id]
    return RenderedChecklist("".join(f"{line}\n" for line in lines), describe_losses(by_id, dependants))


def encode_definition(check: Check) -> str:
    """Encode a check on one line, without its author: who imports it becomes that."""
    return json.dumps({name: value for name, value in check.items() if name != "by"}, ensure_ascii=True)


def describe_losses(by_id: dict[int, Todo], dependants: dict[int, list[int]]) -> list[str]:
    shared_todos = [todo for todo in by_id.values() if len(dependants.get(todo.id, ())) > 1]
    losses = [f"that several todos wait for #{todo.id} ({to_one_line(todo.subject)[:60]})" for todo in shared_todos]
    for field, label in UNSUPPORTED_FIELDS.items():
        count = sum(bool(getattr(todo, field)) for todo in by_id.values())
        if count:
            losses.append(f"the {label} of {count} todo{'s' if count > 1 else ''}")
    if count := sum(todo.completed_by not in (None, "person") for todo in by_id.values()):
        losses.append(f"who completed {count} todo{'s' if count > 1 else ''}, which counts as the importing person")
    if count := sum(todo.proof not in ("none", "unproven") for todo in by_id.values()):
        losses.append(f"the receipts of {count} todo{'s' if count > 1 else ''}, which are unproven when they are imported")
    return losses
