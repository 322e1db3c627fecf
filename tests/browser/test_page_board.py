"""The board: all todos of the tenant by status, live, moved by mouse and by keyboard."""

import re

from playwright.sync_api import APIResponse, Locator, Route, expect

from tests.browser.page_harness import Visit
from tests.surfaces.server_harness import Client

COLUMNS = 4


def tile(page: Visit, subject: str) -> Locator:
    return page.page.locator(".tile").filter(has_text=subject)


def status(client: Client, todo: dict[str, object]) -> str:
    return str(client.ok("GET", f"/v1/todos/{todo['id']}")["todo"]["status"])


def test_todos_stand_in_the_column_of_their_status_and_move_when_they_change(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    expect(page.region("Pending")).to_contain_text("water the plants")
    expect(page.region("Pending").get_by_role("heading")).to_have_text(re.compile(r"Pending\s+1"))

    for change, column in (("in_progress", "In progress"), ("completed", "Done")):
        client.change(todo, status=change)
        expect(page.region(column)).to_contain_text("water the plants")
        expect(tile(page, "water the plants")).to_have_count(1)
    client.ok("DELETE", f"/v1/todos/{todo['id']}")
    expect(tile(page, "water the plants")).to_have_count(0)


def test_the_menu_of_a_card_offers_legal_changes_and_applies_them(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    menu = page.page.get_by_label("Status of water the plants")
    assert [option.strip() for option in menu.locator("option").all_text_contents()] == [
        "Pending",
        "In progress",
        "Done",
        "Canceled",
    ]
    menu.select_option("Done")
    expect(page.region("Done")).to_contain_text("water the plants")
    assert status(client, todo) == "completed"

    menu = page.page.get_by_label("Status of water the plants")
    assert [option.strip() for option in menu.locator("option").all_text_contents()] == ["Done", "Pending", "In progress"]


def test_alt_and_an_arrow_move_a_card_and_the_focus_with_it(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    page.page.get_by_label("Status of water the plants").focus()
    page.page.keyboard.press("Alt+ArrowLeft")
    expect(page.region("In progress")).to_contain_text("water the plants")
    assert status(client, todo) == "in_progress"

    expect(page.page.get_by_label("Status of water the plants")).to_be_focused()
    page.page.keyboard.press("Alt+ArrowRight")
    expect(page.region("Pending")).to_contain_text("water the plants")


def test_a_card_is_dragged_into_another_column(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    tile(page, "water the plants").drag_to(page.region("Done"))

    expect(page.region("Done")).to_contain_text("water the plants")
    assert status(client, todo) == "completed"
    tile(page, "water the plants").drag_to(page.region("Canceled"))
    expect(page.page.locator(".toast")).to_contain_text("pending")
    assert status(client, todo) == "completed"
    tile(page, "water the plants").drag_to(page.region("In progress"))
    expect(page.region("In progress")).to_contain_text("water the plants")
    assert status(client, todo) == "in_progress"
    page.forgiven = ("409",)


def test_conversations_and_agents_filter(page: Visit, client: Client) -> None:
    conversation = client.conversation(title="The garden")
    client.add("in the garden", conversation_id=conversation)
    client.add("for everybody")
    client.add("by a robot", agent_id="robot")
    page.open("/board").live()
    expect(page.page.locator(".tile")).to_have_count(3)

    page.page.get_by_label("Conversation", exact=True).select_option("The garden")
    expect(page.page.locator(".tile")).to_have_count(1)
    expect(tile(page, "in the garden").get_by_role("link", name="The garden")).to_have_attribute("href", f"/c/{conversation}")
    page.page.get_by_label("Conversation", exact=True).select_option("All conversations")
    page.page.get_by_label("Agent", exact=True).select_option("robot")
    expect(page.page.locator(".tile")).to_have_count(1)
    client.add("another by the robot", agent_id="robot")
    client.add("not by the robot")
    expect(page.page.locator(".tile")).to_have_count(2)

    page.page.get_by_label("Agent", exact=True).select_option("index")
    expect(page.page.locator(".tile")).to_have_count(3)
    page.page.get_by_label("Agent", exact=True).select_option("robot")
    page.page.get_by_label("Conversation", exact=True).select_option("The garden")
    expect(page.page.locator(".tile")).to_have_count(0)
    expect(page.page.get_by_text("No todos with these filters.")).to_be_visible()


def test_events_that_arrive_while_a_filter_loads_are_not_lost(page: Visit, client: Client) -> None:
    client.add("by a robot", agent_id="robot")
    page.open("/board").live()
    held: list[tuple[Route, APIResponse]] = []
    page.page.route("**/v1/todos?*agent_id=robot*", lambda route: held.append((route, route.fetch())))
    page.page.get_by_label("Agent", exact=True).select_option("robot")
    while len(held) < COLUMNS:
        page.page.wait_for_timeout(10)

    client.add("told meanwhile", agent_id="robot")
    expect(tile(page, "told meanwhile")).to_be_visible()
    for route, answer in held:
        route.fulfill(response=answer)
    client.add("told afterwards", agent_id="robot")

    expect(page.page.locator(".tile")).to_have_count(3)


def test_a_todo_that_an_agent_holds_is_changed_only_after_asking(page: Visit, client: Client) -> None:
    client.add("water the plants")
    claimed = client.ok("POST", "/v1/todos/claim", json={"agent_id": "robot"})["todo"]
    page.forgiven = ("409",)
    page.open("/board").live()
    page.page.get_by_label("Status of water the plants").select_option("Done")
    question = page.page.get_by_role("dialog", name="Change it anyway?")
    expect(question).to_contain_text("robot")
    question.get_by_role("button", name="Change it").click()

    expect(page.region("Done")).to_contain_text("water the plants")
    assert status(client, claimed) == "completed"


def test_moved_todos_change_places_and_a_long_text_outlives_a_change_of_another_field(page: Visit, client: Client) -> None:
    first, second = client.add("first", description=f"{'word ' * 400}the end"), client.add("second")
    page.open("/board").live()
    client.change(second, position=first["position"])
    expect(page.region("Pending").locator(".tile")).to_contain_text(["second", "first"])

    page.button("first").click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text("the end")
    client.change(first, subject="renamed")
    expect(dialog).to_contain_text("renamed")
    expect(dialog).to_contain_text("the end")
