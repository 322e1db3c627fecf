"""Operations: the operator's page."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import APIResponse, Locator, Route, expect

from headway.actions.access import spending
from headway.actions.engine import webhooks
from headway.actions.goals import goals
from headway.actions.runs import jobs, notices
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.webhook import NewWebhook
from headway.storage.stores import worker_leases
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import DESK, PHONE, Visit, hold_requests, look_at, sign_in
from tests.model_server import ModelServer, by_turn, calls, error, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client
from tests.surfaces.waiting_turns import begin_waiting_turn

ABROAD = {"locale": "en-GB", "timezone_id": "Europe/Berlin"}


def dialog(page: Visit, title: str) -> Locator:
    return page.page.get_by_role("dialog", name=title)


def dead_turn(client: Client, model: ModelServer, request: str) -> int:
    model.script = lambda _request: error(400, "no such thing")
    conversation = client.conversation()
    wait_for_turn(client, say(client, conversation, request))
    return conversation


def test_operations_has_a_tab_per_address_with_notices_and_webhooks(page: Visit, client: Client, model: ModelServer) -> None:
    page.open("/operations").live()
    tabs = page.page.get_by_role("navigation", name="Operations")
    expect(tabs.get_by_role("link", name="Overview")).to_have_attribute("aria-current", "page")
    expect(page.region("Needs attention")).to_contain_text("nothing")
    tabs.get_by_role("link", name="Schedules").focus()
    page.page.keyboard.press("Enter")
    expect(page.page).to_have_url(re.compile("/operations/schedules$"))
    expect(page.page).to_have_title("Schedules · Operations · Headway")
    expect(page.region("Schedules")).to_be_visible()
    expect(tabs.get_by_role("link", name="Schedules")).to_be_focused()
    page.page.go_back()
    page.region("Needs attention").get_by_role("link", name="Dead letters").click()
    expect(page.region("Dead letters")).to_contain_text("Nothing here.")
    expect(page.page.get_by_role("main")).to_be_focused()

    page.page.set_viewport_size(PHONE)
    page.go("/operations/webhooks")
    expect(tabs.get_by_role("link", name="Webhooks")).to_be_in_viewport()
    expect(page.region("Webhooks")).to_contain_text("No webhooks.")
    page.go("/operations/nowhere")
    expect(page.page.get_by_role("main")).to_contain_text("There is nothing at this address.")
    page.page.set_viewport_size(DESK)
    follow_notices(page, client, model)
    manage_webhooks(page, client)


TABS = ("", "/queue", "/workers", "/dead-letters", "/agents", "/schedules", "/spending", "/notices", "/webhooks")
LATE_TABS = (*TABS, "/access", "/audit", "/settings", "/tools")


def test_nothing_is_stated_before_it_is_known(page: Visit, client: Client) -> None:
    sign_in(page.page.context, client, "operator")
    """Every request to the API stays without an answer."""
    hold_requests(page, re.compile("/v1/(?!session|events)"))
    page.open("/operations")
    main = page.page.get_by_role("main")
    labels = re.compile(r"last 24 hours|(7|30|90) days")
    for path in LATE_TABS:
        page.go(f"/operations{path}")
        link = page.page.get_by_role("navigation", name="Operations").locator(f"a[href='/operations{path}']")
        expect(link).to_have_attribute("aria-current", "page")
        expect(main.locator(".tab-content .skeleton").first).to_be_visible()
        text = main.locator(".tab-content").inner_text()
        assert not re.search(r"[0-9$]|\bNo\b|[Nn]othing|can run", labels.sub("", text)), (path, text)

    # Nothing is said about a halt before it is known.
    page.page.unroute_all(behavior="ignoreErrors")
    late = hold_requests(page, "**/v1/halt")
    with page.page.expect_request("**/v1/halt"):
        page.open("/operations")
    expect(main.get_by_role("heading", name="Operations")).to_be_visible()
    expect(main).not_to_contain_text("Agents can run")
    expect(page.button("Lift the halt")).to_have_count(0)

    def answer(route: Route) -> None:
        route.fulfill(json={"halt": {"halted": True, "why": "a drill", "since": 1}})

    # The banner and the tab ask on their own: a request may still be on its way here.
    page.page.route("**/v1/halt", answer)
    for route in late:
        answer(route)
    expect(page.page.locator(".banner")).to_contain_text("a drill")


def test_dead_letters_are_explained_retried_and_dropped(page: Visit, client: Client, model: ModelServer) -> None:
    markup = "<img src=x onerror=alert(1)>"
    page.open("/operations/dead-letters").live()
    letters = page.region("Dead letters")
    conversation = dead_turn(client, model, f"mend the roof {markup}")
    todo = client.ok("POST", "/v1/todos", 201, json={"subject": f"buy tiles {markup}"})["todo"]

    # Why is asked of a job, a turn and a todo.
    expect(letters).to_contain_text("mend the roof")
    expect(letters).to_contain_text("no such thing")
    letters.get_by_text("Why?").click()
    expect(letters.locator(".why li").last).to_contain_text("no such thing")
    expect(letters.locator(".why > p")).to_contain_text("Retry it with `headway admin job retry")
    page.go(f"/todos/{todo['id']}")
    sheet = page.page.locator("dialog.todo-sheet[open]")
    sheet.get_by_text("History", exact=True).click()
    expect(sheet.locator(".why li")).to_contain_text(f"“buy tiles {markup}” was created by a test in the tenant's list.")
    expect(sheet.locator(".why > p")).to_contain_text("is pending and ready")
    page.button("Close").click()
    page.go(f"/c/{conversation}")
    page.page.locator(".turn-note").get_by_text("Why?").click()
    expect(page.page.locator(".turn-note .why > p")).to_contain_text("The turn failed:")

    # A job shows its errors and links.
    (job,) = client.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"]
    page.go(f"/operations/queue?job={job['id']}")
    panel = page.page.get_by_role("dialog", name="mend the roof")
    expect(panel).to_contain_text("no such thing")
    expect(panel.get_by_role("link", name=f"Conversation {conversation}")).to_have_attribute("href", f"/c/{conversation}")
    page.page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.forgiven = ("404",)
    page.go("/operations/queue?job=nothing")
    expect(page.page.get_by_role("alert")).to_contain_text("No job 'nothing'.")

    # It is dropped after asking.
    page.go("/operations/dead-letters")
    drop = letters.get_by_role("button", name="Drop mend the roof")
    drop.click()
    question = dialog(page, "Drop this dead letter?")
    question.get_by_role("button", name="Leave it as is").click()
    expect(question).to_be_hidden()
    drop.click()
    question.get_by_role("button", name="Drop it").click()
    expect(letters).to_contain_text("Nothing here.")

    # Others are retried, from the list and from the panel of a job.
    dead_turn(client, model, "mend the door")
    dead_turn(client, model, "mend the wall")
    model.script = lambda _request: text("Mended.")
    expect(letters.get_by_role("listitem")).to_have_count(2)  # nothing moves the button under the pointer
    page.button("Retry mend the door").click()
    expect(letters).not_to_contain_text("mend the door")
    (job,) = client.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"]
    page.go(f"/operations/queue?job={job['id']}")
    page.button("Retry now", within=page.page.get_by_role("dialog", name="mend the wall")).click()
    expect(page.page.locator(".toasts")).to_contain_text("The job runs again.")
    page.go("/operations/dead-letters")
    expect(letters).to_contain_text("Nothing here.")
    expect(page.page.get_by_role("link", name="Operations", exact=True)).to_have_text("Operations")
    assert client.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"] == []


def add_dead_jobs(client: Client, count: int, kind: str = "tool") -> None:
    def add(tx: Transaction, tenant_id: int) -> None:
        for n in range(count):
            jobs.fail_permanently(tx, jobs.create_job(tx, tenant_id, kind, {"name": f"{kind} {n}"}), "the shop was closed")

    client.desk.write(add)


def test_the_queue_is_counted_and_paged_and_many_dead_letters_are_chosen_at_once(page: Visit, client: Client) -> None:
    add_dead_jobs(client, 60, "later")
    waiting = client.desk.write(lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "other", {"name": "wait for it"}))
    page.open("/operations/queue").live()
    queue, rows = page.region("Queue"), page.region("Jobs").get_by_role("list", name="Jobs").get_by_role("listitem")
    expect(queue).to_contain_text("1 job due, the oldest for")
    expect(queue.get_by_role("row", name=re.compile("^later"))).to_contain_text("60")
    expect(rows).to_have_count(50)
    page.page.get_by_role("link", name="Older").click()
    expect(rows).to_have_count(11)
    page.page.get_by_role("link", name="Newest").click()
    page.page.get_by_label("State", exact=True).select_option("queued")
    expect(rows).to_have_count(1)
    expect(page.page).to_have_url(re.compile("state=queued$"))
    page.page.reload()
    expect(rows).to_contain_text("wait for it")

    rows.get_by_role("link", name="wait for it").click()
    panel = page.page.get_by_role("dialog", name="wait for it")
    expect(panel).to_contain_text(waiting.id)
    expect(panel.get_by_label("Payload")).to_contain_text('"name": "wait for it"')
    page.button("Cancel the job", within=panel).click()
    dialog(page, "Cancel this job?").get_by_role("button", name="Cancel it").click()
    expect(panel).to_contain_text("Canceled")
    page.page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.region("Jobs")).to_contain_text("No job matches.")
    assert client.ok("GET", f"/v1/jobs/{waiting.id}")["job"]["state"] == "canceled"

    # Many dead letters are chosen, and dropped and retried.
    add_dead_jobs(client, 70, "later")
    add_dead_jobs(client, 3, "tool")
    page.go("/operations/dead-letters")
    letters = page.region("Dead letters")
    expect(letters.locator("header")).to_contain_text("133")
    page.page.get_by_label("Choose tool 1").check()
    page.page.get_by_label("Choose tool 2").check()
    page.button("Drop 2 chosen").click()
    dialog(page, "Drop 2 dead letters?").get_by_role("button", name="Drop them").click()
    expect(letters.locator("header")).to_contain_text("131")
    expect(letters).not_to_contain_text("tool 1")

    page.page.get_by_label("Kind", exact=True).select_option("later")
    expect(letters.locator("header")).to_contain_text("130")
    expect(page.page).to_have_url(re.compile("kind=later$"))
    page.button("Drop all 130").click()
    question = dialog(page, "Drop 130 dead letters of kind later?")
    question.get_by_role("button", name="Leave it as is").click()
    page.button("Drop all 130").click()
    question.get_by_role("button", name="Drop them").click()
    expect(page.page.locator(".toasts")).to_contain_text("Dropped 130 dead letters.")
    expect(letters).to_contain_text("Nothing here.")
    assert [job["kind"] for job in client.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"]] == ["tool"]

    page.page.get_by_label("Kind", exact=True).select_option("")
    page.page.get_by_label("Choose all on this page").check()
    page.button("Retry 1 chosen").click()
    dialog(page, "Retry 1 dead letter?").get_by_role("button", name="Retry them").click()
    expect(page.page.locator(".toasts")).to_contain_text("Retried 1 dead letter.")


@pytest.mark.proof
def test_schedules_are_created_with_a_preview_edited_run_now_and_deleted(open_page: Callable[..., Visit], client: Client) -> None:
    client.conversation(title="Garden")
    page = open_page("/operations/schedules", **ABROAD).live()
    page.button("New schedule").click()
    form = page.page.get_by_role("dialog", name="New schedule")
    times = form.get_by_role("region", name="Next times").get_by_role("listitem")
    expect(form.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    expect(times).to_have_count(5)
    expect(times.first).to_contain_text("06:00:00")
    page.button("Weekdays at 9:00").click()
    expect(times.first).to_contain_text("09:00:00")
    page.forgiven = ("422",)
    form.get_by_label("Cron expression").fill("soon")
    expect(form).to_contain_text("'soon' is not a cron expression that ever fires.")
    form.get_by_label("Cron expression").fill("30 7 * * *")
    expect(times.first).to_contain_text("07:30:00")
    look_at(page, "schedule-new")
    form.get_by_label("Name").fill("water")
    form.get_by_label("Conversation").select_option("Garden")
    form.get_by_label("Message", exact=True).fill("water the <b>plants</b>")
    page.button("Create").click()
    expect(page.page.locator("#schedule-title")).to_have_count(0)  # gone, not only hidden: the browser reports a close later
    row = page.region("Schedules").get_by_role("listitem")
    expect(row).to_contain_text("30 7 * * * Europe/Berlin")
    expect(row).to_contain_text("water the <b>plants</b>")

    page.button("New schedule").click()
    form.get_by_label("Name").fill("water")
    page.button("Call a tool", within=form).click()
    form.get_by_label("Tool", exact=True).fill("now")
    page.button("Create").click()
    expect(form.get_by_role("alert")).to_contain_text("There is already a schedule named water.")
    form.get_by_label("Name").fill("clock")
    form.get_by_label("Arguments, as JSON").fill("[1]")
    page.button("Create").click()
    expect(form.get_by_role("alert")).to_contain_text("The arguments must be a JSON object.")
    form.get_by_label("Arguments, as JSON").fill("{}")
    page.button("At an interval").click()
    form.get_by_label("Every").fill("90")
    form.get_by_label("Unit").select_option("minutes")
    expect(times).to_have_count(5)
    page.button("Create").click()
    expect(row).to_have_count(2)
    assert client.ok("GET", "/v1/schedules/clock")["schedule"]["every_s"] == 5_400

    page.page.set_viewport_size(PHONE)
    page.button("Edit water").click()
    editor = page.page.get_by_role("dialog", name="Edit water")
    expect(editor.get_by_label("Cron expression")).to_have_value("30 7 * * *")
    page.button("Set a goal", within=editor).click()
    editor.get_by_label("Goal", exact=True).fill("No plant is dry")
    editor.get_by_label("Name").fill("plants")
    page.button("Save").click()
    expect(editor).to_have_count(0)
    changed = client.ok("GET", "/v1/schedules/plants")["schedule"]
    assert (changed["goal"]["description"], changed["cron"]) == ("No plant is dry", "30 7 * * *")
    assert [one["name"] for one in client.ok("GET", "/v1/schedules")["schedules"]] == ["clock", "plants"]

    # One runs now, rests and goes.
    page.page.set_viewport_size(DESK)
    page.button("Delete clock").click()
    page.button("Delete plants").click()
    expect(row).to_have_count(0)
    conversation = client.conversation()
    work = {"message": {"conversation_id": conversation, "content": "water the plants"}}
    client.ok("PUT", "/v1/schedules/garden", json={"cron": "0 6 * * *", "timezone": "Europe/Berlin", **work})
    expect(row).to_contain_text(re.compile(r"0 6 \* \* \* Europe/Berlin · next in \d+"))
    page.button("Run now: garden").click()
    expect(row).to_contain_text("last")

    page.button("Pause garden").click()
    expect(row).to_contain_text("paused")
    page.button("Resume garden").click()
    expect(row).to_contain_text("next")
    client.ok("PUT", "/v1/schedules/other", json={"every_s": 300, **work})
    expect(row).to_have_count(2)
    page.button("Pause garden").click()
    expect(row.filter(has_text="garden")).to_contain_text("paused")
    page.button("Delete garden").click()
    expect(row).to_have_count(1)
    page.page.locator(".toast").filter(has_text="garden was deleted.").get_by_role("button", name="Undo").click()
    expect(row).to_have_count(2)
    expect(row.filter(has_text="garden")).to_contain_text("paused")
    assert client.ok("GET", "/v1/schedules/garden")["schedule"]["message"] == work["message"]


def test_agents_at_work_are_listed_and_stopped_and_a_halt_asks_first(page: Visit, client: Client, model: ModelServer) -> None:
    def script(request):  # type: ignore[no-untyped-def]
        if "delegate" in request.tools and not request.tool_results:
            return calls(("spawn_agent", {"role": "researcher", "task": "count the stars", "context": "at night"}))
        if "count the stars" in request.texts[-1] or "count the stars" in request.texts[1]:
            model.hold()
        return text("done")

    model.script = script
    page.open("/operations/agents").live()
    say(client, client.conversation(), "how many?")
    expect(page.region("Agents")).to_contain_text("count the stars")
    expect(page.region("Agents")).to_contain_text("researcher")
    model.script = lambda _request: text("done")
    model.release()
    expect(page.region("Agents")).to_contain_text("none running")

    # An agent at work can be stopped after asking.
    model.hold()
    say(client, client.conversation(), "think for long")
    agents = page.region("Agents")
    expect(agents).to_contain_text("1 running")
    expect(agents).to_contain_text("checked in")
    page.button("Cancel think for long").click()
    dialog(page, "Stop this agent?").get_by_role("button", name="Stop it").click()

    expect(agents).to_contain_text("none running")

    # The halt asks first. Only the operator is asked.
    page.go("/operations")
    expect(page.region("Kill switch")).to_contain_text("Halting needs a token with the operator scope.")
    sign_in(page.page.context, client, "operator")
    page.open("/operations").live()
    page.button("Halt everything").click()
    question = dialog(page, "Halt everything?")
    expect(question).to_contain_text("for every tenant of this installation")
    question.get_by_role("button", name="Leave it as is").click()
    expect(page.page.locator("#halt-title")).to_have_count(0)
    assert client.ok("GET", "/v1/halt")["halt"]["halted"] is False

    page.button("Halt everything").click()
    question.get_by_role("button", name="Halt everything").click()
    expect(question).to_be_visible()  # without a reason, nothing is halted
    assert client.ok("GET", "/v1/halt")["halt"]["halted"] is False
    page.button("Costs rise too fast").click()
    expect(question.get_by_label("Why?")).to_have_value("Costs rise too fast")
    question.get_by_label("Why?").fill("The <b>refunds</b> agent loops")
    late: list[tuple[Route, APIResponse]] = []

    def answer_late(route: Route) -> None:
        late.append((route, route.fetch()))

    page.page.route("**/v1/halt", answer_late)  # the event is faster than the answer
    question.get_by_role("button", name="Halt everything").click()
    expect(page.page.locator(".banner")).to_contain_text("Everything is halted. The <b>refunds</b> agent loops")
    expect(page.region("Kill switch")).to_contain_text("by somebody at a browser")
    halted = client.ok("GET", "/v1/halt")["halt"]
    assert (halted["halted"], halted["why"]) == (True, "The <b>refunds</b> agent loops")
    for route, answer in late:
        route.fulfill(response=answer)
    page.page.unroute("**/v1/halt")
    page.button("Lift the halt").first.click()
    expect(page.page.locator(".banner")).to_have_count(0)
    expect(question).to_have_count(0)
    assert client.ok("GET", "/v1/halt")["halt"]["halted"] is False

    # A worker that stopped answering needs attention.
    def add_lost_worker(tx: Transaction) -> None:
        worker_leases.record_heartbeat(tx, "attic:41:aa", 0, worker_leases.WorkerFacts(tx.now, 8, "0.0.9"))
        tx.run("UPDATE worker_leases SET beat_at = beat_at - 60000 WHERE executor_id = 'attic:41:aa'")

    client.desk.database.write(add_lost_worker)
    page.go("/operations")
    expect(page.region("Needs attention")).to_contain_text("1 stopped answering within a day")
    page.page.get_by_role("navigation", name="Operations").get_by_role("link", name="Workers").click()
    workers = page.region("Workers")
    expect(workers.locator("header")).to_contain_text("1 answering, 1 lost")
    lost = workers.get_by_role("listitem").filter(has_text="attic, process 41")
    expect(lost).to_contain_text("stopped answering")
    expect(lost).to_contain_text("0 of 8 slots")
    expect(workers.get_by_role("listitem").filter(has_text="idle")).to_contain_text("of 64 slots")
    client.desk.database.write(lambda tx: worker_leases.release_owner(tx, "attic:41:aa"))
    expect(lost).to_have_count(0)


def follow_notices(page: Visit, client: Client, model: ModelServer) -> None:
    page.go("/operations/notices")
    expect(page.region("Notices")).to_contain_text("There are no notices.")
    client.desk.write(notices.notify, "budget", "The pool is spent.")

    expect(page.region("Notices")).to_contain_text("The pool is spent.")
    expect(page.page.locator(".toast")).to_contain_text("The pool is spent.")
    tab = page.region("Notices")
    client.desk.write(notices.notify, "budget", "The pool has room again.")
    expect(tab.get_by_role("listitem")).to_have_count(2)
    page.button("Done: The pool is spent.").click()
    expect(tab.get_by_role("listitem")).to_have_count(1)
    page.button("Mark all as done").click()
    expect(tab).to_contain_text("There are no notices.")
    page.button("Done", within=tab).click()
    expect(tab.get_by_role("listitem")).to_have_count(2)
    page.button("Open again: The pool is spent.").click()
    expect(tab.get_by_role("listitem")).to_have_count(1)
    assert [notice["text"] for notice in client.ok("GET", "/v1/notices", params={"state": "open"})["notices"]] == [
        "The pool is spent."
    ]

    # They leave the inbox when their request was handled.
    page.button("Open", within=tab).click()
    page.button("Mark all as done").click()
    model.script = by_turn(calls(("ask_person", {"question": "Which tier?"})), text("Done."))
    turn_id = begin_waiting_turn(client, client.conversation(title="Deploy"))["id"]
    goal = client.desk.write(staged_goals.add_half_done_goal)
    client.desk.database.write(lambda tx: goals.escalate(tx, goal, "replans", "5 of 5 plans used."))
    expect(tab.get_by_role("listitem")).to_have_count(2)
    client.ok("POST", f"/v1/goals/{goal.id}/decision", json={"action": "abandon"})
    expect(tab.get_by_role("listitem")).to_have_count(1)
    question = client.ok("GET", "/v1/questions", params={"state": "open"})["questions"][0]
    client.ok("POST", f"/v1/questions/{question['id']}", json={"answer": "Gold"})
    expect(tab).to_contain_text("There are no notices.")
    page.button("Done", within=tab).click()
    expect(tab.get_by_role("listitem")).to_have_count(4)
    wait_for_turn(client, turn_id)


def manage_webhooks(page: Visit, client: Client) -> None:
    hook = client.desk.write(webhooks.create_webhook, NewWebhook("https://receiver.invalid/in", ("todo_changed",)), ("*",)).webhook
    page.go("/operations/webhooks")
    row = page.region("Webhooks").get_by_role("listitem")
    expect(row).to_contain_text("https://receiver.invalid/in")
    expect(row).to_contain_text("active · todo_changed")
    page.button("Test receiver.invalid").click()
    expect(page.page.locator(".toasts")).to_contain_text("There is no host receiver.invalid.")
    page.button("Pause receiver.invalid").click()
    expect(row).to_contain_text("paused")
    page.button("Replay receiver.invalid").click()
    dialog(page, "Replay events").get_by_label("Number").fill("0")
    dialog(page, "Replay events").get_by_role("button", name="Replay").click()
    expect(row).to_contain_text("delivered up to event 0")
    client.desk.database.write(lambda tx: jobs.fail_permanently(tx, jobs.get_job(tx, client.desk.tenant.id, hook.id), "<b>no</b>"))
    expect(row).to_contain_text("<b>no</b>")
    page.button("Resume receiver.invalid").click()
    expect(row).to_contain_text("active")
    page.button("Delete receiver.invalid").click()
    dialog(page, "Delete the webhook to receiver.invalid?").get_by_role("button", name="Delete it").click()
    expect(page.region("Webhooks")).to_contain_text("No webhooks.")


def book_calls(client: Client, days: int) -> None:
    """Book calls of two models and two roles on each of the last days."""

    def work(tx: Transaction, tenant_id: int) -> None:
        run = turns.start_turn(tx, tenant_id, conversations.add_conversation(tx, tenant_id).id, turns.TurnRequest("hello"))
        jobs.close(tx, tenant_id, run.id, "canceled", "")
        for day in range(days):
            for model, role, cents in (("anthropic:sonnet-x", "index", 30 + day), ("openai:mini-x", "researcher", 5 + day % 7)):
                call = ModelCall("large", model, 20_000, 900, cents * NANOS_PER_DOLLAR // 100, 15_000)
                run = spending.settle_payment(tx, run._replace(role=role), call, NANOS_PER_DOLLAR * 1_000)
            tx.run("UPDATE spending_days SET day = day - 1 WHERE tenant_id = ?", tenant_id)

    client.desk.write(work)


@pytest.mark.proof
def test_spending_over_days_is_a_chart_and_a_table_and_the_limit_is_changed(
    open_page: Callable[..., Visit], client: Client, model: ModelServer
) -> None:
    book_calls(client, 20)
    page = open_page("/operations/spending", **ABROAD).live()
    card = page.region("Spending per day")
    chart = card.get_by_role("application", name="Cost per day by model")
    expect(card).to_contain_text("40 calls · 800k tokens in (75% from the cache) · 36k out")
    legend = card.get_by_role("list", name="Totals").get_by_role("listitem")
    expect(legend.first).to_contain_text("anthropic:sonnet-x$7.90")
    expect(chart.locator("svg rect[class^=series]")).to_have_count(40)
    chart.focus()
    page.page.keyboard.press("End")
    expect(card.get_by_role("status")).to_contain_text("$0.00")  # today
    page.page.keyboard.press("ArrowLeft")
    expect(card.get_by_role("status")).to_contain_text("$0.59 (anthropic:sonnet-x $0.49, openai:mini-x $0.10)")
    page.page.keyboard.press("Escape")
    expect(card.get_by_role("status")).to_contain_text("Cost per day by model")

    page.button("7 days").click()
    expect(page.page).to_have_url(re.compile("days=7$"))
    expect(card.get_by_role("application", name="Cost per day by model")).to_be_visible()
    expect(card).to_contain_text("12 calls")
    page.button("Role").click()
    expect(legend.first).to_contain_text("index")
    page.button("Tokens").click()
    expect(card.get_by_role("application", name="Tokens per day by role")).to_be_visible()
    card.get_by_text("Show as a table").click()
    table = card.get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(8)
    expect(table.get_by_role("row").nth(2)).to_contain_text("20.9k20.9k")
    look_at(page, "spending")
    page.button("Goal").click()
    expect(legend).to_have_text(re.compile("^without a goal"))
    page.page.reload()
    expect(card.get_by_role("application", name="Tokens per day by goal")).to_be_visible()

    # The costs of the last day have the share of the cache, models without a price, and the limit.
    model.script = lambda _request: replace(text("hello", usage=(2_000, 300)), cached=1_500)
    wait_for_turn(client, say(client, client.conversation(), "hello"))
    page.page.reload()
    costs = page.region("Costs, last 24 hours")
    expect(costs).to_contain_text("openai-chat:fake-1")
    expect(costs).to_contain_text("1 call")
    expect(costs).to_contain_text("2,000 tokens in (75% from the cache) · 300 out")
    expect(costs).to_contain_text("No known price: openai-chat:fake-1. Calls are counted as $0, so the limit cannot stop them.")
    expect(costs).to_contain_text("of $5.00")
    page.button("Change the limit").click()
    page.page.get_by_label("Dollars").fill("2.5")
    page.button("Save").click()
    expect(costs).to_contain_text("of $2.50")
    assert client.ok("GET", "/v1/costs")["costs"]["limit_usd"] == 2.5
