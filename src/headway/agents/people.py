"""For programs that embed Headway: what agents wait for people for, and the people's decisions."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headway.actions import tenants
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

    async def list_approvals(self, state: ApprovalState | None = "proposed", *, tenant: str = LOCAL_TENANT) -> list[dict[str, Any]]:
        """List up to 500 approvals, newest first: those that wait for a decision, or those in another state (None: all)."""
        return await self.database.write(
            lambda tx: list(approvals.list_page(tx, tenants.resolve(tx, tenant).id, state, PAGE_LIMIT)["approvals"])
        )

    async def list_questions(self, state: QuestionState | None = "open", *, tenant: str = LOCAL_TENANT) -> list[dict[str, Any]]:
        """List up to 500 questions, newest first: those that wait for an answer, or those in another state (None: all)."""
        return await self.database.write(
            lambda tx: list(questions.list_page(tx, tenants.resolve(tx, tenant).id, state, PAGE_LIMIT)["questions"])
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
        tenant: str = LOCAL_TENANT,
    ) -> dict[str, Any]:
        """Approve or reject a proposed call. `arguments` replace the proposed ones. `always` adds a rule to the policy."""
        edits = None if arguments is None else encode_arguments(arguments)
        decision = ApprovalDecision(answer, by, edits, reason)

        def work(tx: Transaction) -> dict[str, Any]:
            tenant_id = tenants.resolve(tx, tenant).id
            return self.permission.decide(tx, tenant_id, approval_id, decision, always=always).as_json()

        decided = await self.database.write(work)
        self.nudge()
        return decided

    async def answer(self, question_id: int, content: str, *, by: str = DECIDER, tenant: str = LOCAL_TENANT) -> dict[str, Any]:
        """Answer a question of an agent, with one of its choices if it has any."""

        def work(tx: Transaction) -> dict[str, Any]:
            return questions.answer(tx, tenants.resolve(tx, tenant).id, question_id, content, by).as_json()

        answered = await self.database.write(work)
        self.nudge()
        return answered
