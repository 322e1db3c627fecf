"""The log follows its end until the user scrolls up, and draws only what an event has changed."""

import json
from typing import Any

from playwright.sync_api import Route, expect

from tests.browser.page_harness import Visit, hold_requests
from tests.model_server import ModelServer, pause_midway, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

PARAGRAPHS = "\n\n".join(f"Paragraph {n}. " + "It says a little more than the one before it. " * 4 for n in range(1, 25))
AT_END = "() => { const log = document.querySelector('.log'); return log.scrollHeight - log.scrollTop - log.clientHeight <= 1; }"
DISTANCE = "() => { const log = document.querySelector('.log'); return log.scrollHeight - log.scrollTop - log.clientHeight; }"
# A wheel-up, and in the same frame the log grows.
SCROLL_UP_AND_GROW = """() => {
    const log = document.querySelector('.log');
    log.dispatchEvent(new WheelEvent('wheel', { deltaY: -4, bubbles: true }));
    const growth = Object.assign(document.createElement('li'), { id: 'growth', textContent: 'more '.repeat(4000) });
    log.querySelector('ol:last-child').append(growth);
}"""


def test_the_end_is_followed_until_the_user_scrolls_up(page: Visit, client: Client, model: ModelServer) -> None:
    conversation = client.conversation(title="Long")
    model.script = lambda _request: text(PARAGRAPHS)
    wait_for_turn(client, say(client, conversation, "Tell me much."))
    page.open(f"/c/{conversation}").live()
    jump = page.button("Jump to latest")
    expect(page.log).to_contain_text("Paragraph 24.")
    page.page.wait_for_function(AT_END)
    page.page.set_viewport_size({"width": 1440, "height": 500})  # changes of the layout are not the user's
    page.page.wait_for_function(AT_END)
    page.page.set_viewport_size({"width": 700, "height": 800})
    page.page.wait_for_function(AT_END)
    page.page.evaluate("() => document.querySelectorAll('.msg')[0].style.setProperty('min-height', '900px')")  # as an image does
    page.page.wait_for_function(AT_END)
    expect(jump).to_have_count(0)

    model.hold()
    model.script = lambda _request: pause_midway(text(PARAGRAPHS))
    page.say("And again.")
    expect(page.log.locator(".streaming")).to_contain_text("Paragraph 10.")
    page.page.wait_for_function(AT_END)
    page.page.evaluate(SCROLL_UP_AND_GROW)
    expect(jump).to_be_visible()
    model.release()
    expect(page.log.locator(".msg.assistant").nth(1)).to_contain_text("Paragraph 24.")
    assert page.page.evaluate(DISTANCE) > 100
    page.page.evaluate("() => document.getElementById('growth').remove()")

    jump.focus()
    page.page.keyboard.press("Enter")
    page.page.wait_for_function(AT_END)
    expect(jump).to_have_count(0)
    expect(page.log).to_be_focused()
    page.page.keyboard.press("PageUp")
    expect(jump).to_be_visible()
    page.page.keyboard.press("End")
    expect(jump).to_have_count(0)
    page.page.wait_for_function(AT_END)  # the browser takes several frames to scroll
    page.log.hover()
    page.page.mouse.wheel(0, -300)
    expect(jump).to_be_visible()
    page.page.wait_for_function(f"() => ({DISTANCE})() >= 300")
    page.shoot("jump-to-latest")
    model.script = lambda _request: text("Short.")
    page.say("A last one.")  # what is sent from here is gone to
    expect(page.log).to_contain_text("Short.")
    page.page.wait_for_function(AT_END)


BLOCKS = 700
TODOS = 500
# Counts the elements that an event changes, and the messages among them.
COUNT = """() => {
    window.changed = new Set();
    new MutationObserver(list => list.forEach(({ target, addedNodes }) => {
        for (const node of [target, ...addedNodes]) if (node.closest?.('.log li')) window.changed.add(node.closest('.log li'));
    })).observe(document.querySelector('.log'), { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def stage_long_log(route: Route) -> None:
    """Answer with a conversation of 700 messages, and todos as many as a plan can have."""
    answer = route.fetch()
    timeline: dict[str, Any] = answer.json()["timeline"]
    turn = "00000000-0000-4000-8000-000000000000"
    entries = [
        {
            "seq": n + 1,
            "kind": "message",
            "at": 1_700_000_000 + n,
            "data": {
                "id": 1_000_000 + n,
                "turn_id": turn,
                "role": "user" if n % 2 == 0 else "assistant",
                "content": f"Message **{n}**\n\n- one\n- `two`",
                "created_at": 1_700_000_000 + n,
                "attachments": [],
            },
        }
        for n in range(BLOCKS)
    ]
    items = [{"id": 2_000_000 + n, "description": f"Todo {n}", "status": "pending"} for n in range(TODOS)]
    todos = {"total": TODOS, "remaining": TODOS, "current": None, "items": items}
    route.fulfill(json={"timeline": {**timeline, "entries": entries, "todos": todos}})


def test_a_skeleton_is_shown_until_the_server_has_answered_and_an_event_changes_only_its_own_block(
    page: Visit, client: Client, model: ModelServer
) -> None:
    conversation = client.conversation(title="Very long")
    wait_for_turn(client, say(client, conversation, "Begin."))
    page.open("/board").live()
    held = hold_requests(page, "**/timeline?*")
    with page.page.expect_request("**/timeline?*"):
        page.go(f"/c/{conversation}")
    expect(page.page.get_by_text("Loading the conversation…")).to_be_attached()
    expect(page.log).to_have_count(0)
    page.shoot("chat-skeleton")
    stage_long_log(held.pop())
    expect(page.log.locator(".msg")).to_have_count(BLOCKS)
    expect(page.page.get_by_text("Loading the conversation…")).to_have_count(0)
    page.page.unroute("**/timeline?*")
    page.live()
    page.page.evaluate(COUNT)
    wait_for_turn(client, say(client, conversation, "One more."))
    expect(page.log.locator(".msg.assistant").last).to_contain_text("hello")
    expect(page.log.locator(".msg")).to_have_count(BLOCKS + 2)

    changed = page.page.evaluate("() => [...window.changed].map(item => item.innerText)")
    assert not [words for words in changed if "Message" in words], json.dumps(changed)
