"""The board: all todos of the tenant by status, live, moved by mouse and by keyboard."""

import re

from playwright.sync_api import APIResponse, Locator, Route, expect

from headway.actions.todos import todos
from headway.ledger.todo import Draft
from tests.browser.page_harness import Visit
from tests.surfaces.server_harness import Client

COLUMNS = 4
MANY = 3_000


def tile(page: Visit, subject: str) -> Locator:
    return page.page.locator(".tile").filter(has_text=subject)


def status(client: Client, todo: dict[str, object]) -> str:
    return str(client.ok("GET", f"/v1/todos/{todo['id']}")["todo"]["status"])


def expect_options(page: Visit, *options: str) -> None:
    expect(page.page.get_by_label("Status of water the plants").locator("option")).to_have_text([*options])


def test_a_card_moves_by_changes_its_menu_the_keyboard_and_the_mouse(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open("/board").live()
    expect(page.region("Pending")).to_contain_text("water the plants")
    expect(page.region("Pending").get_by_role("heading")).to_have_text(re.compile(r"Pending\s+1"))

    for change, column in (("in_progress", "In progress"), ("completed", "Done")):
        client.change(todo, status=change)
        expect(page.region(column)).to_contain_text("water the plants")
        expect(tile(page, "water the plants")).to_have_count(1)

    # Its menu offers legal changes, and applies them.
    expect_options(page, "Done", "Pending", "In progress")
    menu = page.page.get_by_label("Status of water the plants")
    menu.select_option("Pending")
    expect(page.region("Pending")).to_contain_text("water the plants")
    assert status(client, todo) == "pending"
    expect_options(page, "Pending", "In progress", "Done", "Canceled")

    # Alt and an arrow move it, and the focus with it.
    page.button("water the plants").focus()
    page.page.keyboard.press("Alt+ArrowLeft")
    expect(page.region("In progress")).to_contain_text("water the plants")
    assert status(client, todo) == "in_progress"

    expect(page.button("water the plants")).to_be_focused()
    page.page.keyboard.press("Alt+ArrowRight")
    expect(page.region("Pending")).to_contain_text("water the plants")

    # It is dragged into another column, and illegal ones refuse it.
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

    # A todo that an agent holds is changed only after asking.
    client.change(todo, status="pending")
    expect(page.region("Pending")).to_contain_text("water the plants")
    client.ok("POST", "/v1/todos/claim", json={"agent_id": "robot"})
    expect(page.region("In progress")).to_contain_text("water the plants")
    page.forgiven = ("409",)
    menu.select_option("Done")
    question = page.page.get_by_role("dialog", name="Change it anyway?")
    expect(question).to_contain_text("robot")
    question.get_by_role("button", name="Change it").click()
    expect(page.region("Done")).to_contain_text("water the plants")
    assert status(client, todo) == "completed"
    client.ok("DELETE", f"/v1/todos/{todo['id']}")
    expect(tile(page, "water the plants")).to_have_count(0)
    reorder_pending(page, client)


def reorder_pending(page: Visit, client: Client) -> None:
    first = client.add("first", description=f"{'word ' * 400}the end")
    for subject in ("second", "third"):
        client.add(subject)
    page.go("/board")
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

    # Others move todos, and a long text outlives a change of another field.
    client.change(first, position=listed[0]["position"])
    expect_order(page, ["first", "second", "third"])
    page.button("first").click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text("the end")
    client.change(first, subject="renamed")
    expect(dialog).to_contain_text("renamed")
    expect(dialog).to_contain_text("the end")


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


def test_a_column_of_thousands_of_cards_loads_and_renders_what_is_needed(page: Visit, client: Client) -> None:
    for start in range(0, MANY, 500):
        client.desk.write(todos.add_many, [Draft(f"card {start + n:05}") for n in range(500)])
    asked: list[str] = []
    page.listen("request", lambda request: asked.append(request.url) if "/v1/todos?" in request.url else None)
    page.open("/board").live()
    pending = page.region("Pending")
    expect(pending.get_by_role("heading")).to_have_text(re.compile(r"Pending\s+3,000"))
    expect(tile(page, "card 00000")).to_be_visible()
    assert len(asked) == COLUMNS, "a page of each column"
    assert page.page.locator(".tile").count() < 40
    box = pending.locator(".column-list")
    assert box.evaluate("box => box.scrollHeight > 270000 && document.documentElement.scrollHeight <= innerHeight")

    box.evaluate("box => box.scrollTop = 92 * 700")
    expect(tile(page, "card 00700")).to_be_visible()
    assert page.page.locator(".tile").count() < 40
    assert len(asked) <= COLUMNS + 3
    box.evaluate("box => box.scrollTop = box.scrollHeight")
    expect(tile(page, f"card {MANY - 1:05}")).to_be_visible()
    client.add("the newest")
    expect(pending.get_by_role("heading")).to_have_text(re.compile(r"Pending\s+3,001"))
    box.evaluate("box => box.scrollTop = box.scrollHeight")
    expect(tile(page, "the newest")).to_be_visible()
    field, card = (page.page.locator(name).first.bounding_box() for name in (".board-add label", ".tile"))
    assert field
    assert card
    assert (field["x"], field["width"]) == (card["x"], card["width"])  # beside a scroll bar as well


def test_the_board_states_only_what_it_knows_while_answers_are_late(page: Visit, client: Client) -> None:
    client.add("oil the hinges", agent_id="robot")
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
    expect(tile(page, "oil the hinges")).to_be_visible()
    expect(page.page.locator(".tile.unknown")).to_have_count(0)
    page.page.unroute_all()

    # Events that arrive while a filter loads are not lost.
    answered: list[tuple[Route, APIResponse]] = []

    def answer_late(route: Route) -> None:
        answered.append((route, route.fetch()))
        if len(answered) < COLUMNS:
            return
        client.add("told meanwhile", agent_id="robot")
        for waiting, answer in answered:
            waiting.fulfill(response=answer)
        client.add("told afterwards", agent_id="robot")

    page.page.route("**/v1/todos?*agent_id=robot*", answer_late)
    page.page.get_by_label("Agent", exact=True).select_option("robot")

    expect(page.page.locator(".tile")).to_have_count(3)
    page.page.unroute_all()
    page.button("Clear").click()

    # Cards show what they wait for until it has ended.
    dig = client.add("dig")
    client.add("plant", depends_on=[dig["id"]])
    expect(tile(page, "plant")).to_contain_text(f"waits for #{dig['id']}")
    client.change(dig, status="completed")
    expect(page.region("Done")).to_contain_text("dig")
    expect(tile(page, "plant")).not_to_contain_text("waits for")
    client.change(dig, status="pending")
    expect(tile(page, "plant")).to_contain_text(f"waits for #{dig['id']}")


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
    expect(page.page).to_have_url(f"{page.url}/board?status=pending&q=paint&nonsense=1")
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

    # Conversations and agents filter as well.
    garden = client.conversation(title="The garden")
    client.add("in the garden", conversation_id=garden)
    client.add("by a robot", agent_id="robot")
    page.go("/board")
    expect(page.page.locator(".tile")).to_have_count(6)
    page.page.get_by_label("Conversation", exact=True).select_option("The garden")
    expect(page.page.locator(".tile")).to_have_count(1)
    expect(tile(page, "in the garden").get_by_role("link", name="The garden")).to_have_attribute("href", f"/c/{garden}")
    page.page.get_by_label("Conversation", exact=True).select_option("All conversations")
    page.page.get_by_label("Agent", exact=True).select_option("robot")
    expect(page.page.locator(".tile")).to_have_count(1)
    client.add("another by the robot", agent_id="robot")
    client.add("not by the robot")
    expect(page.page.locator(".tile")).to_have_count(2)
    page.page.get_by_label("Agent", exact=True).select_option("index")
    expect(page.page.locator(".tile")).to_have_count(5)
    page.page.get_by_label("Agent", exact=True).select_option("robot")
    page.page.get_by_label("Conversation", exact=True).select_option("The garden")
    expect(page.page.locator(".tile")).to_have_count(0)
    expect(page.page.get_by_text("No todos with these filters.")).to_be_visible()
