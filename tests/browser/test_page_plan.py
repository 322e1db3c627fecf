"""The plan of a goal: graph and list, zoom and pan, the details beside them, and how little an event touches."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import sub_goals
from headway.ledger.goal import Goal
from headway.storage.transaction import Transaction
from tests.browser import staged_goals, staged_plans
from tests.browser.page_harness import DESK, PHONE, Visit, list_violations
from tests.browser.staged_plans import LARGE, WIDE
from tests.goal_plans import add_plan, end, evaluate, get_sub_goal
from tests.surfaces.server_harness import Client

LEGIBLE = 9  # pixels
WATCH = """() => {
    window.touched = new Set();
    new MutationObserver((changes) => {
        for (const { target } of changes) {
            const element = target instanceof Element ? target : target.parentElement;
            const part = element.closest('.node, tr, path, rect');
            if (part) window.touched.add(part);
        }
    }).observe(document.querySelector('.plan'), { subtree: true, childList: true, attributes: true, characterData: true });
}"""


@pytest.fixture
def wide(client: Client) -> Goal:
    return client.desk.write(staged_plans.add_wide_goal)


def node(page: Visit, words: str) -> Locator:
    return page.page.locator(".node").filter(has_text=words)


def detail(page: Visit) -> Locator:
    return page.page.get_by_role("complementary", name=re.compile(r"^Sub-goal \d+$"))


def measure_text(page: Visit) -> float:
    """The height of a card's text on the screen, in pixels."""
    height: float = page.page.evaluate(
        "() => parseFloat(getComputedStyle(document.querySelector('.node')).fontSize)"
        " * document.querySelector('.node').getBoundingClientRect().width / 176"
    )
    return height


def count_columns(page: Visit) -> int:
    """How many cards are side by side in the fullest row."""
    tops: list[int] = page.page.evaluate(
        "() => [...document.querySelectorAll('.node')].map((node) => Math.round(node.getBoundingClientRect().top))"
    )
    return max(tops.count(top) for top in tops)


def get_scroll(page: Visit) -> tuple[float, float]:
    left, top = page.page.evaluate(
        "() => [document.querySelector('.canvas-frame').scrollLeft, document.querySelector('.canvas-frame').scrollTop]"
    )
    return left, top


def test_a_layer_of_57_sub_goals_is_legible_and_the_rest_is_reached_by_map_keys_and_mouse(page: Visit, wide: Goal) -> None:
    page.open(f"/goals/{wide.id}").live()
    expect(page.page.locator(".node")).to_have_count(WIDE + 2)
    assert measure_text(page) >= LEGIBLE
    assert 4 <= count_columns(page) <= 8
    frame = page.page.locator(".canvas-frame")
    assert frame.evaluate("(frame) => frame.scrollWidth - frame.clientWidth") <= 1  # it is wrapped to the width of the frame

    expect(page.page.locator(".minimap rect")).to_have_count(WIDE + 3)
    box = page.page.locator(".minimap").bounding_box()
    assert box is not None
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 3)
    expect(node(page, "Summarize the findings")).to_be_in_viewport()

    frame.evaluate("(frame) => frame.scrollTo(0, 0)")
    zoom = page.page.get_by_role("group", name="Zoom", exact=True)
    expect(zoom).to_contain_text(re.compile(r"\d+%"))
    frame.focus()
    page.page.keyboard.press("ArrowDown")
    page.page.wait_for_function("() => document.querySelector('.canvas-frame').scrollTop > 0")
    for _ in range(6):
        page.page.keyboard.press("-")
    expect(zoom).to_contain_text("75%")  # not smaller: the text could not be read
    assert measure_text(page) >= LEGIBLE
    expect(page.button("Zoom out")).to_be_disabled()
    page.page.keyboard.press("+")
    expect(zoom).to_contain_text("94%")
    page.button("Zoom in").click()
    zoom.get_by_role("button", name="change to the actual size").click()
    expect(zoom).to_contain_text("100%")
    fitting = page.button("Fit to the frame")
    fitting.click()
    frame.focus()
    page.page.keyboard.press("+")
    page.page.keyboard.press("0")

    frame.hover()
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    expect(zoom).to_contain_text(re.compile(r"(1[2-9]\d|200)%"))

    # The graph is dragged.
    fitting.click()
    page.button("Zoom in").click()
    page.button("Zoom in").click()
    page.page.locator(".canvas-frame").evaluate("(frame) => frame.scrollTo(200, 0)")
    before = get_scroll(page)
    box = page.page.locator(".canvas-frame").bounding_box()
    first = node(page, "List every service").bounding_box()
    assert box is not None
    assert first is not None
    page.page.mouse.move(box["x"] + 40, first["y"])  # beside the only card of the first row
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 140, first["y"] - 120, steps=3)
    page.page.mouse.up()
    after = get_scroll(page)
    assert (after[0] - before[0], after[1] - before[1]) == (-100, 120)

    # The map covers nothing, and can be hidden.
    fitting.click()
    minimap = page.page.locator(".minimap")
    shown, beside, below = (page.page.locator(name).bounding_box() for name in (".canvas-frame", ".minimap", ".zoom"))
    assert shown
    assert beside
    assert below
    assert beside["x"] >= shown["x"] + shown["width"]
    assert beside["y"] + beside["height"] <= shown["y"] + shown["height"]
    assert below["y"] >= shown["y"] + shown["height"]
    assert frame.evaluate("(frame) => frame.scrollWidth - frame.clientWidth") <= 1  # there is room for both
    page.button("Map").click()
    expect(minimap).to_have_count(0)
    assert frame.evaluate("(frame) => frame.clientWidth") > shown["width"]
    page.page.reload()
    expect(page.button("Map")).to_have_attribute("aria-pressed", "false")
    expect(minimap).to_have_count(0)
    page.button("Map").press("Enter")
    expect(minimap).to_be_visible()


def test_a_pinch_zooms_the_graph_on_a_phone_where_the_list_comes_first(open_page: Any, wide: Goal) -> None:
    phone = open_page(viewport=PHONE, has_touch=True, is_mobile=True)
    phone.open(f"/goals/{wide.id}").live()
    expect(phone.button("List")).to_have_attribute("aria-pressed", "true")
    phone.button("Graph").click()
    expect(phone.page).to_have_url(re.compile(r"\?view=graph$"))
    expect(phone.page.locator(".node")).to_have_count(WIDE + 2)
    assert measure_text(phone) >= LEGIBLE
    pinch = """(frame, distances) => {
        const box = frame.getBoundingClientRect();
        const at = (x) => new Touch({ identifier: x, target: frame, clientX: box.left + 100 + x, clientY: box.top + 100 });
        distances.forEach((distance, n) => frame.dispatchEvent(new TouchEvent(n ? 'touchmove' : 'touchstart', {
            bubbles: true, cancelable: true, touches: [at(0), at(distance)] })));
    }"""
    frame = phone.page.locator(".canvas-frame")
    before = measure_text(phone)
    frame.evaluate(pinch, [50, 75])
    assert measure_text(phone) == pytest.approx(before * 1.5, rel=0.02)

    node(phone, "List every service").click()
    sheet = phone.page.get_by_role("dialog", name=re.compile("^Sub-goal"))
    expect(sheet).to_contain_text("nothing unusual")
    expect(phone.page).to_have_url(re.compile(r"view=graph&sub=\d+$"))
    phone.page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    expect(phone.page).to_have_url(re.compile(r"\?view=graph$"))


def test_details_are_beside_the_plan_with_an_address_and_changes_arrive_in_every_view(page: Visit, client: Client) -> None:
    goal = client.desk.write(staged_goals.add_half_done_goal)
    page.open(f"/goals/{goal.id}").live()
    card = node(page, "Draft and rank hypotheses")
    card.click()
    side = detail(page)
    expect(side).to_be_in_viewport(ratio=0.5)
    expect(side).to_contain_text(
        re.compile(r"Completed.*Expected.*Outcome\s*p95 is 612 ms\.\s*Evaluation\s*as expected\s*Waits for", re.DOTALL)
    )
    expect(card).to_be_in_viewport()
    expect(page.page).to_have_url(re.compile(r"\?sub=\d+$"))

    side.get_by_role("button", name=re.compile("Profile cart service")).click()
    expect(side.get_by_role("heading")).to_have_text(["Profile cart service"])
    page.page.reload()
    expect(page.live().page.get_by_role("complementary").get_by_role("heading")).to_have_text(["Profile cart service"])
    page.button("Close the details").click()
    expect(side).to_have_count(0)

    page.page.get_by_role("button", name="Batch cart price lookups", exact=True).click()  # of the sub-agents' card
    expect(side).to_contain_text(re.compile(r"In progress.*running for \d+[sm].*Agent runs\s*coder", re.DOTALL))
    side.locator("summary").click()
    expect(side).to_contain_text("It has not taken a step yet.")
    page.go(f"/goals/{goal.id}?sub=999999")
    expect(detail(page)).to_contain_text("This goal has no such sub-goal.")

    # The list has every sub-goal and its details.
    page.go(f"/goals/{goal.id}?view=list")
    plan = page.region("Plan")
    rows = plan.get_by_role("row")
    expect(rows).to_have_count(len(staged_goals.STEPS))  # without the replaced one, with the head
    expect(rows.filter(has_text="Try gRPC")).to_contain_text("Failed")
    plan.get_by_role("button", name="Profile cart service").click()
    expect(detail(page)).to_contain_text("p95 is 612 ms.")

    page.page.get_by_text("1 sub-goal of earlier plans, replaced since").click()
    expect(rows.filter(has_text=staged_goals.DROPPED)).to_contain_text("Skipped")
    page.button("Graph").click()
    expect(page.page.locator(".node")).to_have_count(len(staged_goals.STEPS) - 1)
    page.page.get_by_label("Show 1 replaced").check()
    expect(page.page.locator(".node.superseded")).to_have_count(1)
    follow_changes(page, client)


def follow_changes(page: Visit, client: Client) -> None:
    goal = client.desk.write(staged_goals.add_sleeping_goal, NewGoal("Reach it"))
    page.go(f"/goals/{goal.id}")
    expect(page.page.get_by_text("There is no plan yet.")).to_be_visible()
    ids = client.desk.database.write(lambda tx: add_plan(tx, goal, {"go": [], "arrive": ["go"]}))
    expect(page.page.locator(".node")).to_have_count(2)
    client.desk.database.write(lambda tx: end(tx, goal, ids["go"], "Gone."))
    expect(node(page, "go").first.get_by_label("completed")).to_be_visible()
    expect(page.page.locator(".stats")).to_contain_text("1 of 2 sub-goals")
    expect(page.region("Journal")).to_contain_text(f"#{ids['go']} go")
    expect(page.region("About")).to_contain_text("1 of 2 sub-goals are done")
    page.button("List").click()
    client.desk.database.write(
        lambda tx: sub_goals.skip(tx, get_sub_goal(tx, goal, ids["arrive"]), "The new plan does not include it.", 2)
    )
    client.desk.database.write(
        lambda tx: goals.save_goal_and_emit(tx, goals.get_goal(tx, goal.tenant_id, goal.id)._replace(plan_no=2))
    )
    expect(page.page.get_by_text("1 sub-goal of earlier plans, replaced since")).to_be_visible()
    page.button("Graph").click()

    # Work that diverged does not look done.
    def add(tx: Transaction, tenant_id: int) -> Goal:
        goal = staged_goals.add_sleeping_goal(tx, tenant_id, NewGoal("Reach it again"))
        ids = add_plan(tx, goal, {"look": [], "act": [], "check": ["act"]})
        for name, divergence in (("look", "minor"), ("act", "major")):
            end(tx, goal, ids[name], "Done.")
            evaluate(tx, goal, ids[name], divergence, "The result is older than asked for.")  # type: ignore[arg-type]
        return goals.get_goal(tx, tenant_id, goal.id)

    diverged = client.desk.write(add)
    page.go(f"/goals/{diverged.id}")
    expect(node(page, "act").get_by_label("diverged")).to_be_visible()
    expect(node(page, "look").get_by_label("completed")).to_be_visible()
    expect(node(page, "look")).to_contain_text("minor divergence")
    expect(page.page.locator(".stats")).to_contain_text("1 of 3 sub-goals · 1 diverged")
    expect(page.page.get_by_role("img", name="1 done, 1 diverged")).to_be_visible()
    node(page, "act").click()
    expect(detail(page)).to_contain_text("major divergence: The result is older than asked for.")


def test_an_event_among_many_sub_goals_touches_one_and_fetches_no_list(page: Visit, client: Client) -> None:
    goal = client.desk.write(staged_plans.add_large_goal)
    asked: list[str] = []
    page.listen("request", lambda request: asked.append(re.sub(r"\d+", "N", request.url.removeprefix(page.url))))
    page.open(f"/goals/{goal.id}").live()
    expect(page.button("List")).to_have_attribute("aria-pressed", "true")  # a graph of so many is not the first thing to show
    expect(page.page.locator(".plan-table tbody tr")).to_have_count(LARGE)
    assert [path for path in asked if path.startswith("/v1/goals/N/graph")] == []
    listed = client.ok("GET", f"/v1/goals/{goal.id}")["goal"]["sub_goals"]
    first, second, *_ = (one for one in listed if one["status"] == "in-progress")
    page.page.evaluate(WATCH)

    def end_one(sub_goal: dict[str, Any], done: str) -> None:
        asked.clear()
        client.desk.database.write(lambda tx: end(tx, goal, sub_goal["id"], "Copied."))
        expect(page.page.locator(".stats")).to_contain_text(done)

    end_one(first, f"71 of {LARGE}")
    row = page.page.locator(".plan-table tbody tr").filter(has_text=first["description"])
    expect(row.get_by_text("Completed")).to_be_visible()
    check_touched(page, asked)
    page.button("Graph").click()
    expect(page.page.locator(".node")).to_have_count(LARGE)
    assert measure_text(page) >= LEGIBLE
    page.page.evaluate(WATCH)
    end_one(second, f"72 of {LARGE}")
    expect(node(page, second["description"]).get_by_label("completed")).to_be_visible()
    check_touched(page, asked)


def check_touched(page: Visit, asked: list[str]) -> None:
    touched = page.page.evaluate("() => window.touched.size")
    assert 1 <= touched <= 5, touched  # the card and its edges, or the row, and their mark on the map
    assert [path for path in asked if path.startswith("/v1/goals/N/graph") or path == "/v1/goals/N"] == []


@pytest.mark.torture
@pytest.mark.parametrize("view", ["graph", "list"])
def test_axe_finds_nothing_in_any_view(open_page: Any, client: Client, wide: Goal, view: str) -> None:
    visit = open_page()
    running = next(one for one in client.ok("GET", f"/v1/goals/{wide.id}")["goal"]["sub_goals"] if one["status"] == "in-progress")
    visit.open(f"/goals/{wide.id}?view={view}&sub={running['id']}").live()
    for size, viewport in (("desk", DESK), ("tablet", {"width": 1024, "height": 768}), ("phone", PHONE)):
        visit.page.set_viewport_size(viewport)
        expect(visit.page.locator(".detail .runs")).to_be_attached()
        visit.shoot(f"plan-{view}-{size}")
        if view == "list":
            name = visit.page.locator(".plan-table .plain").first
            assert name.evaluate("(name) => name.closest('td').clientWidth") >= 150, size
        assert list_violations(visit) == [], size
        assert visit.page.evaluate("() => document.querySelector('.main').scrollWidth <= innerWidth")
