"""Settings → a working Headway. The one place where parts are put together."""

import asyncio
import os
import socket
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headway.actions import idempotency, jobs, schedules, turns
from headway.actions.feed import Feed, steadily
from headway.actions.speech import Speech
from headway.agents import families, role_files
from headway.agents.builtin_tools import RUN_COMMAND, World
from headway.agents.execution import Execution, Place
from headway.agents.roles import HANDS, Role, Roles
from headway.autonomy import recovery
from headway.engine import Engine, EngineLimits
from headway.ledger.events import encode
from headway.ledger.job import Job
from headway.ledger.run import REHEARSAL, Mode, Run
from headway.settings import Settings
from headway.storage import job_store
from headway.storage.database import Database
from headway.storage.direct import is_sqlite
from headway.storage.transaction import Transaction

if TYPE_CHECKING:
    from headway.agents.tracing import Tracer
    from headway.agents.work import Means

HOUSEKEEPING_S = 3600


class Headway:
    """A long-lived Headway: the database with its threads, the live feed, and the agents at work. Started on an event loop."""

    def __init__(self, settings: Settings, models: Mapping[str, Any] | None = None) -> None:
        self.settings = settings
        self.known_models = models or {}  # by name; those of the settings that are not among them are made
        announced = not is_sqlite(settings.database_url)
        self.toolbox = families.toolbox(World(settings.http_allow, settings.commands), settings.home / "tools")
        self.hands = self.toolbox.only(HANDS)
        # What a tenant may have called with arguments of its own and no model in between. Programs and own tools are for agents,
        # and for whoever has the command line.
        self.schedulable = self.toolbox.only((*HANDS, "builtin")).without(RUN_COMMAND)
        self.roles = Roles(role_files.load(settings.home / "agents", self.toolbox.tools))
        self.database = Database(settings.database_url, on_commit=self._committed)
        self.feed = Feed(self.database, announced=announced)
        self.speech = Speech()
        self.housekeeping: asyncio.Task[None] | None = None
        self.warming: asyncio.Task[None] | None = None
        self.announcements = None
        if announced:
            from headway.storage.announcements import Announcements  # noqa: PLC0415  SQLite users never load psycopg

            self.announcements = Announcements(settings.database_url, self._announced)

    def start(self) -> None:
        self.feed.start()
        self.housekeeping = asyncio.create_task(steadily(self._keep_house))

    def execution(self, place: Place, role: Role) -> Execution:
        """What a tool that is called from this place may know."""
        workspace = self.settings.workspace_of(place.scope.tenant_id)
        return Execution(self.database, self.settings.task_folder, place.scope, role, place.conversation_uuid, workspace)

    def close(self) -> None:
        self.feed.close()
        if self.housekeeping:
            self.housekeeping.cancel()
        if self.announcements:
            self.announcements.close()
        self.database.close()

    # Agents at work. The model layer takes a second to load, so it is loaded by those who need it.

    def start_agents(self, *, alone: bool = False) -> None:
        """Load what agents need, beside what else is going on, and begin to work. Alone: only on what this process begins."""
        if alone:
            self.executor_id += job_store.ALONE
        self.warming = asyncio.create_task(self._warm_up(alone=alone))

    async def _warm_up(self, *, alone: bool) -> None:
        await asyncio.to_thread(lambda: self.means)
        self.engine.start(alone=alone)

    async def agents_ready(self) -> None:
        assert self.warming is not None, "start_agents comes first"
        await asyncio.shield(self.warming)

    async def stop_agents(self) -> None:
        if self.warming:
            await self.agents_ready()
            await self.engine.stop()
            await self.means.models.close()
            await asyncio.to_thread(self.tracer.close)

    @property
    def engine_alive(self) -> bool:
        """Whether jobs would be worked on. Until it is there, nobody is told that it is not."""
        return self.warming is not None and (not self.warming.done() or self.engine.alive)

    @cached_property
    def engine(self) -> Engine:
        from headway.agents import driving  # noqa: PLC0415
        from headway.autonomy import handling  # noqa: PLC0415

        chosen = self.settings
        limits = EngineLimits(per_family=chosen.limits.per_parent, stagger_s=chosen.restart_stagger_s)
        tick = partial(schedules.tick, limits=chosen.limits)
        handlers = {**driving.handlers(self.means), **handling.handlers(self.means, chosen.goals, chosen.notify, chosen.url)}
        recovered = partial(recovery.recovered, stagger_ms=int(chosen.restart_stagger_s * 1000))
        return Engine(self.database, self.executor_id, handlers, limits, tick, recovered)

    @cached_property
    def means(self) -> "Means":
        from headway.agents.models import Models  # noqa: PLC0415
        from headway.agents.prices import Prices, price_list  # noqa: PLC0415
        from headway.agents.rehearsal import rehearsal_model  # noqa: PLC0415
        from headway.agents.work import Means  # noqa: PLC0415

        chosen = self.settings
        models = Models(
            {"strong": chosen.model, "mid": chosen.model_mid, "cheap": chosen.model_cheap},
            chosen.model_timeout_s,
            Prices(price_list(chosen.home / "prices.toml")),
            {REHEARSAL: rehearsal_model(chosen.rehearsal_pace_s), **self.known_models},
            self.tracer,
        )
        return Means(
            self.database,
            models,
            self.toolbox,
            self.roles,
            chosen.limits,
            chosen.goals,
            self.executor_id,
            self.execution,
            self._whisper,
            self.nudge,
            self.tracer,
        )

    @cached_property
    def tracer(self) -> "Tracer":
        from headway.agents.tracing import exporting  # noqa: PLC0415

        return exporting(self.settings.traces)

    @cached_property
    def executor_id(self) -> str:
        """The name of this process among those that drive runs."""
        return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    def begin_turn(self, tx: Transaction, tenant_id: int, conversation_id: int, content: str, mode: Mode = "plan") -> Job:
        """Write a turn down as ours to work on; once that is committed, the engine takes the job at once, past every queue."""
        job_store.beat(tx, self.executor_id)
        limits = self.settings.limits
        wanted = turns.Beginning(content, mode, limit=limits.iterations, attempts=limits.attempts, owner=self.executor_id)
        return jobs.get(tx, tenant_id, turns.start(tx, tenant_id, conversation_id, wanted).id)

    async def run_turn(self, tenant_id: int, conversation_id: int, content: str, mode: Mode = "plan") -> dict[str, Any]:
        """Have a message answered, and see how the turn ended."""
        await self.agents_ready()
        job = await self.database.write(lambda tx: self.begin_turn(tx, tenant_id, conversation_id, content, mode))
        self.engine.take(job)
        await self.engine.ended(job.id)
        return await self.database.read(lambda tx: turns.show(tx, tenant_id, turns.turn_of(job), self.settings.limits))

    def interrupt(self, run_ids: Iterable[str]) -> None:
        """Runs of ours that were canceled need not wait for what they wait for."""
        for run_id in run_ids:
            self.engine.interrupt(run_id)

    def nudge(self) -> None:
        """There may be something to do."""
        self.engine.nudge()

    def _whisper(self, run: Run, data: dict[str, Any]) -> None:
        if run.parent_run_id is not None or run.turn_id is None:
            return  # people read the supervisor's words
        self.speech.hear(run.id, data)
        told = encode({"turn_id": run.turn_id, "run_id": run.id, **data})
        self.feed.whisper(run.tenant_id, run.conversation_id, run.turn_id, "text_delta", told)

    async def _keep_house(self) -> None:
        await self.database.write(idempotency.forget_old)
        while await self.database.write(jobs.forget_old):
            pass
        await asyncio.sleep(HOUSEKEEPING_S)

    def _committed(self, tenants: frozenset[int]) -> None:
        self.feed.committed(tenants)

    def _announced(self, tenants: frozenset[int]) -> None:
        """Another process committed something: news for the readers, and perhaps a job for us."""
        self.feed.committed(tenants)
        if "engine" in vars(self) and self.feed.loop is not None and not self.feed.loop.is_closed():
            self.feed.loop.call_soon_threadsafe(self.engine.nudge)
