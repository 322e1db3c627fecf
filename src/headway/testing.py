"""Test doubles and builders, for Headway's own tests and for yours."""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headway.actions.access import local_tenant
from headway.actions.installation import tenants
from headway.actions.todos import conversations, todo_lists, todos
from headway.ledger.scope import Selection
from headway.ledger.tenancy import LOCAL_TENANT, Conversation, Tenant
from headway.ledger.todo import Change, Draft, Todo
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction, within_tenant

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

    from headway.process.assembly import Headway

T = TypeVar("T")


class FixedClock:
    """A clock that moves only when advanced. Counts milliseconds, like the ledger."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


class TenantHarness:
    """A database with one tenant, and shorthands for the actions that tests need."""

    def __init__(self, database: DirectDatabase, tenant: str = "acme") -> None:
        self.database = database
        create = local_tenant.ensure_local if tenant == LOCAL_TENANT else partial(tenants.add_tenant, name=tenant)
        self.tenant: Tenant = database.write(create)

    def write(self, action: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run an action as this tenant."""
        return self.database.write(within_tenant(self.tenant.id, lambda tx: action(tx, self.tenant.id, *args, **options)))

    def read(self, view: Callable[..., T], *args: Any, **options: Any) -> T:
        return self.database.read(within_tenant(self.tenant.id, lambda tx: view(tx, self.tenant.id, *args, **options)))

    def add(self, subject: str = "write it down", **fields: Any) -> Todo:
        return self.write(todos.add_todo, Draft(subject, **fields))

    def change(self, todo: Todo, **fields: Any) -> Todo:
        return self.write(todos.change_todo, todo.id, Change(**fields))

    def get(self, todo: Todo) -> Todo:
        return self.read(todos.get_todo, todo.id)

    def conversation(self, **fields: Any) -> Conversation:
        return self.write(conversations.add_conversation, **fields)

    def subjects(self, selection: Selection | None = None) -> list[str]:
        """Return the subjects of all todos of a list, page by page."""
        page = self.read(todo_lists.list_todos, selection or Selection(), 500)
        todos = page.todos
        while page.next_cursor:
            page = self.read(todo_lists.list_todos, selection or Selection(), 500, page.next_cursor)
            todos += page.todos
        return [todo.subject for todo in todos]

    def events(self) -> list[tuple[str, str]]:
        """Return the tenant's events as (kind, data), in order."""

        def log(tx: Transaction) -> list[tuple[str, str]]:
            rows = tx.all("SELECT kind, data FROM events WHERE tenant_id = ? ORDER BY seq", self.tenant.id)
            return [(str(kind), str(data)) for kind, data in rows]

        return self.database.read(log)

    def changes(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the todo_changed events as (change, todo), in order, with the todo decoded from JSON."""
        changes = [json.loads(data) for kind, data in self.events() if kind == "todo_changed"]
        return [(change["change"], change["todo"]) for change in changes]

    def count(self, table: str) -> int:
        """Count the tenant's rows in a table."""
        row = self.database.read(lambda tx: tx.one(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = ?", self.tenant.id))
        return int(row[0]) if row else 0


def scripted_model(script: "list[ModelResponse] | Callable[[list[ModelMessage]], ModelResponse]") -> "Model":
    """Build a model with scripted answers: a list of responses, or a function from the messages to a response."""
    from pydantic_ai.exceptions import UserError  # noqa: PLC0415  the model layer takes a second to import

    from headway.agents.models.local import LocalModel  # noqa: PLC0415

    given = 0

    def answer(messages: "list[ModelMessage]", _parameters: "ModelRequestParameters") -> "ModelResponse":
        nonlocal given
        if not isinstance(script, list):
            return script(messages)
        given += 1
        if given > len(script):
            raise UserError(f"Its script has {len(script)} answers, and this is request {given}. Add an answer to the script.")
        return script[given - 1]

    return LocalModel("scripted", answer)


@asynccontextmanager
async def temporary_headway(
    home: Path, model: "Model | None" = None, tools: Iterable[Callable[..., Any]] = (), **options: str
) -> "AsyncIterator[Headway]":
    """Run a complete Headway for the duration of the block. Without a model it uses the rehearsal model; `options` are settings."""
    from headway.process.assembly import Headway  # noqa: PLC0415

    name = "test:scripted" if model else "rehearsal"
    models = {name: model} if model else None
    settings: dict[str, Any] = {"model": name, **options}
    async with Headway.open(tools=tools, models=models, alone=True, home=home, **settings) as headway:
        yield headway
