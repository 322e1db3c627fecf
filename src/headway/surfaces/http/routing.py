"""The routes of the web application, with what the OpenAPI document says of them."""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]
HandlerT = TypeVar("HandlerT", bound=Handler)
CONVERTOR: Final = re.compile(r":\w+(?=\})")


class HttpRoute(NamedTuple):
    method: str
    path: str  # with Starlette's convertors
    handler: Handler
    tag: str  # groups it in the OpenAPI document; empty: it is not in the document
    summary: str
    documentation: dict[str, Any]  # from `document_route`

    @property
    def documented_path(self) -> str:
        return CONVERTOR.sub("", self.path)

    def describe(self) -> dict[str, Any]:
        """Return its part of the document. It has the name of the function that handles it: generated clients have functions with
        these names."""
        description = inspect.getdoc(self.handler)
        responses = {str(status): response for status, response in self.documentation["responses"].items()}
        return {
            "tags": [self.tag],
            "summary": self.summary,
            **({"description": description} if description else {}),
            "operationId": self.handler.__name__,
            **self.documentation,
            "responses": responses,
        }


class HttpRoutes:
    """The routes of one module. Without a tag, they are not in the OpenAPI document."""

    def __init__(self, prefix: str = "", tag: str = "") -> None:
        self.prefix = prefix
        self.tag = tag
        self.routes: list[HttpRoute] = []

    def add(self, method: str, path: str, handler: Handler, summary: str = "", **documentation: Any) -> None:
        self.routes.append(HttpRoute(method, self.prefix + path, handler, self.tag, summary, documentation))

    def get(self, path: str, summary: str = "", **documentation: Any) -> Callable[[HandlerT], HandlerT]:
        return self._declare("GET", path, summary, documentation)

    def post(self, path: str, summary: str = "", **documentation: Any) -> Callable[[HandlerT], HandlerT]:
        return self._declare("POST", path, summary, documentation)

    def patch(self, path: str, summary: str = "", **documentation: Any) -> Callable[[HandlerT], HandlerT]:
        return self._declare("PATCH", path, summary, documentation)

    def delete(self, path: str, summary: str = "", **documentation: Any) -> Callable[[HandlerT], HandlerT]:
        return self._declare("DELETE", path, summary, documentation)

    def _declare(self, method: str, path: str, summary: str, documentation: dict[str, Any]) -> Callable[[HandlerT], HandlerT]:
        def declare(handler: HandlerT) -> HandlerT:
            self.add(method, path, handler, summary, **documentation)
            return handler

        return declare
