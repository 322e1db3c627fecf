"""A goal from its limits to its end: the result, the plans that it had, its timeline, its limits, and running it again."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.history import files as file_history
from headway.actions.runs import jobs, runs, sub_goals
from headway.actions.turns import turns
from headway.ledger.file_versions import FileOrigin, WrittenFiles, build_written
from headway.ledger.goal import Goal
from headway.ledger.run import RunEnd
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction
from tests.browser import staged_goals, staged_plans
from tests.browser.page_harness import DESK, PHONE, Visit, list_violations, look_at
from tests.browser.staged_plans import build_step
from tests.goal_plans import evaluate, get_main_run, get_sub_goal
from tests.model_server import ModelServer
from tests.surfaces.server_harness import Client

BEGIN_MS = 1_700_000_000_000
REPORT = "## Moved\n\n- **41 services** publish to the new queue\n- nothing publishes to the old one"


def list_ids(tx: Transaction, goal: Goal) -> dict[str, int]:
    return {one.description: one.id for one in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id)}


def work_on(tx: Transaction, goal: Goal, sub_goal_id: int, *, fails: bool = False) -> None:
    """A sub-agent that works on a sub-goal until its end. Its parent stays asleep."""
    sub_goal = get_sub_goal(tx, goal, sub_goal_id)
    child = runs.begin_child(tx, get_main_run(tx, goal), "coder", sub_goal.description, 20, 5, sub_goal.id)
    jobs.delay(tx, jobs.get_locked_job(tx, goal.tenant_id, child.id))
    started = sub_goals.start_sub_goal(tx, sub_goal, child)
    ending = RunEnd("failed", error="The broker did not answer.") if fails else RunEnd("completed", "Done.")
    result = ending.as_result()
    child = child._replace(status=ending.status, ended_at=tx.now, result=json.dumps(result))
    run_store.save_run(tx, child)
    sub_goals.end_sub_goal(tx, started, child, result)
    runs.emit_run_changed(tx, child)


def add_replanned_goal(tx: Transaction, tenant_id: int) -> Goal:
    """Eight sub-goals. One of them failed at first, one diverged, and the second plan replaces what was left."""
    goal = staged_goals.add_sleeping_goal(tx, tenant_id, NewGoal("Move all services off the old queue", "Nothing uses it."))
    goal = goals.apply_plan(tx, goal, [build_step(name, after) for name, after in staged_plans.SMALL.items()], "")
    ids = list_ids(tx, goal)
    first, second, third, *_ = ids.values()
    work_on(tx, goal, first, fails=True)
    sub_goals.mark_pending(tx, get_sub_goal(tx, goal, first), ended_at=0, outcome=None, reason="")
    for one in (first, second, third):
        work_on(tx, goal, one)
        evaluate(
            tx, goal, one, "major" if one == third else "none", "Two queues were forgotten." if one == third else "As expected."
        )
    kept = [
        build_step(f"#{ids[name]}", after) for name, after in (("Move the mailer", ["again"]), ("Watch both for a day", ["again"]))
    ]
    again = build_step("again", [f"#{second}"], "Measure the load of every queue")
    return goals.apply_plan(tx, goals.get_goal(tx, tenant_id, goal.id), [again, *kept], "A result diverged.")


def finish(tx: Transaction, tenant_id: int, goal: Goal) -> None:
    for sub_goal in goal_store.list_sub_goals(tx, tenant_id, goal.id):
        if sub_goal.status == "pending":
            work_on(tx, goal, sub_goal.id)
            evaluate(tx, goal, sub_goal.id)
    goals.complete_goal(tx, goals.get_goal(tx, tenant_id, goal.id), REPORT)


@pytest.fixture
def replanned(client: Client) -> Goal:
    return client.desk.write(add_replanned_goal)


def detail(page: Visit) -> Locator:
    return page.page.get_by_role("complementary", name=re.compile(r"^Sub-goal \d+$"))


def test_a_goal_that_was_replanned_shows_its_plans_its_timeline_and_its_files(page: Visit, client: Client, replanned: Goal) -> None:
    page.open(f"/goals/{replanned.id}").live()
    expect(page.page.locator(".stats")).to_contain_text("2 of 5 sub-goals")  # of the second plan
    expect(page.page.locator(".node")).to_have_count(5)
    page.button("Plans").click()
    expect(page.page).to_have_url(re.compile(r"\?view=plans$"))
    generations = page.page.locator(".generations > li")
    expect(generations).to_have_count(2)
    newest = generations.first
    expect(newest).to_contain_text(re.compile(r"Plan 2\s*In force\s*2 of 5 sub-goals done.*Why:\s*A result diverged\.", re.DOTALL))
    expect(newest.get_by_role("group", name="Added, plan 2")).to_contain_text("Measure the load of every queue")
    removed = newest.get_by_role("group", name="Removed, plan 2")
    expect(removed.get_by_role("listitem")).to_have_count(4)
    expect(removed.get_by_label("diverged")).to_be_visible()
    expect(newest.get_by_role("group", name="Waits for others than before, plan 2")).to_contain_text("Move the mailer")
    removed.get_by_role("button", name=re.compile("Measure the load of each")).click()
    expect(detail(page)).to_contain_text(
        re.compile(r"Diverged.*major divergence: Two queues were forgotten\..*replaced by plan 2", re.DOTALL)
    )

    # The timeline shows who worked when, with attempts and running work.
    page.go(f"/goals/{replanned.id}?view=timeline")
    rows = page.page.locator(".timeline tbody tr")
    expect(rows).to_have_count(3)
    expect(page.page.locator(".timeline-view")).to_contain_text("6 sub-goals not started")
    first = rows.filter(has_text="Read the deployment descriptors")
    expect(first.locator("rect")).to_have_count(2)
    expect(first.locator("rect.bar-failed")).to_have_count(1)
    expect(first.get_by_role("img", name=re.compile("attempt 1 of 2.*failed; coder, attempt 2 of 2"))).to_be_visible()
    expect(rows.filter(has_text="Measure the load of each").locator("rect.bar-diverged")).to_have_count(1)

    def start(tx: Transaction, tenant_id: int) -> None:
        staged_goals.start_sub_agent(tx, tenant_id, list_ids(tx, replanned)["Measure the load of every queue"], replanned)

    client.desk.write(start)
    expect(rows).to_have_count(4)
    growing = rows.filter(has_text="every queue").locator("rect.growing")
    width = growing.evaluate("(bar) => bar.getBoundingClientRect().width")
    page.page.wait_for_function(
        "(before) => document.querySelector('rect.growing').getBoundingClientRect().width > before", arg=width
    )

    rows.first.get_by_role("button").click()
    expect(detail(page)).to_contain_text(re.compile(r"attempt 1 of 2.*attempt 2 of 2", re.DOTALL))
    page.button("Zoom in").click()
    page.page.keyboard.press("+")
    expect(page.page.locator(".timeline.zoom-4")).to_be_visible()
    page.page.keyboard.press("0")
    expect(page.page.locator(".timeline.zoom-1")).to_be_visible()

    # The details of a sub-goal list the files that it wrote.
    def write(tx: Transaction, tenant_id: int, name: str, path: str) -> str:
        sub_goal = get_sub_goal(tx, replanned, list_ids(tx, replanned)[name])
        run = runs.get_run(tx, tenant_id, sub_goal.run_id or "")
        origin = FileOrigin("write_file", run.role, run.id, "", replanned.id, sub_goal.id, 0)
        recorded = file_history.record_files(tx, tenant_id, "", WrittenFiles((build_written(path, b"# Load\n"),)), origin)
        turns.emit_event(tx, run, "tool_result", {"run_id": run.id, "tool": "write_file", **recorded})
        return str(recorded["files"][0]["id"])

    name, other = list(staged_plans.SMALL)[:2]
    file_id = client.desk.write(write, name, "reports/<b>load.md")
    client.desk.write(write, other, "other.md")
    page.go(f"/goals/{replanned.id}?view=list")
    page.page.get_by_role("row").get_by_role("button", name=name).click()
    files = detail(page).get_by_role("region", name="Files")
    expect(files.get_by_role("heading")).to_have_text("1 file")
    client.desk.write(write, name, "services.csv")
    expect(files.get_by_role("listitem")).to_have_count(2)
    link = files.get_by_role("link", name="reports/<b>load.md")
    expect(link).to_have_attribute("href", f"/files/{file_id}?version=1")
    link.click()
    expect(page.page.get_by_role("heading", level=1)).to_have_text("<b>load.md")
    sub_goal_id = client.desk.read(lambda tx, _: list_ids(tx, replanned)[name])
    page.go(f"/files?goal_id={replanned.id}&sub_goal_id={sub_goal_id}")
    expect(page.page.locator(".file-row")).to_have_count(2)
    page.button("One sub-goal", exact=False).click()
    expect(page.page.locator(".file-row")).to_have_count(3)
    count_parallel_work(page, client, client.desk.write(add_replanned_goal))


def count_parallel_work(page: Visit, client: Client, replanned: Goal) -> None:
    def set_times(tx: Transaction, tenant_id: int, overlap_ms: int) -> None:
        sql = "SELECT id FROM runs WHERE tenant_id = ? AND parent_run_id = ? ORDER BY created_at, id"
        for n, (run_id,) in enumerate(tx.all(sql, tenant_id, replanned.run_id)):
            start = BEGIN_MS + n * 150
            tx.run("UPDATE runs SET created_at = ?, ended_at = ? WHERE id = ?", start, start + 150 + overlap_ms, run_id)

    facts = page.page.locator(".timeline-facts")
    for overlap_ms, words in ((0, "at most 1 at the same time"), (1, "at most 2 at the same time")):
        client.desk.write(set_times, overlap_ms)
        page.go("/goals")
        expect(page.page.get_by_role("heading", level=1)).to_have_text("Goals")
        page.go(f"/goals/{replanned.id}?view=timeline")
        expect(facts).to_contain_text(words)


@pytest.mark.proof
def test_limits_are_edited_and_the_result_of_an_ended_goal_comes_first_and_it_can_be_run_again(
    page: Visit, client: Client, model: ModelServer, replanned: Goal
) -> None:
    version = {"n": 2, "change": "written", "size": 2048}
    answer = {
        "files": [{"id": "0" * 32, "path": "report/<b>queues</b>.md", "version": version}],
        "next_cursor": None,
        "searched_all": True,
    }
    model.hold()
    page.open(f"/goals/{replanned.id}").live()
    page.button("Edit").click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text("The goal pauses when it has spent this much.")
    dialog.get_by_label("Priority").fill("5")
    dialog.get_by_label("Budget, dollars").fill("12.50")
    dialog.get_by_label("Deadline").fill("2020-01-01T10:00")
    dialog.get_by_role("button", name="Save the changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("deadline must be in the future")
    page.forgiven = ("422",)
    dialog.get_by_label("Deadline").fill("2999-01-01T10:00")
    dialog.get_by_role("button", name="Save the changes").click()

    expect(dialog).to_have_count(0)
    expect(page.page.locator(".meta")).to_contain_text(re.compile(r"priority 5\D.*due in", re.DOTALL))
    expect(page.page.locator(".stats")).to_contain_text("of $12.50")
    goal = client.ok("GET", f"/v1/goals/{replanned.id}")["goal"]
    assert (goal["priority"], goal["budget_usd"], goal["description"]) == (5, 12.5, replanned.description)
    page.button("Edit").click()
    dialog.get_by_label("Budget, dollars").fill("")
    dialog.get_by_role("button", name="Save the changes").click()
    expect(page.page.locator(".stats")).to_contain_text("Cost, shared pool")
    assert client.ok("GET", f"/v1/goals/{replanned.id}")["goal"]["deadline"] == goal["deadline"]

    # The result of an ended goal comes first, with the files that the agents wrote.
    ended = client.desk.write(add_replanned_goal)
    page.page.route("**/v1/files?goal_id=*", lambda route: route.fulfill(json=answer))
    page.go(f"/goals/{ended.id}")
    expect(page.page.locator(".stats")).to_contain_text("2 of 5 sub-goals")
    expect(page.region("Result")).to_have_count(0)
    client.desk.write(finish, ended)
    result = page.region("Result")
    expect(result).to_be_in_viewport()
    expect(result.get_by_role("heading", name="Moved")).to_be_visible()  # the report is Markdown
    expect(result).to_contain_text(re.compile(r"Completed (just now|\d+s ago) · 5 of 5 sub-goals done · took \d+\w · \$0\.00"))
    order = page.page.locator("section.card").evaluate_all("(cards) => cards.map((card) => card.getAttribute('aria-label'))")
    assert order.index("Result") < order.index("Plan")
    expect(page.button("Edit")).to_have_count(0)

    files = result.get_by_role("region", name="Files")
    expect(files).to_contain_text(re.compile(r"1 file\s*report/<b>queues</b>\.md\s*2\.0 KB"))
    expect(files.get_by_role("link")).to_have_attribute("href", f"/files/{'0' * 32}?version=2")
    look_at(page, "goal-ended")

    page.button("Run again").click()
    expect(dialog).to_contain_text("A new goal starts now")
    dialog.get_by_role("button", name="Run it again").click()
    expect(page.page).not_to_have_url(re.compile(rf"/goals/{ended.id}$"))
    expect(page.page.locator(".meta")).to_contain_text(f"runs goal {ended.id} again")
    newest = client.ok("GET", "/v1/goals")["goals"][0]
    assert (newest["repeat_of"], newest["status"], newest["success_criteria"]) == (ended.id, "active", "Nothing uses it.")


@pytest.mark.torture
@pytest.mark.parametrize("view", ["timeline", "plans"])
def test_axe_finds_nothing_in_an_ended_goal(open_page: Any, client: Client, replanned: Goal, view: str) -> None:
    client.desk.write(finish, replanned)
    visit = open_page()
    visit.open(f"/goals/{replanned.id}?view={view}").live()
    shown = visit.page.locator(".timeline" if view == "timeline" else ".generations")
    for size, viewport in (("desk", DESK), ("tablet", {"width": 1024, "height": 768}), ("phone", PHONE)):
        visit.page.set_viewport_size(viewport)
        expect(shown).to_be_visible()
        visit.shoot(f"goal-{view}-{size}", whole=True)
        assert list_violations(visit) == [], size
        assert visit.page.evaluate("() => document.querySelector('.main').scrollWidth <= innerWidth")
