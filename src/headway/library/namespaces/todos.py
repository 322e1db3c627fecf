"""The todos of the ledger."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, Unpack

from headway.ledger.parsing.todo_fields import FIELDS
from headway.library.transport import RequestTransport, drop_none, encode_checks, join_explanation, present
from headway.values.todos import Claim, Comment, Receipt, Todo, TodoChanges, TodoDraft, TodoDraftFields, TodoFilters
from headway.values.value import Page, decode, decode_all, decode_page

ListId = int | Literal["tenant"]


class Todos:
    """Adds, lists, changes and claims todos."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def add(self, subject: str, **fields: Unpack[TodoDraftFields]) -> Todo:
        """Add a todo at the end of its list, or at a position. A conversation_id of 0 is the list of the whole tenant."""
        body = encode_fields({"subject": subject, **fields})
        return decode(Todo, (await self._transport.send("POST /todos", body=drop_none(**body)))["todo"])

    async def add_many(self, todos: Iterable[str | TodoDraft]) -> tuple[Todo, ...]:
        """Add up to 500 todos, all or none. Each is a subject or a dictionary with the arguments of `add`."""
        drafts: Any = todos  # a text or a dictionary instead of a list is refused
        if not isinstance(todos, str | Mapping):
            drafts = [drop_none(**encode_fields(todo if isinstance(todo, Mapping) else {"subject": todo})) for todo in todos]
        return decode_all(Todo, (await self._transport.send("POST /todos", body={"todos": drafts}))["todos"])

    async def get(self, todo_id: int) -> Todo:
        """Return a todo, or raise NotFound."""
        return decode(Todo, (await self._transport.send("GET /todos/{}", todo_id))["todo"])

    async def list(self, *, limit: int = 50, cursor: str | None = None, **filters: Unpack[TodoFilters]) -> Page[Todo]:
        """List todos: the ones in progress, then pending ones by position, then ended ones, the most recent first."""
        query = drop_none(**encode_filters(filters), limit=limit, cursor=cursor)
        return decode_page(Todo, await self._transport.send("GET /todos", query=query), "todos")

    async def iterate(self, **filters: Unpack[TodoFilters]) -> AsyncIterator[Todo]:
        """Iterate over all todos of a list, page by page."""
        cursor: str | None = None
        while True:
            page = await self.list(**filters, limit=500, cursor=cursor)
            for todo in page:
                yield todo
            cursor = page.next_cursor
            if not cursor:
                return

    async def ready(self, *, conversation_id: ListId | None = None, limit: int = 50) -> tuple[Todo, ...]:
        """List the todos that can start now: pending, with all dependencies ended."""
        answer = await self._transport.send("GET /todos/ready", query=drop_none(conversation_id=conversation_id, limit=limit))
        return decode_all(Todo, answer["todos"])

    async def update(
        self, todo_id: int, *, lease_token: str | None = None, force: bool = False, **changes: Unpack[TodoChanges]
    ) -> Todo:
        """Change the given fields of a todo. While an agent holds a lease on it, pass its token, or force the change."""
        return await self._change(todo_id, encode_fields(present(**changes)), lease_token, force=force)

    async def start(self, todo_id: int, *, lease_token: str | None = None, force: bool = False) -> Todo:
        """Mark a todo as in progress."""
        return await self._change(todo_id, {"status": "in_progress"}, lease_token, force=force)

    async def complete(
        self,
        todo_id: int,
        outcome: str | None = None,
        *,
        override: str | None = None,
        lease_token: str | None = None,
        force: bool = False,
    ) -> Todo:
        """Complete a todo. Its checks run first. If one fails, CheckFailed is raised; `override` says why it counts anyway."""
        fields = {"status": "completed", **drop_none(outcome=outcome, override=override)}
        return await self._change(todo_id, fields, lease_token, force=force)

    async def cancel(
        self, todo_id: int, outcome: str | None = None, *, lease_token: str | None = None, force: bool = False
    ) -> Todo:
        """Cancel a todo. `outcome` says why."""
        return await self._change(todo_id, {"status": "canceled", **drop_none(outcome=outcome)}, lease_token, force=force)

    async def reopen(self, todo_id: int) -> Todo:
        """Make an ended todo pending again."""
        return await self._change(todo_id, {"status": "pending"}, None, force=False)

    async def delete(self, todo_id: int, *, lease_token: str | None = None, force: bool = False) -> None:
        """Delete a todo for good. Todos of a turn's plan cannot be deleted, only canceled."""
        await self._transport.send("DELETE /todos/{}", todo_id, query=drop_none(lease_token=lease_token, force=force or None))

    async def claim(self, agent_id: str, *, conversation_id: int | None = None, lease_s: float = 60) -> Claim | None:
        """Lease the next ready todo to an agent, or return None if there is none. Extend the lease with `heartbeat`."""
        body = drop_none(agent_id=agent_id, conversation_id=conversation_id, lease_s=lease_s)
        answer = await self._transport.send("POST /todos/claim", body=body)
        return decode(Claim, answer) if answer else None

    async def heartbeat(self, claim: Claim, *, lease_s: float = 60) -> Claim:
        """Extend a lease. Raises LeaseLost if another agent has claimed the todo since it expired."""
        body = {"lease_token": claim.lease.token, "lease_s": lease_s}
        return decode(Claim, await self._transport.send("POST /todos/{}/heartbeat", claim.todo.id, body=body))

    async def receipts(self, todo_id: int) -> tuple[Receipt, ...]:
        """List what the checks of a todo found, newest first."""
        return decode_all(Receipt, (await self._transport.send("GET /todos/{}/receipts", todo_id))["receipts"])

    async def why(self, todo_id: int) -> str:
        """Explain how a todo got into its current state, one event per line. The last line says what would change it."""
        return join_explanation(await self._transport.send("GET /why/todo/{}", todo_id))

    async def verify(self, todo_id: int) -> Receipt:
        """Run the checks of a todo again. A completed todo whose checks do not pass becomes `broken`."""
        return decode(Receipt, (await self._transport.send("POST /todos/{}/verify", todo_id, is_slow=True))["receipt"])

    async def comment(self, todo_id: int, text: str) -> Comment:
        """Comment on a todo, under the name of the caller."""
        return decode(Comment, (await self._transport.send("POST /todos/{}/comments", todo_id, body={"text": text}))["comment"])

    async def comments(self, todo_id: int, *, limit: int = 50, cursor: str | None = None) -> Page[Comment]:
        """List the comments on a todo, oldest first."""
        query = drop_none(limit=limit, cursor=cursor)
        return decode_page(Comment, await self._transport.send("GET /todos/{}/comments", todo_id, query=query), "comments")

    async def edit_comment(self, todo_id: int, comment_id: int, text: str) -> Comment:
        """Change the text of your own comment."""
        answer = await self._transport.send("PATCH /todos/{}/comments/{}", todo_id, comment_id, body={"text": text})
        return decode(Comment, answer["comment"])

    async def delete_comment(self, todo_id: int, comment_id: int) -> None:
        """Delete a comment for good: your own, or any with the operator scope."""
        await self._transport.send("DELETE /todos/{}/comments/{}", todo_id, comment_id)

    async def _change(self, todo_id: int, fields: Mapping[str, Any], lease_token: str | None, *, force: bool) -> Todo:
        body = {**fields, **drop_none(lease_token=lease_token, force=force or None)}
        return decode(Todo, (await self._transport.send("PATCH /todos/{}", todo_id, body=body, is_slow=True))["todo"])


PARAMETERS: Final = {field.name: field.word for field in FIELDS}  # a filter has one value of a list


def encode_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Encode fields for a body: times as seconds, lists and checks as JSON has them."""
    encoded = {name: encode_value(value) for name, value in fields.items()}
    if encoded.get("checks") is not None:
        encoded["checks"] = encode_checks(encoded["checks"])
    return encoded


def encode_filters(filters: TodoFilters) -> dict[str, Any]:
    """Encode filters for a query. A parameter that is not set is left out."""
    return {PARAMETERS.get(name, name): encode_value(value) for name, value in filters.items() if value is not False}


def encode_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp())
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else value
