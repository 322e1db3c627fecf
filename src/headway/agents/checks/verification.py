"""The tool that runs the checks of completed todos again, for schedules."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from headway.actions.proof import receipts
from headway.agents.checks.completion import Prover
from headway.agents.checks.runner import OPINION_STANDS, CheckRunner
from headway.agents.tools.arguments import Arguments, TodoNumber
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Tool
from headway.ledger.check import VERIFY_TODOS
from headway.ledger.errors import Halted, HeadwayError, StorageError

TODOS_LIMIT: Final = 1_000
DEFAULT_LIMIT: Final = 100
TIMEOUT_S: Final = 6 * 3600.0


class VerifyTodos(Arguments):
    ids: Annotated[tuple[TodoNumber, ...], Field(max_length=TODOS_LIMIT, description="default: those checked longest ago")] = ()
    limit: Annotated[int, Field(ge=1, le=TODOS_LIMIT)] = DEFAULT_LIMIT


def build_verification_tool(get_runner: Callable[[], CheckRunner]) -> Tool:
    """Build the tool. It is not offered to models: a schedule names it."""

    async def verify(execution: Execution, arguments: VerifyTodos) -> dict[str, Any]:
        return await verify_todos(get_runner(), execution, arguments)

    description = "Run the checks of completed todos again, and notify the operator of those that no longer pass."
    tool = Tool(VERIFY_TODOS, description, "runtime", VerifyTodos, on_event_loop=verify)
    return tool._replace(timeout_s=TIMEOUT_S, idempotent=True, is_hidden=True)


async def verify_todos(runner: CheckRunner, execution: Execution, arguments: VerifyTodos) -> dict[str, Any]:
    """Verify todos one after the other. What each found is stored before the next, so an interrupted call loses nothing."""
    tenant_id, conversation_id = execution.scope.tenant_id, execution.scope.conversation_id or None
    prover = Prover(runner, execution, VERIFY_TODOS, OPINION_STANDS)
    find = partial(receipts.list_checked_todos, tenant_id=tenant_id, limit=arguments.limit, conversation_id=conversation_id)
    ids = list(arguments.ids) or await execution.database.read(find)
    failed: list[int] = []
    skipped: list[dict[str, Any]] = []
    for todo_id in ids:
        try:
            work = partial(receipts.verify_and_notify, tenant_id=tenant_id, todo_id=todo_id)
            receipt = await prover.write(execution.database.write, work)
        except (StorageError, Halted):
            raise
        except HeadwayError as error:
            skipped.append({"id": todo_id, "reason": str(error)})
            continue
        failed += [] if receipt.ok else [todo_id]
    return {"verified": len(ids) - len(skipped), "failed": failed, "skipped": skipped}
