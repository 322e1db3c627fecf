"""Digests of a plan, by which it is noticed that the plan has changed."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from headway.ledger.todo import Todo


class PlanDigest(NamedTuple):
    """Digests of a plan: they change with everything that an agent is shown of it."""

    plan: str
    items: dict[str, str]  # by the item's number


def compute_plan_digest(plan: Sequence[Todo]) -> PlanDigest:
    items = {str(todo.id): digest_item(todo) for todo in plan}
    return PlanDigest(digest(items), items)


def digest_item(todo: Todo) -> str:
    return digest((todo.id, todo.status, todo.subject, todo.description, todo.completion_criteria, todo.outcome))


def digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=8).hexdigest()
