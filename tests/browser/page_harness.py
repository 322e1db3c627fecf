"""Drives the page as people do: by its visible text and roles."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, ViewportSize, expect

from headway.actions.access import tokens
from tests.surfaces.server_harness import Client

PATIENCE_MS = 20_000
ROOT = Path(__file__).parent.parent.parent
SHOTS = Path(os.environ.get("HEADWAY_SCREENSHOTS", ROOT / ".screenshots"))
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

expect.set_options(timeout=PATIENCE_MS)


# The headless shell first: it draws no window, and takes half the time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")


def launch_browser(playwright: Playwright) -> Browser:
    program = os.environ.get("HEADWAY_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if not program:
        pytest.fail("These tests need chromium: `apt-get install chromium`, or HEADWAY_CHROMIUM=/path/to/it. `make test` tries.")
    return playwright.chromium.launch(executable_path=program, args=FLAGS)


class Visit:
    """One window, and the errors and warnings of its console."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.forgiven: tuple[str, ...] = ()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None)

    def open(self, path: str = "/") -> "Visit":
        self.page.goto(f"{self.url}{path}")
        return self

    def live(self) -> "Visit":
        """Wait until the snapshot is loaded and the stream is open."""
        expect(self.page.locator(".side footer")).to_contain_text("Live")
        return self

    def check(self) -> None:
        wrong = [complaint for complaint in self.complaints if not any(words in complaint for words in self.forgiven)]
        assert wrong == [], wrong

    # Parts of the page

    def button(self, name: str, *, within: Locator | None = None, exact: bool = True) -> Locator:
        return (within or self.page).get_by_role("button", name=name, exact=exact)

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log")

    @property
    def panel(self) -> Locator:
        return self.region("Todos")

    @property
    def rows(self) -> Locator:
        return self.panel.get_by_role("listitem")

    # Actions of the user

    def say(self, words: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(words)
        self.page.keyboard.press("Enter")

    def shoot(self, name: str, *, whole: bool = False) -> None:
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=whole, animations="disabled")


@contextmanager
def open_windows(browser: Browser, client: Client) -> Iterator[Callable[..., Visit]]:
    contexts: list[BrowserContext] = []
    visits: list[Visit] = []

    def visit(path: str | None = None, *, context: BrowserContext | None = None, axe: bool = False, **options: Any) -> Visit:
        if context is None:
            context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
            context.set_default_timeout(PATIENCE_MS)
            contexts.append(context)
            sign_in(context, client)
            if axe:  # added to the document at load, because the content security policy blocks later scripts
                context.add_init_script(path=AXE)
        visits.append(Visit(context.new_page(), str(client.base_url).rstrip("/")))
        return visits[-1].open(path) if path else visits[-1]

    try:
        yield visit
    finally:
        for context in contexts:
            context.close()
    for opened in visits:
        opened.check()


def sign_in(context: BrowserContext, client: Client, *, operator: bool = True) -> None:
    """Sign in as the page does, with a new token of the tenant."""
    url = str(client.base_url).rstrip("/")
    token = client.desk.write(tokens.create, "somebody at a browser", scope="operator" if operator else "write").secret
    answer = context.request.post(f"{url}/login", data={"token": token}, headers={"Origin": url})
    assert answer.status == 204, answer.text()


def list_axe_violations(visit: Visit) -> list[str]:
    """The violations that axe-core finds in the current page, in both themes."""
    found = []
    is_dark = visit.page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    for theme in ("light", "dark") if is_dark else ("dark", "light"):  # the theme stays as it was
        visit.page.emulate_media(color_scheme=theme)
        report = visit.page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        nodes = [(violation["id"], node["html"][:120]) for violation in report["violations"] for node in violation["nodes"]]
        found += [f"{theme}: {rule}: {html}" for rule, html in nodes]
    return found
