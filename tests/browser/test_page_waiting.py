"""What waits for a person: the list of goals, the badges, the window's title and notifications."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.ledger.goal import Goal, PauseKind
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import Visit, look_at
from tests.model_server import ModelServer
from tests.surfaces.server_harness import Client

# A browser without a window manager shows no notifications: this records them instead.
RECORDER = """
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title, options) { console.info(`shown: ${title} | ${options.body}`); }
  close() {}
};
document.hasFocus = () => false;
"""


def add_goals(client: Client, number: int) -> list[Goal]:
    def work(tx: Transaction, tenant_id: int) -> list[Goal]:
        return [
            staged_goals.add_sleeping_goal(tx, tenant_id, NewGoal(f"Goal number {n:03}", priority=n, budget=n * NANOS_PER_DOLLAR))
            for n in range(1, number + 1)
        ]

    return client.desk.write(work)


def escalate(client: Client, goal: Goal, kind: PauseKind = "escalation", reason: str = "No way forward.") -> None:
    client.desk.write(lambda tx, tenant_id: goals.escalate(tx, goals.get_goal(tx, tenant_id, goal.id), kind, reason))


def rows(page: Visit) -> Locator:
    return page.page.locator(".goals-table tbody tr")


def nav(page: Visit, name: str) -> Locator:
    return page.page.get_by_role("navigation", name="Main").get_by_role("link", name=re.compile(f"^{name}"))


@pytest.mark.proof
def test_goals_are_searched_sorted_paged_and_decided(page: Visit, client: Client, model: ModelServer) -> None:
    page.page.route("**/v1/goals?limit=50*", lambda route: None)  # the first answer never arrives
    page.open("/goals")
    expect(page.region("Goals").get_by_role("status", name="Loading")).to_be_visible()
    expect(page.page.get_by_text("No goals yet")).to_have_count(0)
    page.page.unroute_all(behavior="ignoreErrors")

    add_goals(client, 60)
    page.open("/goals?sort=priority").live()
    expect(rows(page)).to_have_count(50)
    expect(rows(page).first).to_contain_text("Goal number 001")
    expect(rows(page).first).to_contain_text("$0.00 of $1.00")
    page.button("Show more").click()
    expect(rows(page)).to_have_count(60)
    expect(page.button("Show more")).to_have_count(0)

    page.page.get_by_label("Search goals").fill("number 04")
    expect(rows(page)).to_have_count(11)
    expect(page.page).to_have_url(re.compile(r"/goals\?q=number\+04&sort=priority$"))
    page.page.get_by_label("Order").select_option("newest")
    expect(rows(page).first).to_contain_text("Goal number 049")
    page.button("Paused").click()
    expect(page.page.get_by_text("No goal has these words, with this filter.")).to_be_visible()
    page.page.reload()
    expect(page.page.get_by_label("Search goals")).to_have_value("number 04")
    expect(page.button("Paused")).to_have_attribute("aria-pressed", "true")
    page.page.get_by_label("Search goals").fill("")
    expect(page.page.get_by_text("No goal is paused.")).to_be_visible()
    decide(page, client, model)


def test_what_waits_is_counted_everywhere_notified_of_if_wanted_and_leaves_at_once(
    open_page: Callable[..., Visit], client: Client, model: ModelServer
) -> None:
    model.hold()  # what the agents do is not under test
    first, second, third = add_goals(client, 3)
    page = open_page(cold=True)  # the recorder stays
    page.page.add_init_script(RECORDER)
    shown: list[str] = []
    page.listen("console", lambda said: shown.append(said.text) if said.text.startswith("shown: ") else None)
    page.open("/inbox").live()
    expect(nav(page, "Goals")).not_to_contain_text("waiting")
    escalate(client, first)
    waiting = page.region("Open").locator(".request-card")
    expect(waiting).to_have_count(1)
    expect(waiting).to_contain_text("Goal number 001")
    expect(waiting.get_by_role("link", name="Decide")).to_have_attribute("href", f"/goals/{first.id}")

    # Notifications are shown only after they were turned on.
    assert shown == []
    card = page.region("Notifications")
    expect(card).to_contain_text("Off. If you turn them on")
    page.button("Turn on notifications").click()
    expect(card).to_contain_text("On in this browser.")
    with page.page.expect_console_message(lambda said: said.text.startswith("shown: ")):
        escalate(client, second)
    (said,) = shown
    assert said.startswith(
        f"shown: Goal {second.id} needs a decision | Goal #{second.id} is paused: “Goal number 002”. No way forward."
    )
    nav(page, "Board").click()
    with page.page.expect_console_message(lambda said: f"Goal {third.id} needs" in said.text):
        escalate(client, third, "goal_budget", "It has used up its budget: $3.0000 of $3.0000.")
    expect(nav(page, "Goals")).to_contain_text("3 waiting for your decision")
    expect(page.page).to_have_title(re.compile(r"^\(3\) "))

    # They are listed until they are decided.
    nav(page, "Goals").click()
    page.button("Waiting for you").click()
    expect(rows(page)).to_have_count(3)
    expect(rows(page).first).to_contain_text(re.compile(r"It has used up its budget.*Waits for you", re.DOTALL))
    nav(page, "Inbox").click()
    page.button("Turn off").click()
    expect(card).to_contain_text("Off.")
    client.ok("PATCH", f"/v1/goals/{third.id}", json={"budget_usd": 1_000})
    expect(waiting).to_have_count(2)
    for goal in (first, second):
        client.ok("POST", f"/v1/goals/{goal.id}/decision", json={"action": "abandon"})
    expect(waiting).to_have_count(0)
    expect(nav(page, "Goals")).not_to_contain_text("waiting")
    expect(page.page).to_have_title("Inbox · Headway")
    model.release()


def decide(page: Visit, client: Client, model: ModelServer) -> None:
    """Each choice says what it does, and a new limit continues the goal."""
    model.hold()  # what the agents do is not under test
    first, second = add_goals(client, 2)
    escalate(client, first, "goal_budget", "It has used up its budget: $1.0000 of $1.0000.")
    escalate(client, second, "replans", "5 of 5 plans used.")
    page.go(f"/goals/{first.id}")
    decision = page.region("Decision")
    expect(decision).to_contain_text("The goal's budget is spent. It has used up its budget: $1.0000 of $1.0000.")
    expect(page.button("Continue without a budget")).to_have_accessible_description(re.compile("Only the shared pool limits"))
    expect(page.button("Make a new plan")).to_have_accessible_description(re.compile("Finished work is kept"))
    look_at(page, "goal-decision")
    decision.get_by_label("Budget, dollars").fill("12.50")
    page.button("Raise the budget").click()
    expect(decision).to_have_count(0)
    changed = client.ok("GET", f"/v1/goals/{first.id}")["goal"]
    assert (changed["status"], changed["budget_usd"]) == ("active", 12.5)

    page.go(f"/goals/{second.id}")
    more = page.button("Allow more replans")
    expect(more).to_have_accessible_description(re.compile("may make up to 5 new plans by itself again"))
    text = page.page.locator("#main").inner_text()
    assert "`" not in text
    assert "headway goal" not in text
    more.click()
    expect(decision).to_have_count(0)
    model.release()
