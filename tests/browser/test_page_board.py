"""The board: all todos of the tenant by status, live, moved by mouse and by keyboard."""

import re

from playwright.sync_api import APIResponse, Locator, Route, expect

from headway.actions import todos
from headway.ledger.todo import Draft
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
    expect(menu.locator("option")).to_have_text(["Pending", "In progress", "Done", "Canceled"])
    menu.select_option("Done")
    expect(page.region("Done")).to_contain_text("water the plants")
    assert status(client, todo) == "completed"

    expect(menu.locator("option")).to_have_text(["Done", "Pending", "In progress"])


def test_alt_and_an_arrow_move_a_card_and_the_focus_with_it(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    page.button("water the plants").focus()
    page.page.keyboard.press("Alt+ArrowLeft")
    expect(page.region("In progress")).to_contain_text("water the plants")
    assert status(client, todo) == "in_progress"

    expect(page.button("water the plants")).to_be_focused()
    page.page.keyboard.press("Alt+ArrowRight")
    expect(page.region("Pending")).to_contain_text("water the plants")


def test_a_card_is_dragged_into_another_column_and_illegal_ones_refuse_it(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    tile(page, "water the plants").drag_to(page.region("Done"))

    expect(page.region("Done")).to_contain_text("water the plants")
    assert status(client, todo) == "completed"
    mouse = page.page.mouse
    tile(page, "water the plants").hover()
    mouse.down()
    page.region("Canceled").hover()
    page.region("Canceled").hover(position={"x": 40, "y": 200})
    expect(page.region("Canceled")).to_have_class(re.compile("illegal"))
    expect(page.region("Pending")).not_to_have_class(re.compile("illegal"))
    mouse.up()
    expect(page.region("Canceled")).not_to_have_class(re.compile("illegal"))
    assert status(client, todo) == "completed"
    tile(page, "water the plants").drag_to(page.region("In progress"))
    expect(page.region("In progress")).to_contain_text("water the plants")
    assert status(client, todo) == "in_progress"


def test_pending_is_reordered_by_dragging_and_with_the_keyboard(page: Visit, client: Client) -> None:
    for subject in ("first", "second", "third"):
        client.add(subject)
    page.open("/board").live()
    tiles = page.region("Pending").locator(".tile .clamp")
    expect(tiles).to_have_text(["first", "second", "third"])
    tile(page, "third").drag_to(tile(page, "first"), target_position={"x": 60, "y": 4})
    expect_order(page, ["third", "first", "second"])
    tile(page, "third").drag_to(tile(page, "second"), target_position={"x": 60, "y": 80})
    expect_order(page, ["first", "second", "third"])

    page.button("first").focus()
    page.page.keyboard.press("Alt+ArrowDown")
    expect_order(page, ["second", "first", "third"])
    expect(page.button("first")).to_be_focused()
    expect(page.page.get_by_text(re.compile(r"moved to place 2"))).to_have_count(1)
    page.page.keyboard.press("ArrowDown")
    expect(page.button("third")).to_be_focused()
    page.page.keyboard.press("Alt+ArrowUp")
    expect_order(page, ["second", "third", "first"])
    page.page.keyboard.press("Home")
    expect(page.button("second")).to_be_focused()
    listed = client.ok("GET", "/v1/todos", params={"status": "pending"})["todos"]
    assert [one["subject"] for one in listed] == ["second", "third", "first"]


def expect_order(page: Visit, subjects: list[str]) -> None:
    """Wait until the cards of Pending are in this order from top to bottom."""
    page.page.wait_for_function(
        """(subjects) => {
            const tiles = [...document.querySelectorAll('[aria-label="Pending"] .tile')];
            tiles.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
            return JSON.stringify(tiles.map((tile) => tile.querySelector('.clamp').textContent)) === JSON.stringify(subjects);
        }""",
        arg=subjects,
    )


def test_a_column_of_ten_thousand_cards_loads_and_renders_what_is_needed(page: Visit, client: Client) -> None:
    for start in range(0, 10_000, 500):
        client.desk.write(todos.add_many, [Draft(f"card {start + n:05}") for n in range(500)])
    asked: list[str] = []
    page.listen("request", lambda request: asked.append(request.url) if "/v1/todos?" in request.url else None)
    page.open("/board").live()
    pending = page.region("Pending")
    expect(pending.get_by_role("heading")).to_have_text(re.compile(r"Pending\s+10,000"))
    expect(tile(page, "card 00000")).to_be_visible()
    assert len(asked) == COLUMNS, "a page of each column"
    assert page.page.locator(".tile").count() < 40
    box = pending.locator(".column-list")
    assert box.evaluate("box => box.scrollHeight > 900000 && document.documentElement.scrollHeight <= innerHeight")

    box.evaluate("box => box.scrollTop = 92 * 700")
    expect(tile(page, "card 00700")).to_be_visible()
    assert page.page.locator(".tile").count() < 40
    assert len(asked) <= COLUMNS + 3
    box.evaluate("box => box.scrollTop = box.scrollHeight")
    expect(tile(page, "card 09999")).to_be_visible()
    client.add("the newest")
    expect(pending.get_by_role("heading")).to_have_text(re.compile(r"Pending\s+10,001"))
    box.evaluate("box => box.scrollTop = box.scrollHeight")
    expect(tile(page, "the newest")).to_be_visible()


def test_cards_show_what_they_wait_for_until_it_has_ended(page: Visit, client: Client) -> None:
    dig = client.add("dig")
    client.add("plant", depends_on=[dig["id"]])
    page.open("/board").live()
    expect(tile(page, "plant")).to_contain_text(f"waits for #{dig['id']}")
    client.change(dig, status="completed")
    expect(page.region("Done")).to_contain_text("dig")
    expect(tile(page, "plant")).not_to_contain_text("waits for")
    client.change(dig, status="pending")
    expect(tile(page, "plant")).to_contain_text(f"waits for #{dig['id']}")


def test_nothing_is_stated_before_the_server_has_answered(page: Visit, client: Client) -> None:
    client.add("water the plants")
    held: list[Route] = []
    is_released = False

    def hold(route: Route) -> None:
        if is_released:
            route.continue_()
        else:
            held.append(route)

    page.page.route(re.compile(r"/v1/todos(/counts)?\?|/v1/todos/counts$"), hold)
    page.open("/board")
    expect(page.region("Pending").locator(".tile.unknown")).to_have_count(4)
    expect(page.page.get_by_text("No todos")).to_have_count(0)
    expect(page.region("Pending").get_by_role("heading")).to_have_text(re.compile(r"^Pending\s*$"))
    is_released = True
    for route in held:
        route.continue_()
    expect(tile(page, "water the plants")).to_be_visible()
    expect(page.page.locator(".tile.unknown")).to_have_count(0)


def test_the_address_has_the_filters_and_the_search(page: Visit, client: Client) -> None:
    checks = [{"kind": "file", "path": "report.md"}]
    client.add("write the report", checks=checks, agent_id="ada")
    painted = client.add("paint the door", description="The hinges are rusty.")
    client.change(client.add("paint the gate"), status="completed")
    page.open("/board?status=pending&q=paint&nonsense=1").live()
    expect(page.page.locator(".tile")).to_have_count(1)
    expect(page.page.locator(".column")).to_have_count(1)
    expect(page.page.get_by_label("Search todos")).to_have_value("paint")
    expect(page.page.get_by_label("Status filter")).to_have_value("pending")

    page.button("paint the door").click()
    expect(page.page).to_have_url(f"{page.url}/todos/{painted['id']}?status=pending&q=paint&nonsense=1")
    page.button("Close").click()
    page.button("Clear").click()
    expect(page.page).to_have_url(f"{page.url}/board")
    expect(page.page.locator(".tile")).to_have_count(3)
    page.page.get_by_label("Search todos").fill("RUSTY hinges")
    expect(page.page.locator(".tile")).to_have_count(1)
    expect(page.page).to_have_url(re.compile(r"/board\?q=RUSTY\+hinges$"))
    client.add("oil them", description="so that no hinges are rusty")
    expect(page.page.locator(".tile")).to_have_count(2)
    page.page.get_by_label("Search todos").fill(f"#{painted['id']}")
    expect(page.page.locator(".tile")).to_have_count(1)
    page.page.get_by_label("Search todos").press("Escape")
    page.page.get_by_label("Proof").select_option("unproven")
    expect(tile(page, "write the report")).to_be_visible()
    expect(page.page.locator(".tile")).to_have_count(1)
    page.page.get_by_label("Agent", exact=True).select_option("ada")
    expect(page.page).to_have_url(f"{page.url}/board?agent=ada&proof=unproven")
    page.page.go_back()
    expect(page.page).to_have_url(f"{page.url}/board?proof=unproven")
    expect(page.page.get_by_label("Agent", exact=True)).to_have_value("")
    page.page.reload()
    expect(page.page.locator(".tile")).to_have_count(1)


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

    def hold(route: Route) -> None:
        held.append((route, route.fetch()))
        if len(held) < COLUMNS:
            return
        client.add("told meanwhile", agent_id="robot")
        for waiting, answer in held:
            waiting.fulfill(response=answer)
        client.add("told afterwards", agent_id="robot")

    page.page.route("**/v1/todos?*agent_id=robot*", hold)
    page.page.get_by_label("Agent", exact=True).select_option("robot")

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
    expect_order(page, ["second", "first"])

    page.button("first").click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text("the end")
    client.change(first, subject="renamed")
    expect(dialog).to_contain_text("renamed")
    expect(dialog).to_contain_text("the end")
