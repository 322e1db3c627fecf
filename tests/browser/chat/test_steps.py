"""The steps of a turn: one line each, folded when the turn has ended, and the transcripts of sub-agents."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.page_harness import Visit, look_at
from tests.model_server import ModelServer, Reply, Request, calls, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

TITLES = ["Read the failed retry jobs", "Group the failures by code", "Write a failing test", "Fix it", "Run the suite", "Report"]
OUTCOME = "done as planned"
LONG_TEXT = "All 41 failures share **one** pattern:\n\n- the first attempt times out\n- the retry has a *new* key"


def plan_and_work(model: ModelServer, stop_at: int) -> Callable[[Request], Reply]:
    """A model that plans six todos and works through them. It holds back its reply number `stop_at`."""

    def script(request: Request) -> Reply:
        done = request.assistant_turns
        created = [item for item in request.tool_results if item.name == "create_todo"]
        ids = [item["id"] for item in json.loads(created[0].content)["created"]] if created else []
        replies: list[Callable[[], Reply]] = [
            lambda: calls(("create_todo", {"items": [{"title": title} for title in TITLES]})),
            lambda: calls(("start_todo", {"todoId": ids[0]})),
            lambda: calls(("calculate", {"expression": "41*2"}), text="Let me count the `failures` first."),
            lambda: calls(("complete_todo", {"todoId": ids[0], "outcome": OUTCOME, "startNext": True})),
            lambda: calls(("read_file", {"path": "missing.txt"})),
            lambda: calls(("calculate", {"expression": "1+1"}), ("calculate", {"expression": "2+2"})),
            lambda: calls(*[("complete_todo", {"todoId": one, "outcome": OUTCOME}) for one in ids[1:]]),
            lambda: text(LONG_TEXT),
        ]
        if done == stop_at:
            model.hold()
        return replies[done]()

    return script


def steps(page: Visit) -> Locator:
    return page.log.locator(".steps .tool-line")


def summary(page: Visit) -> Locator:
    return page.log.locator(".steps-summary")


@pytest.mark.proof
def test_steps_are_lines_while_a_turn_runs_then_one_summary_and_sub_agents_open_to_their_transcripts(
    page: Visit, client: Client, model: ModelServer
) -> None:
    model.script = plan_and_work(model, stop_at=6)
    page.open().live().say("Find out why the retries fail.")

    expect(steps(page)).to_have_count(3)
    expect(summary(page)).to_have_text(re.compile("2 earlier steps"))
    expect(steps(page).nth(0)).to_contain_text(f"Finished: {TITLES[0]} · Started: {TITLES[1]}")
    expect(steps(page).nth(1)).to_contain_text(re.compile("read_file.*failed: .*missing.txt"))  # visible without opening it
    expect(steps(page).nth(2)).to_contain_text("2 calls: calculate ×2")
    expect(steps(page).nth(2)).to_have_attribute("aria-current", "step")
    summary(page).focus()
    page.page.keyboard.press("Enter")
    expect(steps(page).nth(0)).to_contain_text("Planned 6 todos")
    expect(steps(page).nth(1)).to_contain_text("Let me count the failures first.")
    steps(page).nth(1).locator("summary").focus()
    page.page.keyboard.press("Enter")
    expect(steps(page).nth(1).locator("pre").last).to_contain_text("82")
    steps(page).nth(4).locator("summary").first.click()
    expect(steps(page).nth(4).locator("li summary")).to_have_text(
        [re.compile("calculate1\\+1.*2"), re.compile("calculate2\\+2.*4")]
    )
    look_at(page, "steps-running")
    summary(page).click()
    expect(steps(page)).to_have_count(4)  # what is open stays

    model.release()
    expect(page.log.locator(".msg.assistant")).to_contain_text("All 41 failures share one pattern")
    expect(steps(page)).to_have_count(2)
    expect(steps(page).nth(0).locator("pre").last).to_contain_text("82")
    expect(summary(page)).to_contain_text(re.compile(r"6 steps\s*1 failed"))
    expect(summary(page)).to_have_attribute("aria-expanded", "false")
    page.page.reload()
    expect(summary(page)).to_contain_text(re.compile(r"6 steps\s*1 failed"))
    expect(steps(page)).to_have_count(0)
    summary(page).click()
    expect(steps(page).last).to_contain_text("Finished 5 todos")
    look_at(page, "steps-finished")
    read_transcripts(page, client, model)


def delegating(model: ModelServer) -> Callable[[Request], Reply]:
    """A model whose agent hands a task to a coder, which works and hands a task to a researcher, who does not answer yet."""

    def script(request: Request) -> Reply:
        if "You are a researcher" in request.system:
            model.hold()
            return text("It was **1889**.")
        if "You are a programmer" in request.system:
            replies = [
                calls(("calculate", {"expression": "6*7"}), text="First the numbers."),
                calls(("delegate", {"agent": "researcher", "task": "Find the year"})),
                text("It was 1889, and 42 metres."),
            ]
            return replies[request.assistant_turns]
        return text("Done.") if request.assistant_turns else calls(("delegate", {"agent": "coder", "task": "Look into the tower"}))

    return script


def read_transcripts(page: Visit, client: Client, model: ModelServer) -> None:
    model.script = delegating(model)
    model.forget()
    asked: list[str] = []
    page.listen("request", lambda request: asked.append(request.url) if "/v1/agents/" in request.url else None)
    conversation = client.conversation(title="Towers")
    page.go(f"/c/{conversation}")
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Towers")
    expect(steps(page)).to_have_count(0)
    page.say("When was it built?")
    coder = steps(page).filter(has_text="Look into the tower").first
    expect(coder.locator("strong").first).to_have_text("coder")  # the step of the agent, which replaces that of the call
    expect(coder).to_have_attribute("aria-current", "step")
    model.wait_for_requests(4)
    assert asked == []  # nothing is loaded before it is opened

    coder.locator("summary").first.click()
    transcript = coder.get_by_role("list", name="Transcript").first
    expect(transcript).to_contain_text("First the numbers.")
    researcher = transcript.locator(".tool-line").filter(has_text="Find the year").first
    expect(researcher).to_contain_text("researcher")
    researcher.locator("summary").first.click()
    expect(researcher).to_contain_text("It has not taken a step yet.")
    look_at(page, "steps-agents")
    model.release()
    expect(researcher.locator("strong", has_text="1889")).to_be_visible()
    expect(transcript).to_contain_text("It was 1889, and 42 metres.")
    expect(page.log.locator(".msg.assistant")).to_contain_text("Done.")
    expect(coder).to_be_visible()  # it is still open

    page.page.reload()
    coder.locator("summary").first.click()
    researcher.locator("summary").first.click()
    expect(transcript).to_contain_text(re.compile("First the numbers.*Find the year.*It was 1889, and 42 metres", re.DOTALL))
    expect(researcher).to_contain_text("It was 1889.")

    # The snapshot has the last 200 events. One that begins between a call and its result is complete when both are loaded.
    results = 130

    def script(request: Request) -> Reply:
        return text("Enough.") if request.assistant_turns >= 2 else calls(*[("now", {})] * (results // 2))

    model.script = script
    conversation = client.conversation(title="Clocks")
    wait_for_turn(client, say(client, conversation, "What time is it?"))
    page.go(f"/c/{conversation}")
    expect(page.log).to_contain_text("Enough.")
    page.button("Show earlier messages").click()
    expect(page.log.locator(".msg.user")).to_contain_text("What time is it?")
    summary(page).click()
    expect(steps(page)).to_have_count(2)
    expect(page.log.get_by_role("img", name="in progress")).to_have_count(0)
