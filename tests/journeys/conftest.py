"""Fixtures for scenarios that span processes: a model for goals, and a fork server that pursues them."""

from collections.abc import Iterator

import pytest

from tests.journeys import goal_scenario
from tests.journeys.forked_process import ForkServer, run_fork_server
from tests.model_server import ModelServer


@pytest.fixture(scope="session")
def scenario_model() -> Iterator[ModelServer]:
    with ModelServer(goal_scenario.reply) as server:
        yield server


@pytest.fixture(scope="session")
def goal_processes(scenario_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """One fork server per test session. It has already run one plan, so everything is loaded and prepared in it."""
    folder = tmp_path_factory.mktemp("processes")
    with run_fork_server(scenario_model.url, folder) as server:
        assert server.run_plan(goal_scenario.build_scenario(folder, f"sqlite:///{folder / 'headway.db'}"))
        yield server


@pytest.fixture
def goal_model(scenario_model: ModelServer) -> Iterator[ModelServer]:
    """The scenario's model with its default script, which a test may replace."""
    scenario_model.script = goal_scenario.reply
    scenario_model.forget()
    yield scenario_model
    violations, scenario_model.violations = scenario_model.violations, []
    assert violations == []
