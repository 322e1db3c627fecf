"""Fixtures for agents, on each kind of database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock, TenantHarness
from tests.agents.agent_harness import Agent, open_agent


@pytest.fixture
def agent(desk: TenantHarness, database_url: str, tmp_path: Path, clock: FixedClock) -> Iterator[Agent]:
    with open_agent(desk, database_url, tmp_path, clock) as new_agent:
        yield new_agent


@pytest.fixture
def sqlite_agent(sqlite_url: str, tmp_path: Path, clock: FixedClock) -> Iterator[Agent]:
    """An agent for tests in which the kind of database makes no difference."""
    with (
        DirectDatabase(sqlite_url, clock) as database,
        open_agent(TenantHarness(database), sqlite_url, tmp_path, clock) as new_agent,
    ):
        yield new_agent
