"""The list of conversations: by last use, with marks, search, renaming and deleting."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.engine import run_ends
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.actions.turns.turns import TurnRequest
from headway.ledger.run import RunEnd
from headway.storage.transaction import Transaction
from tests.browser.page_harness import PHONE, Visit, look_at
from tests.model_server import ModelServer, text
from tests.surfaces.server_harness import Client


def write(client: Client, conversation: int, request: str, answer: str) -> None:
    """Store a turn with its messages, without running an agent."""

    def store(tx: Transaction) -> None:
        run = turns.start_turn(tx, client.desk.tenant.id, conversation, TurnRequest(request))
        run_ends.end_run(tx, run, RunEnd.finish("answered", answer))

    client.desk.database.write(store)


def row(page: Visit, title: str) -> Locator:
    return page.region("Conversations").get_by_role("listitem").filter(has_text=title)


def test_a_conversation_is_found_renamed_deleted_and_restored_in_every_tab(open_page: Callable[..., Visit], client: Client) -> None:
    garden, kitchen = client.conversation(), client.conversation()
    write(client, garden, "Plant a tree in the garden. Then water it.", "Done: it is an oak.")
    write(client, kitchen, "Paint the kitchen", "It is green now.")
    page = open_page(f"/c/{garden}").live()
    other = open_page(f"/c/{kitchen}", context=page.page.context).live()
    page.page.bring_to_front()
    heading = page.page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Plant a tree in the garden")

    row(page, "Plant a tree").get_by_role("link").focus()
    page.page.keyboard.press("F2")
    field = page.page.get_by_label("Title", exact=True)
    expect(field).to_be_focused()
    field.fill("An oak")
    client.ok("PATCH", f"/v1/conversations/{garden}", json={"title": "A tree"})
    expect(heading).to_have_text("A tree")
    expect(field).to_have_value("An oak")  # what arrives meanwhile does not replace what was typed
    page.page.keyboard.press("Enter")
    expect(heading).to_have_text("An oak")
    expect(row(other, "An oak")).to_be_visible()
    page.button("Rename").click()
    field.fill("something else")
    page.page.keyboard.press("Escape")
    expect(heading).to_have_text("An oak")

    page.button("Delete: Paint the kitchen").click()
    expect(row(page, "Paint the kitchen")).to_have_count(0)
    expect(other.page.get_by_role("status").filter(has_text="Deleted")).to_be_visible()
    page.button("Undo").click()
    expect(row(page, "Paint the kitchen")).to_be_visible()
    expect(other.button("Restore")).to_have_count(0)

    page.button("Delete: An oak").click()
    expect(page.page).to_have_url(f"{page.url}/")
    assert [item["id"] for item in client.ok("GET", "/v1/conversations")["conversations"]] == [kitchen]
    page.forgiven = ("404",)
    page.open(f"/c/{garden}")
    expect(page.page.get_by_role("heading", name="Conversation not found")).to_be_visible()

    # Titles and messages are searched.
    page.go("/")
    for title, answer in (("Kitchen", "The wall is green now."), ("Garden", "The oak is planted."), ("Roof", "It leaks.")):
        write(client, client.conversation(title=title), "Please do it", answer)
    expect(row(page, "Roof")).to_be_visible()
    field = page.page.get_by_role("searchbox", name="Search conversations")
    field.fill("OAK")
    results = page.region("Conversations")
    expect(results).to_contain_text("1 found")
    expect(row(page, "Garden")).to_contain_text("The oak is planted.")
    expect(row(page, "Roof")).to_have_count(0)
    field.fill("no such words")
    expect(results).to_contain_text("Nothing found.")
    page.page.keyboard.press("Escape")
    expect(row(page, "Roof")).to_be_visible()
    field.fill("leaks")
    expect(results).to_contain_text("1 found")  # a click while the list is replaced would miss its row
    row(page, "Roof").get_by_role("link").click()
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Roof")


@pytest.mark.proof
def test_the_list_has_pages_and_marks_what_works_and_is_accessible(page: Visit, client: Client, model: ModelServer) -> None:
    def fill(tx: Transaction, tenant_id: int) -> list[int]:
        return [conversations.add_conversation(tx, tenant_id, f"number {n}").id for n in range(60)]

    ids = client.desk.write(fill)
    page.open(f"/c/{ids[30]}").live()
    page.forgiven = ("409",)
    rows = page.region("Conversations").get_by_role("listitem")
    expect(rows).to_have_count(50)
    page.button("Show older").click()
    expect(rows).to_have_count(60)
    expect(page.button("Show older")).to_have_count(0)
    expect(page.page.get_by_role("heading", name="Today")).to_be_visible()

    model.script = lambda _request: text("Done.")
    model.hold()
    client.ok("POST", f"/v1/conversations/{ids[2]}/messages", 202, json={"content": "work"})
    expect(rows.first).to_contain_text("number 2")
    expect(rows.first).to_contain_text("running")
    page.button("Delete: number 2").click()
    expect(page.page.locator(".toast.bad")).to_contain_text("The agent is still answering")
    model.release()
    expect(rows.first).not_to_contain_text("running")
    expect(rows).to_have_count(60)

    # The list and the palette are accessible.
    client.add("buy paint")
    page.page.get_by_role("searchbox", name="Search conversations").fill("number 2")
    expect(page.region("Conversations")).to_contain_text("found")
    look_at(page, "conversations")
    page.page.keyboard.press("Escape")
    page.page.set_viewport_size(PHONE)
    page.button("Conversations").click()
    expect(page.page.get_by_role("dialog", name="Conversations")).to_contain_text("number 2")
    page.page.keyboard.press("Escape")
    page.button("Go anywhere, do anything").click()
    page.page.get_by_role("combobox", name="Search pages").fill("paint")
    expect(page.page.get_by_role("option", name=re.compile("buy paint"))).to_be_visible()
    look_at(page, "palette")
