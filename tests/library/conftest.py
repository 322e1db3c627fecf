"""The ways to use the library. And no tracing or telemetry: frameworks send nothing over the network during tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import skip_certificates_in
from tests.conftest import new_database
from tests.library.contract import Variant, build_embedded, build_remote, build_sync, build_sync_remote, write_policy
from tests.surfaces.server_harness import Service, run_server

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGSMITH_TRACING"] = "false"

# Tests marked `both_databases` use Postgres as well. The others do so only in `make torture`.
VARIANTS = ["embedded-sqlite", "embedded-postgres", "remote-sqlite", "remote-postgres", "sync-sqlite", "sync_remote-sqlite"]


@pytest.fixture(autouse=True)
def no_certificates(request: pytest.FixtureRequest) -> None:
    skip_certificates_in(request)


@pytest.fixture(scope="session")
def served_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server for all tests of a process. Each test has a tenant of its own."""
    folder = tmp_path_factory.mktemp("served")
    write_policy(folder / ".headway")
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder) as service:
        yield service


@pytest.fixture(scope="session")
def served_postgres(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    write_policy(folder / ".headway")
    with new_database(postgres_server) as url, run_server(url, folder) as service:
        yield service


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("both_databases")
        ordinary = [name for name in VARIANTS if both or not name.endswith("postgres")]
        others = [pytest.param(name, marks=pytest.mark.torture) for name in VARIANTS if name not in ordinary]
        metafunc.parametrize("variant", [*ordinary, *(others if metafunc.config.getoption("torture") else [])], indirect=True)


@pytest.fixture
def variant(request: pytest.FixtureRequest, tmp_path: Path) -> Variant:
    """Each way to use the library."""
    kind, _, database = request.param.partition("-")
    if kind in ("embedded", "sync"):
        url, home = request.getfixturevalue(f"{database}_url"), tmp_path / "home"
        return build_embedded(url, home) if kind == "embedded" else build_sync(url, home)
    service = request.getfixturevalue(f"served_{database}")
    return build_remote(service) if kind == "remote" else build_sync_remote(service)
