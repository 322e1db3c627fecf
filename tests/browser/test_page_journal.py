"""The journal of a goal: one item for each sub-goal, which opens; kinds can be filtered; older entries are loaded on demand."""

import re

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import sub_goals
from headway.ledger.goal import Goal
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import Visit, look_at
from tests.goal_plans import add_plan, end, evaluate
from tests.surfaces.server_harness import Client

LONG = "Using the deployment descriptors and the release notes of the last two years, list every service that changed"


def add_goal(tx: Transaction, tenant_id: int) -> Goal:
    goal = staged_goals.add_sleeping_goal(tx, tenant_id, NewGoal("Know what changed"))
    ids = add_plan(tx, goal, {LONG: [], "check": [LONG], "tell": ["check"]})
    added = [{"id": number, "title": "", "description": words} for words, number in ids.items()]
    sub_goals.append(tx, tenant_id, goal.id, "planned", {"plan_no": 1, "added": added, "kept": [], "dropped": []})
    end(tx, goal, ids[LONG], "Twelve services changed.\n\nThe list is in changes.md.")
    evaluate(tx, goal, ids[LONG])
    end(tx, goal, ids["check"], "Nothing was checked.")
    evaluate(tx, goal, ids["check"], "major", "The checks did not run.")
    return goals.pause(tx, tenant_id, goal.id)


def items(page: Visit) -> Locator:
    return page.region("Journal").locator(".entry")


@pytest.mark.proof
def test_a_sub_goal_is_one_item_that_opens_and_older_entries_are_loaded_on_demand(page: Visit, client: Client) -> None:
    goal = client.desk.write(add_goal)
    page.open(f"/goals/{goal.id}").live()
    expect(items(page)).to_have_count(5)
    expect(items(page)).to_contain_text(
        [
            "Paused by the operator.",
            re.compile(r"check\s+diverged · \S+ · \$0.00\s*major divergence: The checks did not run."),
            re.compile(r"Using the deployment descriptors and the release notes of…\s+completed · \S+ · \$0.00\s*Twelve services"),
            "Plan 1: 3 sub-goals",
            "A person set the goal",
        ]
    )
    text = page.region("Journal").inner_text()
    assert "Paused: Paused" not in text
    assert "as expected: As expected" not in text
    first = items(page).filter(has_text="Twelve services")
    first.locator("summary").press("Enter")
    expect(first).to_contain_text(
        re.compile(r"The list is in changes\.md\..*started, by worker.*completed.*as expected", re.DOTALL)
    )
    look_at(page, "journal")

    choice = page.page.get_by_label("Show in the journal")
    choice.select_option("sub-goals")
    expect(items(page)).to_have_count(2)
    choice.select_option("decisions")
    expect(items(page)).to_have_count(2)
    client.ok("PATCH", f"/v1/goals/{goal.id}", json={"priority": 3, "budget_usd": 2.5})
    expect(items(page).first).to_contain_text("A person changed the priority and the budget")
    items(page).first.locator("summary").click()
    expect(items(page).first).to_contain_text(re.compile(r"Priority: 50 → 3\s+Budget: none → 2.5"))
    choice.select_option("faults")
    expect(page.region("Journal")).to_contain_text("Nothing of this kind.")

    # Older entries are loaded on demand.
    def resume_often(tx: Transaction, tenant_id: int) -> None:
        for number in range(100):
            sub_goals.append(tx, tenant_id, goal.id, "decided", {"action": "continue", "note": f"note {number}"})

    client.desk.write(resume_often)
    page.page.reload()
    expect(items(page)).to_have_count(100)
    page.button("Show older").click()
    expect(items(page)).to_have_count(106)
    expect(page.button("Show older")).to_have_count(0)
    expect(items(page).last).to_contain_text("A person set the goal")
