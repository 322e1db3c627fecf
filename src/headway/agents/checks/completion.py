"""Completes todos by their checks for callers without a run, and runs the checks of completed todos again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import Field

from headway.actions.installation import halts
from headway.actions.todos import proof, todo_checks, todos
from headway.agents.checks.rulings import NO_SANDBOX_REASON, CheckCaller, describe_refusal, rule_on_checks
from headway.agents.checks.runner import OPINION_STANDS, CheckRunner, CheckSubject, has_command
from headway.agents.tools.arguments import Arguments, TodoNumber
from headway.agents.tools.execution import Execution
from headway.agents.tools.programs.sandbox import probe
from headway.agents.tools.toolbox import OnEventLoop, Tool
from headway.ledger.check import VERIFY_TODOS, Check, Receipt, ReceiptDraft, decode_checks, describe_check
from headway.ledger.errors import (
    CheckFailed,
    ChecksRequired,
    Closed,
    Conflict,
    Forbidden,
    Halted,
    HeadwayError,
    Invalid,
    StorageError,
)
from headway.ledger.todo import Todo
from headway.storage.transaction import Transaction, Work

T = TypeVar("T")

ATTEMPTS_LIMIT: Final = 3  # runs of one todo's checks in one request: they run again if they are edited meanwhile
STOP_POLL_S: Final = 0.2
STOP_MESSAGE: Final = "The server is stopping and has interrupted the checks. Nothing was changed. Try again."
NOT_CONFIRMED: Final = (
    "The check {!r} would run a command outside a sandbox. Install bubblewrap on the machine that runs Headway, or complete the "
    "todo there with `headway todo done`, which asks first."
)


class Prover(NamedTuple):
    """Runs the checks of todos in the name of one caller."""

    runner: CheckRunner
    execution: Execution
    made_by: str
    no_judge: str = ""  # why checks pass that ask a model for its opinion, which is not asked here; empty: they fail
    before_checks: Callable[[], None] = lambda: None  # called before checks run, which can take minutes
    is_stopping: Callable[[], bool] = lambda: False  # whether the process is about to end, so that checks are interrupted
    is_operator: bool = False  # the caller approves checks by running them, so only what the policy denies is refused
    # Asks a person whether the commands of these checks may run outside a sandbox.
    may_leave_sandbox: Callable[[Sequence[Check]], bool] = lambda _checks: False

    async def write(self, write: Callable[[Work[T]], Awaitable[T]], work: Work[T], refusals: dict[int, str] | None = None) -> T:
        """Run work that may complete or verify todos. The checks of each run first, and their receipt is stored with the change.

        Raises CheckFailed if one does not pass; then only the receipt is stored. With `refusals`, it notes there why the checks of
        a todo may not run, and runs the work again; otherwise it raises that.
        """
        drafts: dict[int, ReceiptDraft] = {}
        attempts: dict[int, int] = {}
        tenant_id = self.execution.scope.tenant_id

        def work_with_receipts(tx: Transaction) -> T:
            tx.enter_tenant(tenant_id)
            tx.actor = tx.actor or self.made_by
            proof.store_receipts(tx, tenant_id, list(drafts.values()))
            return work(tx)

        while True:
            try:
                return await write(work_with_receipts if drafts else work)
            except ChecksRequired as required:
                todo_id = required.todo_id
                attempts[todo_id] = attempts.get(todo_id, 0) + 1
                if attempts[todo_id] > ATTEMPTS_LIMIT:
                    raise Conflict(
                        f"The checks of todo {todo_id} changed while they ran. Nothing was changed. Try again."
                    ) from None
                try:
                    drafts[todo_id] = await self.check(todo_id, required.outcome)
                except StorageError:
                    raise
                except HeadwayError as error:
                    if refusals is None:
                        raise
                    refusals[todo_id] = str(error)
            except CheckFailed:
                await self.execution.database.write(
                    partial(proof.store_receipts, tenant_id=tenant_id, drafts=list(drafts.values()))
                )
                raise

    async def verify(self, todo_id: int) -> Receipt:
        """Run the checks of a todo again, and store what they found."""
        tenant_id = self.execution.scope.tenant_id
        return await self.write(self.execution.database.write, lambda tx: proof.verify(tx, tenant_id, todo_id))

    async def check(self, todo_id: int, outcome: str | None) -> ReceiptDraft:
        """Run the checks of a todo. Raises Halted, Forbidden if the caller may not run them, or Invalid if a command would leave
        the sandbox without a person's consent."""
        read = self.execution.database.read
        todo = await read(partial(self.find, todo_id=todo_id))
        checks = decode_checks(todo.checks)
        if has_command(checks):
            await asyncio.to_thread(probe)  # starts a process, which the event loop must not wait for
        ruling = await read(lambda tx: rule_on_checks(tx, self.runner, checks, CheckCaller(self.execution)))
        if ruling.decision == "deny" or (ruling.decision == "ask" and not self.is_operator and ruling.why != NO_SANDBOX_REASON):
            raise Forbidden(f"Todo {todo_id} was not changed: {describe_refusal(ruling, checks)}")
        if self.runner.needs_approval(checks) and not self.may_leave_sandbox(checks):
            command = next(check for check in checks if check["kind"] == "command")
            raise Invalid(NOT_CONFIRMED.format(describe_check(command)))
        self.before_checks()
        subject = CheckSubject("todo", todo.id, todo.subject, checks, outcome, self.no_judge)
        running = asyncio.ensure_future(self.runner.run(subject, self.execution, self.made_by))
        try:
            while not (await asyncio.wait([running], timeout=STOP_POLL_S))[0]:
                if self.is_stopping():
                    raise Closed(STOP_MESSAGE)
            return running.result().receipt
        finally:
            running.cancel()

    def find(self, tx: Transaction, todo_id: int) -> Todo:
        halts.check(tx)
        return todos.get_todo(tx, self.execution.scope.tenant_id, todo_id)


# The tool that runs the checks of completed todos again, for schedules.


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

    description = "Run the checks of completed todos again, and notify the operator of todos that no longer pass."
    tool = Tool(VERIFY_TODOS, description, "runtime", VerifyTodos, OnEventLoop(verify))
    return tool._replace(timeout_s=TIMEOUT_S, idempotent=True, is_hidden=True)


async def verify_todos(runner: CheckRunner, execution: Execution, arguments: VerifyTodos) -> dict[str, Any]:
    """Verify todos one after the other. Each receipt is stored before the next todo, so an interrupted call loses nothing."""
    tenant_id, conversation_id = execution.scope.tenant_id, execution.scope.conversation_id or None
    prover = Prover(runner, execution, VERIFY_TODOS, OPINION_STANDS)
    find = partial(proof.list_checked_todos, tenant_id=tenant_id, limit=arguments.limit, conversation_id=conversation_id)
    ids = list(arguments.ids) or await execution.database.read(find)
    failed: list[int] = []
    skipped: list[dict[str, Any]] = []
    for todo_id in ids:
        try:
            work = partial(todo_checks.verify_and_notify, tenant_id=tenant_id, todo_id=todo_id)
            receipt = await prover.write(execution.database.write, work)
        except (StorageError, Halted):
            raise
        except HeadwayError as error:
            skipped.append({"id": todo_id, "reason": str(error)})
            continue
        failed += [] if receipt.ok else [todo_id]
    return {"verified": len(ids) - len(skipped), "failed": failed, "skipped": skipped}
