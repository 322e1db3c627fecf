"""A real browser in front of a real server. Where there is no browser these tests fail: a page nobody looked at is not tested."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

sys.path.append(str(Path(__file__).parent.parent / "surfaces"))

from browsing import Visit, launched, visiting
from serving import Client, Service, serving

from model_server import ModelServer, environment, scripted, text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one module: while Playwright runs, nobody else in this process can run an event loop."""
    with sync_playwright() as playwright:
        chromium = launched(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def lasting_model() -> Iterator[ModelServer]:
    with ModelServer(text("hello")) as server:
        yield server


@pytest.fixture
def model(lasting_model: ModelServer) -> Iterator[ModelServer]:
    """It says hello until a test gives it a script of its own."""
    lasting_model.script = scripted(text("hello"))
    lasting_model.forget()
    yield lasting_model
    lasting_model.release()
    violations, lasting_model.violations = lasting_model.violations, []
    assert violations == []


@pytest.fixture(scope="module")
def service(lasting_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    settings = {**environment(lasting_model), "HEADWAY_MODEL_RETRIES": "0"}
    with serving(f"sqlite:///{folder / 'headway.db'}", folder, environment=settings) as service:
        yield service


@pytest.fixture
def client(service: Service, model: ModelServer) -> Iterator[Client]:
    """A new tenant's program, to arrange what the page will show and to see what it did."""
    with service.tenant() as visitor:
        yield visitor
        # What it left running would go on with whatever the next test has the model say.
        for run in visitor.ok("GET", "/v1/agents", params={"limit": 500})["agents"]:
            if run["turn_id"] and not run["ended_at"] and run["parent_run_id"] is None:
                visitor.post(f"/v1/turns/{run['turn_id']}/cancel")


@pytest.fixture
def open_page(browser: Browser, client: Client) -> Iterator[Callable[..., Visit]]:
    """Pages of somebody who has signed in as that tenant; each call is another window."""
    with visiting(browser, client) as visit:
        yield visit


@pytest.fixture
def page(open_page: Callable[..., Visit]) -> Visit:
    return open_page()
