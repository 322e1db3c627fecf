"""A model and a server that talks to it, for all the tests of a process: those of the API, and those of the page."""

from collections.abc import Iterator

import pytest

from tests.model_server import ModelServer, environment, scripted, text
from tests.surfaces.serving import Service, serving


@pytest.fixture(scope="session")
def lasting_model() -> Iterator[ModelServer]:
    with ModelServer(text("hello")) as server:
        yield server


@pytest.fixture
def model(lasting_model: ModelServer) -> Iterator[ModelServer]:
    """The model behind servers that talk to one: it says hello until a test gives it a script of its own."""
    lasting_model.script = scripted(text("hello"))
    lasting_model.release()  # a script of the test before may have held it since, for a request that came late
    lasting_model.forget()
    yield lasting_model
    lasting_model.release()
    violations, lasting_model.violations = lasting_model.violations, []
    assert violations == []


@pytest.fixture(scope="session")
def sqlite_chat_service(lasting_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server that talks to that model."""
    folder = tmp_path_factory.mktemp("served")
    with serving(f"sqlite:///{folder / 'headway.db'}", folder, environment=impatient(lasting_model)) as service:
        yield service


def impatient(model: ModelServer) -> dict[str, str]:
    """Settings for this model, which fails when it is told to and not by chance."""
    return {**environment(model), "HEADWAY_MODEL_RETRIES": "0"}
