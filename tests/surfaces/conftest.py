"""Fixtures: a folder to run commands in, and servers, isolated from the developer's settings."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import skip_certificates_in
from tests.model_server import ModelServer
from tests.surfaces.model_fixtures import model_settings, open_chatter
from tests.surfaces.server_harness import Client, Service, run_server
from tests.surfaces.shell import Shell


@pytest.fixture
def headway(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in list(os.environ):
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    skip_certificates_in(request)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shell(folder)


MANY_STRANGERS = {"HEADWAY_ANONYMOUS_RATE": "10000"}  # for fuzzers, which also try every request without a token


@pytest.fixture(scope="session")
def sqlite_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server shared by all tests of a process. Each test uses a new tenant."""
    folder = tmp_path_factory.mktemp("served")
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder, environment=MANY_STRANGERS) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_service(kept_postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_server(kept_postgres_url, tmp_path_factory.mktemp("served"), environment=MANY_STRANGERS) as service:
        yield service


@pytest.fixture
def service(request: pytest.FixtureRequest, database_kind: str) -> Service:
    """A server, once with each kind of database."""
    resolved: Service = request.getfixturevalue(f"{database_kind}_service")
    return resolved


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A client of a new tenant, once with each kind of database."""
    with service.tenant() as opened:
        yield opened


@pytest.fixture
def sqlite_client(sqlite_service: Service) -> Iterator[Client]:
    """A client of a new tenant, for tests that do not depend on the database."""
    with sqlite_service.tenant() as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_chat_service(
    shared_model: ModelServer, chat_postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with run_server(chat_postgres_url, tmp_path_factory.mktemp("served"), environment=model_settings(shared_model)) as service:
        yield service


@pytest.fixture
def chat_service(request: pytest.FixtureRequest, database_kind: str) -> Service:
    """A server that uses the model, once with each kind of database."""
    resolved: Service = request.getfixturevalue(f"{database_kind}_chat_service")
    return resolved


@pytest.fixture
def chatter(chat_service: Service, model: ModelServer) -> Iterator[Client]:
    """A client of a new tenant, on a server that uses the model."""
    with open_chatter(chat_service, model) as opened:
        yield opened


@pytest.fixture
def sqlite_chatter(sqlite_chat_service: Service, model: ModelServer) -> Iterator[Client]:
    """The same, for tests that do not depend on the database."""
    with open_chatter(sqlite_chat_service, model) as opened:
        yield opened


@pytest.fixture
def talker(headway: Shell, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A folder in which `headway chat` uses the model."""
    for name, value in model_settings(model).items():
        monkeypatch.setenv(name, value)
    return headway
