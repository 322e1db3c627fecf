"""One todo beside the page: its address, editing in place, dependencies, comments and deletion."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page_harness import DESK, PHONE, Visit, look_at
from tests.surfaces.server_harness import Client

HOSTILE = "<img src=x onerror=alert(1)> \u202e مرحبا"


def sheet(page: Visit) -> Locator:
    return page.page.locator("dialog.todo-sheet[open]")


def textbox(page: Visit, name: str) -> Locator:
    return sheet(page).get_by_role("textbox", name=name, exact=True)


def read(client: Client, todo: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = client.ok("GET", f"/v1/todos/{todo['id']}")["todo"]
    return found


def expect_focus_inside(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('.todo-sheet').contains(document.activeElement)")


def test_a_todo_has_its_own_address_the_back_button_closes_it_and_it_is_deleted_after_asking(page: Visit, client: Client) -> None:
    todo = client.add("water the plants", description="Twice a week.")
    page.open("/board").live()
    page.button("water the plants").click()
    expect(sheet(page)).to_contain_text("Twice a week.")
    expect(page.page).to_have_url(f"{page.url}/todos/{todo['id']}")
    expect(page.page).to_have_title(f"#{todo['id']} water the plants · Headway")
    expect_focus_inside(page.page)
    page.page.go_back()
    expect(sheet(page)).to_have_count(0)
    expect(page.page).to_have_url(f"{page.url}/board")
    expect(page.button("water the plants")).to_be_focused()
    page.page.go_forward()
    expect(sheet(page)).to_contain_text("Twice a week.")
    page.page.keyboard.press("Escape")
    expect(page.page).to_have_url(f"{page.url}/board")

    page.open(f"/todos/{todo['id']}").live()  # cold, as from a link
    expect(sheet(page)).to_contain_text("Twice a week.")
    expect(page.region("Pending")).to_contain_text("water the plants")
    page.button("Close").click()
    expect(page.page).to_have_url(f"{page.url}/board")
    expect(sheet(page)).to_have_count(0)
    page.forgiven = ("404",)
    page.open("/todos/987654321").live()
    expect(sheet(page)).to_contain_text("There is no todo #987654321.")

    # It is deleted after asking.
    page.forgiven += ("409",)
    page.go(f"/todos/{todo['id']}")
    expect(sheet(page)).to_contain_text("Twice a week.")
    client.ok("POST", "/v1/todos/claim", json={"agent_id": "robot"})
    expect(page.region("In progress")).to_contain_text("water the plants")
    page.button("Delete the todo").click()
    page.button("Leave it as is").click()
    expect(sheet(page)).to_contain_text("water the plants")
    page.button("Delete the todo").click()
    page.button("Delete", within=page.page.get_by_role("dialog", name=re.compile("^Delete #"))).click()
    leased = page.page.get_by_role("dialog", name="Delete it anyway?")
    expect(leased).to_contain_text("robot")
    page.button("Delete it", within=leased).click()
    expect(sheet(page)).to_have_count(0)
    expect(page.page.locator(".tile")).to_have_count(0)
    assert client.get(f"/v1/todos/{todo['id']}").status_code == 404


@pytest.mark.proof
def test_texts_are_edited_where_they_are_shown_people_comment_and_dependencies_change(page: Visit, client: Client) -> None:
    todo = client.add("water the plants")
    page.open(f"/todos/{todo['id']}").live()
    page.button("Edit the subject").click()
    field = textbox(page, "Subject")
    expect(field).to_have_value("water the plants")
    field.fill("water all plants")
    field.press("Enter")
    expect(sheet(page).get_by_role("heading", name="water all plants")).to_be_visible()
    expect(page.button("Edit the subject")).to_be_focused()

    page.button("Description").click()
    textbox(page, "Description").fill(f"First line\n{HOSTILE}")
    textbox(page, "Description").press("Control+Enter")
    expect(sheet(page).get_by_role("region", name="Description")).to_contain_text(HOSTILE)
    page.button("Done when").click()
    textbox(page, "Done when").fill("The soil is wet.")
    page.button("Save").click()
    expect(sheet(page).get_by_role("region", name="Done when")).to_contain_text("The soil is wet.")
    page.button("Edit: Done when").click()
    textbox(page, "Done when").fill("never stored")
    page.page.keyboard.press("Escape")
    expect(sheet(page)).to_contain_text("The soil is wet.")

    page.button("Edit: Description").click()
    client.change(todo, description="by somebody else")
    expect(sheet(page)).to_contain_text("It was changed meanwhile.")
    page.button("Cancel").click()
    expect(sheet(page)).to_contain_text("by somebody else")
    sheet(page).get_by_label("Status").select_option("Done")
    expect(page.region("Done")).to_contain_text("water all plants")
    page.button("Outcome").click()
    textbox(page, "Outcome").fill("All are wet.")
    page.button("Save").click()
    expect(sheet(page).get_by_role("region", name="Outcome")).to_contain_text("All are wet.")

    stored = read(client, todo)
    assert (stored["subject"], stored["description"], stored["completion_criteria"], stored["outcome"], stored["status"]) == (
        "water all plants",
        "by somebody else",
        "The soil is wet.",
        "All are wet.",
        "completed",
    )

    # People comment, and the history is shown.
    written = sheet(page).get_by_role("region", name="Comments")
    written.get_by_label("Comment", exact=True).fill(f"Which colour? {HOSTILE}")
    page.button("Add the comment").click()
    expect(written.get_by_role("listitem")).to_contain_text(HOSTILE)
    expect(written.get_by_role("listitem")).to_contain_text("somebody at a browser")
    expect(written.get_by_label("Comment", exact=True)).to_have_value("")
    client.ok("POST", f"/v1/todos/{todo['id']}/comments", 201, json={"text": "Green."})
    expect(written.get_by_role("listitem")).to_have_count(2)  # it arrives as an event

    expect(page.button("Edit the comment of a test")).to_have_count(0)
    page.button("Edit the comment of somebody at a browser").click()
    field = written.get_by_label("Text of the comment")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(page.button("Edit the comment of somebody at a browser")).to_be_focused()
    page.page.keyboard.press("Enter")
    field.fill(f"Which green? {HOSTILE}")
    field.press("Control+Enter")
    expect(written.get_by_role("listitem").first).to_contain_text(f"Which green? {HOSTILE}")
    expect(written.get_by_role("listitem").first).to_contain_text("edited")

    page.button("Delete the comment of somebody at a browser").click()
    page.button("Delete", within=page.page.get_by_role("dialog", name="Delete this comment?")).click()
    expect(written.get_by_role("listitem")).to_have_count(1)
    expect(written).to_contain_text("Green.")
    sheet(page).get_by_text("History", exact=True).click()
    expect(sheet(page).locator(".why")).to_contain_text("a test commented on it.")

    # It covers a phone.
    look_at(page, "todo")
    page.page.set_viewport_size(PHONE)
    assert sheet(page).bounding_box() == {"x": 0, "y": 0, **PHONE}
    page.button("Close").click()
    expect(sheet(page)).to_have_count(0)
    expect(page.region("Done")).to_contain_text("water all plants")
    page.page.set_viewport_size(DESK)
    change_dependencies(page, client)


def change_dependencies(page: Visit, client: Client) -> None:
    dig = client.add("dig")
    plant = client.add("plant")
    page.forgiven += ("404", "409", "422")
    page.go(f"/todos/{plant['id']}")
    field = sheet(page).get_by_label("Wait for a todo, by its number")
    field.fill(f"#{dig['id']}")
    field.press("Enter")
    dependencies = sheet(page).get_by_role("region", name="Dependencies")
    expect(dependencies.get_by_role("link")).to_contain_text("dig")
    assert read(client, plant)["depends_on"] == [dig["id"]]
    field.fill("987654")
    field.press("Enter")
    expect(page.page.locator(".toast")).to_contain_text("No todo 987654.")

    dependencies.get_by_role("link").click()
    expect(page.page).to_have_url(f"{page.url}/todos/{dig['id']}")
    expect(dependencies.get_by_role("heading")).to_have_text(["Waits for", "Needed by"])
    field.fill(str(plant["id"]))  # it would be a cycle
    field.press("Enter")
    expect(page.page.locator(".toast").last).to_contain_text("wait for each other")
    dependencies.get_by_role("link", name="plant").click()
    page.button(f"Do not wait for #{dig['id']}").click()
    expect(dependencies.get_by_role("link")).to_have_count(0)
    assert read(client, plant)["depends_on"] == []
