"""Send chat requests as they were built. Imported only with a model that uses OpenAI's library, because that takes a second."""

from collections.abc import Iterable, Mapping
from typing import Any

from openai import AsyncOpenAI, Omit, omit
from openai.resources.chat.completions import AsyncCompletions


class PlainCompletions(AsyncCompletions):
    """Passes messages and tools as extra fields of the body, which the library leaves alone.

    It would otherwise compare every field of every message with each type that a message can have, to rename fields that have
    another name in JSON. Types of messages and tools have none, and a request of 60 steps took 50 ms, without other work meanwhile.
    """

    async def create(  # type: ignore[override]  # the remaining parameters are passed on
        self,
        *,
        messages: Iterable[Any],
        tools: Iterable[Any] | Omit = omit,
        extra_body: Mapping[str, object] | None = None,
        **others: Any,
    ) -> Any:
        body: dict[str, object] = {"messages": messages}
        if not isinstance(tools, Omit):
            body["tools"] = tools
            others["tools"] = []  # keeps their place in the body
        return await super().create(messages=[], extra_body={**body, **(extra_body or {})}, **others)


def send_plain_requests(client: object) -> None:
    """Have this client send chat requests as they were built, once each: a client that retries would be copied per request."""
    if isinstance(client, AsyncOpenAI):
        client.max_retries = 0
        client.chat.completions = PlainCompletions(client)  # type: ignore[misc]  # a cached property, which can be set
