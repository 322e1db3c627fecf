"""Approvals and questions for programs that embed Headway: list them, decide and answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headway.actions.access import tenants
from headway.actions.people import approvals, questions
from headway.actions.people.approvals import Answer, ApprovalDecision, encode_arguments
from headway.agents.permission import Permission
from headway.ledger.permission import ApprovalState, QuestionState
from headway.ledger.tenancy import LOCAL_TENANT
from headway.storage.database import Database
from headway.storage.transaction import Transaction

PAGE_LIMIT: Final = 500
DECIDER: Final = "library"  # if the program does not say who decided


class People(NamedTuple):
    """Approvals and questions, as the documents of the REST API."""

    database: Database
    permission: Permission
    nudge: Callable[[], None]
    get_tenant: Callable[[], str]  # of calls that name no other one

    async def list_approvals(self, state: ApprovalState | None = "proposed", *, tenant: str | None = None) -> list[dict[str, Any]]:
        """List up to 500 approvals, newest first: those that wait for a decision, or those in another state (None: all)."""
        return await self.database.read(
            lambda tx: list(
                approvals.list_page(tx, find_tenant_id(tx, tenant or self.get_tenant()), state, PAGE_LIMIT)["approvals"]
            )
        )

    async def list_questions(self, state: QuestionState | None = "open", *, tenant: str | None = None) -> list[dict[str, Any]]:
        """List up to 500 questions, newest first: those that wait for an answer, or those in another state (None: all)."""
        return await self.database.read(
            lambda tx: list(
                questions.list_page(tx, find_tenant_id(tx, tenant or self.get_tenant()), state, PAGE_LIMIT)["questions"]
            )
        )

    async def decide(
        self,
        approval_id: int,
        answer: Answer,
        *,
        arguments: Mapping[str, Any] | None = None,
        reason: str = "",
        always: bool = False,
        by: str = DECIDER,
        tenant: str | None = None,
    ) -> dict[str, Any]:
        """Approve or reject a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        edits = None if arguments is None else encode_arguments(arguments)
        decision = ApprovalDecision(answer, by, edits, reason)

        def work(tx: Transaction) -> dict[str, Any]:
            tenant_id = find_tenant_id(tx, tenant or self.get_tenant())
            return self.permission.decide(tx, tenant_id, approval_id, decision, always=always).as_json()

        decided = await self.database.write(work)
        self.nudge()
        return decided

    async def answer(self, question_id: int, content: str, *, by: str = DECIDER, tenant: str | None = None) -> dict[str, Any]:
        """Answer a question of an agent, with one of its choices if it has any."""

        def work(tx: Transaction) -> dict[str, Any]:
            return questions.answer(tx, find_tenant_id(tx, tenant or self.get_tenant()), question_id, content, by).as_json()

        answered = await self.database.write(work)
        self.nudge()
        return answered


def find_tenant_id(tx: Transaction, name: str) -> int:
    """Return the id of a tenant. The local one may not exist yet: then nothing has this id."""
    tenant = tenants.find_local(tx) if name == LOCAL_TENANT else tenants.get_by_name(tx, name)
    return tenant.id if tenant else 0
