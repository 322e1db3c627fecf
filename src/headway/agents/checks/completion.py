"""Completes todos that have checks, for callers without a run: people, and agents that Headway does not run."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeVar

from headway.actions import todos
from headway.actions.proof import receipts
from headway.agents.checks.runner import CheckRunner, CheckSubject
from headway.agents.tools.execution import Execution
from headway.ledger.check import Receipt, ReceiptDraft, decode_checks, describe_check
from headway.ledger.errors import CheckFailed, ChecksRequired, Invalid
from headway.ledger.todo import Todo
from headway.storage.transaction import Transaction, Work

T = TypeVar("T")

NOT_CONFIRMED = (
    "The check {!r} would run a command outside a sandbox. Install bubblewrap on the machine that runs Headway, or complete the "
    "todo there with `headway todo done`, which asks first."
)


class Prover(NamedTuple):
    """Runs the checks of todos in the name of one caller."""

    runner: CheckRunner
    execution: Execution
    made_by: str
    may_leave_sandbox: bool = False  # whether a person has confirmed that commands may run outside a sandbox

    async def write(self, write: Callable[[Work[T]], Awaitable[T]], work: Work[T]) -> T:
        """Run work that may complete todos. The checks of each run first, and their receipt is stored with the change.

        Raises CheckFailed if one does not pass; then only the receipt is stored.
        """
        drafts: list[ReceiptDraft] = []
        tenant_id = self.execution.scope.tenant_id

        def work_with_receipts(tx: Transaction) -> T:
            receipts.present(tx, tenant_id, drafts)
            return work(tx)

        while True:
            try:
                return await write(work_with_receipts if drafts else work)
            except ChecksRequired as required:
                new_draft = await self.check(await self.find(required.todo_id), required.outcome)
                drafts[:] = [*(draft for draft in drafts if draft.subject_id != new_draft.subject_id), new_draft]
            except CheckFailed:
                await self.execution.database.write(partial(receipts.present, tenant_id=tenant_id, drafts=drafts))
                raise

    async def verify(self, todo_id: int) -> Receipt:
        """Run the checks of a todo again, and store what they found."""
        tenant_id = self.execution.scope.tenant_id
        todo = await self.find(todo_id)
        if not todo.checks:
            raise Invalid(f"Todo {todo_id} has no checks.")
        draft = await self.check(todo, todo.outcome)
        return await self.execution.database.write(lambda tx: receipts.verify(tx, tenant_id, draft))

    async def find(self, todo_id: int) -> Todo:
        return await self.execution.database.read(lambda tx: todos.get(tx, self.execution.scope.tenant_id, todo_id))

    async def check(self, todo: Todo, outcome: str | None) -> ReceiptDraft:
        checks = decode_checks(todo.checks)
        if not self.may_leave_sandbox and self.runner.needs_approval(checks):
            command = next(check for check in checks if check["kind"] == "command")
            raise Invalid(NOT_CONFIRMED.format(describe_check(command)))
        subject = CheckSubject("todo", todo.id, todo.subject, checks, outcome)
        return (await self.runner.run(subject, self.execution, self.made_by)).receipt
