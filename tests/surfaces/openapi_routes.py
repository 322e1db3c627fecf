"""The routes of the OpenAPI document, so that tests over all routes cover future ones too."""

import re
from typing import Any, NamedTuple

import httpx

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
