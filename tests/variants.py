"""Which databases and dispatchers a test runs on.

Tests of SQL run on both databases: those in `tests/storage`, and those marked `both_databases`. Other tests run on SQLite. Only
`make torture` runs them on Postgres as well, and tests of the engine over dispatchers in the test's own process. In
`make test-fast`, all run on SQLite.
"""

from pathlib import Path

import pytest

from tests.dispatch.local_dispatch import VARIABLE

SQL_FOLDER = Path(__file__).parent / "storage"
DATABASES: tuple[str, ...] = ("sqlite", "postgres")
BUILT_IN = "built in"
DISPATCHERS = {"dispatch": (BUILT_IN, "honest", "dishonest"), "honest_dispatch": (BUILT_IN, "honest")}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    whole = bool(metafunc.config.getoption("torture"))
    node = metafunc.definition
    is_sql = node.path.is_relative_to(SQL_FOLDER) or node.get_closest_marker("both_databases") is not None
    on_both = is_sql and not metafunc.config.getoption("fast")
    choices = {"database_kind": (DATABASES, DATABASES if on_both else DATABASES[:1])}
    choices |= {fixture: (kinds, kinds[:1]) for fixture, kinds in DISPATCHERS.items()}
    for fixture, (kinds, ordinary) in choices.items():
        if fixture in metafunc.fixturenames:
            values = [
                pytest.param(kind, marks=() if kind in ordinary else pytest.mark.torture)
                for kind in kinds
                if whole or kind in ordinary
            ]
            metafunc.parametrize(fixture, values, indirect=True)


@pytest.fixture
def database_kind(request: pytest.FixtureRequest) -> str:
    """The kind of database that the test runs on."""
    kind: str = request.param
    return kind


@pytest.fixture
def dispatch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the engines of `tests/agents/timed_jobs.py`, of turns and of goals dispatch jobs."""
    if request.param != BUILT_IN:
        monkeypatch.setenv(VARIABLE, request.param)


@pytest.fixture
def honest_dispatch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for tests in which no delivery may be lost or late."""
    if request.param != BUILT_IN:
        monkeypatch.setenv(VARIABLE, request.param)
