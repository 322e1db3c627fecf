"""The routes of the OpenAPI document, so that tests over all routes cover future ones too."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import httpx

T = TypeVar("T")
METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")


class Operation(NamedTuple):
    method: str
    path: str
    definition: dict[str, Any]

    @property
    def takes_body(self) -> bool:
        return "requestBody" in self.definition

    @property
    def streams(self) -> bool:
        return "text/event-stream" in self.definition["responses"].get("200", {}).get("content", {})

    def at(self, value: object = 1) -> str:
        """Return the path with this value for every parameter."""
        return re.sub(r"\{.*?\}", str(value), self.path)


def spread(operations: Iterable[Operation], values: Sequence[T]) -> Iterator[tuple[Operation, T]]:
    """Pair the first operation with all values, and each of the others with one, in turns. What is common to all operations is
    tried with all values, and each operation is seen to take part in it."""
    for place, operation in enumerate(operations):
        for value in values if place == 0 else [values[place % len(values)]]:
            yield operation, value


def get_document(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/openapi.json")
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def list_operations(client: httpx.Client) -> list[Operation]:
    operations = [
        Operation(method.upper(), path, definition)
        for path, methods in get_document(client)["paths"].items()
        for method, definition in methods.items()
        if method.upper() in METHODS
    ]
    assert len(operations) > 15
    return operations
