"""The page in a browser: how fast a change is drawn among 500 todos and 1,500 messages, and how much is loaded before the page is
live."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bench.harness import Measurements, Unavailable, Workshop, at_least, at_most, benchmark, in_turns

TODOS = 500
MESSAGES = 1_500
FRAME_BUDGET_MS = 50.0
COLD_BUDGET_KB = 250.0
ROUNDS = 15
CARDS = 10_000
BATCH = 500
SCROLLED_PX = 120  # a frame: what a wheel scrolls by at a time
SCROLL_ROUNDS = 5
FLAGS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"]

# From the event's arrival to the frame that shows it. The page draws while it handles the event; the browser lays out and paints
# after.
WATCH = """() => {
    window.drawn = [];
    const add = EventTarget.prototype.addEventListener;
    EventTarget.prototype.addEventListener = function (kind, hear, ...rest) {
        const kinds = ['todos_updated', 'todo_changed', 'message', 'sub_goal_changed'];
        const timed = this instanceof EventSource && kinds.includes(kind);
        return add.call(this, kind, timed ? event => {
            const began = performance.now();
            hear(event);
            requestAnimationFrame(() => setTimeout(() => window.drawn.push(performance.now() - began)));
        } : hear, ...rest);
    };
}"""


SCROLL = """pixels => new Promise(resolve => {
    const box = document.querySelector('[aria-label="Pending"] .column-list');
    box.scrollTop = 0;
    const began = performance.now();
    let frames = 0;
    const draw = now => {
        frames++;
        box.scrollTop += pixels;
        if (now - began < 2000) requestAnimationFrame(draw);
        else resolve(frames * 1000 / (now - began));
    };
    requestAnimationFrame(draw);
})"""


class Stage(NamedTuple):
    """A server, and a browser that is signed in to it."""

    url: str
    context: Any

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.context.request.fetch(f"{self.url}{path}", method=method, data=body, headers={"Origin": self.url})
        assert answer.ok, answer.text()
        return answer.json()


def stage(shop: Workshop) -> Stage:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Unavailable("Playwright is not installed: pip install -e '.[dev]'") from None
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chromium-headless-shell"))), None)
    if not program:
        raise Unavailable("chromium is not installed")
    command = [sys.executable, "-m", "headway", "serve", "--json", "--port", "0", "--home", str(shop.folder / "page")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    server = subprocess.Popen(command, cwd=shop.folder, env=env, stdout=subprocess.PIPE, text=True)
    shop.cleanup.callback(server.wait)
    shop.cleanup.callback(server.terminate)
    assert server.stdout is not None
    started = json.loads(server.stdout.readline())
    playwright = shop.cleanup.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
    shop.cleanup.callback(browser.close)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.request.get(started["login_url"])
    return Stage(started["url"], context)


def drawing(page: Any, change: Callable[[], None]) -> float:
    """Return the milliseconds until a change is on the screen."""
    page.evaluate("() => { window.drawn = []; }")
    change()
    page.wait_for_function("() => window.drawn.length > 0")
    return float(page.evaluate("() => window.drawn[0]"))


def live(page: Any) -> None:
    page.wait_for_function("() => document.querySelector('.side footer')?.innerText.includes('Live')")


@benchmark("page.panel.500", "an event among 500 todos of a turn, all of them on screen, until it is drawn", "50 ms", at_most(1))
def panel(shop: Workshop) -> Measurements:
    site = shop.once(stage)
    conversation = site.ask("POST", "/v1/conversations", {})["conversation"]["id"]
    turn = site.ask("POST", "/v1/turns", {"conversation_id": conversation})["turn"]["id"]
    rows = [{"subject": f"step {n}", "turn_id": turn} for n in range(TODOS)]
    todos = site.ask("POST", "/v1/todos", {"todos": rows})["todos"]
    page = site.context.new_page()
    page.add_init_script(f"({WATCH})()")
    page.goto(f"{site.url}/c/{conversation}")
    live(page)
    page.get_by_role("button", name="Expand").click()
    page.get_by_role("button", name=f"+{TODOS - 50} more").click()
    page.wait_for_function(f"() => document.querySelectorAll('.todo-list li').length === {TODOS}")
    return against_budget(site, page, [todo["id"] for todo in todos])


@benchmark("page.board.500", "an event among 500 todos on the board, until it is drawn", "50 ms", at_most(1))
def board(shop: Workshop) -> Measurements:
    site = shop.once(stage)
    conversation = site.ask("POST", "/v1/conversations", {"title": "board"})["conversation"]["id"]
    rows = [{"subject": f"step {n}", "conversation_id": conversation} for n in range(TODOS)]
    todos = site.ask("POST", "/v1/todos", {"todos": rows})["todos"]
    page = site.context.new_page()
    page.add_init_script(f"({WATCH})()")
    page.goto(f"{site.url}/board?conversation={conversation}")
    live(page)
    page.wait_for_function("() => document.querySelectorAll('.tile:not(.unknown)').length > 5")
    return against_budget(site, page, [todo["id"] for todo in todos])


@benchmark(
    "page.board.scroll",
    "frames while a column of 10,000 cards scrolls",
    "frames of the same page while nothing moves",
    at_least(0.95),
)
def scroll(shop: Workshop) -> Measurements:
    site = shop.once(stage)
    conversation = site.ask("POST", "/v1/conversations", {"title": "long"})["conversation"]["id"]
    for start in range(0, CARDS, BATCH):
        rows = [{"subject": f"card {start + n}", "conversation_id": conversation} for n in range(BATCH)]
        site.ask("POST", "/v1/todos", {"todos": rows})
    page = site.context.new_page()
    page.goto(f"{site.url}/board?conversation={conversation}")
    live(page)
    page.wait_for_function("() => document.querySelectorAll('.tile:not(.unknown)').length > 5")

    def count_frames(pixels: int) -> float:
        """Return the frames per second during two seconds, each of which scrolls by some pixels."""
        return float(page.evaluate(SCROLL, pixels))

    measurements = in_turns(partial(count_frames, SCROLLED_PX), partial(count_frames, 0), SCROLL_ROUNDS)
    page.close()
    return measurements


@benchmark("page.log.1500", "a message in a log of 1,500 messages, with 500 todos, until it is drawn", "50 ms", at_most(1))
def log(shop: Workshop) -> Measurements:
    site = shop.once(stage)
    conversation = site.ask("POST", "/v1/conversations", {"title": "log"})["conversation"]["id"]
    page = site.context.new_page()
    page.add_init_script(f"({WATCH})()")
    page.route("**/timeline?*", serve_long_log)
    page.goto(f"{site.url}/c/{conversation}")
    live(page)
    page.wait_for_function(f"() => document.querySelectorAll('.msg').length === {MESSAGES}")

    def send() -> None:
        page.wait_for_function("() => !document.querySelector('.send.stop')")  # one turn at a time
        site.ask("POST", f"/v1/conversations/{conversation}/messages", {"content": "hello"})

    measurements = in_turns(partial(drawing, page, send), lambda: FRAME_BUDGET_MS, ROUNDS, "ms")
    page.close()
    return measurements


def serve_long_log(route: Any) -> None:
    """Answer with a longer conversation than the server has: making it would take an hour."""
    timeline = route.fetch().json()["timeline"]
    common = {"turn_id": "earlier", "created_at": 1, "attachments": []}
    messages = [
        {**common, "id": n + 1, "role": "assistant" if n % 2 else "user", "content": f"Message **{n}**\n\n- one\n- `two`"}
        for n in range(MESSAGES)
    ]
    entries = [{"seq": 1, "kind": "message", "at": 1, "data": message} for message in messages]
    items = [{"id": n + 1, "description": f"step {n}", "status": "pending"} for n in range(TODOS)]
    todos = {"total": TODOS, "remaining": TODOS, "current": None, "items": items}
    route.fulfill(json={"timeline": {**timeline, "entries": entries, "todos": todos}})


def against_budget(site: Stage, page: Any, ids: list[int]) -> Measurements:
    open_ids = list(ids)

    def finish() -> None:
        site.ask("PATCH", f"/v1/todos/{open_ids.pop(len(open_ids) // 2)}", {"status": "completed"})

    measurements = in_turns(partial(drawing, page, finish), lambda: FRAME_BUDGET_MS, ROUNDS, "ms")
    page.close()
    return measurements


@benchmark("page.cold", "kilobytes until a chat page is live, nothing kept from before", "250 KB", at_most(1))
def cold(shop: Workshop) -> Measurements:
    site = shop.once(stage)
    state = site.context.storage_state()

    def load() -> float:
        context = site.context.browser.new_context(storage_state=state)
        page = context.new_page()
        network = context.new_cdp_session(page)
        network.send("Network.enable")
        sizes: list[float] = []
        network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        page.goto(site.url)
        live(page)
        page.wait_for_function("() => document.fonts.status === 'loaded'")
        context.close()
        return sum(sizes) / 1024

    return in_turns(load, lambda: COLD_BUDGET_KB, 5, "KB")
