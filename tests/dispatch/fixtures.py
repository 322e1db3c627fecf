"""Runs tests of the engine over each way to dispatch jobs: the built-in one, and dispatchers in the test's own process."""

import pytest

from tests.dispatch.local_dispatch import VARIABLE

BUILT_IN = "built in"
HONEST = pytest.param("honest", marks=pytest.mark.torture)
DISHONEST = pytest.param("dishonest", marks=pytest.mark.torture)


@pytest.fixture(params=[BUILT_IN, HONEST, DISHONEST])
def dispatch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the engines of `tests/agents/timed_jobs.py`, of turns and of goals dispatch jobs."""
    if request.param != BUILT_IN:
        monkeypatch.setenv(VARIABLE, request.param)


@pytest.fixture(params=[BUILT_IN, HONEST])
def honest_dispatch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for tests in which no delivery may be lost or late."""
    if request.param != BUILT_IN:
        monkeypatch.setenv(VARIABLE, request.param)
