"""The chat: messages and tool calls, live, and how to recover from failures."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.page_harness import Visit
from tests.model_server import ModelServer, Reply, Request, by_turn, calls, error, pause_midway, text
from tests.surfaces.server_harness import Client


def test_the_first_message_opens_a_conversation_with_its_title(page: Visit, client: Client) -> None:
    page.open().live().say("Why were customers charged twice?")

    expect(page.page).to_have_url(re.compile(r"/c/\d+$"))
    expect(page.log).to_contain_text("hello")
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Why were customers charged twice?")
    talks = page.region("Conversations")
    expect(talks.get_by_role("link", name="Why were customers charged twice?")).to_have_attribute("aria-current", "true")
    assert [conversation["title"] for conversation in client.ok("GET", "/v1/conversations")["conversations"]] == [
        "Why were customers charged twice?"
    ]


def test_the_page_says_when_no_llm_answers(page: Visit) -> None:
    def rehearsing(route: Route) -> None:
        answer = route.fetch()
        session = answer.json()["session"]
        assert session["model"].startswith("openai-chat:")
        route.fulfill(response=answer, json={"session": {**session, "model": "rehearsal"}})

    page.open().live()
    expect(page.page.get_by_text("is not an LLM")).to_have_count(0)
    page.page.route("**/v1/session", rehearsing)
    page.open().live()
    expect(page.page.get_by_text("The rehearsal model answers: it follows rules and is not an LLM.")).to_be_visible()


def test_an_answer_is_shown_while_it_is_spoken_and_stays_when_it_is_done(page: Visit, model: ModelServer) -> None:
    model.script = lambda _request: pause_midway(text("The first half of it and then the second half of it."))
    model.hold()
    page.open().live().say("speak")
    expect(page.log.locator(".streaming")).to_contain_text("The first half")
    expect(page.log).not_to_contain_text("second half")
    model.release()

    expect(page.log.locator(".msg.assistant")).to_have_text(re.compile("The first half of it and then the second half of it."))
    expect(page.log.locator(".streaming")).to_have_count(0)


def test_a_refused_answer_is_withdrawn(page: Visit, model: ModelServer) -> None:
    replies = [calls(("create_todo", {"items": [{"title": "look"}]})), text("I am done, believe me.")]

    def script(_request: Request) -> Reply:
        if replies:
            return replies.pop(0)
        model.hold()
        return pause_midway(text("Then I shall look first."))

    model.script = script
    page.open().live().say("go")

    expect(page.log.locator(".streaming")).to_contain_text("Then I")
    expect(page.log).not_to_contain_text("believe me")
    page.button("Stop").click()
    expect(page.log).to_contain_text("Stopped")
    expect(page.log).not_to_contain_text("believe me")


def test_stop_stops_the_agent(page: Visit, client: Client, model: ModelServer) -> None:
    model.hold()
    page.open().live().say("think for long")
    page.button("Stop").click()

    expect(page.log).to_contain_text("Stopped. Work that was done is kept.")
    expect(page.button("Send")).to_be_visible()
    model.release()
    page.say("and now?")
    expect(page.log.locator(".msg.assistant")).to_have_text(re.compile("hello"))


def test_a_turn_that_failed_says_why_and_can_be_tried_again(page: Visit, model: ModelServer) -> None:
    model.script = lambda _request: error(400, "this model is overwhelmed")
    page.open().live().say("do it")
    end = page.log.locator(".turn-note")
    expect(end).to_contain_text("The agent could not continue.")
    expect(end).to_contain_text("this model is overwhelmed")
    expect(page.page.get_by_role("link", name="Operations")).to_contain_text("1")

    model.script = lambda _request: text("It works now.")
    page.button("Try again").click()
    expect(page.log).to_contain_text("It works now.")
    expect(end).to_have_count(0)


def test_the_conversation_is_complete_after_a_reload(page: Visit, model: ModelServer) -> None:
    model.script = by_turn(calls(("calculate", {"expression": "6*7"}), text="Let me see."), text("It is 42."))
    page.open().live().say("what is 6*7?")
    expect(page.log).to_have_text(re.compile("Let me see.*calculate.*It is 42.*This turn used.*tokens", re.DOTALL))
    expect(page.button("Send")).to_be_visible()
    before = page.log.inner_text()
    page.page.reload()

    expect(page.live().log).to_have_text(before, use_inner_text=True)


def test_a_message_that_cannot_be_sent_stays_and_shows_the_remedy(page: Visit, client: Client) -> None:
    page.forgiven = ("503",)
    page.open("/").live()
    operator = page.page.request
    operator.put(f"{page.url}/v1/halt", data={"why": "lunch"}, headers={"Origin": page.url})
    banner = page.page.locator(".banner")
    expect(banner).to_contain_text("Everything is halted. lunch")
    page.say("hello?")
    expect(page.page.get_by_role("alert")).to_contain_text("Lift the halt under Operations")
    expect(page.page.get_by_label("Message", exact=True)).to_have_value("hello?")

    page.button("Lift the halt").click()
    expect(banner).to_have_count(0)
    page.button("Try again").click()
    expect(page.log.locator(".msg.assistant")).to_contain_text("hello")
    assert len(client.ok("GET", "/v1/conversations")["conversations"]) == 1


@pytest.mark.parametrize("path", ["/c/999999", "/c/1", "/goals/none"])
def test_an_address_that_leads_nowhere_says_so(page: Visit, path: str) -> None:
    page.forgiven = ("404",)
    page.open(path)

    expect(page.page.get_by_role("heading", level=1).last).to_have_text(re.compile("(Page|Conversation) not found"))


def test_shift_enter_is_a_new_line_and_enter_sends(page: Visit, client: Client) -> None:
    page.open().live()
    box = page.page.get_by_label("Message", exact=True)
    box.fill("one")
    box.press("Shift+Enter")
    box.type("two")
    box.press("Enter")

    expect(page.log.locator(".msg.user")).to_contain_text("one\ntwo")
    expect(box).to_have_value("")


def test_a_compaction_is_shown_live_and_after_reloading(page: Visit, model: ModelServer) -> None:
    model.script = lambda request: text("hello", usage=(sum(map(len, request.texts)) // 3, 1))
    page.open().live().say("word " * 4_000)
    expect(page.log).to_contain_text("hello")
    expect(page.button("Stop")).to_have_count(0)
    page.say("more " * 4_000)
    note = page.log.get_by_text(re.compile(r"Older messages were shortened to make room: from [\d,]+ to [\d,]+ tokens\."))
    expect(note).to_be_visible()
    page.page.reload()
    expect(note).to_be_visible()
