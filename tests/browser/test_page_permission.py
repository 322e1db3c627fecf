"""Permission on the page: calls that need approval, questions to people, and messages to a running agent."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Route, expect

from headway.actions.runs import inbox, runs
from headway.ledger.run import Effect, Run
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import Visit
from tests.browser.test_page_hostile import HOSTILE, check_safe
from tests.model_server import ModelServer, Reply, by_turn, calls, text
from tests.surfaces.conversation_client import wait_for_turn
from tests.surfaces.model_fixtures import model_settings
from tests.surfaces.server_harness import Client, Service, run_server
from tests.surfaces.waiting_turns import begin_waiting_turn

DAY_MS = 24 * 3600 * 1000
HOME = "home"


@pytest.fixture(scope="module")
def commanding_service(shared_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server whose agents may run `echo`, and must ask."""
    folder = tmp_path_factory.mktemp("served")
    settings = {**model_settings(shared_model), "HEADWAY_COMMANDS": "echo", "HEADWAY_HOME": str(folder / HOME)}
    settings["HEADWAY_SANDBOX"] = "required"  # without one, no rule can allow the command
    (folder / HOME).mkdir()
    (folder / HOME / "policy.toml").write_text('[[rule]]\ntool = "run_command"\ndecision = "ask"\n')
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder, environment=settings) as service:
        yield service


@pytest.fixture
def service(commanding_service: Service) -> Service:
    return commanding_service


def echo(*words: str) -> Reply:
    return calls(("run_command", {"command": ["echo", *words]}))


def ask_person(question: str, *choices: str) -> Reply:
    return calls(("use_tool", {"name": "ask_person", "arguments": {"question": question, "choices": choices}}))


def cards(page: Visit) -> Locator:
    return page.page.locator(".request-card")


def lines(page: Visit) -> Locator:
    return page.page.locator(".tool-line")


def inbox_link(page: Visit) -> Locator:
    return page.page.get_by_role("navigation", name="Main").get_by_role("link", name="Inbox")


def begin_waiting(client: Client, model: ModelServer, *replies: Reply) -> tuple[int, str]:
    """Start a turn whose first answer makes it wait for a person. Returns its conversation and its id."""
    model.script = by_turn(*replies, text("Done."))
    conversation = client.conversation(title="Deploy")
    return conversation, begin_waiting_turn(client, conversation)["id"]


def test_people_approve_reject_edit_answer_and_steer_a_running_agent(
    page: Visit, client: Client, model: ModelServer, service: Service
) -> None:
    model.script = by_turn(echo("hello", "two words"), text("Done."))
    page.open().live().say("greet")
    card = cards(page)

    expect(card).to_contain_text("index asks to call run_command")
    expect(card.get_by_label("Command")).to_have_text("$ echo hello 'two words'")
    expect(card).to_contain_text("policy.toml, line 1")
    expect(card).to_contain_text("expires in 23h")
    expect(page.log).to_contain_text("Waits for you")
    expect(page.log.locator(".dots")).to_have_count(0)
    expect(inbox_link(page)).to_contain_text("1 waiting for you")
    expect(page.region("Conversations").get_by_role("link", name="greet")).to_contain_text("1 waiting for you")
    expect(page.page).to_have_title("(1) greet · Headway")
    page.page.keyboard.press("Enter")  # approves nothing: the card never takes the focus
    page.shoot("permission-approval")
    page.page.reload()
    expect(card.get_by_label("Command")).to_have_text("$ echo hello 'two words'")

    page.button("Approve").press("Enter")
    expect(page.log).to_contain_text("Done.")
    line = lines(page)
    expect(line).to_be_focused()
    expect(line.locator("summary")).to_contain_text("approved")
    line.locator("summary").click()
    expect(line).to_contain_text(re.compile(r"Approved by somebody at a browser, (just now|\d+s ago)"))
    expect(line.get_by_label("Result")).to_contain_text("hello two words")
    expect(inbox_link(page)).not_to_contain_text("waiting")
    expect(page.page).to_have_title("greet · Headway")

    # Questions are answered by choice or in words.
    model.script = by_turn(ask_person("Which tier?", "Bronze", "Gold"), ask_person("What\nname?"), text("Done."))
    page.go("/")
    expect(page.log).to_have_count(0)
    page.say("go")
    expect(card).to_contain_text("index asks you")
    expect(card).to_contain_text("Which tier?")
    expect(page.page).to_have_title("(1) go · Headway")
    page.button("Gold").click()

    expect(card).to_contain_text("What")
    page.shoot("permission-question")
    page.page.get_by_label("Your answer").fill("Ada")
    page.page.keyboard.press("Enter")
    expect(page.log).to_contain_text("Done.")
    expect(lines(page).locator("summary")).to_contain_text(["Which tier? → Gold", "What name? → Ada"])
    assert [json.loads(item.content)["answer"] for item in model.requests[-1].tool_results] == ["Gold", "Ada"]

    # A message to a running agent is read at its next step.
    model.script = by_turn(calls(("calculate", {"expression": "6*7"})), text("It is 42."))
    model.hold()
    page.go("/")
    expect(page.log).to_have_count(0)
    page.say("what is 6*7?")
    box = page.page.get_by_label("Message", exact=True)
    expect(box).to_have_attribute("placeholder", "Message the running agent")
    expect(page.button("Stop")).to_be_visible()
    page.say("Answer in words.")
    steering = page.log.locator(".msg.user").last
    expect(steering).to_contain_text("Answer in words.")
    expect(steering).to_contain_text("Not read yet")
    expect(box).to_have_value("")
    page.shoot("permission-steering")
    model.release()

    expect(page.log).to_contain_text("It is 42.")
    expect(steering).to_contain_text("Read by the agent")
    assert any("Answer in words." in said for said in model.requests[-1].texts)
    page.page.reload()
    expect(steering).to_contain_text("Read by the agent")
    expect(page.log.locator(".msg.user").first).not_to_contain_text("ead")

    # One that comes too late can start a new turn.
    page.forgiven = ("409",)

    def end_first(route: Route) -> None:
        client.ok("POST", route.request.url.removeprefix(page.url).replace("/messages", "/cancel"))
        route.continue_()

    model.hold()
    model.script = lambda _request: text("hello")
    page.say("think")
    page.page.route("**/v1/turns/*/messages", end_first)
    expect(page.button("Stop")).to_be_visible()
    page.say("And hurry.")
    expect(page.page.get_by_role("alert")).to_contain_text("The agent has just finished")
    expect(page.page.get_by_label("Message", exact=True)).to_have_value("And hurry.")
    model.release()
    page.button("Send as a new message").click()
    expect(page.log.locator(".msg.user").last).to_contain_text("And hurry.")
    expect(page.log).to_contain_text("hello")
    reject_edit_and_always_allow(page, model, service)


def reject_edit_and_always_allow(page: Visit, model: ModelServer, service: Service) -> None:
    page.forgiven += ("422",)
    model.script = by_turn(echo("one"), echo("two"), echo("four"), echo("four"), text("Done."))
    page.go("/")
    expect(page.log).to_have_count(0)
    page.say("go")
    card = cards(page)

    expect(card).to_contain_text("$ echo one")
    page.button("Reject").click()
    page.page.get_by_label("Why not?").press("Escape")
    expect(page.button("Reject")).to_be_focused()
    page.button("Reject").press("Enter")
    page.page.get_by_label("Why not?").fill("That is the wrong word.")
    page.page.keyboard.press("Enter")
    expect(card).to_contain_text("$ echo two")
    expect(lines(page).first).to_contain_text("rejected")
    assert "A person rejected this call: That is the wrong word." in model.requests[-1].tool_results[-1].content

    page.button("Edit").click()
    field = page.page.get_by_label("Arguments, as JSON")
    expect(field).to_be_focused()
    field.fill('{"command": "echo"')
    page.button("Approve with these arguments").click()
    expect(card.get_by_role("alert")).to_contain_text("This is not valid JSON")
    field.fill('{"command": []}')
    page.button("Approve with these arguments").click()
    expect(card.get_by_role("alert")).to_contain_text("command")
    field.fill('{"command": ["echo", "three"]}')
    page.button("Approve with these arguments").click()
    expect(card).to_contain_text("$ echo four")
    edited = lines(page).nth(1)
    edited.locator("summary").click()
    expect(edited).to_contain_text("with other arguments than the agent's")
    expect(edited.get_by_label("Proposed arguments")).to_contain_text("two")
    expect(edited.get_by_label("Result")).to_contain_text("three")

    page.button("Always allow this").click()
    expect(card).to_contain_text("From now on, the agent index may call run_command with command = echo four without asking.")
    expect(page.button("Back")).to_be_focused()
    page.shoot("permission-always")
    page.button("Approve, and add this rule").click()
    expect(page.log).to_contain_text("Done.")
    expect(lines(page)).to_have_count(4)
    expect(lines(page).last).not_to_contain_text("approved")
    policy = (Path(service.log).parent / HOME / "policy.toml").read_text()
    assert policy.index("echo four") < policy.index('decision = "ask"')


def propose_command(tx: Transaction, run: Run, *words: str) -> None:
    effect = Effect(0, 0, "call-1", "run_command", json.dumps({"command": words}), "proposed")
    inbox.propose_call(tx, run, effect, "policy.toml, line 3", tx.now + DAY_MS)


def add_waiting_goal(tx: Transaction, tenant_id: int) -> int:
    """A goal one of whose sub-agents waits for approval, and another for an answer."""
    goal = staged_goals.add_half_done_goal(tx, tenant_id)
    working = [sub_goal for sub_goal in goal_store.list_sub_goals(tx, tenant_id, goal.id) if sub_goal.status == "in-progress"]
    first, second = (runs.get_run(tx, tenant_id, sub_goal.run_id or "") for sub_goal in working)
    propose_command(tx, first, "make", "canary")
    inbox.ask(tx, second, "May the pool grow to 50 connections?", ["Yes", "No"])
    return goal.id


def test_requests_elsewhere_are_counted_linked_and_shown_with_their_goal(page: Visit, client: Client, model: ModelServer) -> None:
    page.open(f"/c/{client.conversation(title='Quiet')}").live()
    conversation, turn_id = begin_waiting(
        client, model, calls(("run_command", {"command": ["echo", "a"]}), ("run_command", {"command": ["echo", "b"]}))
    )
    expect(inbox_link(page)).to_contain_text("2 waiting for you")
    expect(page.page).to_have_title("(2) Quiet · Headway")
    expect(cards(page)).to_have_count(0)
    deploy = page.region("Conversations").get_by_role("link", name="Deploy")
    page.page.get_by_role("link", name="Board").click()  # and back, which loads the new conversation's name
    page.page.get_by_role("link", name="Chat", exact=True).click()
    expect(deploy).to_contain_text("2 waiting for you")
    deploy.click()

    expect(cards(page)).to_have_count(2)
    expect(page.log).to_contain_text("Waits for you: 2 requests")
    first, second = sorted(approval["id"] for approval in client.ok("GET", "/v1/approvals")["approvals"])
    client.ok("POST", f"/v1/approvals/{first}", json={"decision": "approve"})
    expect(cards(page)).to_have_count(1)
    expect(lines(page).first).to_contain_text("approved")
    client.ok("POST", f"/v1/turns/{turn_id}/cancel")
    expect(cards(page)).to_have_count(0)
    expect(lines(page).last).to_contain_text("canceled")
    expect(inbox_link(page)).not_to_contain_text("waiting")
    assert client.ok("GET", f"/v1/approvals/{second}")["approval"]["state"] == "canceled"
    assert conversation

    # The link in a notice opens the request.
    page.forgiven = ("404",)
    conversation, turn_id = begin_waiting(client, model, echo("hello"), ask_person("Which tier?"))
    page.go("/operations/notices")
    page.region("Notices").get_by_role("link", name="open the request").first.click()
    expect(page.page).to_have_url(re.compile(r"/inbox/\d+$"))
    expect(cards(page)).to_contain_text("$ echo hello")
    expect(cards(page).get_by_role("link", name="Deploy")).to_have_attribute("href", f"/c/{conversation}")

    page.button("Approve").click()
    expect(page.region("Decided").locator(".tool-line")).to_contain_text("approved")
    expect(page.region("Other open requests")).to_contain_text("Which tier?")
    question = client.ok("GET", "/v1/questions")["questions"][0]
    page.go(f"/inbox/{question['id']}")
    expect(page.region("Waits for you")).to_contain_text("Which tier?")  # not in the list of the page before
    page.page.get_by_label("Your answer").fill("Gold")
    page.button("Answer").click()
    expect(page.region("Decided")).to_contain_text("Which tier? → Gold")
    wait_for_turn(client, turn_id)
    inbox_link(page).click()
    expect(page.region("Open")).to_contain_text("Nothing waits for you.")
    expect(page.region("Decided last").locator(".tool-line")).to_have_count(4)
    page.shoot("permission-decided")
    page.go("/inbox/999999")
    expect(page.page.locator("main")).to_contain_text("There is no such request.")

    # A goal shows what its sub-agents wait for.
    model.hold()  # or the goal goes on after the first answer, and cancels the other request
    goal_id = client.desk.write(add_waiting_goal)
    page.go("/goals")
    expect(page.page.get_by_role("table")).to_contain_text("Waits for you")
    page.page.get_by_role("link", name=staged_goals.WANTED).click()
    waits = page.region("Waits for you")
    expect(waits).to_contain_text("coder asks to call run_command")
    expect(page.page).to_have_title(re.compile(r"^\(2\) "))
    page.shoot("permission-goal")

    page.button("Yes", within=waits).click()
    page.button("Reject", within=waits).click()
    page.button("Reject the call").click()
    expect(waits.locator("summary").filter(has_text="answered")).to_contain_text("May the pool grow to 50 connections? → Yes")
    expect(waits.locator("summary").filter(has_text="rejected")).to_contain_text("make canary")
    for kind in ("approval", "question"):  # the goal itself may need a decision by now
        assert client.ok("GET", "/v1/inbox", params={"kind": kind})["requests"] == []
    assert client.ok("GET", f"/v1/goals/{goal_id}")["goal"]["waiting_for"] is None


@pytest.mark.torture
def test_hostile_arguments_and_questions_show_as_text(page: Visit, client: Client, model: ModelServer) -> None:
    hidden = "safe\u202egpj.exe\u200b\u0007"
    reply = calls(
        ("run_command", {"command": ["echo", hidden, "a\nb", "א", "ב"]}), ("run_command", {"command": ["echo", *HOSTILE.values()]})
    )
    conversation, _ = begin_waiting(client, model, reply, ask_person(" ".join(HOSTILE.values()), *list(HOSTILE.values())[:2]))
    page.open(f"/c/{conversation}").live()
    command = cards(page).first.get_by_label("Command")
    expect(command).to_have_text("$ echo 'safeU+202Egpj.exeU+200BU+0007' 'a\\nb' 'א' 'ב'")
    expect(command.locator("mark")).to_have_text(["U+202E", "U+200B", "U+0007", "\\n"])
    expect(cards(page).last).to_contain_text("<script>window.owned = 1</script>")
    expect(cards(page).last).not_to_contain_text("👩‍👩‍👧‍👦")
    page.button("Show all").click()
    expect(cards(page).last).to_contain_text("👩‍👩‍👧‍👦")
    check_safe(page)
    cards(page).first.get_by_role("button", name="Edit").click()
    expect(page.page.get_by_label("Arguments, as JSON")).to_have_value(re.compile(r"safe\\u202egpj\.exe\\u200b\\u0007"))
    page.page.keyboard.press("Escape")
    page.shoot("permission-hostile")
    for _ in range(2):
        cards(page).first.get_by_role("button", name="Approve", exact=True).click()
        expect(page.page.locator(".request-card [disabled]")).to_have_count(0)
    expect(cards(page)).to_contain_text("asks you")
    expect(cards(page)).to_contain_text("${window.owned = 1}")
    for line in lines(page).all():
        line.locator("summary").click()
    check_safe(page)
