"""A loop of somebody else's with our tools in its hands: where its calls belong is said once, here, and never by a model."""

from functools import partial
from typing import Any, Final, NamedTuple

from headway.agents.roles import REMOTE_FAMILIES, ToolFamily
from headway.agents.tools.execution import Execution, use_execution
from headway.agents.tools.plan import get_turn_id
from headway.agents.tools.toolbox import Result, Tool, Toolbox
from headway.ledger.errors import NotFound
from headway.ledger.todo import Todo
from headway.storage.stores import todos as todo_store

# The rest belongs to agents that we drive ourselves: their runs wait for sub-agents, report outcomes, pursue goals.
ALLOWED_FAMILIES: Final[tuple[ToolFamily, ...]] = (*REMOTE_FAMILIES, "builtin", "own")
DEFAULT_FAMILIES: Final = ("turn_plan", "tasks", "ledger")  # one way to plan, and the lists


class ExternalLoop(NamedTuple):
    available: Toolbox
    execution: Execution
    chosen: Toolbox

    @classmethod
    def of(cls, toolbox: Toolbox, execution: Execution) -> "ExternalLoop":
        within_reach = toolbox.only(ALLOWED_FAMILIES)
        return cls(within_reach, execution, within_reach).only(*DEFAULT_FAMILIES)

    def only(self, *names: str) -> "ExternalLoop":
        """The same with these families or single tools, as far as the role grants them."""
        tools = self.available.tools.values()
        known = {*ALLOWED_FAMILIES, *self.available.tools}
        if unknown := [name for name in names if name not in known]:
            raise NotFound(f"No family of tools and no tool is named {unknown[0][:80]!r}. Families: {', '.join(ALLOWED_FAMILIES)}.")
        wanted = [tool for tool in tools if tool.name in names or (tool.family in names and not tool.is_hidden)]
        granted = [tool for tool in wanted if self.execution.role.grants(tool.family, tool.name)]
        return self._replace(chosen=Toolbox(granted))

    @property
    def tools(self) -> list[Tool]:
        return list(self.chosen.tools.values())

    @property
    def turn_id(self) -> str:
        return get_turn_id(self.execution)

    @property
    def conversation_id(self) -> int:
        return self.execution.scope.conversation_id

    async def call(self, name: str, arguments: dict[str, Any]) -> Result:
        """What the tool says. Whatever goes wrong in it is a result, with `is_error`."""
        with use_execution(self.execution):
            return await self.chosen.call(name, arguments)

    async def plan(self) -> list[Todo]:
        find = partial(todo_store.list_by_turn, tenant_id=self.execution.scope.tenant_id, turn_id=self.turn_id)
        return await self.execution.database.read(find)

    async def unfinished(self) -> list[str]:
        """What the plan still has open. An agent that answers meanwhile is not done: send this back to it."""
        return [todo.subject for todo in await self.plan() if not todo.ended]
