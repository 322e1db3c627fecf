"""Tokens: who comes in, who does not, and what a stranger can learn."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from documented import Operation, operations
from serving import Client, Service, plain, problem

from headway.actions import goals, jobs, tenants
from headway.actions.goals import NewGoal
from headway.storage import tenant_store

MANY_PLACES = json.dumps([{"id": 1, "position": 1}] * 500).encode()
CHANGES_BY_ITSELF = ("date", "x-request-id", "ratelimit-remaining", "content-length")


@pytest.fixture
def stranger(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(**plain(service.url)) as visitor:
        yield visitor


def is_guarded(operation: Operation) -> bool:
    return operation.path.startswith("/v1/")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer hw_",
        "Bearer hw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "Bearer \xff\xfe",
        "Basic aHc6aHc=",
        "hw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "Bearer " + "x" * 10_000,
    ],
)
def test_nobody_comes_in_without_a_token(stranger: httpx.Client, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = stranger.get("/v1/todos", headers=headers)

    assert "headway token new" in problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_stranger_hears_only_that_they_are_one_whatever_else_is_wrong(stranger: httpx.Client) -> None:
    headers = {"Authorization": "Bearer hw_wrong", "Content-Type": "application/json"}
    for operation in filter(is_guarded, operations(stranger)):
        bad: list[dict[str, Any]] = [{}, {"params": {"limit": "x", "after": "x", "cursor": "x"}}]
        if operation.takes_body:
            bad = [{"content": body} for body in (b"{}", b"nonsense", b" " * 2_000_000, b'{"subject": "\\u0000"}', MANY_PLACES)]
            bad.append({"content": b"text", "headers": headers | {"Content-Type": "text/plain"}})
        for options in bad:
            for place in (1, "abc", 0):
                answer = stranger.request(operation.method, operation.at(place), **{"headers": headers, **options})
                problem(answer, 401, "unauthorized")


def test_the_scheme_is_bearer_in_any_case(client: Client) -> None:
    for header in (f"bearer {client.secret}", f"BEARER   {client.secret}"):
        assert client.get("/v1/todos", headers={"Authorization": header}).status_code == 200


def test_a_revoked_token_is_refused_at_the_very_next_request(client: Client) -> None:
    assert client.get("/v1/todos").status_code == 200
    client.desk.write(tenants.revoke_token, client.token_id)

    for method, body in (("GET", None), ("POST", {"subject": "too late"})):
        client.refused(method, "/v1/todos", 401, "unauthorized", json=body)
    assert client.desk.subjects() == []


def test_a_token_of_a_tenant_that_is_gone_is_refused(client: Client) -> None:
    client.desk.database.write(lambda tx: tenants.remove(tx, client.desk.tenant.name))

    client.refused("GET", "/v1/todos", 401, "unauthorized")


def test_a_token_that_has_expired_is_refused(client: Client, service: Service) -> None:
    with service.ago(3600) as earlier:
        over = earlier.write(lambda tx: tenants.new_token(tx, client.desk.tenant.id, lifetime_s=3500))
        live = earlier.write(lambda tx: tenants.new_token(tx, client.desk.tenant.id, lifetime_s=7200))

    problem(client.get("/v1/todos", headers={"Authorization": f"Bearer {over.secret}"}), 401, "unauthorized")
    assert client.get("/v1/todos", headers={"Authorization": f"Bearer {live.secret}"}).status_code == 200


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("POST", {"subject": "x"}), ("GET", "refused")])
def test_the_last_use_of_a_token_is_recorded(client: Client, method: str, body: Any) -> None:
    def last_used() -> int:
        (token,) = client.desk.read(tenant_store.tokens)
        return token.last_used_at

    assert last_used() == 0
    if body == "refused":
        client.refused("GET", "/v1/todos", 422, "invalid", params={"limit": 0})
    else:
        assert client.request(method, "/v1/todos", json=body).is_success
    assert last_used() > 0


class Ids:
    """What a request can name: a conversation, a turn in it, a todo."""

    def __init__(self, conversation: int, turn: str, todo: int, job: str, schedule: str, goal: int) -> None:
        self.conversation = conversation
        self.turn = turn
        self.todo = todo
        self.job = job
        self.schedule = schedule
        self.goal = goal

    def fill(self, path: str) -> str:
        return (
            path.replace("{todo_id}", str(self.todo))
            .replace("{goal_id}", str(self.goal))
            .replace("{conversation_id}", str(self.conversation))
            .replace("{turn_id}", self.turn)
            .replace("{job_id}", self.job)
            .replace("{run_id}", self.job)
            .replace("/schedules/{name}", f"/schedules/{self.schedule}")
            .replace("{name}", "todo_update")
        )

    def bodies(self, operation: Operation) -> list[Any]:
        """Bodies that name one of these, for routes that take one."""
        if not operation.takes_body:
            return [None]
        named = {
            ("POST", "/v1/todos"): [
                {"subject": "x", "conversation_id": self.conversation},
                {"subject": "x", "turn_id": self.turn},
                {"subject": "x", "depends_on": [self.todo]},
                {"todos": [{"subject": "x"}, {"subject": "x", "depends_on": [self.todo]}]},
            ],
            ("PATCH", "/v1/todos"): [[{"id": self.todo, "status": "completed", "force": True}]],
            ("PATCH", "/v1/todos/{todo_id}"): [{"status": "completed", "force": True}, {}],
            ("POST", "/v1/todos/claim"): [{"agent_id": "ada", "conversation_id": self.conversation}],
            ("POST", "/v1/todos/{todo_id}/heartbeat"): [{"lease_token": "guessed"}],
            ("POST", "/v1/turns"): [{"conversation_id": self.conversation}],
            ("POST", "/v1/conversations/{conversation_id}/messages"): [{"content": "hello"}],
            ("POST", "/v1/ag-ui"): [{"threadId": "theirs", "runId": "1", "messages": [{"role": "user", "content": "hello"}]}],
            ("POST", "/v1/ui-stream"): [{"id": "theirs", "messages": [{"role": "user", "content": "hello"}]}],
            ("POST", "/v1/conversations"): [{"key": "free"}],
            ("POST", "/v1/goals"): [{"description": "x"}],
            ("POST", "/v1/goals/{goal_id}/decision"): [{"action": "abandon"}],
            ("PUT", "/v1/schedules/{name}"): [
                {"every_s": 60, "message": {"conversation_id": self.conversation, "content": "go"}},
                {"every_s": 60, "tool": {"name": "now", "conversation_id": self.conversation}},
            ],
            ("PUT", "/v1/halt"): [{}],
            ("PUT", "/v1/costs"): [{"limit_usd": 1}],
            ("POST", "/v1/tools/{name}"): [
                {"arguments": {"id": self.todo, "status": "completed"}},
                {"arguments": {}, "conversation_id": self.conversation},
                {"arguments": {}, "turn_id": self.turn},
            ],
            ("POST", "/v1/writs"): [
                {"text": f"/todo done {self.todo}"},
                {"text": "/todo list", "conversation_id": self.conversation},
            ],
        }
        return named[operation.method, operation.path]

    def queries(self, operation: Operation) -> list[dict[str, Any]]:
        parameters = {one["name"] for one in operation.definition.get("parameters", ()) if one["in"] == "query"}
        named: dict[str, Any] = {"conversation_id": self.conversation, "turn_id": self.turn, "goal_id": self.goal}
        return [{name: value} for name, value in named.items() if name in parameters] or [{}]

    def as_if(self, other: "Ids", text: str) -> str:
        """What was said of the other ids, as if it had been said of these."""
        pairs = (
            (other.conversation, self.conversation),
            (other.turn, self.turn),
            (other.todo, self.todo),
            (other.job, self.job),
            (other.schedule, self.schedule),
            (other.goal, self.goal),
        )
        for before, after in pairs:
            text = text.replace(str(before), str(after))
        return text


NOTHING = Ids(
    777_777_777_777_777,
    "7d444840-9dc0-11d1-b245-5ffdce74fad2",
    888_888_888_888_888,
    "7d444840-9dc0-11d1-b245-5ffdce74fad3",
    "nobodys-daily",
    666_666_666_666_666,
)


def lasting(answer: httpx.Response) -> list[tuple[str, str]]:
    return [(name, value) for name, value in answer.headers.items() if name not in CHANGES_BY_ITSELF]


def test_what_belongs_to_another_tenant_is_answered_like_what_never_was(client: Client, service: Service) -> None:
    with service.tenant() as owner:
        conversation = owner.conversation()
        turn = owner.turn(conversation)
        todo = owner.add(conversation_id=conversation)["id"]
        begun = owner.desk.write(jobs.new, "tool", {"name": "now", "arguments": {}}, owner="somebody")
        job = owner.desk.database.write(lambda tx: jobs.die(tx, begun, "made up")).id
        every_day = {"every_s": 86_400, "message": {"conversation_id": conversation, "content": "go"}}
        owner.ok("PUT", "/v1/schedules/somebodys-daily", json=every_day)
        goal = owner.desk.write(goals.propose, NewGoal("peace"), "it is wanted").id
        foreign = Ids(conversation, turn, todo, job, "somebodys-daily", goal)
        before = owner.desk.events()
        asked = 0
        for operation in filter(is_guarded, operations(client)):
            of_foreign = [(query, body) for query in foreign.queries(operation) for body in foreign.bodies(operation)]
            of_nothing = [(query, body) for query in NOTHING.queries(operation) for body in NOTHING.bodies(operation)]
            if of_foreign == of_nothing and foreign.fill(operation.path) == NOTHING.fill(operation.path):
                continue  # it names nothing
            for (query, body), (other_query, other_body) in zip(of_foreign, of_nothing, strict=True):
                theirs = client.request(operation.method, foreign.fill(operation.path), params=query, json=body)
                never = client.request(operation.method, NOTHING.fill(operation.path), params=other_query, json=other_body)
                assert (theirs.status_code, theirs.text) == (never.status_code, foreign.as_if(NOTHING, never.text)), operation
                assert lasting(theirs) == lasting(never)
                asked += 1
        assert asked > 20
        assert owner.desk.events() == before


def test_each_tenant_sees_its_own_rows_alone(client: Client, service: Service) -> None:
    with service.tenant() as other:
        client.add("ours")
        other.add("theirs")
        client.conversation(title="ours")

        assert (client.subjects(), other.subjects()) == (["ours"], ["theirs"])
        assert other.ok("GET", "/v1/conversations") == {"conversations": []}
        claimed = other.ok("POST", "/v1/todos/claim", json={"agent_id": "ada"})
        assert claimed["todo"]["subject"] == "theirs"
        assert other.post("/v1/todos/claim", json={"agent_id": "ada"}).status_code == 204
