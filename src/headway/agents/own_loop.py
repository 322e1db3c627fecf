"""A loop of somebody else's with our tools in its hands: where its calls belong is said once, here, and never by a model."""

from functools import partial
from typing import Any, Final, NamedTuple

from headway.agents.execution import Execution, executing
from headway.agents.plan_tools import turn_of
from headway.agents.roles import HANDS, Family
from headway.agents.toolbox import Result, Tool, Toolbox
from headway.ledger.errors import NotFound
from headway.ledger.todo import Todo
from headway.storage import todo_store

# The rest belongs to agents that we drive ourselves: their runs wait for sub-agents, report outcomes, pursue goals.
WITHIN_REACH: Final[tuple[Family, ...]] = (*HANDS, "builtin", "own")
FIRST: Final = ("turn_plan", "tasks", "ledger")  # one way to plan, and the lists


class OwnLoop(NamedTuple):
    within_reach: Toolbox
    execution: Execution
    chosen: Toolbox

    @classmethod
    def of(cls, toolbox: Toolbox, execution: Execution) -> "OwnLoop":
        within_reach = toolbox.only(WITHIN_REACH)
        return cls(within_reach, execution, within_reach).only(*FIRST)

    def only(self, *names: str) -> "OwnLoop":
        """The same with these families or single tools, as far as the role grants them."""
        tools = self.within_reach.tools.values()
        known = {*WITHIN_REACH, *self.within_reach.tools}
        if unknown := [name for name in names if name not in known]:
            raise NotFound(f"No family of tools and no tool is named {unknown[0][:80]!r}. Families: {', '.join(WITHIN_REACH)}.")
        wanted = [tool for tool in tools if tool.name in names or (tool.family in names and not tool.borrowed)]
        granted = [tool for tool in wanted if self.execution.role.grants(tool.family, tool.name)]
        return self._replace(chosen=Toolbox(granted))

    @property
    def tools(self) -> list[Tool]:
        return list(self.chosen.tools.values())

    @property
    def turn_id(self) -> str:
        return turn_of(self.execution)

    @property
    def conversation_id(self) -> int:
        return self.execution.scope.conversation_id

    async def call(self, name: str, arguments: dict[str, Any]) -> Result:
        """What the tool says. Whatever goes wrong in it is a result, with `is_error`."""
        with executing(self.execution):
            return await self.chosen.call(name, arguments)

    async def plan(self) -> list[Todo]:
        find = partial(todo_store.of_turn, tenant_id=self.execution.scope.tenant_id, turn_id=self.turn_id)
        return await self.execution.database.read(find)

    async def unfinished(self) -> list[str]:
        """What the plan still has open. An agent that answers meanwhile is not done: send this back to it."""
        return [todo.subject for todo in await self.plan() if not todo.ended]
