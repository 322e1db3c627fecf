"""One stream per page, without gaps or duplicates: offline and back, a killed server, two tabs, hidden tabs."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.page_harness import Profiles, Visit, open_windows
from tests.free_ports import find_ports
from tests.model_server import ModelServer, environment, text
from tests.surfaces.server_harness import Client, Service, run_server, wait_until

LOST = ("ERR_", "Failed to load resource", "401", "503")


def column(page: Visit, name: str) -> Locator:
    return page.region(name)


def expect_subjects(page: Visit, name: str, *subjects: str) -> None:
    expect(column(page, name).locator(".tile .clamp")).to_have_text([*subjects])


def streams(client: Client) -> int:
    matched = re.search(r"^headway_\w*streams\w* (\d+)", client.get("/metrics").text, re.MULTILINE)
    assert matched
    return int(float(matched[1]))


def test_events_missed_while_offline_appear_and_two_tabs_show_the_same_with_one_stream_each(
    open_page: Callable[..., Visit], client: Client
) -> None:
    page = open_page()
    page.forgiven = LOST
    client.add("before")
    page.open("/board").live()
    page.page.context.set_offline(True)
    expect(page.page.locator(".side footer")).to_contain_text("Offline")
    todo = client.add("meanwhile")
    client.change(todo, status="in_progress")
    client.add("also")
    page.page.context.set_offline(False)

    page.live()
    expect(column(page, "In progress")).to_contain_text("meanwhile")
    expect_subjects(page, "Pending", "before", "also")
    expect_subjects(page, "In progress", "meanwhile")

    # Two tabs show the same, and each has one stream.
    first = page
    second = open_page("/board", context=first.page.context).live()
    second.forgiven = LOST
    first.page.bring_to_front()
    first.live().page.get_by_label("Add a todo").fill("seen by both")
    first.page.keyboard.press("Enter")

    for tab in (first, second):
        tab.page.bring_to_front()
        expect(column(tab, "Pending")).to_contain_text("seen by both")
        expect_subjects(tab, "Pending", "before", "also", "seen by both")
    for name in ("Operations", "Board", "Chat", "Board"):
        second.page.get_by_role("link", name=name, exact=True).click()
        second.live()
    wait_until(lambda: streams(client) == 2, "one stream each, wherever they went")

    # A page of an older build says so.
    page.page.bring_to_front()
    page.page.route(
        "**/v1/session",
        lambda route: route.fulfill(
            json={"session": {"tenant": "t", "operator": True, "scopes": ["read"], "expires_at": 0, "page": "newer"}}
        ),
    )
    page.page.context.set_offline(True)
    page.page.context.set_offline(False)

    expect(page.page.get_by_text("Headway was updated. Reload to get the new page.")).to_be_visible()


HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    Object.defineProperty(document, 'visibilityState', { value: hidden ? 'hidden' : 'visible', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_a_hidden_tab_lets_go_of_its_stream_and_misses_nothing(open_page: Callable[..., Visit], client: Client) -> None:
    page = open_page(cold=True)  # a clock stays installed
    page.page.clock.install()
    page.open("/board").live()
    wait_until(lambda: streams(client) == 1, "one stream")
    page.page.evaluate(HIDE, True)
    page.page.clock.run_for(6_000)
    wait_until(lambda: streams(client) == 0, "no stream")
    client.add("while nobody looked")
    page.page.evaluate(HIDE, False)

    page.live()
    expect(column(page, "Pending")).to_contain_text("while nobody looked")
    expect_subjects(page, "Pending", "while nobody looked")


@contextmanager
def lasting(folder: Path, model: ModelServer, port: int) -> Iterator[Service]:
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder, ["--port", str(port)], environment(model)) as service:
        yield service


def test_the_page_misses_no_event_of_a_new_server_and_reconnects_to_a_restarted_one(
    profiles: Profiles, model: ModelServer, tmp_path: Path
) -> None:
    port = find_ports()
    with lasting(tmp_path, model, port) as service, service.tenant() as client, open_windows(profiles, client) as visit:
        page = visit()
        page.forgiven = LOST
        model.hold()
        page.open("/board").live()
        assert client.add("the first of all")  # the very first event of a ledger is not missed
        expect(column(page, "Pending")).to_contain_text("the first of all")
        page.go("/")
        expect(page.log).to_have_count(0)
        page.say("tell me")
        model.wait_for_requests(1)
        page.page.wait_for_url("**/c/*")  # the page has the answer to its message
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        expect(page.page.locator(".side footer")).to_contain_text("Reconnecting")
        model.script = lambda _request: text("I was interrupted, and here I am.")
        model.release()
        with lasting(tmp_path, model, port):
            expect(page.log).to_contain_text("I was interrupted, and here I am.", timeout=60_000)
            page.live()
            expect(page.log.locator(".msg.user")).to_have_count(1)
            expect(page.log.locator(".msg.assistant")).to_have_count(1)
            page.page.close()
