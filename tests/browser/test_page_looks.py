"""Every page: axe-core finds no violations, and nothing overflows the window. `make torture` looks at it in both themes, on desktop
and phone, and stores a screenshot of each."""

import json
from collections.abc import Callable
from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from headway.actions.goals import goals
from headway.actions.runs import inbox, jobs, notices
from headway.ledger.limits import Limits
from headway.ledger.run import Effect
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction
from tests.browser import staged_goals
from tests.browser.page_harness import PHONE, Visit, check_looks, look_at
from tests.browser.staged_files import stage_files
from tests.browser.test_page_operations import book_calls
from tests.model_server import ModelServer, Reply, Request, by_turn, calls, text
from tests.surfaces.conversation_client import plan_and_drain, say, wait_for_turn
from tests.surfaces.server_harness import Client
from tests.surfaces.waiting_turns import begin_waiting_turn

TITLES = [
    "Read the failed retry jobs from last night",
    "Group the failures by gateway error code",
    "Find where the idempotency key is dropped",
    "Write a failing test for the double charge",
    "Persist the key before the first attempt",
    "Back off with jitter on 429 and 503",
    "Run the billing suite against the sandbox",
    "Draft the incident note for support",
    "Open the pull request and request review",
]
FINDING = """I went through the 41 failed retry jobs from last night. All of them share one pattern:

- the first attempt times out after **30 s**
- the retry runs with a *new* idempotency key
- the gateway treats it as a second payment

The key is created inside `charge()` and never stored, so a retry cannot reuse it:

```python
def charge(order):
    key = uuid4().hex          # new on every attempt
    return gateway.pay(order.total, idempotency_key=key)
```

I have a failing test that reproduces the double charge. Next I will persist the key before the first attempt."""
REQUEST = "Customers were charged twice when the gateway timed out last night. Please find the cause, fix it and prepare a PR."


def at_work(model: ModelServer) -> Callable[[Request], Reply]:
    """A model that completes half of its plan and then does not answer until it is released."""

    def script(request: Request) -> Reply:
        created = [item for item in request.tool_results if item.name == "create_todo"]
        if not created:
            return calls(("create_todo", {"items": [{"title": title} for title in TITLES]}))
        if len(request.tool_results) == 1:
            ids = [item["id"] for item in json.loads(created[0].content)["created"]]
            ends = [("complete_todo", {"todoId": item, "outcome": "done"}) for item in ids[:4]]
            return calls(*ends, ("start_todo", {"todoId": ids[4]}))
        if len(request.tool_results) == 6:
            return calls(("calculate", {"expression": "41*2"}), text=FINDING)
        model.hold()
        return text("…")

    return script


def busy_conversation(client: Client, model: ModelServer) -> str:
    model.script = at_work(model)
    conversation = client.conversation()
    client.ok("POST", f"/v1/conversations/{conversation}/messages", 202, json={"content": REQUEST})
    model.wait_for_requests(4)
    return f"/c/{conversation}"


def full_board(client: Client) -> str:
    conversation = client.conversation(title="Canary rollout 4.2")
    for place, title in enumerate(TITLES):
        todo = client.add(title, conversation_id=conversation if place % 2 else 0, agent_id="index" if place % 3 else "ci-bot")
        if place < 2:
            client.change(todo, status="in_progress")
        elif place > 6:
            client.change(todo, status="completed")
    client.change(client.add("Rotate sandbox gateway keys"), status="canceled")
    return "/board"


def busy_operations(client: Client, model: ModelServer) -> str:
    def add_dead_letter(tx: Transaction, tenant_id: int) -> None:
        job = jobs.create_job(tx, tenant_id, "tool", {"name": "http_get"}, max_attempts=5)
        locked = job_store.find_locked_job(tx, tenant_id, job.id)
        assert locked is not None
        jobs.fail_permanently(tx, locked, "503 Service Unavailable from the sandbox gateway after 5 attempts")
        notices.notify(tx, tenant_id, "budget", "The pool of $5.00 is spent. Turns wait until there is room again.")

    def add_jobs(tx: Transaction, tenant_id: int) -> None:
        for name in ("Read the failed retry jobs of last night", "Compare the rates of both gateways"):
            jobs.create_job(tx, tenant_id, "report", {"request": name})
        late = jobs.create_job(tx, tenant_id, "report", {"request": "Summarise the incidents of this week for the on-call channel"})
        jobs.retry_later(tx, late, "429 Too Many Requests: the provider asks to wait 40 s", Limits())
        for n, error in enumerate(("The sandbox refused the connection.", "The file plan.md does not exist.")):
            jobs.fail_permanently(tx, jobs.create_job(tx, tenant_id, "report", {"name": f"report {n + 1}"}), error)

    conversation = client.conversation(title="Nightly")
    wait_for_turn(client, say(client, conversation, "hello"))
    client.desk.write(add_dead_letter)
    client.desk.write(add_jobs)
    book_calls(client, 25)
    work = {"message": {"conversation_id": conversation, "content": "Run the checkout benchmark"}}
    client.ok("PUT", "/v1/schedules/benchmark", json={"cron": "0 6 * * *", "timezone": "Europe/Berlin", **work})
    client.ok("PUT", "/v1/schedules/health", json={"every_s": 300, **work})
    return "/operations"


def several_goals(client: Client) -> str:
    client.desk.write(staged_goals.add_one_of_each_status)
    return "/goals"


def busy_goal(client: Client) -> str:
    goal = client.desk.write(staged_goals.add_half_done_goal)
    client.desk.write(staged_goals.add_intervention, goal)
    return f"/goals/{goal.id}"


def paused_goal(client: Client) -> str:
    goal = client.desk.write(staged_goals.add_half_done_goal)
    client.desk.database.write(lambda tx: goals.escalate(tx, goal, "replans", "Replan limit reached: 5 of 5 plans used."))
    return f"/goals/{goal.id}"


def ask_for_more(tx: Transaction, tenant_id: int, turn_id: str) -> None:
    """Let the turn's agent wait for a command and an answer as well."""
    run = run_store.find_by_turn(tx, tenant_id, turn_id)
    assert run is not None
    command = {"command": ["git", "push", "--force", "origin", "release 4.2"], "timeout_s": 30}
    effect = Effect(0, 1, "call-2", "run_command", json.dumps(command), "proposed")
    inbox.propose_call(tx, run, effect, "policy.toml, line 3", tx.now + 3_600_000)
    inbox.ask(tx, run, "Which environment should the rollout begin with?", ["Staging", "Production, 5% of the traffic"])


def waiting_conversation(client: Client, model: ModelServer) -> str:
    goal = {"description": "Keep the canary below 1% errors for an hour\nand roll back otherwise", "priority": 10}
    model.script = by_turn(calls(("set_goal", goal), text="The canary is ready. I will watch it."), text("Done."))
    conversation = client.conversation(title="Canary rollout 4.2")
    turn_id = begin_waiting_turn(client, conversation)["id"]
    client.ok("POST", f"/v1/turns/{turn_id}/messages", 202, json={"content": "Begin with 5% of the traffic."})
    client.desk.write(ask_for_more, turn_id)
    return f"/c/{conversation}"


def reject_command(client: Client) -> None:
    command = client.ok("GET", "/v1/approvals")["approvals"][0]
    decision = {"decision": "reject", "reason": "Never force a push to a release branch."}
    client.ok("POST", f"/v1/approvals/{command['id']}", json=decision)


NOTES = [
    ("The gateway's sandbox resets its keys every Sunday at 04:00 UTC.", "fact"),
    ("Ada approves refunds above $500. Ask her before anything is sent.", "decision"),
    ("Retry jobs:\n- first attempt times out after 30 s\n- the retry must reuse the idempotency key", "note"),
]


def some_memory(client: Client, model: ModelServer) -> str:
    conversation = client.conversation(title="Canary rollout 4.2")
    notes = [("remember", {"text": words, "kind": kind, "tenant_wide": kind == "fact"}) for words, kind in NOTES]
    model.script = by_turn(calls(*notes), text("Noted."))
    wait_for_turn(client, say(client, conversation, "Keep this in mind."))
    entry = client.ok("GET", "/v1/memory")["entries"][1]
    client.ok("PATCH", f"/v1/memory/{entry['id']}", json={"text": entry["text"].replace("500", "250")})
    client.ok("POST", "/v1/memory", 201, json={"text": "We speak British English to customers."})
    return "/memory"


def two_turns(client: Client, model: ModelServer) -> str:
    model.script = plan_and_drain(*TITLES[:3])
    turn_id = say(client, client.conversation(title="Canary rollout 4.2"), REQUEST)
    wait_for_turn(client, turn_id)
    model.script = lambda _request: calls(
        ("write_file", {"path": "finding.md", "content": FINDING}), text="I note the cause first."
    )
    fork = client.ok("POST", f"/v1/turns/{turn_id}/fork", 201, json={"at": 1})["turn"]
    wait_for_turn(client, fork["id"])
    return f"/compare/{turn_id}/{fork['id']}"


OPERATIONS_TABS = (
    "access",
    "settings",
    "queue",
    "queue?state=dead",
    "workers",
    "dead-letters",
    "agents",
    "schedules",
    "notices",
    "spending",
    "webhooks",
)
TABLETS = (880, 980, 1024, 1120, 1180, 1240)
NARROW = 1024


class Place(NamedTuple):
    path: str
    words: str  # which the page shows once it has loaded


def arrange_pages(client: Client, model: ModelServer) -> dict[str, Place]:
    """Fill every page. What needs the model comes first: it is held at the end."""
    operations = busy_operations(client, model)
    code = stage_files(client)["src/billing/charge.py"]
    places = {
        "fresh": Place("/", ""),
        "memory": Place(some_memory(client, model), "British English"),
        "compare": Place(two_turns(client, model), "First difference"),
        "operations": Place(operations, "dead letters"),
        "files": Place("/files", "incident.md"),
        "file-diff": Place(f"/files/{code}?view=changes", "get_or_create"),
        "board": Place(full_board(client), TITLES[0]),
        "goal": Place(busy_goal(client), "Recovered after an interruption"),
        "goals": Place(several_goals(client), "Translate help centre"),
        "chat-waiting": Place(waiting_conversation(client, model), "Which environment"),
        "inbox": Place("/inbox", "Decided last"),
    }
    todo = client.ok("GET", "/v1/todos")["todos"][0]
    return {**places, "todo": Place(f"/todos/{todo['id']}", "Comments"), "chat": Place(busy_conversation(client, model), "41*2")}


def open_place(visit: Visit, place: Place) -> None:
    visit.go(place.path)
    expect(visit.page.locator("body")).to_contain_text(place.words)
    expect(visit.page.locator(".skeleton")).to_have_count(0)


@pytest.mark.proof
def test_every_page_has_no_violations_and_fits_its_window(page: Visit, client: Client, model: ModelServer) -> None:
    places = arrange_pages(client, model)
    page.open().live()
    for name, place in places.items():
        if name == "inbox":
            reject_command(client)
        open_place(page, place)
        if name == "chat":
            page.button("Expand").click()
            expect(page.rows).to_have_count(len(TITLES))
        check_looks(page, name, "light")
        look_at(page, name)
    model.release()


@pytest.mark.proof
def test_lists_fit_every_width_and_a_phone_scrolls_the_page_and_not_the_window(
    page: Visit, client: Client, model: ModelServer
) -> None:
    stage_files(client)
    page.open("/memory").live()
    places = [Place("/files", "incident.md"), Place(busy_operations(client, model), "dead letters")]
    for path, words in (Place(several_goals(client), "Translate help centre"), *places):
        open_place(page, Place(path, words))
        expect(page.page.locator("h1")).to_have_count(1)
        for width in TABLETS if page.is_thorough else [NARROW]:
            page.page.set_viewport_size({"width": width, "height": 768})
            too_wide = page.page.locator(".card").evaluate_all(
                "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
            )
            assert too_wide == 0, f"{path} at {width}"
            assert page.page.locator("h1").evaluate("(title) => title.clientHeight") < 40, f"{path} at {width}"
        page.shoot(f"tablet{path.replace('/', '-')}")
    page.page.set_viewport_size(PHONE)
    page.go(paused_goal(client))
    expect(page.region("Plan")).to_be_attached()
    expect(page.region("Decision")).to_contain_text("Replan limit reached")
    look_at(page, "goal-paused")
    assert page.page.evaluate("() => document.documentElement.scrollHeight - innerHeight") <= 0
    page.page.locator(".main").evaluate("(main) => main.scrollTo(0, main.scrollHeight)")
    assert page.page.evaluate("() => document.documentElement.scrollHeight - innerHeight") <= 0


@pytest.mark.torture
def test_every_tab_of_operations_looks_good(page: Visit, client: Client, model: ModelServer) -> None:
    path = busy_operations(client, model)
    for tab in OPERATIONS_TABS:
        page.open(f"{path}/{tab}").live()
        expect(page.page.locator("main .skeleton")).to_have_count(0)
        look_at(page, f"operations-{tab.replace('?', '-')}")
