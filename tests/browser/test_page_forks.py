"""Forks on the page: send an edited message again, write an answer again, fork at a step, and compare the two turns."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.page_harness import Visit
from tests.model_server import ModelServer, by_turn, calls, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

WRITE = calls(("write_file", {"path": "a.txt", "content": "one"}), text="I write it.")


@pytest.fixture
def finished(page: Visit, client: Client, model: ModelServer) -> Visit:
    """A conversation whose one turn has written a file and answered."""
    conversation = client.conversation(title="Notes")
    model.script = by_turn(WRITE, text("It is written."))
    wait_for_turn(client, say(client, conversation, "Write one line."))
    page.open(f"/c/{conversation}").live()
    expect(page.log).to_contain_text("It is written.")
    return page


def test_a_turn_is_forked_with_another_message_another_answer_and_at_a_step(
    finished: Visit, client: Client, model: ModelServer
) -> None:
    origin = finished.page.url.removeprefix(finished.url)
    # An edited message starts a fork that stops before new calls, and continues live.
    model.script = by_turn(calls(("write_file", {"path": "b.txt", "content": "two"})), text("Two are written."))
    finished.button("Edit message").click()
    finished.page.get_by_label("Message to send again").fill("Write two lines.")
    finished.page.get_by_label("Live: make calls").uncheck()
    finished.button("Send in a new conversation").click()

    expect(finished.page).to_have_url(re.compile(r"/c/\d+$"))
    expect(finished.log).to_contain_text("Forked from Notes at its request.")
    expect(finished.log).to_contain_text("This fork needs the real world.")
    expect(finished.log.locator(".msg.user")).to_have_text(re.compile("Write two lines."))
    finished.button("Continue live").click()
    expect(finished.log).to_contain_text("Two are written.")
    expect(finished.log.locator(".turn-note.warn")).to_have_count(0)
    assert len(client.ok("GET", "/v1/conversations")["conversations"]) == 3

    # A regenerated answer uses recorded results, and can be compared.
    finished.go(origin)
    expect(finished.log).to_contain_text("It is written.")
    model.script = by_turn(WRITE, text("<i>Really</i> written."))
    finished.log.locator(".msg.assistant").last.get_by_role("button", name="Try again").click()
    expect(finished.log).to_contain_text("Forked from Notes after step 1.")
    expect(finished.log).to_contain_text("<i>Really</i> written.")
    finished.page.get_by_role("link", name="Compare").click()

    expect(finished.page.get_by_role("status").filter(has_text="First difference")).to_have_text("First difference: step 2 of 2.")
    steps = finished.region("Steps").get_by_role("listitem")
    expect(steps.nth(0)).to_contain_text("same")
    expect(steps.nth(1)).to_contain_text("The turns differ from here on.")
    answers = finished.region("Answers")
    expect(answers).to_contain_text("It is written.")
    expect(answers).to_contain_text("<i>Really</i> written.")

    # A turn is forked at a step, with a message.
    finished.go(origin)
    expect(finished.page.get_by_role("heading", level=1)).to_have_text("Notes")
    expect(finished.log).to_contain_text("It is written.")
    model.script = by_turn(WRITE, text("I added a title."))
    finished.forgiven = ("404", "422")  # the role that does not exist
    finished.log.locator(".steps summary").click()
    finished.log.get_by_role("button", name="Fork from here").and_(finished.page.locator(".small")).click()
    dialog = finished.page.get_by_role("dialog", name="Fork this turn")
    expect(dialog.get_by_label("Keep the turn up to")).to_have_value("1")
    dialog.get_by_label("Role").fill("nobody")
    dialog.get_by_role("button", name="Fork").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nobody")
    dialog.get_by_label("Role").fill("")
    dialog.get_by_label("A message that the agent reads next").fill("Add a title, too.")
    dialog.get_by_role("button", name="Fork").click()

    expect(finished.log).to_contain_text("I added a title.")
    expect(finished.log.locator(".msg.user").last).to_contain_text("Add a title, too.")
    expect(finished.log).to_contain_text("Forked from Notes after step 1.")
