"""Fixtures: a model server, and a Headway server that uses it, shared by all tests of a process."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.model_server import ModelServer, environment, text, to_script
from tests.surfaces.server_harness import Client, Service, run_server, wait_until

CANCELED_JOBS = "SELECT 1 FROM jobs WHERE tenant_id = ? AND state = 'canceled' LIMIT 1"


@pytest.fixture(scope="session")
def shared_model() -> Iterator[ModelServer]:
    with ModelServer(text("hello")) as server:
        yield server


@pytest.fixture
def model(shared_model: ModelServer) -> Iterator[ModelServer]:
    """The model server of the chat servers. It answers "hello" until a test sets a script."""
    shared_model.script = to_script(text("hello"))
    shared_model.release()  # a late request of the previous test may still hold it
    shared_model.forget()
    yield shared_model
    shared_model.release()
    violations, shared_model.violations = shared_model.violations, []
    assert violations == []


@pytest.fixture(scope="session")
def sqlite_chat_service(shared_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server that uses the model server."""
    folder = tmp_path_factory.mktemp("served")
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder, environment=model_settings(shared_model)) as service:
        yield service


def model_settings(model: ModelServer) -> dict[str, str]:
    """Settings for this model server, without retries: it fails only when a script makes it fail."""
    return {**environment(model), "HEADWAY_MODEL_RETRIES": "0"}


@contextmanager
def open_chatter(service: Service, model: ModelServer) -> Iterator[Client]:
    """Open a client of a new tenant. At the end, wait until no canceled job runs: its late request would meet the next test's
    script."""
    with service.tenant() as opened:
        yield opened
    model.release()
    if opened.desk.read(lambda tx, tenant_id: tx.one(CANCELED_JOBS, tenant_id)):
        wait_until(lambda: service.read_metrics()["headway_jobs_running"] == 0, "all work has ended")
