"""Tools for loops that are not ours: calls without a run, whose todos need proof, and the plan of a turn around them."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from headway.actions.todos import conversations
from headway.actions.turns import plan as plan_turn
from headway.actions.turns.plan import Item
from headway.agents.checks.completion import Prover
from headway.agents.checks.runner import CheckRunner
from headway.agents.instructions.roles import REMOTE_FAMILIES, ToolFamily
from headway.agents.permission import find_refusal
from headway.agents.tools.execution import Execution, ResolvedScope, find_current_execution, resolve_scope, use_execution
from headway.agents.tools.external_calls import call_in_context
from headway.agents.tools.plan import get_turn_id
from headway.agents.tools.toolbox import Result, Tool, Toolbox, call_in_transaction, to_result
from headway.ledger.errors import HeadwayError, NotFound, StorageError
from headway.ledger.items.request_items import list_sources
from headway.ledger.items.work import MadeCall, collect_work
from headway.ledger.scope import Scope
from headway.ledger.todo import Todo
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.tools")


async def call_without_run(
    toolbox: Toolbox,
    name: str,
    arguments: dict[str, Any],
    checks: CheckRunner,
    before_checks: Callable[[], None] = lambda: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Result:
    """Call a tool for an agent that Headway does not run. `Prover` describes the last two."""
    tool, execution = toolbox.find(name), find_current_execution()
    if execution is not None and (tool.needs_approval or execution.policy.current.rules):
        refusal = await execution.database.read(lambda tx: find_refusal(tx, tool, arguments, execution))
        if refusal:
            return to_result(tool.refuse(refusal))
    if execution is None or not tool.changes_ledger:
        return await call_in_context(toolbox, name, arguments)
    prover = Prover(checks, execution, execution.scope.agent_id, before_checks=before_checks, is_stopping=is_stopping)
    return await call_with_proof(prover, tool, arguments)


async def call_with_proof(prover: Prover, tool: Tool, arguments: dict[str, Any]) -> Result:
    """Call a ledger tool. If it would complete a todo that has checks, these run first. Every failure becomes a result."""
    execution = prover.execution
    try:
        return await prover.write(execution.database.write, partial(call_in_transaction, tool, arguments, execution))
    except StorageError as error:
        log.warning("tool %s: %s", tool.name, error)
        return to_result(tool.refuse(str(error)))
    except HeadwayError as error:  # its checks may not run here
        return to_result(tool.refuse(str(error)))


# Tools for an agent loop that is not ours. The scope of its calls is fixed here, so that a model cannot change it.


# The other families need a run that Headway drives: to wait for sub-agents, report outcomes or pursue goals.
ALLOWED_FAMILIES: Final[tuple[ToolFamily, ...]] = (*REMOTE_FAMILIES, "builtin", "own")
DEFAULT_FAMILIES: Final = ("turn_plan", "ledger")  # the plan of the turn, and the todos that outlive it


def resolve_loop_scope(tx: Transaction, scope: Scope, conversation: int | str | None) -> ResolvedScope:
    """Find the conversation and the turn in which a loop works. Without a turn, a new one is opened."""
    if scope.turn_id is None or conversation is not None:
        scope = scope._replace(conversation_id=conversations.ensure(tx, scope.tenant_id, conversation).id)
    if scope.turn_id is None:
        scope = scope._replace(turn_id=conversations.open_turn(tx, scope.tenant_id, scope.conversation_id).id)
    return resolve_scope(tx, scope)


class ExternalLoop(NamedTuple):
    available: Toolbox
    execution: Execution
    toolbox: Toolbox
    checks: CheckRunner

    @classmethod
    def of(cls, toolbox: Toolbox, execution: Execution, checks: CheckRunner) -> "ExternalLoop":
        within_reach = toolbox.only(ALLOWED_FAMILIES)
        return cls(within_reach, execution, within_reach, checks).only(*DEFAULT_FAMILIES)

    def only(self, *names: str) -> "ExternalLoop":
        """Return a copy that offers only these families or tools, as far as the role grants them."""
        tools = self.available.tools.values()
        known = {*ALLOWED_FAMILIES, *self.available.tools}
        if unknown := [name for name in names if name not in known]:
            raise NotFound(f"No tool or family of tools is named {unknown[0][:80]!r}. Families: {', '.join(ALLOWED_FAMILIES)}.")
        requested_tools = [tool for tool in tools if tool.name in names or (tool.family in names and not tool.is_hidden)]
        granted = [tool for tool in requested_tools if self.execution.role.grants(tool.family, tool.name)]
        return self._replace(toolbox=Toolbox(granted))

    @property
    def tools(self) -> list[Tool]:
        return list(self.toolbox.tools.values())

    @property
    def turn_id(self) -> str:
        return get_turn_id(self.execution)

    @property
    def conversation_id(self) -> int:
        return self.execution.scope.conversation_id

    async def call(self, name: str, arguments: dict[str, Any]) -> Result:
        """Call a tool. Any failure is returned as a result with `is_error` set, also of a name that no tool has."""
        with use_execution(self.execution):
            try:
                return await call_without_run(self.toolbox, name, arguments, self.checks)
            except NotFound as error:
                return to_result({"error": str(error)})

    async def plan(self) -> list[Todo]:
        find = partial(todo_store.list_by_turn, tenant_id=self.execution.scope.tenant_id, turn_id=self.turn_id)
        return await self.execution.database.read(find)

    async def plan_request(self, request: str) -> list[Todo]:
        """Make the plan from the request, if it clearly has several items. The model then needs no planning tool."""
        scope = self.execution.scope
        work = partial(plan_turn.plan_request, scope=scope, turn_id=self.turn_id, request=request)
        return await self.execution.database.write(work)

    async def settle(self, calls: Sequence[MadeCall], focus: Sequence[int] = (), answer: str = "") -> list[Item]:
        """Complete the items of the plan that the agent's calls prove, and return the open ones.

        With an `answer`, items in `focus` (without: all) that change no file are completed on the agent's word. Files that
        an item takes something from are believed to exist until a call fails for one.
        """
        work = collect_work(calls)
        tenant_id = self.execution.scope.tenant_id

        def apply(tx: Transaction) -> list[Item]:
            plan = todo_store.list_by_turn(tx, tenant_id, self.turn_id)
            sources = {path for todo in plan for path in list_sources(plan_turn.get_item_text(todo))}
            existing = work.read | (sources - work.failed.keys())
            items = plan_turn.judge_plan(plan, work, existing.__contains__)
            return plan_turn.settle_item(tx, tenant_id, items, focus, answer)

        return await self.execution.database.write(apply)

    async def unfinished(self) -> list[str]:
        """List the plan's open items. If an agent answers while there are any, send the list back to it."""
        return [todo.subject for todo in await self.plan() if not todo.ended]

    async def reminders(self, at_most: int = 10) -> AsyncIterator[str]:
        """Yield what to send back to an agent that has answered, as long as the plan has open items."""
        for _ in range(at_most):
            if not (unfinished := await self.unfinished()):
                return
            yield f"Not finished. These steps are still open: {', '.join(unfinished)}. Do them, or cancel them."
