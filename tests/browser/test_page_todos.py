"""The todo panel: the agent's plan, live, and edits by people while it works."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.page_harness import DESK, PHONE, Visit
from tests.model_server import ModelServer, Reply, Request, calls, slow, text
from tests.surfaces.conversation_client import plan_and_drain
from tests.surfaces.server_harness import Client, wait_until


def waiting_after(model: ModelServer, *first: Reply) -> Callable[[Request], Reply]:
    """Send these replies; then hold the next one until the test releases it."""
    replies = list(first)

    def script(_request: Request) -> Reply:
        if replies:
            return replies.pop(0)
        model.hold()
        return text("That is all.")

    return script


def plan(*titles: str) -> Reply:
    return calls(("create_todo", {"items": [{"title": title} for title in titles]}))


def row(page: Visit, title: str) -> Locator:
    return page.rows.filter(has_text=title)


@pytest.fixture
def working(page: Visit, model: ModelServer) -> Visit:
    """An agent that has planned three items and waits for its model."""
    model.script = waiting_after(model, plan("buy milk", "call Ada", "write it down"))
    page.open().live().say("go")
    expect(page.panel).to_contain_text("3 total · 3 remaining")
    page.button("Expand").click()
    expect(page.rows).to_have_count(3)
    return page


def expect_titles(page: Visit, *titles: str) -> None:
    expect(page.rows.locator(".grow")).to_have_text([*titles])


def list_shapes(page: Visit) -> list[str | None]:
    return [icon.get_attribute("aria-label") for icon in page.rows.locator("> svg").all()]


def test_people_change_the_plan_of_a_working_agent_which_sees_it(working: Visit, client: Client, model: ModelServer) -> None:
    # Items move by keyboard.
    working.button("Finish: write it down").focus()
    working.page.keyboard.press("Alt+ArrowUp")

    expect(working.rows.nth(1)).to_contain_text("write it down")
    expect_titles(working, "buy milk", "write it down", "call Ada")
    working.button("Finish: write it down").focus()
    working.page.keyboard.press("Alt+ArrowDown")
    expect(working.rows.nth(2)).to_contain_text("write it down")

    # An item is edited, and canceling it is undone.
    working.button("Edit: call Ada").click()
    field = working.page.get_by_label("Text of the todo")
    expect(field).to_have_value("call Ada")
    field.fill("call Grace")
    working.page.keyboard.press("Enter")
    expect(row(working, "call Grace")).to_be_visible()
    working.button("Edit: call Grace").click()
    field.fill("nothing")
    working.page.keyboard.press("Escape")
    expect(row(working, "call Grace")).to_be_visible()

    working.button("Cancel: call Grace").click()
    expect(working.panel).to_contain_text("2 total · 2 remaining · 1 canceled")
    expect(row(working, "call Grace").get_by_role("img")).to_have_attribute("aria-label", "canceled")
    working.button("Undo").click()
    expect(working.panel).to_contain_text("3 total · 3 remaining")
    working.button("Cancel: call Grace").click()
    working.button("Restore: call Grace").click()
    expect(working.panel).not_to_contain_text("canceled")
    assert {todo["subject"]: todo["status"] for todo in client.ok("GET", "/v1/todos")["todos"]} == {
        "buy milk": "pending",
        "call Grace": "pending",
        "write it down": "pending",
    }

    # Only an item in progress is current. A person may finish it, and the next one is pending until the agent starts it.
    expect(working.panel).to_contain_text("Next:buy milk")
    assert list_shapes(working) == ["pending", "pending", "pending"]
    milk = client.ok("GET", "/v1/todos", params={"limit": 1})["todos"][0]
    client.change(milk, status="in_progress")
    expect(working.panel).to_contain_text("Current:buy milk")
    expect(working.panel.locator(".spin").first).to_be_visible()
    assert list_shapes(working) == ["in progress", "pending", "pending"]
    working.page.reload()
    expect(working.live().panel).to_contain_text("Current:buy milk")
    expect(working.rows).to_have_count(3)  # that it is expanded is remembered
    working.button("Finish: buy milk").click()
    expect(working.panel).to_contain_text("Next:call Grace")
    expect(working.panel.locator(".spin")).to_have_count(0)

    # Writs of the model show at once.
    ids = {todo["subject"]: todo["id"] for todo in client.ok("GET", "/v1/todos")["todos"]}
    client.change({"id": ids["buy milk"]}, status="pending")
    model.script = waiting_after(model, text(f"On it.\n/todo done {ids['buy milk']}\n/todo start #{ids['call Grace']}"))
    model.release()
    expect(working.panel).to_contain_text("3 total · 2 remaining")
    expect(working.panel).to_contain_text("Current:call Grace")
    expect(working.log).to_contain_text("On it.")
    expect(working.log).not_to_contain_text("/todo")

    # On a phone, the text of an item has most of the width, and the input stays uncovered.
    working.page.set_viewport_size(PHONE)
    item = row(working, "call Grace")
    edit = item.get_by_role("button", name="Edit: call Grace")
    expect(edit).to_be_hidden()
    widths = item.evaluate("li => [li.querySelector('.grow').offsetWidth, li.offsetWidth]")
    assert widths[0] > 0.6 * widths[1]
    item.get_by_role("button", name="Finish: call Grace").focus()
    expect(edit).to_be_visible()
    item.get_by_role("button", name="Cancel: call Grace").click()
    toast = working.page.locator(".toast")
    expect(toast).to_contain_text("Canceled “call Grace”.")
    working.shoot("todo-panel-phone")
    dock = working.page.locator(".dock").bounding_box()
    shown = toast.bounding_box()
    assert dock is not None
    assert shown is not None
    assert shown["y"] + shown["height"] <= dock["y"]
    working.page.set_viewport_size(DESK)
    expect(working.panel).to_contain_text("2 total · 1 remaining")

    # The agent sees all of it at its next step.
    working.page.get_by_label("Add a todo").fill("feed the cat")
    working.page.keyboard.press("Enter")
    expect(working.panel).to_contain_text("3 total · 2 remaining")
    working.button("Move up: feed the cat").click()
    expect(working.rows.nth(1)).to_contain_text("feed the cat")
    working.button("Collapse").click()
    working.page.reload()
    expect(working.live().panel).to_contain_text("3 total")
    expect(working.rows).to_have_count(0)
    seen: list[str] = []

    def look(request: Request) -> Reply:
        seen.append(request.last)
        return text("I give up.")

    model.script = look
    model.release()
    wait_until(lambda: bool(seen), "the agent asks again")
    listed = seen[0]
    assert listed.index("feed the cat") < listed.index("write it down")
    todos = {todo["subject"]: todo["status"] for todo in client.ok("GET", "/v1/todos")["todos"]}
    assert todos == {"call Grace": "canceled", "buy milk": "completed", "feed the cat": "pending", "write it down": "pending"}


def test_the_panel_follows_the_agent_to_the_end_and_shows_the_neighbourhood_of_a_long_list(
    page: Visit, client: Client, model: ModelServer
) -> None:
    model.script = plan_and_drain("one", "two")
    page.open().live().say("go")

    expect(page.panel).to_contain_text("All done2 todos")
    expect(page.panel.locator(".todo-current")).to_have_count(0)
    page.button("Expand").click()
    expect(page.rows).to_have_count(2)
    expect(page.log.locator(".turn-usage")).to_have_count(1)

    # Of a long list, the neighbourhood of the current item is shown, and the rest on demand.
    model.script = waiting_after(model, plan(*(f"item {n}" for n in range(120))))
    page.go("/")
    expect(page.log).to_have_count(0)
    page.say("go")
    page.button("Expand").click()
    expect(page.rows).to_have_count(50)
    todo = next(todo for todo in client.ok("GET", "/v1/todos", params={"limit": 500})["todos"] if todo["subject"] == "item 30")
    client.change(todo, status="in_progress")
    expect(row(page, "item 30")).to_be_in_viewport()
    page.page.wait_for_function(
        "() => { const log = document.querySelector('.log'); return log.scrollTop + log.clientHeight >= log.scrollHeight - 2; }"
    )
    page.button("+70 more").click()
    expect(page.rows).to_have_count(120)
    page.button("Show fewer").click()
    expect(page.rows).to_have_count(50)


def judged_queue(*items: str) -> Callable[[Request], Reply]:
    """A model in queue mode: it fills the queue and answers each item. As the assessor, it accepts every answer."""
    filling = [calls(("manage_todos", {"add": list(items)}))]

    def script(request: Request) -> Reply:
        if "manage_todos" not in request.tools:
            return text(json.dumps({"ok": True, "reason": ""}))
        return filling.pop() if filling else text("Here is what came of it.")

    return script


NOTE_ANNOUNCEMENT = """() => new MutationObserver(() => {
    if (document.body.textContent.includes('Continuing: item 1')) window.isAnnounced = true;  // for two seconds
}).observe(document.body, { subtree: true, childList: true, characterData: true })"""


def test_a_resubmission_is_announced_for_two_seconds_and_the_cap_is_a_warning_that_stays(page: Visit, model: ModelServer) -> None:
    accept = judged_queue(*(f"item {n}" for n in range(9)))
    resubmitted: list[Request] = []

    def script(request: Request) -> Reply:
        """The first item that comes by itself takes longer than its announcement."""
        if "manage_todos" in request.tools and any(message.startswith("NEXT_TODO") for message in request.texts):
            resubmitted.append(request)
        return slow(4, accept(request)) if len(resubmitted) == 1 else accept(request)

    model.script = script
    model.hold()
    page.open().live()
    page.page.get_by_label("Work mode").select_option("queue")
    page.say("go")
    expect(page.log).to_contain_text("Working")  # the page's stream is open: it gets every later event
    page.page.evaluate(NOTE_ANNOUNCEMENT)
    model.release()
    page.page.wait_for_function("() => window.isAnnounced")
    expect(page.panel).not_to_contain_text("Continuing: item 1")
    warning = page.panel.get_by_role("alert")
    expect(warning).to_contain_text(re.compile("5"))
    expect(page.panel).to_contain_text("9 total · 3 remaining")
    message = warning.inner_text()
    page.page.reload()
    expect(page.live().panel.get_by_role("alert")).to_have_text(message)
