"""The memory on the page: people read what agents noted and where it comes from, and search, edit and delete it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.turns import memory
from headway.actions.turns.memory import NewMemory
from headway.storage.transaction import Transaction
from tests.browser.page_harness import Visit, look_at
from tests.browser.test_page_hostile import HOSTILE, check_safe
from tests.model_server import ModelServer, by_turn, calls, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client


def rows(page: Visit) -> Locator:
    return page.region("Entries").get_by_role("listitem")


@pytest.mark.proof
def test_entries_are_edited_deleted_searched_and_lead_to_their_conversations(
    open_page: Callable[..., Visit], client: Client, model: ModelServer
) -> None:
    model.script = by_turn(calls(("remember", {"text": "The door is green.", "kind": "fact", "tenant_wide": True})), text("Noted."))
    conversation = client.conversation(title="Painting")
    page = open_page("/memory").live()
    other = open_page("/memory", context=page.page.context).live()
    page.page.bring_to_front()
    expect(page.region("Entries")).to_contain_text("Nothing yet.")
    wait_for_turn(client, say(client, conversation, "note it"))
    expect(rows(page)).to_contain_text(["The door is green."])  # it appears without a reload
    expect(rows(page).first).to_contain_text("fact · tenant-wide · by index in Painting")
    expect(page.page).to_have_title("Memory · Headway")
    page.page.get_by_label("Add a note for all conversations").fill("Ada likes tea.")
    page.page.keyboard.press("Enter")
    expect(rows(page)).to_contain_text(["Ada likes tea.", "The door is green."])
    expect(rows(page).first).to_contain_text("tenant-wide · by somebody at a browser")

    edit = page.button("Edit entry", within=rows(page).last, exact=False)
    edit.click()
    field = page.page.get_by_label("Text")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(edit).to_be_focused()
    edit.press("Enter")
    field.fill("The door is red.")
    look_at(page, "memory-edit")
    field.press("Control+Enter")
    expect(rows(page).last).to_contain_text("The door is red.")
    expect(edit).to_be_focused()
    expect(rows(other).last).to_contain_text("The door is red.")
    expect(rows(other).last).to_contain_text("by index in Painting · edited by somebody at a browser")

    page.button("Delete entry", within=rows(page).first, exact=False).click()
    page.button("Leave it as is").click()
    page.button("Delete entry", within=rows(page).first, exact=False).click()
    page.button("Delete it").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(other)).to_have_count(1)
    expect(edit).to_be_focused()
    assert [entry["text"] for entry in client.ok("GET", "/v1/memory")["entries"]] == ["The door is red."]
    rows(page).get_by_role("link", name="Painting").click()
    expect(page.log).to_contain_text("Noted.")
    search_older_entries(page, client)


def search_older_entries(page: Visit, client: Client) -> None:
    page.forgiven = ("409",)

    def fill(tx: Transaction, tenant_id: int) -> int:
        needle = memory.add_note(tx, tenant_id, NewMemory("a needle"), "ada")
        for n in range(memory.SEARCH_LIMIT):
            memory.add_note(tx, tenant_id, NewMemory(f"hay {n}"), "ada")
        for words in HOSTILE.values():
            memory.add_note(tx, tenant_id, NewMemory(words, words.split("\n")[0].replace("\t", " ")[:200]), words[:200])
        return needle.id

    needle_id = client.desk.write(fill)
    page.go("/memory")
    expect(rows(page).filter(has_text="<img src=")).not_to_have_count(0)
    expect(page.page.locator(".memory mark").first).to_be_visible()  # invisible characters are shown by number
    check_safe(page)
    page.button("Show more").click()
    expect(rows(page)).to_have_count(100)

    page.page.get_by_label("Search the memory").fill("NEEDLE a")
    expect(page.page.get_by_role("main").get_by_role("status")).to_have_text("No entry has all these words.")
    expect(rows(page)).to_have_count(0)
    page.button("Search older entries").click()
    expect(rows(page)).to_contain_text(["a needle"])
    expect(page.button("Search older entries")).to_have_count(0)

    # An edit of an entry that changed meanwhile is refused.
    page.button("Edit entry", exact=False).click()
    client.ok("PATCH", f"/v1/memory/{needle_id}", json={"text": "two needles"})
    page.page.get_by_label("Text").fill("three")
    page.button("Save").click()
    expect(page.page.get_by_role("alert")).to_contain_text("was edited by a test in the meantime. Nothing was changed")
    page.button("Cancel").click()
    expect(rows(page)).to_contain_text("two")
