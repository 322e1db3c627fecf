"""An answer that was withdrawn while the page was offline does not come back, nor after a reload, nor when the agent is stopped."""

from playwright.sync_api import expect

from tests.browser.page_harness import Visit
from tests.model_server import ModelServer, Reply, Request, calls, pause_midway, text

LOST = ("ERR_", "Failed to load resource")


def test_an_answer_that_was_withdrawn_meanwhile_is_gone_after_reconnecting(page: Visit, model: ModelServer) -> None:
    replies = [
        calls(("create_todo", {"items": [{"title": "look"}]})),
        pause_midway(text("I am done, believe me. All of it is tested and deployed.")),
        pause_midway(text("Then I shall look first, and only then answer.")),
    ]

    def script(_request: Request) -> Reply:
        if len(replies) <= 2:
            model.hold()
        return replies.pop(0) if len(replies) > 1 else replies[0]

    model.script = script
    page.forgiven = LOST
    page.open().live().say("go")
    said = page.log.locator(".streaming")
    expect(said).to_contain_text("believe me")
    page.page.context.set_offline(True)
    expect(page.page.locator(".side footer")).to_contain_text("Offline")
    model.release()
    model.wait_for_requests(3)
    page.page.context.set_offline(False)

    page.live()
    expect(said).to_contain_text("Then I")
    expect(page.log).not_to_contain_text("believe me")
    page.page.reload()
    expect(said).to_contain_text("Then I")
    expect(page.log).not_to_contain_text("believe me")

    page.button("Stop").click()
    expect(page.log).to_contain_text("Stopped. Work that was done is kept.")
    expect(page.button("Send")).to_be_visible()
    expect(page.log).not_to_contain_text("believe me")
    model.script = lambda _request: text("hello")
    model.release()
    page.say("and now?")
    expect(page.log.locator(".msg.assistant").last).to_contain_text("hello")
