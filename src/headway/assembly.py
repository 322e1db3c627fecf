"""Settings → a working Headway. The one place where parts are put together."""

import asyncio

from headway.actions import idempotency
from headway.actions.feed import Feed, steadily
from headway.agents import families
from headway.agents.execution import Execution, Place
from headway.agents.roles import Role, Roles
from headway.settings import Settings
from headway.storage.database import Database
from headway.storage.direct import is_sqlite

HOUSEKEEPING_S = 3600


class Headway:
    """A long-lived Headway: the database with its threads, and the live feed. Started on an event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        announced = not is_sqlite(settings.database_url)
        self.database = Database(settings.database_url, on_commit=self._committed)
        self.toolbox = families.toolbox()
        self.roles = Roles()
        self.feed = Feed(self.database, announced=announced)
        self.housekeeping: asyncio.Task[None] | None = None
        self.announcements = None
        if announced:
            from headway.storage.announcements import Announcements  # noqa: PLC0415  SQLite users never load psycopg

            self.announcements = Announcements(settings.database_url, self._committed)

    def start(self) -> None:
        self.feed.start()
        self.housekeeping = asyncio.create_task(steadily(self._keep_house))

    def execution(self, place: Place, role: Role) -> Execution:
        """What a tool that is called from this place may know."""
        return Execution(self.database, self.settings.task_folder, place.scope, role, place.conversation_uuid)

    def close(self) -> None:
        self.feed.close()
        if self.housekeeping:
            self.housekeeping.cancel()
        if self.announcements:
            self.announcements.close()
        self.database.close()

    async def _keep_house(self) -> None:
        await self.database.write(idempotency.forget_old)
        await asyncio.sleep(HOUSEKEEPING_S)

    def _committed(self, tenants: frozenset[int]) -> None:
        self.feed.committed(tenants)
