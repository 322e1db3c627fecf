"""Starts forks: checks the model and the role that a fork asks for, and creates it with this process as its owner."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.actions.inspection import forks
from headway.actions.inspection.forks import ForkRequest
from headway.actions.runs import jobs
from headway.ledger.job import Job
from headway.ledger.run import Run
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction

if TYPE_CHECKING:
    from headway.agents.loop.context import Runtime


class Forks:
    def __init__(self, get_runtime: Callable[[], "Runtime"]) -> None:
        self.get_runtime = get_runtime  # builds the model layer on first use

    def check(self, request: ForkRequest) -> ForkRequest:
        """Return the request with this process's limits, or raise an error if it names an unknown role or an unusable model."""
        runtime = self.get_runtime()
        if request.role:
            runtime.roles.find(request.role)
        if request.model:
            runtime.models.check(request.model)
        limits = runtime.limits
        return request._replace(limit=limits.iterations, attempts=limits.attempts, owner=runtime.owner)

    def begin(self, tx: Transaction, tenant_id: int, turn_id: str, request: ForkRequest) -> Job:
        """Create a fork of a turn whose job this process owns. After the commit, the engine runs the job at once."""
        return self.own(tx, forks.fork_turn(tx, tenant_id, turn_id, request))

    def begin_at_message(self, tx: Transaction, tenant_id: int, conversation_id: int, request: ForkRequest) -> Job:
        """Create a fork of a conversation at a message, whose id is `request.at`."""
        return self.own(tx, forks.fork_conversation(tx, tenant_id, conversation_id, request))

    def own(self, tx: Transaction, run: Run) -> Job:
        worker_leases.record_heartbeat(tx, self.get_runtime().owner)
        return jobs.get_job(tx, run.tenant_id, run.id)
