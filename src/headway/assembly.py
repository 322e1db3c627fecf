"""Settings → a working Headway. The one place where parts are put together."""

import asyncio
import os
import socket
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headway.actions import idempotency, turns
from headway.actions.feed import Feed, steadily
from headway.agents import families, role_files
from headway.agents.builtin_tools import World
from headway.agents.execution import Execution, Place
from headway.agents.roles import HANDS, Role, Roles
from headway.ledger.events import encode
from headway.ledger.run import Mode, Run
from headway.settings import Settings
from headway.storage import run_store
from headway.storage.database import Database
from headway.storage.direct import is_sqlite
from headway.storage.transaction import Transaction

if TYPE_CHECKING:
    from headway.agents.job import Means
    from headway.agents.runner import Runner

HOUSEKEEPING_S = 3600


class Headway:
    """A long-lived Headway: the database with its threads, the live feed, and the agents at work. Started on an event loop."""

    def __init__(self, settings: Settings, models: Mapping[str, Any] | None = None) -> None:
        self.settings = settings
        self.known_models = models or {}  # by name; those of the settings that are not among them are made
        announced = not is_sqlite(settings.database_url)
        self.toolbox = families.toolbox(World(settings.http_allow, settings.commands), settings.home / "tools")
        self.hands = self.toolbox.only(HANDS)
        self.roles = Roles(role_files.load(settings.home / "agents", self.toolbox.tools))
        self.database = Database(settings.database_url, on_commit=self._committed)
        self.feed = Feed(self.database, announced=announced)
        self.housekeeping: asyncio.Task[None] | None = None
        self.warming: asyncio.Task[None] | None = None
        self.announcements = None
        if announced:
            from headway.storage.announcements import Announcements  # noqa: PLC0415  SQLite users never load psycopg

            self.announcements = Announcements(settings.database_url, self._committed)

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

    def start_agents(self, *, sweeping: bool) -> None:
        """Load what agents need, beside what else is going on; a long-lived process also takes over what others left behind."""
        self.warming = asyncio.create_task(self._warm_up(sweeping=sweeping))

    async def _warm_up(self, *, sweeping: bool) -> None:
        await asyncio.to_thread(lambda: self.runner)
        self.runner.start(sweeping=sweeping)

    async def agents_ready(self) -> None:
        assert self.warming is not None, "start_agents comes first"
        await asyncio.shield(self.warming)

    async def stop_agents(self) -> None:
        if self.warming:
            await self.agents_ready()
            await self.runner.stop()
            await self.means.models.close()

    @cached_property
    def runner(self) -> "Runner":
        from headway.agents.runner import Runner  # noqa: PLC0415

        return Runner(self.means)

    @cached_property
    def means(self) -> "Means":
        from headway.agents.job import Means  # noqa: PLC0415
        from headway.agents.models import Models, Patience  # noqa: PLC0415
        from headway.agents.prices import Prices, price_list  # noqa: PLC0415

        chosen = self.settings
        models = Models(
            {"strong": chosen.model, "mid": chosen.model_mid, "cheap": chosen.model_cheap},
            Patience(chosen.model_timeout_s, chosen.model_retries),
            Prices(price_list(chosen.home / "prices.toml")),
            self.known_models,
        )
        return Means(
            self.database, models, self.toolbox, self.roles, chosen.limits, self.executor_id, self.execution, self._whisper
        )

    @cached_property
    def executor_id(self) -> str:
        """The name of this process among those that drive runs."""
        return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    def begin_turn(self, tx: Transaction, tenant_id: int, conversation_id: int, content: str, mode: Mode = "plan") -> Run:
        """Write a turn down as ours to drive; once that is committed, hand it to the runner."""
        run_store.beat(tx, self.executor_id)
        wanted = turns.Beginning(content, mode, limit=self.settings.limits.iterations, owner=self.executor_id)
        return turns.start(tx, tenant_id, conversation_id, wanted)

    async def run_turn(self, tenant_id: int, conversation_id: int, content: str, mode: Mode = "plan") -> dict[str, Any]:
        """Have a message answered, and see how the turn ended."""
        await self.agents_ready()
        run = await self.database.write(lambda tx: self.begin_turn(tx, tenant_id, conversation_id, content, mode))
        await asyncio.wait([self.runner.take(run)])  # one that is canceled ends as well
        return await self.database.read(lambda tx: turns.show(tx, tenant_id, run.turn_id or "", self.settings.limits))

    def interrupt(self, turn_id: str) -> None:
        """A turn of ours that was canceled need not wait for what it waits for."""
        if "runner" in vars(self):
            self.runner.interrupt(turn_id)

    def _whisper(self, run: Run, data: dict[str, Any]) -> None:
        told = encode({"turn_id": run.turn_id, "run_id": run.id, **data})
        self.feed.whisper(run.tenant_id, run.conversation_id, run.turn_id, "text_delta", told)

    async def _keep_house(self) -> None:
        await self.database.write(idempotency.forget_old)
        await asyncio.sleep(HOUSEKEEPING_S)

    def _committed(self, tenants: frozenset[int]) -> None:
        self.feed.committed(tenants)
