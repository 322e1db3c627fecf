"""Proof on the page: checks that people add and remove, completing a todo, overriding its checks, and verifying it again."""

import json
import re

from playwright.sync_api import Locator, expect

from headway.actions.goals.goals import NewGoal
from headway.actions.todos import proof
from headway.ledger.check import CheckResult, ReceiptDraft, decode_checks
from headway.ledger.parsing.checks import write_checks
from headway.storage.transaction import Transaction
from tests.browser.page_harness import Visit
from tests.browser.staged_goals import add_sleeping_goal
from tests.browser.test_page_todos import row, waiting_after
from tests.goal_plans import add_plan
from tests.model_server import ModelServer, calls
from tests.surfaces.server_harness import Client, Service

REFUSED = "409"  # the browser's console names a refused completion
COUNT = {"kind": "outcome", "schema": {"type": "integer", "minimum": 3}, "name": "a count"}


def open_todo(page: Visit, subject: str) -> Locator:
    """Open a todo from its card, and return the dialog."""
    page.button(subject).click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text(subject)
    return dialog


def test_todos_goals_and_items_of_a_plan_are_checked_overridden_and_verified(
    page: Visit, client: Client, service: Service, model: ModelServer
) -> None:
    page.forgiven = (REFUSED,)
    workspace = service.log.parent / ".headway" / "workspace" / str(client.desk.tenant.id)
    workspace.mkdir(parents=True, exist_ok=True)
    client.add("write the report")
    dialog = open_todo(page.open("/board").live(), "write the report")
    page.button("Add a check").click()
    form = dialog.get_by_role("form", name="Add a check")
    form.get_by_label("Kind of check").select_option("json")
    form.get_by_label("Check, as JSON").fill(json.dumps({"kind": "file", "path": "<b>.md"}))
    page.button("Add the check").click()
    expect(dialog.get_by_role("listitem")).to_contain_text("The file <b>.md exists by an administrator")
    expect(page.page.locator(".tile")).to_contain_text("unproven")

    page.button("Complete").click()
    refusal = dialog.get_by_role("alert")
    expect(refusal).to_contain_text("Not completed: a check failed.")
    expect(refusal).to_contain_text("There is no <b>.md")
    page.button("Complete anyway…").click()
    refusal.get_by_role("textbox").fill("I have it on paper.")
    page.button("Complete anyway").click()
    expect(dialog).to_contain_text("A person completed it without its checks.")
    receipts = dialog.get_by_role("region", name="Receipts")
    expect(receipts.get_by_role("listitem").first).to_contain_text("Reason: I have it on paper.")
    expect(receipts).to_contain_text("1 check failed")
    expect(page.page.locator(".tile")).to_contain_text("overridden")

    (workspace / "<b>.md").write_text("done")
    page.button("Verify again").click()
    expect(receipts).to_contain_text("1 check passed")
    expect(page.page.locator(".tile")).to_contain_text("proven")
    (workspace / "<b>.md").unlink()
    page.button("Verify again").click()
    expect(page.page.locator(".tile")).to_contain_text("broken")
    page.button("Remove the check <b>.md").click()
    expect(dialog).to_contain_text("With checks, the todo is done only when they pass.")
    expect(receipts.locator("summary")).to_have_count(4)  # what was found is kept
    page.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.page.locator(".tile")).not_to_contain_text("broken")

    # A goal and its sub-goals show their checks.
    def add_goal(tx: Transaction, tenant_id: int) -> int:
        checks = write_checks([COUNT], "person")
        goal = add_sleeping_goal(tx, tenant_id, NewGoal("count everything", checks=checks))
        ids = add_plan(tx, goal, {"count them": [], "write it down": ["count them"]}, checks=checks, proof="unproven")
        result = CheckResult(decode_checks(checks)[0], ok=False, detail="2 is less than 3")
        proof.store(tx, tenant_id, ReceiptDraft("sub_goal", ids["count them"], (result,), {}, "a worker"))
        return goal.id

    goal_id = client.desk.write(add_goal)
    page.go(f"/goals/{goal_id}")
    expect(page.page.locator(".meta")).to_contain_text("unproven")
    expect(page.region("About")).to_contain_text("a count: The outcome fits a JSON Schema by a person")
    page.page.locator(".node").filter(has_text="count them").click()
    expect(page.region("Plan").locator(".detail")).to_contain_text("a count: The outcome fits a JSON Schema")
    expect(page.region("Plan").locator(".detail")).to_contain_text("2 is less than 3")
    expect(page.region("About")).not_to_contain_text("2 is less than 3")
    prove_items_of_a_plan(page, client, model)


def prove_items_of_a_plan(page: Visit, client: Client, model: ModelServer) -> None:
    page.forgiven = (REFUSED,)
    item = {"title": "count them", "checks": [COUNT]}
    model.script = waiting_after(model, calls(("create_todo", {"items": [item, {"title": "write it down"}]})))
    page.go("/")
    expect(page.log).to_have_count(0)
    page.say("go")
    page.button("Expand").click()
    expect(row(page, "count them").get_by_title("unproven")).to_have_count(1)
    expect(row(page, "write it down").get_by_title("proven")).to_have_count(0)
    page.button("Finish: count them").click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("a count")
    expect(dialog).to_contain_text("a count: The outcome fits a JSON Schema by an agent")
    dialog.get_by_label("Outcome").fill("3")
    page.button("Complete").click()
    expect(dialog).to_contain_text("Its checks passed.")
    expect(dialog).not_to_contain_text("Completed by its checks.")
    page.button("Close").click()
    expect(page.page).to_have_url(re.compile(r"/c/\d+$"))
    expect(row(page, "count them").get_by_title(re.compile("^proven"))).to_have_count(1)

    # A todo of the chat opens beside it.
    page.button("Details: count them").click()
    sheet = page.page.locator("dialog.todo-sheet[open]")
    expect(sheet).to_contain_text("count them")
    expect(page.page).to_have_url(re.compile(r"/c/\d+\?todo=\d+$"))
    expect(page.button("Delete the todo")).to_have_count(0)  # a plan keeps its items
    page.button("Description").click()
    sheet.get_by_role("textbox", name="Description", exact=True).fill("Twice.")
    page.button("Save").click()
    expect(sheet).to_contain_text("Twice.")
    page.page.go_back()
    expect(sheet).to_have_count(0)
    expect(page.button("Details: count them")).to_be_focused()
    model.release()
