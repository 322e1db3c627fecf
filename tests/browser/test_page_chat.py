"""The chat: messages and tool calls, live, and how to recover from failures."""

import re

from playwright.sync_api import Route, expect

from headway.actions.guard import sessions, stops
from headway.actions.installation import halts
from headway.ledger.guard import AssistantSession, MirroredItem, StopRequest
from tests.browser.page_harness import Visit
from tests.model_server import ModelServer, calls, error, pause_midway, text
from tests.surfaces.server_harness import Client

TITLE = "Why were customers charged twice?"


def test_a_conversation_from_its_first_message_to_its_reload(page: Visit, client: Client, model: ModelServer) -> None:
    answers = page.log.locator(".msg.assistant")
    page.open().live().say(TITLE)

    # The first message opens a conversation with its title.
    expect(page.page).to_have_url(re.compile(r"/c/\d+$"))
    expect(page.log).to_contain_text("hello")
    expect(page.panel).to_have_count(0)  # there are no todos
    expect(page.page.get_by_role("heading", level=1)).to_have_text(TITLE)
    expect(page.region("Conversations").get_by_role("link", name=TITLE)).to_have_attribute("aria-current", "true")
    assert [conversation["title"] for conversation in client.ok("GET", "/v1/conversations")["conversations"]] == [TITLE]

    # An answer is shown while it is spoken, and stays when it is done.
    model.script = lambda _request: pause_midway(text("The first half of it and then the second half of it."))
    model.hold()
    usages = page.log.locator(".turn-usage")  # the last thing of a turn to arrive: what is said before it goes to the same turn
    expect(usages).to_have_count(1)
    page.say("speak")
    expect(page.log.locator(".streaming")).to_contain_text("The first half")
    expect(page.log).not_to_contain_text("second half")
    model.release()
    expect(answers.last).to_have_text(re.compile("The first half of it and then the second half of it."))
    expect(page.log.locator(".streaming")).to_have_count(0)

    # A turn that failed says why, and can be tried again.
    model.script = lambda _request: error(400, "this model is overwhelmed")
    page.say("do it")
    end = page.log.locator(".turn-note")
    expect(end).to_contain_text("The agent could not continue.")
    expect(end).to_contain_text("this model is overwhelmed")
    expect(page.page.get_by_role("link", name="Operations")).to_contain_text("1")
    model.script = lambda _request: text("It works now.")
    page.button("Try again").last.click()
    expect(page.log).to_contain_text("It works now.")
    expect(end).to_have_count(0)
    expect(usages).to_have_count(3)

    # Shift and Enter is a new line. Enter sends.
    replies = iter([calls(("calculate", {"expression": "6*7"}), text="Let me see."), text("It is 42.")])
    model.script = lambda _request: next(replies)
    box = page.page.get_by_label("Message", exact=True)
    box.fill("what is")
    box.press("Shift+Enter")
    box.type("6*7?")
    box.press("Enter")
    expect(page.log.locator(".msg.user").last).to_contain_text("what is\n6*7?")
    expect(box).to_have_value("")
    expect(page.log).to_contain_text("It is 42.")
    expect(usages).to_have_count(4)

    # Older messages are shortened to make room.
    model.script = lambda request: text("I see.", usage=(sum(map(len, request.texts)) // 3, 1))
    for number, words in enumerate(("word " * 4_000, "more " * 4_000), start=5):
        page.say(words)
        expect(usages).to_have_count(number)
    note = page.log.get_by_text(re.compile(r"Older messages were shortened to make room: from [\d,]+ to [\d,]+ tokens\."))
    expect(note).to_be_visible()

    # All of it is there after a reload.
    before = page.log.text_content() or ""  # inner_text leaves out what is not on the screen
    page.page.reload()
    expect(page.live().log).to_have_text(re.compile("Let me see.*calculate.*It is 42.", re.DOTALL))
    expect(page.log.locator(".turn-usage")).to_have_count(6)
    expect(note).to_be_visible()
    expect(page.log).to_have_text(before)


def test_a_message_that_cannot_be_sent_stays_and_shows_the_remedy(page: Visit, client: Client) -> None:
    page.forgiven = ("503",)
    page.open("/").live()
    expect(page.page.get_by_text("is not an LLM")).to_have_count(0)
    client.desk.database.write(lambda tx: halts.halt(tx, "lunch"))
    banner = page.page.locator(".banner")
    try:
        expect(banner).to_contain_text("Everything is halted. lunch")
        page.say("hello?")
        expect(page.page.get_by_role("alert").filter(has_text="Lift the halt under Operations")).to_be_visible()
        expect(page.page.get_by_label("Message", exact=True)).to_have_value("hello?")
        assert client.ok("GET", "/v1/conversations")["conversations"] == []
        expect(page.button("Lift the halt")).to_have_count(0)  # only the operator can
    finally:
        client.desk.database.write(halts.unhalt)
    expect(banner).to_have_count(0)
    page.button("Try again").click()
    expect(page.log.locator(".msg.assistant")).to_contain_text("hello")
    assert len(client.ok("GET", "/v1/conversations")["conversations"]) == 1

    def rehearsing(route: Route) -> None:
        answer = route.fetch()
        session = answer.json()["session"]
        assert session["model"].startswith("openai-chat:")
        route.fulfill(response=answer, json={"session": {**session, "model": "rehearsal"}})

    # The page says when no LLM answers.
    page.page.route("**/v1/session", rehearsing)
    page.open().live()
    expect(page.page.get_by_text("The rehearsal model answers: it follows rules and is not an LLM.")).to_be_visible()


def test_a_session_of_a_coding_assistant_shows_its_list_and_why_it_was_sent_back(page: Visit, client: Client) -> None:
    session = AssistantSession("claude-code", "one", "/projects/garden")
    items = [MirroredItem("Write a", "completed"), MirroredItem("Write b", "pending")]
    plan = client.desk.write(sessions.mirror, session, items, is_whole=True)
    assert plan is not None
    page.open().live()
    page.region("Conversations").get_by_role("link", name="Claude Code: garden").click()
    page.button("Expand").click()
    expect(page.rows).to_have_count(2)
    for times in (1, 2):
        client.desk.write(stops.decide_stop, plan.id, StopRequest("Done."), 2)
        expect(page.log.get_by_text("Sent back to work.")).to_have_count(times)
    expect(page.log.locator(".turn-note").last).to_contain_text("You are not done: 1 item is open on your list.")
    client.desk.write(stops.decide_stop, plan.id, StopRequest("Done."), 2)
    expect(page.log).to_contain_text("The agent stopped before the list was done.")
    page.page.reload()
    expect(page.log.get_by_text("Sent back to work.")).to_have_count(2)
    expect(page.log).to_contain_text("The agent stopped before the list was done.")
