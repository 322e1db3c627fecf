"""What every page has: the palette, shortcuts, the theme, signing out, and an address that does not exist."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_harness import Visit, look_at, sign_in
from tests.model_server import ModelServer
from tests.surfaces.server_harness import Client

PALETTE = "Search pages, conversations, goals, todos and actions"


def get_active_option(page: Page) -> str:
    """The text of the option that the field says is active."""
    active = page.get_by_label(PALETTE).get_attribute("aria-activedescendant")
    return page.locator(f"[id='{active}']").inner_text()


def test_the_palette_goes_anywhere_and_does_anything(open_page: Callable[..., Visit], client: Client, model: ModelServer) -> None:
    model.hold()  # the goal is active until it is paused
    conversation = client.conversation(title="Paint the kitchen")
    client.add("buy green paint")
    goal = client.ok("POST", "/v1/goals", 201, json={"description": "Paint every room"})["goal"]["id"]
    client.ok("POST", f"/v1/goals/{goal}/pause")
    page = open_page("/memory").live()
    keyboard, field = page.page.keyboard, page.page.get_by_label(PALETTE)
    options = page.page.get_by_role("listbox", name="Results").get_by_role("option")

    keyboard.press("Control+k")
    expect(field).to_be_focused()
    expect(options.filter(has_text="Paint the kitchen")).to_be_visible()
    assert get_active_option(page.page) == "Chat"
    keyboard.press("ArrowUp")
    assert get_active_option(page.page) == "Sign out…"
    keyboard.press("Escape")
    expect(field).to_have_count(0)

    keyboard.press("Control+k")
    field.fill("paint")
    for name in ("Paint the kitchen", "Paint every room", "buy green paint"):
        expect(options.filter(has_text=name)).to_be_visible()
    options.filter(has_text="Paint every room").click()
    expect(page.page).to_have_url(f"{page.url}/goals/{goal}")
    keyboard.press("Control+k")
    field.fill("kitchen")
    expect(options.first).to_contain_text("Paint the kitchen")
    keyboard.press("Enter")
    expect(page.page).to_have_url(f"{page.url}/c/{conversation}")

    message = page.page.get_by_label("Message", exact=True)
    message.fill("What")
    message.press("?")
    expect(message).to_have_value("What?")
    message.press("Control+k")  # also while typing
    field.fill("green paint")
    options.filter(has_text="buy green paint").click()
    expect(page.page.get_by_role("dialog", name=re.compile("buy green paint"))).to_be_visible()
    keyboard.press("Escape")
    expect(page.page).to_have_url(f"{page.url}/board")
    keyboard.press("Control+k")
    field.fill("halt everything")
    expect(options).to_have_count(0)
    sign_in(page.page.context, client, "operator")
    page.open("/board").live()
    keyboard.press("Control+k")
    field.fill("halt everything")
    expect(options).to_have_count(1)
    keyboard.press("Enter")
    expect(page.page.get_by_role("dialog")).to_contain_text("Halt everything?")
    page.button("Leave it as is").click()
    expect(page.page).to_have_url(f"{page.url}/operations")
    assert client.ok("GET", "/v1/halt")["halt"]["halted"] is False

    page.page.locator("main").focus()
    keyboard.press("?")
    expect(page.page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Rename the focused conversation")


@pytest.mark.proof
def test_the_theme_follows_the_system_until_one_is_chosen_and_again_after(open_page: Callable[..., Visit]) -> None:
    page = open_page()
    page.page.emulate_media(color_scheme="dark")
    page.open("/memory").live()
    other = open_page("/memory", context=page.page.context).live()

    def get_schemes() -> list[str]:
        return [
            visit.page.evaluate(
                "getComputedStyle(document.documentElement).colorScheme + (document.documentElement.dataset.theme ?? '')"
            )
            for visit in (page, other)
        ]

    page.button("Theme: system. Change to light").click()
    expect(other.button("Theme: light. Change to dark")).to_be_visible()
    assert get_schemes() == ["lightlight"] * 2
    page.page.reload()
    page.live().button("Theme: light. Change to dark").click()
    page.button("Theme: dark. Change to system").click()
    expect(other.button("Theme: system. Change to light")).to_be_visible()
    assert get_schemes() == ["light dark"] * 2
    page.page.locator("main").focus()
    page.page.keyboard.press("?")
    expect(page.page.get_by_role("dialog")).to_be_visible()
    look_at(page, "shortcuts")
    page.page.keyboard.press("Escape")

    # An address that does not exist shows the page.
    page.forgiven = ("404",)
    page.open("/goals/x/y").live()
    expect(page.page).to_have_title("Page not found · Headway")
    expect(page.page.get_by_role("main")).to_contain_text("There is nothing at /goals/x/y.")
    look_at(page, "nowhere")
    page.button("Search").click()
    page.page.get_by_role("option", name="Board", exact=True).click()
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Todo board")
    for path in ("/c/999999", "/c/1", "/goals/none"):
        page.go(path)
        expect(page.page.get_by_role("heading", level=1).last).to_have_text(re.compile("(Page|Conversation) not found"))
