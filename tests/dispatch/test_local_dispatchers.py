"""The engine over dispatchers in the test's own process: one that keeps its word, and one that does not."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headway.engine.engine import Engine
from headway.engine.external import Dispatcher
from headway.engine.runner import EngineLimits
from tests.dispatch.conformance import Crew, DispatcherConformance
from tests.dispatch.local_dispatch import DISHONEST, HONEST, Faults, LocalDispatcher, hurry


class LocalConformance(DispatcherConformance):
    faults: Faults = HONEST

    @asynccontextmanager
    async def open_dispatchers(self, folder: Path) -> AsyncIterator[Callable[[], Dispatcher]]:
        dispatcher = LocalDispatcher(self.faults)
        yield lambda: dispatcher


class TestHonest(LocalConformance):
    """On Postgres."""


@pytest.mark.torture
class TestHonestOnSqlite(LocalConformance):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


class HurriedCrew(Crew):
    """Time passes faster for the repetition of lost announcements."""

    def start_worker(self, limits: EngineLimits | None = None) -> Engine:
        engine = super().start_worker(limits)
        hurry(engine)
        return engine


@pytest.mark.torture
class TestDishonest(LocalConformance):
    faults = DISHONEST
    crew = HurriedCrew


@pytest.mark.torture
class TestDishonestOnSqlite(LocalConformance):
    faults = DISHONEST
    crew = HurriedCrew

    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url
