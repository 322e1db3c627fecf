"""An agent in a turn of a conversation. It calls tools by name, as the runtime does."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.actions.todos import conversations
from headway.agents.instructions import roles
from headway.agents.tools import catalogue
from headway.agents.tools.execution import Execution, use_execution
from headway.agents.tools.external_calls import call_in_context
from headway.agents.tools.toolbox import Result
from headway.ledger.scope import Scope
from headway.ledger.todo import Todo
from headway.storage.database import Database
from headway.storage.direct import ignore_commit
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import CommitListener
from headway.testing import FixedClock, TenantHarness

PAIR = ["todos_updated", "todos_current"]


class Agent:
    """Calls tools in its own turn. `desk` is the same tenant's harness: tests use it to set up and inspect rows."""

    def __init__(self, desk: TenantHarness, database: Database, task_folder: Path, role: str = "index") -> None:
        self.desk = desk
        self.database = database
        self.task_folder = task_folder
        self.role = roles.Roles().find(role)
        self.conversation = desk.conversation()
        self.turn_id: str = desk.write(conversations.open_turn, self.conversation.id).id

    @property
    def execution(self) -> Execution:
        scope = Scope(self.desk.tenant.id, self.conversation.id, self.turn_id, "ada")
        return Execution(self.database.of(scope.tenant_id), str(self.task_folder), scope, self.role, self.conversation.uuid)

    def call(self, tool: str, arguments: dict[str, Any], execution: Execution | None = None) -> Result:
        async def call_tool() -> Result:
            with use_execution(execution or self.execution):
                return await call_in_context(catalogue.build_toolbox(), tool, arguments)

        return asyncio.run(call_tool())

    def __call__(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a call that must succeed."""
        result = self.call(tool, arguments)
        assert not result.is_error, result
        return result.value

    def refused(self, tool: str, **arguments: Any) -> str:
        """Return the error of a call that must be refused. The plan and ledger tools return it as {"error": …}."""
        result = self.call(tool, arguments)
        assert result.is_error, result
        assert set(result.value) == {"error"}
        return str(result.value["error"])

    def another(self, desk: TenantHarness | None = None, role: str = "index") -> "Agent":
        """Return an agent in another conversation. It has the same tenant unless `desk` belongs to another one."""
        return Agent(desk or self.desk, self.database, self.task_folder, role)

    def plan(self, *titles: str) -> list[str]:
        """Add these items to the plan and return their ids."""
        return [item["id"] for item in self("create_todo", items=[{"title": title} for title in titles])["created"]]

    def rows(self) -> list[Todo]:
        """Return the turn's rows as stored in the ledger."""
        return self.desk.read(todo_store.list_by_turn, self.turn_id)

    def row(self, title: str) -> Todo:
        (match,) = (row for row in self.rows() if row.subject == title)
        return match

    def titles(self, status: str = "all") -> list[str]:
        return [item["title"] for item in self("list_todo", status=status)["items"]]

    def kinds(self) -> list[str]:
        """Return the kinds of the tenant's events, in order."""
        return [kind for kind, _ in self.desk.events()]


@contextmanager
def open_agent(
    desk: TenantHarness, url: str, folder: Path, clock: FixedClock, on_commit: CommitListener = ignore_commit
) -> Iterator[Agent]:
    database = Database(url, clock, on_commit)
    try:
        yield Agent(desk, database, folder / "tasks")
    finally:
        database.close()
