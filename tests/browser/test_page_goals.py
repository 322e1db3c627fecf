"""Goals: the list, one goal with its plan, journal and agents, and the operator's decisions."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.ledger.goal import Goal
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import Visit
from tests.model_server import ModelServer
from tests.surfaces.server_harness import Client


@pytest.fixture
def half_way(client: Client) -> Goal:
    return client.desk.write(staged_goals.add_half_done_goal)


def node(page: Visit, words: str) -> Locator:
    return page.page.locator(".node").filter(has_text=words)


def get_goal(client: Client, goal: Goal) -> dict[str, Any]:
    document: dict[str, Any] = client.ok("GET", f"/v1/goals/{goal.id}")["goal"]
    return document


def pause_goal(client: Client, goal: Goal, kind: str = "replans", why: str = "5 of 5 plans used.") -> None:
    def work(tx: Transaction, tenant_id: int) -> None:
        goals.escalate(tx, goals.get_goal(tx, tenant_id, goal.id), kind, why)  # type: ignore[arg-type]

    client.desk.write(work)


def test_a_goal_is_set_from_the_page_listed_and_given_up(page: Visit, client: Client, model: ModelServer) -> None:
    model.hold()  # the goal is active until it is given up
    page.open("/goals").live()
    page.button("New goal").click()
    page.page.get_by_label("What should be achieved?").fill("Every page is proofread")
    page.page.get_by_label("How will success be recognized?").fill("No typo is left.")
    page.page.get_by_label("Budget, dollars").fill("0.25")
    page.button("Set the goal").click()
    expect(page.page).to_have_url(re.compile(r"/goals/\d+$"))
    expect(page.page.get_by_role("heading", level=1)).to_have_text("Every page is proofread")
    (goal,) = client.ok("GET", "/v1/goals")["goals"]
    assert (goal["success_criteria"], goal["budget_usd"], goal["priority"]) == ("No typo is left.", 0.25, 50)

    page.button("Abandon").click()
    page.page.get_by_role("dialog").get_by_role("button", name="Abandon the goal").click()
    expect(page.page.locator(".meta .pill")).to_have_text("Abandoned")
    assert client.ok("GET", f"/v1/goals/{goal['id']}")["goal"]["status"] == "abandoned"

    # The list shows the progress of each goal, and follows it.
    client.desk.write(staged_goals.add_one_of_each_status)
    page.go("/goals")
    rows = page.page.get_by_role("row")
    expect(rows).to_have_count(6)
    first = rows.filter(has_text=staged_goals.WANTED)
    expect(first).to_contain_text(re.compile(r"Active\s*11 of 18 · 1 failed\s*2 running\s*0 tokens\s*\$0.00 of \$10.00"))
    expect(rows.filter(has_text="invoices")).to_contain_text("Completed")
    expect(rows.filter(has_text="flaky")).to_contain_text("from an agent")

    client.desk.write(staged_goals.add_sleeping_goal, NewGoal("Something new"))
    expect(rows).to_have_count(7)
    page.button("Paused").click()
    expect(rows).to_have_count(2)


def test_the_plan_of_a_goal_is_a_graph_and_its_agents_are_followed_and_stopped(
    page: Visit, client: Client, model: ModelServer, half_way: Goal
) -> None:
    model.hold()  # or the goal goes on when one of its agents is stopped
    page.open(f"/goals/{half_way.id}").live()
    drawn = {name: after for name, after in staged_goals.STEPS.items() if name != staged_goals.DROPPED}
    expect(page.page.locator(".node")).to_have_count(len(drawn))
    expect(page.page.locator(".graph path")).to_have_count(sum(map(len, drawn.values())))
    expect(node(page, "Batch cart price lookups").get_by_label("in progress")).to_be_visible()
    expect(node(page, "Try gRPC keep-alive").get_by_label("failed")).to_be_visible()
    expect(page.page.locator(".stats")).to_contain_text(
        re.compile(r"Progress\s*11 of 18 sub-goals.*Running\s*2.*Failed\s*1", re.DOTALL)
    )

    page.button("List").click()
    expect(page.region("Plan").get_by_role("row")).to_have_count(len(drawn) + 1)
    page.button("Graph").click()

    # Nodes are reached by keyboard, and show details when chosen.
    tab_stops = page.page.locator(".node[tabindex='0']")
    expect(tab_stops).to_have_count(1)
    tab_stops.focus()
    page.page.keyboard.press("ArrowUp")
    expect(node(page, "Profile cart service")).to_be_focused()
    page.page.keyboard.press("Enter")
    detail = page.page.locator(".detail")
    expect(detail).to_contain_text("Profile cart service")
    expect(detail).to_contain_text("p95 is 612 ms.")
    expect(detail).to_contain_text("as expected")

    page.page.keyboard.press("Escape")
    expect(detail).to_have_count(0)

    # A recovery is announced until it is dismissed.
    client.desk.write(staged_goals.add_intervention, half_way)
    banner = page.page.locator(".note.info")
    expect(banner).to_contain_text(
        re.compile(r"Recovered after an interruption.*2 agents restarted: #\d+ resumed, #\d+ restarted\.")
    )
    page.button("Dismiss").click()
    expect(banner).to_have_count(0)
    page.page.reload()
    expect(page.live().page.locator(".stats")).to_be_visible()
    expect(banner).to_have_count(0)

    # Sub-agents show when they checked in, and can be stopped.
    agents = page.region("Sub-agents")
    expect(agents).to_contain_text("2 running")
    expect(agents).to_contain_text(
        re.compile(r"coder · step 0 of 20 · \$0.00 · running \d+[sm] · (checked in \d+[sm] ago|quiet for \d+m)")
    )
    page.button("Cancel Pool gateway connections").click()
    page.page.get_by_role("dialog").get_by_role("button", name="Stop it").click()

    expect(agents).to_contain_text("1 running")
    expect(node(page, "Pool gateway connections").get_by_label("failed")).to_be_visible()

    # A cost that is not counted links to the models without a price.
    page.page.locator(".stats").get_by_role("link", name="A model has no known price").click()
    expect(page.region("Costs, last 24 hours")).to_contain_text("No known price: openai-chat:fake-1.")


DECISIONS = [
    ("replans", "Allow more replans", "continue"),
    ("replans", "Make a new plan", "replan"),
    ("escalation", "Continue the plan", "continue"),
]


def test_a_paused_goal_asks_and_follows_the_decision_in_every_window(
    open_page: Callable[..., Visit], client: Client, model: ModelServer, half_way: Goal
) -> None:
    model.hold()  # the agent's reaction is not under test
    page = open_page(f"/goals/{half_way.id}").live()
    decision = page.region("Decision")
    for number, (kind, button, action) in enumerate(DECISIONS):
        pause_goal(client, half_way, kind)
        expect(decision).to_contain_text("Waiting for your decision. 5 of 5 plans used.")
        page.page.get_by_label("A note for the agent").fill(f"mind the cost {number}")
        page.button(button).click()
        expect(decision).to_have_count(0)
        assert get_goal(client, half_way)["status"] == "active"
        entries = client.ok("GET", f"/v1/goals/{half_way.id}/journal")["entries"]
        decided = [entry["data"] for entry in entries if entry["kind"] == "decided"]
        assert {"action": action, "note": f"mind the cost {number}"} in decided
        assert len(decided) == number + 1
        words = re.compile(rf"A person decided: (continue|make a new plan)\s*mind the cost {number}")
        expect(page.region("Journal")).to_contain_text(words)

    # It is paused and resumed by hand, and another window sees it.
    other = open_page(f"/goals/{half_way.id}", context=page.page.context).live()
    page.page.bring_to_front()
    page.button("Pause").click()
    expect(decision).to_contain_text("Paused by the operator.")
    expect(other.region("Decision")).to_contain_text("Paused by the operator.")
    assert get_goal(client, half_way)["status"] == "paused"
    page.button("Resume").click()
    expect(page.page.locator(".meta .pill")).to_have_text("Active")
