"""How turns end, stop and retry on the page, and what they used: in both themes, on desktop and phone."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.page_harness import Visit, look_at
from tests.model_server import ModelServer, Reply, Request, calls, error, flaky, pause_midway, text
from tests.surfaces.conversation_client import begin_retrying_turn, get_turn, say, wait_for_turn
from tests.surfaces.server_harness import Client

LIE = "All done! Everything is tested and deployed. **Great success.**"
TITLES = ("Persist the key before the first attempt", "Run the billing suite", "Deploy <b>to</b> the canary")
MODEL_USAGE = (3_000, 400)


def lie_then_work(request: Request) -> Reply:
    """Plan, complete one item and claim the rest. After Continue, complete the rest."""
    results = request.tool_results
    if not results:
        return calls(("create_todo", {"items": [{"title": title} for title in TITLES]}))
    ids = [item["id"] for item in json.loads(results[0].content)["created"]]
    if len(results) == 1:
        return calls(("complete_todo", {"todoId": ids[0], "outcome": "done"}))
    if not any("Continue with the open todos." in words for words in request.texts):
        return text(LIE, usage=MODEL_USAGE)
    if len(results) == 2:
        return calls(*(("complete_todo", {"todoId": todo, "outcome": "done"}) for todo in ids[1:]))
    return text("Now it is deployed.", usage=MODEL_USAGE)


@pytest.mark.proof
def test_a_refused_answer_is_never_shown_a_stopped_one_is_kept_and_retries_are_counted_down(
    page: Visit, client: Client, model: ModelServer
) -> None:
    model.script = lie_then_work
    conversation = client.conversation(title="Deploy")
    first = wait_for_turn(client, say(client, conversation, "Fix and deploy it."))
    page.open(f"/c/{conversation}").live()
    note = page.log.locator(".turn-note")
    expect(note).to_contain_text("The agent was stopped, because it made no progress with its plan.")
    expect(note.locator(".open-todos li")).to_have_text(list(TITLES[1:]))
    expect(page.log).not_to_contain_text("Great success")
    expect(page.log.locator(".msg.assistant")).to_have_count(0)
    expect(page.log.locator(".turn-usage")).to_contain_text("tokens")
    board = note.get_by_role("link", name="Open the board")
    assert board.get_attribute("href") == f"/board?conversation={conversation}"
    look_at(page, "ending")

    page.button("Continue").click()
    expect(page.log.locator(".msg.assistant")).to_contain_text("Now it is deployed.")
    expect(page.button("Continue")).to_have_count(0)
    expect(page.panel).to_contain_text("All done")
    expect(page.log.locator(".turn-usage")).to_have_count(2)
    todos = client.ok("GET", "/v1/todos", params={"conversation_id": conversation})["todos"]
    assert sorted(todo["subject"] for todo in todos) == sorted(TITLES)
    assert get_turn(client, first["id"])["incomplete"] == []
    page.page.reload()
    expect(page.log.locator(".msg.assistant")).to_have_count(1)
    expect(page.button("Continue")).to_have_count(0)
    stop_and_retry(page, client, model)


def stop_and_retry(page: Visit, client: Client, model: ModelServer) -> None:
    words = "I will look at the gateway first. " * 6
    model.script = lambda _request: pause_midway(text(words))
    model.hold()
    page.go("/")
    expect(page.log).to_have_count(0)
    page.say("What happened last night?")
    expect(page.log.locator(".streaming")).to_contain_text("gateway first. I will")
    page.button("Stop").click()
    expect(page.log.locator(".turn-note")).to_contain_text("Stopped. Work that was done is kept.")
    answer = page.log.locator(".msg.assistant")
    expect(answer).to_contain_text("gateway first. I will")
    shown = answer.inner_text()
    look_at(page, "stopped")
    page.page.reload()
    expect(page.log.locator(".turn-note")).to_contain_text("Stopped.")
    expect(answer).to_contain_text("gateway first. I will")
    expect(answer).to_have_text(shown, use_inner_text=True)
    conversation, *_ = client.ok("GET", "/v1/conversations")["conversations"]
    messages = client.ok("GET", f"/v1/conversations/{conversation['id']}/messages")["messages"]
    assert [message["kind"] for message in messages] == ["text", "stopped"]
    model.release()

    # Retries are shown with a countdown.
    model.script = flaky(1, error(503, "busy", retry_after=1_800), text("It works now.", usage=MODEL_USAGE))
    conversation = client.conversation()
    page.go(f"/c/{conversation}")
    turn_id = begin_retrying_turn(client, conversation, model)
    line = page.log.locator(".turn-note")
    expect(line).to_contain_text("Retrying: attempt 2 of 5 in 30 min")
    expect(line).to_contain_text("failed (HTTP 503): busy.")
    expect(line.locator("[aria-hidden=true]", has_text="in 30 min")).to_have_count(1)
    look_at(page, "retrying")
    page.page.reload()
    expect(line).to_contain_text("Retrying: attempt 2 of 5 in 30 min")
    page.button("Retry now").click()
    expect(page.log.locator(".msg.assistant")).to_contain_text("It works now.")
    expect(line).to_have_count(0)
    expect(page.log.locator(".turn-usage")).to_contain_text("3.4k tokens")
    assert wait_for_turn(client, turn_id)["outcome"] == "answered"
