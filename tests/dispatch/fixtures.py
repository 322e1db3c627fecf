"""Runs tests of the engine over each way to dispatch jobs: the built-in one, and dispatchers in the test's own process."""

import pytest

from tests.dispatch.local_dispatch import VARIABLE


@pytest.fixture(
    params=[
        "built in",
        pytest.param("honest", marks=pytest.mark.torture),
        pytest.param("dishonest", marks=pytest.mark.torture),
    ]
)
def dispatch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the engines of `tests/agents/timed_jobs.py` and of `open_talk` dispatch jobs."""
    if request.param != "built in":
        monkeypatch.setenv(VARIABLE, request.param)
