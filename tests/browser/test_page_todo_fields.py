"""Priority, due and labels of todos: as marks on the board, as fields of the sheet, and as filters."""

from playwright.sync_api import expect

from tests.browser.page_harness import Visit, look_at
from tests.surfaces.server_harness import Client

PAST, FUTURE = "2020-01-02", "2999-12-01"


def test_a_todo_gets_a_priority_a_day_and_labels_and_the_board_is_filtered_by_them(page: Visit, client: Client) -> None:
    plain = client.add("water the plants")
    client.add("pay the rent", due=PAST, labels=["home", "money"], priority="urgent")
    page.open("/board").live()
    late, quiet = page.page.locator(".tile", has_text="pay the rent"), page.page.locator(".tile", has_text="water the plants")
    expect(late).to_contain_text("urgent")
    expect(late).to_contain_text("overdue Jan 2, 2020")
    expect(late.locator(".label")).to_have_text(["home", "money"])
    expect(quiet.locator(".priority, .due, .label")).to_have_count(0)

    page.button("water the plants").click()
    fields = page.page.get_by_role("group", name="Urgency and labels")
    fields.get_by_label("Priority").select_option("high")
    expect(quiet).to_contain_text("high")
    fields.get_by_label("Due").fill(FUTURE)
    expect(quiet).to_contain_text("due Dec 1, 2999")
    for label in ("garden", "home"):
        fields.get_by_label("Add a label").fill(label)
        page.page.keyboard.press("Enter")
        expect(fields.get_by_role("button", name=f"Remove the label {label}")).to_be_visible()
    look_at(page, "todo-fields")
    fields.get_by_role("button", name="Remove the label home").click()
    expect(quiet.locator(".label")).to_have_text(["garden"])
    stored = client.ok("GET", f"/v1/todos/{plain['id']}")["todo"]
    assert (stored["priority"], stored["labels"], stored["due"]) == ("high", ["garden"], 32_501_087_999)
    fields.get_by_label("Due").fill("")
    expect(quiet.locator(".due")).to_have_count(0)
    page.page.keyboard.press("Escape")
    expect(page.page).to_have_url(f"{page.url}/board")

    filters = page.page.get_by_role("group", name="Filters")
    filters.get_by_label("Label").select_option("garden")
    expect(late).to_have_count(0)
    expect(quiet).to_have_count(1)
    filters.get_by_label("Label").select_option("")
    filters.get_by_label("Due").select_option("Overdue")
    expect(quiet).to_have_count(0)
    expect(page.page).to_have_url(f"{page.url}/board?overdue=1")
    filters.get_by_label("Priority").select_option("low")
    expect(late).to_have_count(0)
    page.open("/board?priority=urgent&label=money&overdue=1").live()
    expect(late).to_have_count(1)
    expect(quiet).to_have_count(0)
