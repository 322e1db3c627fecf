"""The Headway that runs in the program, as the library sees it."""

from typing import Final, Protocol

from headway.actions.access import tenants
from headway.actions.turns import TurnRequest
from headway.agents.checks.runner import CheckRunner
from headway.agents.instructions.roles import Role
from headway.agents.tools.execution import Execution, ResolvedScope
from headway.feed import Feed
from headway.ledger.job import Job
from headway.ledger.tenancy import LOCAL_TENANT
from headway.operations.operation import OperationHost
from headway.storage.database import Database
from headway.storage.transaction import Transaction, Work

ACTOR: Final = "library"  # who made a change, in events and the audit log, if the program does not say


class RunningHeadway(OperationHost, Protocol):
    """What the library needs of a Headway that runs."""

    database: Database
    feed: Feed
    checks: CheckRunner

    def execution(self, resolved: ResolvedScope, role: Role) -> Execution: ...

    def begin_requested_turn(self, tx: Transaction, tenant_id: int, conversation_id: int, request: TurnRequest) -> Job: ...

    async def agents_ready(self) -> None: ...

    async def start_job(self, begin: Work[Job]) -> Job: ...

    async def run_to_end(self, begin: Work[Job]) -> Job: ...


def find_tenant_id(tx: Transaction, name: str) -> int:
    """Return the id of a tenant. The local one may not exist yet: then nothing has this id."""
    tenant = tenants.find_local(tx) if name == LOCAL_TENANT else tenants.get_by_name(tx, name)
    return tenant.id if tenant else 0
