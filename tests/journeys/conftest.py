"""Whole stories use what the tests of the doors use to start servers and to talk to them."""

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.journeys.reckoning", "tests.journeys.errands")  # so that they tell what they compared

from tests.journeys import errands  # noqa: E402
from tests.journeys.lives import Zygote, zygote  # noqa: E402
from tests.model_server import ModelServer  # noqa: E402


@pytest.fixture(scope="session")
def errands_model() -> Iterator[ModelServer]:
    with ModelServer(errands.reply) as server:
        yield server


@pytest.fixture(scope="session")
def goal_lives(errands_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """One for all the tests of a process, with a long and happy life behind it: to load everything takes it seconds."""
    folder = tmp_path_factory.mktemp("lives")
    with zygote(errands_model.url, folder) as one:
        assert one.live(errands.build(folder, f"sqlite:///{folder / 'headway.db'}"))
        yield one


@pytest.fixture
def goal_model(errands_model: ModelServer) -> Iterator[ModelServer]:
    """For a test that may have it say something else."""
    errands_model.script = errands.reply
    errands_model.forget()
    yield errands_model
    # Whoever is killed while it sends is cut off; that is no fault of what it said.
    violations, errands_model.violations = errands_model.violations, []
    assert [one for one in violations if not one.startswith("body:")] == []
