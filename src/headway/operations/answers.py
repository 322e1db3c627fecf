"""What operations answer: objects whose members are values."""

from typing import Any, NamedTuple

from pydantic import BaseModel


class Answer(NamedTuple):
    """A JSON object. It has a name in the OpenAPI document, where generated clients take the names of their types from."""

    name: str
    members: dict[str, Any]  # their types


class Choice(NamedTuple):
    """One of several answers, depending on the request."""

    name: str
    options: tuple[Answer, ...]


Shape = type[BaseModel] | Answer | Choice


def one(member: str, kind: type) -> Answer:
    """Declare an answer with one value: {"todo": {…}}, called OneTodo."""
    return Answer(f"One{kind.__name__}", {member: kind})


def many(member: str, kind: type, **more: Any) -> Answer:
    """Declare an answer with a list: {"todos": […]}, called ManyTodos."""
    return Answer(f"Many{member.capitalize()}", {member: list[kind], **more})  # type: ignore[valid-type]


def page(member: str, kind: type, **more: Any) -> Answer:
    """Declare an answer with a part of a list, and the cursor of the next part."""
    return many(member, kind, next_cursor=str | None, **more)
