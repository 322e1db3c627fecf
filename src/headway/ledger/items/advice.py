"""Advice for a small model: which call an item needs next, as far as its words and the work so far show."""

import json
from collections.abc import Collection
from typing import Final

from headway.ledger.items.arithmetic import is_arithmetic
from headway.ledger.items.doubts import (
    CALCULATE_FIRST,
    EXTENDING,
    find_edit,
    find_stated_json,
    find_stated_line,
    is_calculation_for,
    wants_calculation,
)
from headway.ledger.items.request_items import (
    changes_file,
    find_setting,
    list_literals,
    list_paths,
    list_sources,
    needs_existing,
    strip_introduction,
)
from headway.ledger.items.work import MadeCall, Work, get_field, list_all_numbers

CONTENT: Final = " and the content: "


def list_targets(item: str) -> list[str]:
    """List the files that an item changes."""
    return [path for path in list_paths(item) if path not in list_sources(item)] if changes_file(item) else []


def correct_path(items: Collection[str], path: str) -> str:
    """Return the path that a small model means if it put folders before it that no item names; otherwise the same path."""
    targets = {target for item in items for target in list_targets(item)}
    if path in targets or any(path in list_paths(item) for item in items):
        return path
    meant = [target for target in targets if path.endswith(f"/{target}")]
    return meant[0] if len(meant) == 1 else path


def list_results(item: str, work: Work, calls: Collection[MadeCall]) -> list[tuple[str, str]]:
    """List the calculations for an item, each with its result."""
    made = [call for call in calls if is_calculation_for(item, call, work)]
    return [(str(call.arguments["expression"]), get_field(call.result, "result")) for call in made]


def advise_call(item: str, work: Work, calls: Collection[MadeCall], tools: Collection[str]) -> str:
    """Say which call an item needs next. Nothing for an item that does not change exactly one file."""
    targets = list_targets(item)
    if len(targets) != 1 or "write_file" not in tools:
        return ""
    [path] = targets
    results = {result for _, result in list_results(item, work, calls)}
    if not results and "calculate" in tools and needs_calculation(item, work):
        return CALCULATE_FIRST
    old, new, *_ = find_edit(item, work.contents.get(path, ""))
    if "edit_file" in tools and (old or needs_existing(item, path)):
        return f"Call edit_file with the path {path}" + (f", old {quote(old)} and new {quote(new)}." if old else ".")
    if (EXTENDING.search(item) or find_setting(item)) and path in work.contents:
        return f"Call write_file with the path {path} and its whole new content."
    result = results.pop() if len(results) == 1 else ""
    content = find_stated_json(item, path) or next(iter(list_literals(item)), "") or find_stated_line(item, path, work) or result
    return f"Call write_file with the path {path}{f'{CONTENT}{content}' if content else '.'}"


def needs_calculation(item: str, work: Work) -> bool:
    """Whether an item's words name an operation, and it or its sources have several numbers for it."""
    texts = [strip_introduction(item), *(work.contents.get(source, "") for source in list_sources(item))]
    numbers = sum(len(list_all_numbers(text)) for text in texts)
    return wants_calculation(texts[0]) and numbers > 1 and is_arithmetic(item) and not list_literals(item)


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def states_content(advice: str) -> bool:
    return CONTENT in advice
