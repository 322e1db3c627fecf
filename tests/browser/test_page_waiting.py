"""What waits for a person: the list of goals, the badges, the window's title and notifications."""

import re
from collections.abc import Callable

from playwright.sync_api import Locator, expect

from headway.actions import goals
from headway.actions.goals import NewGoal
from headway.ledger.goal import Goal, PauseKind
from headway.ledger.run import NANOS_PER_DOLLAR
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import Visit, list_axe_violations
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
    client.desk.write(lambda tx, tenant_id: goals.escalate(tx, goals.get(tx, tenant_id, goal.id), kind, reason))


def rows(page: Visit) -> Locator:
    return page.page.locator(".goals-table tbody tr")


def nav(page: Visit, name: str) -> Locator:
    return page.page.get_by_role("navigation", name="Main").get_by_role("link", name=re.compile(f"^{name}"))


def test_goals_are_searched_sorted_and_paged_in_the_address(open_page: Callable[..., Visit], client: Client) -> None:
    page = open_page()
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


def test_what_waits_is_counted_everywhere_and_leaves_at_once(
    open_page: Callable[..., Visit], client: Client, model: ModelServer
) -> None:
    model.hold()  # what the agents do is not under test
    first, second = add_goals(client, 2)
    page = open_page("/").live()
    expect(nav(page, "Goals")).not_to_contain_text("waiting")
    escalate(client, first)
    escalate(client, second, "goal_budget", "It has used up its budget: $2.0000 of $2.0000.")
    expect(nav(page, "Goals")).to_contain_text("2 waiting for your decision")
    expect(page.page).to_have_title(re.compile(r"^\(2\) "))

    nav(page, "Goals").click()
    page.button("Waiting for you").click()
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text(re.compile(r"It has used up its budget.*Waits for you", re.DOTALL))
    nav(page, "Approvals").click()
    decisions = page.region("Goals that need a decision")
    expect(decisions.get_by_role("listitem")).to_have_count(2)

    client.ok("PATCH", f"/v1/goals/{second.id}", json={"budget_usd": 1_000})
    expect(decisions.get_by_role("listitem")).to_have_count(1)
    client.ok("POST", f"/v1/goals/{first.id}/decision", json={"action": "abandon"})
    expect(decisions).to_have_count(0)
    expect(nav(page, "Goals")).not_to_contain_text("waiting")
    expect(page.page).to_have_title("Approvals · Headway")
    model.release()


def test_notifications_are_shown_only_after_they_were_turned_on(open_page: Callable[..., Visit], client: Client) -> None:
    first, second, third = add_goals(client, 3)
    page = open_page(axe=True, cold=True)  # the recorder stays
    page.page.add_init_script(RECORDER)

    shown: list[str] = []
    page.listen("console", lambda said: shown.append(said.text) if said.text.startswith("shown: ") else None)
    page.open("/approvals").live()
    escalate(client, first)
    expect(page.region("Goals that need a decision").get_by_role("listitem")).to_have_count(1)
    assert shown == []
    card = page.region("Notifications")
    expect(card).to_contain_text("Off. If you turn them on")
    assert list_axe_violations(page) == []
    page.button("Turn on notifications").click()
    expect(card).to_contain_text("On in this browser.")
    with page.page.expect_console_message(lambda said: said.text.startswith("shown: ")):
        escalate(client, second)
    assert shown == [f"shown: Goal {second.id} needs a decision | Goal number 002 No way forward."]

    nav(page, "Board").click()
    with page.page.expect_console_message(lambda said: f"Goal {third.id} needs" in said.text):
        escalate(client, third)
    nav(page, "Approvals").click()
    page.button("Turn off").click()
    expect(card).to_contain_text("Off.")


def test_each_choice_says_what_it_does_and_a_new_limit_continues_the_goal(
    open_page: Callable[..., Visit], client: Client, model: ModelServer
) -> None:
    model.hold()  # what the agents do is not under test
    first, second = add_goals(client, 2)
    escalate(client, first, "goal_budget", "It has used up its budget: $1.0000 of $1.0000.")
    escalate(client, second, "replans", "5 of 5 plans used.")
    page = open_page(f"/goals/{first.id}", axe=True).live()
    decision = page.region("Decision")
    expect(decision).to_contain_text("The goal's budget is spent. It has used up its budget: $1.0000 of $1.0000.")
    expect(page.button("Continue without a budget")).to_have_accessible_description(re.compile("Only the shared pool limits"))
    expect(page.button("Make a new plan")).to_have_accessible_description(re.compile("Finished work is kept"))
    assert list_axe_violations(page) == []
    decision.get_by_label("Budget, dollars").fill("12.50")
    page.button("Raise the budget").click()
    expect(decision).to_have_count(0)
    changed = client.ok("GET", f"/v1/goals/{first.id}")["goal"]
    assert (changed["status"], changed["budget_usd"]) == ("active", 12.5)

    page.open(f"/goals/{second.id}").live()
    more = page.button("Allow more replans")
    expect(more).to_have_accessible_description(re.compile("may make up to 5 new plans by itself again"))
    text = page.page.locator("#main").inner_text()
    assert "`" not in text
    assert "headway goal" not in text
    more.click()
    expect(decision).to_have_count(0)
    model.release()
