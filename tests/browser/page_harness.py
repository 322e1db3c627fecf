"""Drives the page as people do: by its visible text and roles."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, Route, ViewportSize, expect

from headway.actions.access import tokens
from headway.ledger.tenancy import LOCAL_TENANT, TokenScope
from headway.testing import TenantHarness
from tests.surfaces.server_harness import Client

PATIENCE_MS = 60_000  # as long as the other tests wait: a machine that stands still for half a minute is no failure
EMPTY_PAGE = "/healthz"
SHOTS = os.environ.get("HEADWAY_SCREENSHOTS")  # the folder to write screenshots to. None are taken without it
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
DESK: ViewportSize = {"width": 1280, "height": 720}
PHONE: ViewportSize = {"width": 390, "height": 844}
SIZES = {"desk": DESK, "phone": PHONE}
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--num-raster-threads=1",
    "--disable-lcd-text",
]

FOLLOW = """path => {
    const link = Object.assign(document.createElement('a'), { href: path });
    document.body.append(link);
    link.click();
    link.remove();
}"""

expect.set_options(timeout=PATIENCE_MS)


# The headless shell first: it draws no window, and takes half the time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")


def launch_browser(playwright: Playwright) -> Browser:
    program = os.environ.get("HEADWAY_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if not program:
        pytest.fail("These tests need chromium: `apt-get install chromium`, or HEADWAY_CHROMIUM=/path/to/it. `make test` tries.")
    return playwright.chromium.launch(executable_path=program, args=FLAGS)


class Visit:
    """What a test does in one window, and the errors and warnings of its console."""

    def __init__(self, page: Page, url: str, *, is_thorough: bool = False) -> None:
        self.page = page
        self.url = url
        self.is_thorough = is_thorough  # whether it is looked at in both themes and sizes
        self.complaints: list[str] = []
        self.forgiven: tuple[str, ...] = ()
        self._listeners: list[tuple[Any, Callable[[Any], None]]] = []
        self.listen("pageerror", lambda error: self.complaints.append(str(error)))
        self.listen("console", self._note)

    def listen(self, event: Any, listener: Callable[[Any], None]) -> None:
        """Listen to events of the window until the visit ends. The window outlives it."""
        self.page.on(event, listener)
        self._listeners.append((event, listener))

    def stop_listening(self) -> None:
        for event, listener in self._listeners:
            self.page.remove_listener(event, listener)
        self._listeners.clear()

    def _note(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(f"{said.text} ({said.location['url']})")

    def open(self, path: str = "/") -> "Visit":
        self.page.goto(f"{self.url}{path}")
        return self

    def go(self, path: str) -> "Visit":
        """Go to another address as links of the page do, without loading the page again."""
        self.page.evaluate(FOLLOW, path)
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
        """Take a screenshot for people to look at, if a folder is set."""
        if SHOTS:
            self.page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=whole, animations="disabled")


def hold_requests(visit: Visit, pattern: str | re.Pattern[str]) -> list[Route]:
    """Leave these requests without an answer from now on. They are added to the list as they arrive."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visit.page.route(pattern, hold)
    return held


class Profiles:
    """The browser's profiles, each without cookies and stored data when it is taken.

    A profile and its first window are used again by later tests: its cache and its process save half of the work of
    opening the page.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[str, list[BrowserContext]] = defaultdict(list)

    @contextmanager
    def take(self, *, cold: bool = False, **options: Any) -> Iterator[BrowserContext]:
        """Lend a profile with one window. A cold one is new, with an empty cache, and not used again."""
        options = {"viewport": DESK, "reduced_motion": "reduce", "color_scheme": "light", **options}
        kind = repr(sorted(options.items()))
        context = None if cold or not self._free[kind] else self._free[kind].pop()
        if context is None:
            context = self._browser.new_context(**options)
            context.set_default_timeout(PATIENCE_MS)
        if not context.pages:
            context.new_page()
        try:
            yield context
        finally:
            if cold:
                context.close()
            else:
                reset_profile(context, options)
                self._free[kind].append(context)


def reset_profile(context: BrowserContext, options: dict[str, Any]) -> None:
    """Close all windows but the first, and take that to an empty page of the server, where it follows no events."""
    context.set_offline(False)
    context.clear_cookies()
    for page in context.pages[1:]:
        page.close()
    for page in context.pages:
        if page.url.startswith("http"):
            page.goto(urljoin(page.url, EMPTY_PAGE))
            page.evaluate("() => localStorage.clear()")
        page.unroute_all(behavior="ignoreErrors")
        page.set_viewport_size(options["viewport"])
        page.emulate_media(color_scheme=options["color_scheme"])


@contextmanager
def open_windows(profiles: Profiles, client: Client, *, is_thorough: bool = False) -> Iterator[Callable[..., Visit]]:
    """Opens windows that are signed in as the client's tenant, one per call."""
    visits: list[Visit] = []
    url = str(client.base_url).rstrip("/")

    with ExitStack() as taken:

        def visit(path: str | None = None, *, context: BrowserContext | None = None, **options: Any) -> Visit:
            if context is None:
                context = taken.enter_context(profiles.take(**options))
                sign_in(context, client)
                page = context.pages[0]
            else:
                page = context.new_page()
            opened = Visit(page, url, is_thorough=is_thorough)
            taken.callback(opened.stop_listening)
            visits.append(opened)
            return opened.open(path) if path else opened

        yield visit
    for opened in visits:
        opened.check()


def sign_in(context: BrowserContext, client: Client, scope: TokenScope = "admin") -> None:
    """Sign in as the page does, with a new token of the tenant, or of the tenant `local` if it is the operator's."""
    url = str(client.base_url).rstrip("/")
    desk = TenantHarness(client.desk.database, LOCAL_TENANT) if scope == "operator" else client.desk
    token = desk.write(tokens.create_token, "somebody at a browser", scope=scope).secret
    answer = context.request.post(f"{url}/login", data={"token": token}, headers={"Origin": url})
    assert answer.status == 204, answer.text()


COLOUR_RULES = ["color-contrast", "link-in-text-block"]
RUN_AXE = "runOnly => axe.run({ resultTypes: ['violations'], ...(runOnly && { runOnly }) })"
WIDER = """() => Math.max(
    ...[...document.querySelectorAll('html, .main')].map((one) => one.scrollWidth - innerWidth),
    ...[...document.querySelectorAll('dialog[open]')].map((one) => one.scrollWidth - one.clientWidth))"""


def look_at(visit: Visit, name: str) -> None:
    """Check the looks of what is shown, in both themes at a desk and on a phone, if the visit is thorough. Pictures are taken."""
    if not visit.is_thorough:
        return
    before = visit.page.viewport_size
    for size, viewport in SIZES.items():
        visit.page.set_viewport_size(viewport)
        check_looks(visit, f"{name}-{size}", "dark", "light")
    visit.page.set_viewport_size(before or DESK)


def check_looks(visit: Visit, name: str, *themes: Literal["light", "dark"]) -> None:
    """Check that axe finds nothing in these themes, which differ in their colours alone, and that nothing is wider than the window
    or an open dialog. The last theme stays."""
    for theme in themes:
        visit.page.emulate_media(color_scheme=theme)
        visit.shoot(f"{name}-{theme}")
        found = list_violations(visit, COLOUR_RULES if theme == "dark" else None)
        assert not found, f"{name}, {theme}: {found}"
    wider = visit.page.evaluate(WIDER)
    assert wider <= 0, f"{name} is {wider} pixels wider than the window"


def list_violations(visit: Visit, rules: list[str] | None = None) -> list[str]:
    """The violations that axe-core finds in the page as it is now."""
    if not visit.page.evaluate("() => 'axe' in window"):
        visit.page.evaluate(AXE.read_text(encoding="utf-8"))
    report = visit.page.evaluate(RUN_AXE, rules)
    return [f"{violation['id']}: {node['html'][:120]}" for violation in report["violations"] for node in violation["nodes"]]
