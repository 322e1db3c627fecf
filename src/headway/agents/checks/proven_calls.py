"""Tool calls of callers without a run. A call that would complete a todo waits for the todo's checks."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from headway.agents.checks.completion import Prover
from headway.agents.checks.runner import CheckRunner
from headway.agents.permission import find_refusal
from headway.agents.tools.execution import find_current_execution
from headway.agents.tools.external_calls import call_in_context
from headway.agents.tools.toolbox import Result, Tool, Toolbox, call_in_transaction, to_result
from headway.ledger.errors import HeadwayError, StorageError

log = logging.getLogger("headway.tools")


async def call_without_run(
    toolbox: Toolbox,
    name: str,
    arguments: dict[str, Any],
    checks: CheckRunner,
    before_checks: Callable[[], None] = lambda: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Result:
    """Call a tool for an agent that Headway does not run. The last two are those of `Prover`."""
    tool, execution = toolbox.find(name), find_current_execution()
    if execution is not None and (tool.needs_approval or execution.policy.current.rules):
        refusal = await execution.database.read(lambda tx: find_refusal(tx, tool, arguments, execution))
        if refusal:
            return to_result(tool.refuse(refusal))
    if execution is None or tool.in_transaction is None:
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
