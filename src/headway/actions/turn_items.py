"""The items of a turn's plan, whose books the runtime keeps: made from the request, and completed by what the calls show."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from headway.actions import todos, turn_plan
from headway.ledger.items.evidence import ItemFinding, judge_item
from headway.ledger.items.request_items import (
    INTRODUCTION_END,
    asks_for_words,
    list_paths,
    says_how,
    says_what_to_do,
    split_request,
)
from headway.ledger.items.work import Exists, Work
from headway.ledger.scope import Scope
from headway.ledger.text import SUBJECT_LIMIT, TEXT_LIMIT
from headway.ledger.todo import CompletedBy, Todo
from headway.storage.transaction import Transaction, act_as

RUNTIME_ACTOR: Final = "the runtime"
NO_TODO: Final = 0
PROVEN: Final = {"completed_by": "effect"}  # the data of a result that the calls of an agent prove
CUT_MARK: Final = "…"
ATTEMPTS: Final = 2  # contexts that an item has for itself
ONLY_ATTEMPTS: Final = 3  # the same for the only item of a request
BATCH: Final = 5  # items that share a context the first time
HOPELESS_CONTEXTS: Final = 5  # after so many without a success, the rest is not tried


class Item(NamedTuple):
    """One piece of work: an open item of the plan, or the whole request of a turn without a plan."""

    todo: Todo | None
    text: str
    finding: ItemFinding | None  # None: only the agent's word can tell

    @property
    def id(self) -> int:
        return self.todo.id if self.todo else NO_TODO

    @property
    def is_impossible(self) -> bool:
        return self.finding is not None and self.finding.is_impossible


# The plan


def plan_request(tx: Transaction, scope: Scope, turn_id: str, request: str) -> list[Todo]:
    """Make the plan of a turn that has none, if its request clearly has several items."""
    introduction, items = split_request(request)
    if not items:
        return []
    plan = [turn_plan.PlanItem(to_subject(text), context=to_context(introduction, text)) for text in items]
    with act_as(tx, RUNTIME_ACTOR):
        return turn_plan.create(tx, scope, turn_id, plan, source="request").todos


def to_subject(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SUBJECT_LIMIT else text[: SUBJECT_LIMIT - 1] + CUT_MARK


def to_context(introduction: str, text: str) -> str:
    """Return what an item needs beside its subject: the rest of a long text, or an introduction that says how to do it."""
    if len(text) > SUBJECT_LIMIT:
        return text
    return introduction.rstrip(":.") if says_how(introduction) or not says_what_to_do(text) else ""


def get_item_text(todo: Todo) -> str:
    if not todo.description:
        return todo.subject
    return todo.description if todo.subject.endswith(CUT_MARK) else f"{todo.description}{INTRODUCTION_END}{todo.subject}"


# What is done


def judge_plan(plan: Sequence[Todo], work: Work, exists: Exists) -> list[Item]:
    """List the open items of a plan with what is known about each."""
    texts = {todo.id: get_item_text(todo) for todo in plan if todo.status != "canceled"}
    named = Counter(path for text in texts.values() for path in list_paths(text))
    shared = {path for path, count in named.items() if count > 1}
    return [Item(todo, texts[todo.id], judge_item(texts[todo.id], work, exists, shared)) for todo in plan if not todo.ended]


def settle(tx: Transaction, tenant_id: int, items: Iterable[Item], focus: Sequence[int] = (), answer: str = "") -> list[Item]:
    """Complete the items that the calls prove, and with an answer also those in focus that only words complete.

    An item with checks is left to them. Returns the open items.
    """
    open_items = []
    for item in items:
        is_done = item.finding.is_done if item.finding else bool(answer) and (not focus or item.id in focus)
        needs_words = item.finding is not None and asks_for_words(item.text) and not answer
        has_checks = item.todo is not None and bool(item.todo.checks)
        if is_done and not needs_words and not has_checks:
            complete(tx, tenant_id, item, item.finding.reason if item.finding else answer)
        else:
            open_items.append(item)
    return open_items


def complete(tx: Transaction, tenant_id: int, item: Item, outcome: str) -> None:
    if item.todo:
        completed_by: CompletedBy = "effect" if item.finding else "agent"
        with act_as(tx, RUNTIME_ACTOR):
            todos.end(tx, tenant_id, item.todo.id, "completed", outcome[:TEXT_LIMIT], completed_by=completed_by)


# What is next


def choose_next(items: Sequence[Item], contexts: Sequence[Sequence[int]], *, in_batches: bool = True) -> list[Item]:
    """Choose the open items for the next context; none if nothing can succeed any more.

    `contexts` has the ids of the items of each context so far. In batches, items that were not tried yet share a context. Those
    that are still open afterwards get one each.
    """
    tried = {item_id for context in contexts for item_id in context}
    alone = Counter(context[0] for context in contexts if len(context) == 1)
    left = [item for item in items if alone[item.id] < (ATTEMPTS if item.todo else ONLY_ATTEMPTS) and not item.is_impossible]
    fresh = [item for item in left if item.id not in tried]
    if len(contexts) >= HOPELESS_CONTEXTS and tried <= {item.id for item in items}:
        return []
    return (fresh[:BATCH] if in_batches else fresh[:1]) or left[:1]
