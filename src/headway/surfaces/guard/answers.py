"""Answers to the events of assistants that concern the ledger."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from headway import settings
from headway.actions.access import local_tenant
from headway.actions.guard import rules, sessions, stops
from headway.actions.installation import halts
from headway.ledger.check import Check, encode_checks
from headway.ledger.errors import ChecksRequired
from headway.ledger.guard import AssistantSession, MirroredItem, StopRequest, StopRuling
from headway.ledger.tenancy import Turn
from headway.ledger.todo import parse_status
from headway.settings import Settings
from headway.storage.direct import ExistingDatabase
from headway.storage.transaction import Transaction, within_tenant
from headway.surfaces.guard.events import HookAnswer, HookEvent

if TYPE_CHECKING:
    from headway.process.assembly import Headway

T = TypeVar("T")
ACTOR: Final = "guard"
PATIENCE_S: Final = 1.0  # for a lock; then the assistant goes on
LIMIT_S: Final = 8.0  # for everything but checks
ANSWER_LIMIT: Final = 20_000  # characters of the last words that are looked at


class GuardLedger:
    """The local tenant's rows, for the time of one event."""

    def __init__(self, database: ExistingDatabase) -> None:
        self.database = database
        self.tenant_id = (database.read(local_tenant.find_local) or database.write(local_tenant.ensure_local)).id

    def read(self, view: Callable[..., T], *arguments: object) -> T:
        return self.database.read(within_tenant(self.tenant_id, lambda tx: view(tx, self.tenant_id, *arguments)))

    def write(self, action: Callable[..., T], *arguments: object, **options: object) -> T:
        def work(tx: Transaction) -> T:
            tx.actor = ACTOR
            return action(tx, self.tenant_id, *arguments, **options)

        return self.database.write(within_tenant(self.tenant_id, work))


def answer_loaded(event: HookEvent, project: str, home_folder: str) -> HookAnswer:
    """Answer an event from the ledger. Raises HeadwayError if that cannot be done; nothing is created or migrated."""
    if not os.environ.get("HEADWAY_HOME"):
        os.chdir(home_folder)  # settings and trust are read from this folder
    with limit_time():
        loaded = settings.load()
        database = ExistingDatabase(loaded.database_url, PATIENCE_S)
    with database:
        return answer_from(GuardLedger(database), loaded, event, project)


def answer_from(ledger: GuardLedger, loaded: Settings, event: HookEvent, project: str) -> HookAnswer:
    session = AssistantSession(event.client, event.session, project, event.agent)
    with limit_time():
        match event.kind:
            case "start":
                return HookAnswer(context=ledger.write(sessions.begin_session, session))
            case "plan":
                items = [read_item(item) for item in event.items]
                ledger.write(sessions.mirror, session, items, is_whole=event.is_whole)
                return HookAnswer()
            case "end":
                ledger.write(sessions.end_session, session)
                return HookAnswer()
        turn = ledger.write(stops.prepare, session)
    if turn is None:
        return HookAnswer()
    stop = StopRequest(event.answer[-ANSWER_LIMIT:], event.is_repeated)
    decision = decide(ledger, loaded, session, turn, stop)
    return HookAnswer(refusal="" if decision.may_stop else decision.reason, notice=decision.notice)


def read_item(item: tuple[str | None, str | None, str, str]) -> MirroredItem:
    subject, status, key, description = item
    return MirroredItem(subject, status and parse_status(status), key, description)  # type: ignore[arg-type]


def decide(ledger: GuardLedger, loaded: Settings, session: AssistantSession, turn: Turn, stop: StopRequest) -> StopRuling:
    limit = loaded.limits.guard_refusals
    try:
        with limit_time():
            return ledger.write(stops.decide_stop, turn.id, stop, limit)
    except ChecksRequired:
        ledger.database.read(halts.check)  # the assistant goes on, because it can do nothing about a halt
        confirmed = {rule.checks for rule in ledger.read(rules.list_rules, session.folder) if rule.is_confirmed}
        return run_checks(loaded, ledger.tenant_id, confirmed, partial(stops.decide_stop, turn_id=turn.id, stop=stop, limit=limit))


def run_checks(loaded: Settings, tenant_id: int, confirmed: set[str], decision: Callable[..., StopRuling]) -> StopRuling:
    """Run the checks as for any other agent that Headway does not run: in the sandbox, and only checks that a person wrote or
    approved."""
    import asyncio  # noqa: PLC0415  checks load the agent libraries

    from headway.agents.checks.completion import Prover  # noqa: PLC0415
    from headway.agents.instructions.roles import SUPERVISOR  # noqa: PLC0415
    from headway.agents.tools.execution import ResolvedScope  # noqa: PLC0415
    from headway.ledger.scope import Scope  # noqa: PLC0415
    from headway.process.assembly import Headway  # noqa: PLC0415

    def may_leave_sandbox(checks: Sequence[Check]) -> bool:
        return encode_checks(checks) in confirmed

    async def prove(headway: "Headway") -> StopRuling:
        execution = headway.execution(ResolvedScope(Scope(tenant_id), None), headway.roles.find(SUPERVISOR))
        prover = Prover(headway.checks, execution, ACTOR, may_leave_sandbox=may_leave_sandbox)
        not_run: dict[int, str] = {}
        work = partial(decision, not_run=not_run)
        return await prover.write(headway.database.of(tenant_id).write, lambda tx: work(tx, tenant_id), not_run)

    async def run() -> StopRuling:
        headway = Headway(loaded)
        try:
            return await prove(headway)
        finally:
            await headway.stop_tools()
            headway.close()

    return asyncio.run(run())


@contextmanager
def limit_time() -> Iterator[None]:
    """Give up after a while, so that the assistant can go on."""

    def give_up(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"the ledger did not answer within {LIMIT_S:g} seconds.")

    former = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
