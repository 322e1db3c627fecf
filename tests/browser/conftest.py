"""A real browser and a real server. Without a browser these tests fail, because the page would be untested."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.page_harness import Profiles, Visit, launch_browser, open_windows
from tests.model_server import ModelServer
from tests.surfaces.model_fixtures import open_chatter
from tests.surfaces.server_harness import Client, Service

OPEN = ExitStack()


@cache
def chromium() -> Browser:
    playwright = OPEN.enter_context(sync_playwright())
    OPEN.callback(chromium.cache_clear)
    browser = launch_browser(playwright)
    OPEN.callback(browser.close)
    return browser


@cache
def keep_profiles() -> Profiles:
    OPEN.callback(keep_profiles.cache_clear)
    return Profiles(chromium())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Close the browser after the last browser test: while Playwright runs, no other event loop can run in this process."""
    if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
        OPEN.close()


@pytest.fixture
def browser() -> Browser:
    return chromium()


@pytest.fixture
def profiles() -> Profiles:
    return keep_profiles()


@pytest.fixture
def service(sqlite_chat_service: Service) -> Service:
    return sqlite_chat_service


@pytest.fixture
def client(service: Service, model: ModelServer) -> Iterator[Client]:
    """The client of a new tenant, to set up the page's content and to check the results."""
    with open_chatter(service, model) as visitor:
        yield visitor


@pytest.fixture
def open_page(profiles: Profiles, client: Client, pytestconfig: pytest.Config) -> Iterator[Callable[..., Visit]]:
    """Opens windows that are signed in as that tenant, one per call, each with a profile of its own."""
    with open_windows(profiles, client, is_thorough=pytestconfig.getoption("torture")) as visit:
        yield visit


@pytest.fixture
def page(open_page: Callable[..., Visit]) -> Visit:
    return open_page()
