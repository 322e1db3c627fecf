"""One request of the library to a Headway in the same process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from headway.actions.access import tenants
from headway.actions.history.live_text import LiveText
from headway.actions.turns import TurnRequest
from headway.agents.checks.runner import CheckRunner
from headway.agents.instructions.roles import Role, Roles
from headway.agents.permission import Permission
from headway.agents.tools.execution import Execution, ResolvedScope
from headway.agents.tools.toolbox import Toolbox
from headway.feed import Feed
from headway.ledger.errors import Invalid
from headway.ledger.job import Job
from headway.ledger.tenancy import LOCAL_TENANT
from headway.ledger.text import MAX_INTEGER
from headway.settings import Settings
from headway.storage.database import Database
from headway.storage.transaction import Transaction, Work

ACTOR: Final = "library"  # who made a change, in events and the audit log, if the program does not say


class RunningHeadway(Protocol):
    """What the library needs of a Headway that runs."""

    settings: Settings
    database: Database
    feed: Feed
    live_text: LiveText
    permission: Permission
    checks: CheckRunner
    roles: Roles
    toolbox: Toolbox

    @property
    def unpriced_models(self) -> Sequence[str]: ...

    def execution(self, resolved: ResolvedScope, role: Role) -> Execution: ...

    def interrupt(self, run_ids: Iterable[str]) -> None: ...

    def nudge(self) -> None: ...

    def begin_requested_turn(self, tx: Transaction, tenant_id: int, conversation_id: int, request: TurnRequest) -> Job: ...

    async def agents_ready(self) -> None: ...

    async def start_job(self, begin: Work[Job]) -> Job: ...

    async def run_to_end(self, begin: Work[Job]) -> Job: ...


class LocalRequest(NamedTuple):
    """A request: what its path, its query and its body name. `after` is run when the change is stored."""

    headway: RunningHeadway
    actor: str
    path: tuple[int | str, ...]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    after: list[Callable[[], None]]

    def get_id(self, place: int = 0) -> int:
        number = self.path[place]
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_INTEGER:
            raise Invalid(f"An id must be a whole number from 1 to {MAX_INTEGER}.")
        return number

    def get_name(self) -> str:
        return str(self.path[0])

    @property
    def limit(self) -> int:
        return int(self.query.get("limit", 50))

    @property
    def cursor(self) -> str | None:
        return self.query.get("cursor")

    @property
    def before(self) -> int:
        """The id or number before which a list ends."""
        return self.query.get("before") or MAX_INTEGER

    def nudge(self) -> None:
        """Let the engine look for jobs when the change is stored."""
        self.after.append(self.headway.nudge)


Operation = Callable[[Transaction, int, LocalRequest], Mapping[str, Any] | None]


def find_tenant_id(tx: Transaction, name: str) -> int:
    """Return the id of a tenant. The local one may not exist yet: then nothing has this id."""
    tenant = tenants.find_local(tx) if name == LOCAL_TENANT else tenants.get_by_name(tx, name)
    return tenant.id if tenant else 0


def parse_list(value: int | str | None) -> int | None:
    """Parse the filter by list, as REST does: `tenant` is the tenant-wide list; 0 and None are all."""
    return 0 if value == "tenant" else int(value or 0) or None
