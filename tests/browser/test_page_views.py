"""Saved views of the board: opening, saving, changing, renaming and deleting them, on two windows and on a phone."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.page_harness import PHONE, Visit, check_looks
from tests.surfaces.server_harness import Client


def opener(page: Visit) -> Locator:
    return page.page.locator(".views-button")


def open_list(page: Visit) -> Locator:
    opener(page).click()
    panel = page.page.get_by_role("dialog", name="Saved views")
    expect(panel).to_be_visible()
    return panel


def entry(page: Visit, name: str) -> Locator:
    return page.page.get_by_role("dialog", name="Saved views").get_by_role("link", name=name)


def save(client: Client, name: str, **filters: object) -> int:
    return int(client.ok("POST", "/v1/views", 201, json={"name": name, "filters": filters})["view"]["id"])


def list_views(client: Client) -> list[tuple[str, dict[str, object]]]:
    views = client.ok("GET", "/v1/views")["views"]
    return [(view["name"], {name: value for name, value in view["filters"].items() if value is not None}) for view in views]


def fill_board(client: Client) -> None:
    client.add("paint the door")
    client.add("paint the gate", agent_id="robot")
    client.change(client.add("dig a hole", agent_id="robot"), status="in_progress")


def test_filters_are_saved_opened_changed_and_followed_by_other_windows(open_page: Callable[..., Visit], client: Client) -> None:
    fill_board(client)
    page, other = open_page("/board").live(), open_page("/board").live()
    expect(opener(page)).to_have_text("Views")
    expect(open_list(page)).to_contain_text("Filter or search the board, then save that here under a name.")
    expect(entry(page, "All todos")).to_have_attribute("aria-current", "true")
    page.page.keyboard.press("Escape")
    page.page.get_by_label("Agent", exact=True).select_option("robot")
    page.page.get_by_label("Search todos").fill("paint")
    expect(page.page.locator(".tile")).to_have_count(1)
    open_list(page).get_by_label("Name of the new view").fill("Painting robots")
    page.page.keyboard.press("Enter")
    expect(opener(page)).to_have_text("View: Painting robots")
    expect(opener(page)).to_be_focused()
    assert list_views(client) == [("Painting robots", {"agent_id": "robot", "q": "paint"})]
    view_id = client.ok("GET", "/v1/views")["views"][0]["id"]
    expect(page.page).to_have_url(f"{page.url}/board?view={view_id}&agent=robot&q=paint")

    open_list(other)
    expect(entry(other, "Painting robots")).to_contain_text("robot · “paint”")
    entry(other, "Painting robots").click()
    expect(other.page.get_by_role("dialog", name="Saved views")).to_be_hidden()
    expect(other.page).to_have_url(f"{page.url}/board?view={view_id}&agent=robot&q=paint")
    expect(other.page.locator(".tile")).to_have_count(1)
    expect(other.page.get_by_label("Search todos")).to_have_value("paint")
    other.page.go_back()
    expect(other.page).to_have_url(f"{page.url}/board")
    expect(opener(other)).to_have_text("Views")
    expect(other.page.locator(".tile")).to_have_count(3)
    other.page.go_forward()
    other.page.reload()
    expect(opener(other)).to_have_text("View: Painting robots")

    page.page.get_by_label("Search todos").press("Escape")
    expect(opener(page)).to_have_text("View: Painting robotsedited")
    expect(page.page).to_have_url(f"{page.url}/board?view={view_id}&agent=robot")
    panel = open_list(page)
    panel.get_by_role("button", name="Reset").click()
    expect(page.page).to_have_url(f"{page.url}/board?view={view_id}&agent=robot&q=paint")
    expect(opener(page)).to_have_text("View: Painting robots")
    page.page.go_back()
    open_list(page).get_by_role("button", name="Update “Painting robots”").click()
    expect(opener(page)).to_have_text("View: Painting robots")
    assert list_views(client) == [("Painting robots", {"agent_id": "robot"})]
    expect(opener(other)).to_have_text("View: Painting robotsedited")


@pytest.mark.proof
def test_a_view_is_renamed_and_deleted_and_that_is_undone(page: Visit, client: Client) -> None:
    fill_board(client)
    save(client, "Robots", agent_id="robot")
    taken = save(client, "Holes", q="hole")
    page.forgiven = ("409",)
    page.open(f"/board?view={taken}&q=hole").live()
    panel = open_list(page)
    page.button("Rename: Holes").click()
    field = panel.get_by_label("Name of the view")
    expect(field).to_be_focused()
    field.fill("robots")
    field.press("Enter")
    expect(page.page.get_by_text("There is already a saved view named 'Robots'.")).to_be_visible()
    expect(entry(page, "Holes")).to_be_focused()
    page.page.keyboard.press("F2")
    field.fill("Deep holes")
    field.press("Enter")
    expect(opener(page)).to_have_text("View: Deep holes")
    expect(entry(page, "Deep holes")).to_be_focused()
    page.page.keyboard.press("F2")
    field.fill("Never")
    field.press("Escape")
    expect(entry(page, "Deep holes")).to_be_focused()
    expect(panel).to_be_visible()

    page.button("Delete: Deep holes").click()
    expect(entry(page, "Deep holes")).to_have_count(0)
    expect(opener(page)).to_have_text("Views")
    expect(entry(page, "All todos")).to_be_focused()
    expect(page.page.locator(".tile")).to_have_count(1)
    assert [name for name, _ in list_views(client)] == ["Robots"]
    page.page.keyboard.press("Escape")
    page.button("Undo").click()
    expect(opener(page)).to_have_text("View: Deep holes")
    assert list_views(client) == [("Deep holes", {"q": "hole"}), ("Robots", {"agent_id": "robot"})]

    # An open todo stays open, and closes in the view.
    page.go("/board")
    page.button("paint the gate").click()
    sheet = page.page.get_by_role("dialog", name="paint the gate")
    expect(sheet).to_be_visible()
    open_list(page)
    page.page.keyboard.press("Escape")
    expect(page.page.get_by_role("dialog", name="Saved views")).to_be_hidden()
    expect(sheet).to_be_visible()
    open_list(page)
    entry(page, "Robots").click()
    expect(page.page.locator(".tile")).to_have_count(2)
    expect(sheet).to_be_visible()
    page.button("Close").click()
    expect(page.page).to_have_url(re.compile(r"/board\?view=\d+&agent=robot$"))
    expect(page.page.locator(".tile")).to_have_count(2)

    # The list works with the keyboard.
    save(client, "A name that is so long that it needs more room than the list of views has " * 2, status="pending")
    page.page.set_viewport_size(PHONE)
    page.go("/board?q=paint")
    opener(page).focus()
    page.page.keyboard.press("Enter")
    panel = page.page.get_by_role("dialog", name="Saved views")
    expect(entry(page, "All todos")).to_be_focused()
    expect(panel.get_by_role("listitem")).to_have_count(4)
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("ArrowDown")
    expect(entry(page, "Deep holes")).to_be_focused()
    if page.is_thorough:
        check_looks(page, "views-phone", "dark", "light")
    box = panel.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE["width"]
    assert box["y"] + box["height"] <= PHONE["height"]
    page.page.keyboard.press("Enter")
    expect(opener(page)).to_have_text("View: Deep holes")
    expect(opener(page)).to_be_focused()
    page.page.get_by_label("Search todos").fill("hole paint")
    expect(opener(page)).to_contain_text("edited")
    open_list(page)
    expect(panel.get_by_role("button", name="Update “Deep holes”")).to_be_visible()


def test_a_view_that_others_changed_is_not_overwritten_and_one_of_a_deleted_conversation_breaks_nothing(
    page: Visit, client: Client
) -> None:
    fill_board(client)
    conversation = client.conversation(title="The garden")
    client.add("in the garden", conversation_id=conversation)
    save(client, "Garden", conversation_id=conversation)
    page.open("/board").live()
    expect(page.page.locator(".tile")).to_have_count(4)
    open_list(page)
    expect(entry(page, "Garden")).to_contain_text("The garden")
    page.page.keyboard.press("Escape")
    client.ok("DELETE", f"/v1/conversations/{conversation}")

    page.forgiven = ("404",)
    open_list(page)
    entry(page, "Garden").click()
    expect(page.page.get_by_text("No todos with these filters.")).to_be_visible()
    expect(page.page.locator(".tile")).to_have_count(0)
    page.page.reload()
    page.live()
    expect(opener(page)).to_have_text("View: Garden")
    expect(page.page.get_by_text("No todos with these filters.")).to_be_visible()
    open_list(page)
    entry(page, "All todos").click()
    expect(page.page.locator(".tile")).to_have_count(3)

    # Another person's change is not overwritten.
    view_id = save(client, "Holes", q="hole")
    page.forgiven += ("409",)
    page.go(f"/board?view={view_id}&q=deep")
    button = open_list(page).get_by_role("button", name="Update “Holes”")
    expect(button).to_be_visible()
    page.page.route("**/v1/events*", lambda route: route.abort())
    page.page.route(
        re.compile(r"/v1/views/\d+$"),
        lambda route: (client.ok("PATCH", f"/v1/views/{view_id}", json={"filters": {"q": "wide"}}), route.continue_()),
        times=1,
    )
    button.click()
    expect(page.page.get_by_text("a test changed the view 'Holes' meanwhile. Nothing was changed.")).to_be_visible()
    assert ("Holes", {"q": "wide"}) in list_views(client)
