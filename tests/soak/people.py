"""People and programs that use Headway over HTTP, at random. They repeat a request until it is answered, with the same key."""

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import UUID

import httpx

from tests.soak.script import CHOICES, TICK, build_request

PATIENCE_S = 180
PAUSE_S = 0.2
IMPATIENCE = 0.2  # the share of requests that are sent twice
AGAIN = (429, 503)  # the server says that it cannot answer now
STEPS = ("note", "note", "sign", "ask", "plan", "prove", "delegate", "mcp", "die", "read")
Document = dict[str, Any]


class NotAnswered(Exception):
    """Nobody answered for a long time, or the answer is one that must not be."""


class OverQuota(Exception):
    """The tenant has used up a quota."""


class Tenant:
    """The knowledge of a tenant's people: their token, and the requests that were acknowledged."""

    def __init__(self, number: int, id: int, name: str, secret: str) -> None:
        self.number, self.id, self.name, self.secret = number, id, name, secret
        self.turns: dict[str, str] = {}  # names by id
        self.conversations: list[int] = []
        self.goals: list[int] = []
        self.todos: list[int] = []
        self.named: list[str] = []  # the todos and goals that were acknowledged
        self.canceled: set[str] = set()
        self.names = 0
        self.lock = threading.Lock()

    def make_name(self, kind: str) -> str:
        with self.lock:
            self.names += 1
            return f"t{self.number}{kind}{self.names}"


class Person:
    """One person of a tenant, with a connection of their own."""

    def __init__(self, base_url: str, tenant: Tenant, strangers: list[Tenant], seed: str) -> None:
        self.tenant, self.strangers = tenant, strangers
        self.chance = random.Random(seed)
        self.http = httpx.Client(base_url=base_url, timeout=30, trust_env=False, verify=False)
        self.did: Counter[str] = Counter()
        rare = [self.add_todo, self.change_todo, self.set_goal, self.cancel, self.steer, self.intrude, self.use_token, self.fork]
        rare += [self.run_own_loop, self.limit_costs, self.exceed_quota]
        self.actions = [self.talk] * 4 + [self.decide] * 4 + [self.look, *rare]

    def act(self) -> None:
        action = self.chance.choice(self.actions)
        with suppress(OverQuota):
            action()

    def send(self, method: str, path: str, body: Document | None = None, secret: str = "") -> tuple[int, Document]:
        """Send a request until it is answered. The key makes repeating it safe, which some do without need."""
        headers = {"Authorization": f"Bearer {secret or self.tenant.secret}"}
        if method == "POST":
            headers["Idempotency-Key"] = str(UUID(int=self.chance.getrandbits(128)))
        status, document = self.repeat(method, path, body, headers)
        if method == "POST" and status < 300 and self.chance.random() < IMPATIENCE:
            again = self.repeat(method, path, body, headers)
            self.check((status, document | {"secret": ""}) == (again[0], again[1] | {"secret": ""}), f"{document} again: {again}")
        return status, document

    def repeat(self, method: str, path: str, body: Document | None, headers: dict[str, str]) -> tuple[int, Document]:
        """Send a request until it is answered."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self.http.request(method, path, json=body, headers=headers)
                if answer.status_code == 429 and answer.json()["code"] == "quota_exceeded":
                    self.did["quota_exceeded"] += 1
                    raise OverQuota
                if answer.status_code not in AGAIN:
                    break
                last = f"{answer.status_code} {answer.text[:200]}"
            except httpx.TransportError as error:
                last = repr(error)
            if time.monotonic() > deadline:
                raise NotAnswered(f"{method} {path}: {last}")
            time.sleep(PAUSE_S)
        if answer.status_code >= 500:
            raise NotAnswered(f"{method} {path} {body}: {answer.status_code} {answer.text}")
        self.did[f"{method} {describe(path)} {answer.status_code}"] += 1
        document: Document = answer.json()
        return answer.status_code, document

    def expect(
        self, method: str, path: str, body: Document | None = None, *, status: tuple[int, ...] = (200, 201, 202)
    ) -> Document:
        """Send a request that must have one of these answers."""
        got, document = self.send(method, path, body)
        if got not in status:
            raise NotAnswered(f"{method} {path} {body}: {got} {document}")
        return document

    def choose(self, known: list[Any]) -> Any:
        return self.chance.choice(known[-20:]) if known else None

    def talk(self) -> None:
        conversation = self.choose(self.tenant.conversations) if self.chance.random() < 0.6 else None
        name = self.tenant.make_name("s")
        if conversation is None:
            made = self.expect("POST", "/v1/conversations", {"key": name})
            conversation = made["conversation"]["id"]
            self.tenant.conversations.append(conversation)
        kinds = self.chance.choices(STEPS, k=self.chance.randint(1, 4))
        steps = [f"{kind}:{name}{letter}" for kind, letter in zip(kinds, "abcd", strict=False)]
        path = f"/v1/conversations/{conversation}/messages"
        answer = self.expect("POST", path, {"content": build_request(name, steps)}, status=(202, 409, 404))
        if "turn_id" in answer:
            self.tenant.turns[answer["turn_id"]] = name

    def decide(self) -> None:
        """Answer something in the inbox; another person may be faster."""
        open_requests = self.expect("GET", "/v1/inbox")["requests"]
        if request := self.choose(open_requests):
            self.respond(request)

    def respond(self, request: Document) -> None:
        answers: dict[str, Document] = {
            "approval": {"decision": self.chance.choice(["approve", "approve", "reject"])},
            "question": {"answer": self.chance.choice(CHOICES)},
            "decision": {"action": "continue"},  # about a goal that has lost too many processes
        }
        self.expect("POST", f"/v1/inbox/{request['id']}", answers[request["kind"]], status=(200, 409))

    def add_todo(self) -> None:
        name = self.tenant.make_name("d")
        self.tenant.todos.append(self.expect("POST", "/v1/todos", {"subject": name})["todo"]["id"])
        self.tenant.named.append(name)

    def change_todo(self) -> None:
        if todo := self.choose(self.tenant.todos):
            status = self.chance.choice(["in_progress", "completed", "canceled"])
            self.expect("PATCH", f"/v1/todos/{todo}", {"status": status}, status=(200, 404, 409))

    def set_goal(self) -> None:
        name = self.tenant.make_name("g")
        body = {"description": f"Goal {name} with {self.chance.randint(1, 4)} parts.", "success_criteria": "All is noted."}
        self.tenant.goals.append(self.expect("POST", "/v1/goals", body)["goal"]["id"])
        self.tenant.named.append(name)

    def cancel(self) -> None:
        if turn := self.choose(list(self.tenant.turns)):
            status, _ = self.send("POST", f"/v1/turns/{turn}/cancel")
            if status == 200:
                self.tenant.canceled.add(turn)
            elif status != 409:
                raise NotAnswered(f"canceling turn {turn}: {status}")

    def steer(self) -> None:
        if turn := self.choose(list(self.tenant.turns)):
            self.expect("POST", f"/v1/turns/{turn}/messages", {"content": "Please hurry."}, status=(200, 201, 202, 409))

    def fork(self) -> None:
        """Replay a turn up to a step, without making calls that have no recorded result."""
        if turn := self.choose(list(self.tenant.turns)):
            self.expect("POST", f"/v1/turns/{turn}/fork", {"at": self.chance.randint(0, 2)}, status=(200, 201, 202, 409, 422))

    def look(self) -> None:
        paths = [
            "/v1/todos",
            "/v1/turns/" + (self.choose(list(self.tenant.turns)) or "none"),
            "/v1/goals",
            "/v1/costs",
            "/v1/inbox?state=all",
        ]
        self.expect("GET", self.chance.choice(paths), status=(200, 404))

    def run_own_loop(self) -> None:
        """An agent that Headway does not run plans two items, and is sent back until both are done."""
        conversation = self.expect("POST", "/v1/conversations", {})["conversation"]["id"]
        turn = self.expect("POST", "/v1/turns", {"conversation_id": conversation})["turn"]["id"]
        items = [{"title": f"item {self.tenant.make_name('l')}"} for _ in range(2)]
        plan = self.call_tool("create_todo", {"items": items}, turn)
        for item in plan["created"]:
            self.check(not self.may_stop(turn), "an agent with an open item is sent back")
            self.call_tool("complete_todo", {"todoId": item["id"], "outcome": "done"}, turn)
        self.check(self.may_stop(turn), "an agent that has finished its plan may stop")
        self.expect("POST", f"/v1/turns/{turn}/cancel")

    def call_tool(self, name: str, arguments: Document, turn: str) -> Document:
        answer: Document = self.expect("POST", f"/v1/tools/{name}", {"arguments": arguments, "turn_id": turn})["result"]
        return answer

    def may_stop(self, turn: str) -> bool:
        return bool(self.expect("POST", f"/v1/turns/{turn}/stop", {"answer": "All is done."})["stop"]["may_stop"])

    def exceed_quota(self) -> None:
        """A tenant may have one webhook."""
        for _ in range(2):
            self.expect("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/never"}, status=(201,))
        raise NotAnswered("a tenant has more webhooks than its quota allows")

    def limit_costs(self) -> None:
        """Leave the agents without money for a moment."""
        self.expect("PUT", "/v1/costs", {"limit_usd": 0})
        time.sleep(self.chance.uniform(0, 2))
        self.restore_costs()

    def restore_costs(self) -> None:
        self.expect("PUT", "/v1/costs", {"limit_usd": 1_000})

    def intrude(self) -> None:
        """Ask for something of another tenant, by its id."""
        stranger = self.chance.choice(self.strangers)
        paths = [
            *(f"/v1/conversations/{id}" for id in stranger.conversations[-3:]),
            *(f"/v1/turns/{id}" for id in list(stranger.turns)[-3:]),
            *(f"/v1/goals/{id}" for id in stranger.goals[-3:]),
            *(f"/v1/todos/{id}" for id in stranger.todos[-3:]),
        ]
        if path := self.choose(paths):
            self.expect("GET", path, status=(404,))

    def use_token(self) -> None:
        """Create a token, use it, revoke it, and try it once more."""
        made = self.expect("POST", "/v1/tokens", {"label": "guest", "scopes": ["read"]})
        secret, id = made.get("secret", ""), made["token"]["id"]  # a repeated request is answered without the secret
        if secret:
            self.check(self.send("GET", "/v1/todos", secret=secret)[0] == 200, "a new token works")
        self.expect("DELETE", f"/v1/tokens/{id}", status=(200, 404))
        if secret:
            self.check(self.send("GET", "/v1/todos", secret=secret)[0] == 401, "a revoked token is refused")

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            raise NotAnswered(f"not so: {what}")

    def add_schedule(self) -> None:
        conversation = self.expect("POST", "/v1/conversations", {"key": "ticks"})["conversation"]["id"]
        self.expect("PUT", "/v1/schedules/tick", {"every_s": 5, "message": {"conversation_id": conversation, "content": TICK}})
        add = {"name": "todo_add", "arguments": {"subject": self.tenant.make_name("h")}}
        self.expect("PUT", "/v1/schedules/tock", {"every_s": 3, "tool": add})

    def add_webhook(self, url: str) -> None:
        """Webhooks are for administrators, as the first token of a tenant is."""
        self.expect("POST", "/v1/webhooks", {"url": f"{url}/{self.tenant.number}"})

    def end_schedules(self) -> None:
        for name in ("tick", "tock"):
            self.expect("DELETE", f"/v1/schedules/{name}", status=(200, 404))

    def answer_everything(self) -> None:
        """Decide all that is open, so that nothing waits any more."""
        for request in self.expect("GET", "/v1/inbox")["requests"]:
            self.respond(request)


def describe(path: str) -> str:
    """The path without ids."""
    parts = path.partition("?")[0].split("/")
    return "/".join("…" if part.isdigit() or len(part) > 20 else part for part in parts)


def add_tenant(base_url: str, operator: str, number: int) -> Tenant:
    """Create a tenant. A repeated answer would lack the secret, so each attempt has another name."""
    deadline = time.monotonic() + PATIENCE_S
    with httpx.Client(base_url=base_url, timeout=60, trust_env=False, verify=False) as http:
        for attempt in count(1):
            name = f"tenant {number}, attempt {attempt}"
            with suppress(httpx.TransportError):
                answer = http.post("/v1/tenants", json={"name": name}, headers={"Authorization": f"Bearer {operator}"})
                if answer.status_code not in AGAIN:
                    made = answer.raise_for_status().json()
                    return Tenant(number, made["tenant"]["id"], made["tenant"]["name"], made["secret"])
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
    raise NotAnswered(f"tenant {number} could not be created")
