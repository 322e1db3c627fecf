"""/healthz, /readyz and /metrics: the endpoints for operators."""

import json
import re
from dataclasses import replace
from pathlib import Path
from time import monotonic

import httpx

from tests.model_server import MODEL, ModelServer, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import LOCAL_OPTIONS, Client, Service, check_problem, run_server, wait_until

ROOT = Path(__file__).parents[2]


def request_metric(method: str, route: str, status: int) -> str:
    return f'headway_http_requests_total{{method="{method}",route="{route}",status="{status}"}}'


def test_health_needs_no_token(service: Service) -> None:
    with httpx.Client(base_url=service.url, **LOCAL_OPTIONS) as visitor:
        assert visitor.get("/healthz").json() == {"ok": True}
        wait_until(lambda: visitor.get("/readyz").is_success, "the server has not stood still for five seconds")
        assert visitor.get("/readyz").json() == {
            "ready": True,
            "checks": {"database": True, "migrations": True, "feed": True, "worker": True, "loop": True},
        }
        assert visitor.get("/metrics").status_code == 200


def test_tokens_of_model_calls_are_counted_by_model(
    sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    names = ("calls", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "cost_usd")

    def read_counters() -> list[float]:
        metrics = sqlite_chat_service.read_metrics()
        return [metrics.get(f'headway_model_{name}_total{{model="openai-chat:{MODEL}"}}', 0) for name in names]

    before = read_counters()
    model.script = lambda _: replace(text("hello", usage=(2_000, 300)), cached=1_500)
    wait_for_turn(sqlite_chatter, say(sqlite_chatter, sqlite_chatter.conversation()))
    assert [after - earlier for after, earlier in zip(read_counters(), before, strict=True)] == [1, 2_000, 1_500, 0, 300, 0]


def test_the_queue_and_ended_jobs_are_counted(sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer) -> None:
    ended = 'headway_jobs_ended_total{kind="turn",state="completed"}'
    before = sqlite_chat_service.read_metrics()
    model.script = lambda _: text("hello")
    wait_for_turn(sqlite_chatter, say(sqlite_chatter, sqlite_chatter.conversation()))

    wait_until(lambda: sqlite_chat_service.read_metrics().get(ended, 0) == before.get(ended, 0) + 1, "the turn is counted")
    after = sqlite_chat_service.read_metrics()
    assert after["headway_workers"] == 1
    assert {f'headway_jobs{{state="{state}"}}' for state in ("due", "running", "dead")} <= after.keys()
    assert after["headway_oldest_due_job_seconds"] >= 0


def test_the_dashboard_and_the_documents_name_metrics_that_exist(service: Service) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
    published = httpx.get(f"{service.url}/metrics", **LOCAL_OPTIONS).text
    families = set(re.findall(r"^# TYPE (\w+) ", published, re.M))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for expression in expressions for name in re.findall(r"headway_\w+", expression)}

    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = [cell for cell in re.findall(r"^\| (`headway_[^|]+) \|", page, re.M) for cell in re.findall(r"headway_\w+", cell)]

    assert len(named) > 10
    assert len(rows) > len(named)
    assert {name for name in (*named, *rows) if name.removesuffix("_bucket") not in families} == set()


def test_requests_are_counted_by_route_and_never_by_path(client: Client, service: Service) -> None:
    before = service.read_metrics()
    todo = client.add()
    for path in (
        f"/v1/todos/{todo['id']}",
        f"/v1/todos/{todo['id']}",
        "/v1/todos/777777777",
        "/secret-path",
        "/v1/todos?status=pending",
    ):
        client.get(path)
    client.post("/v1/todos", json={})
    after = service.read_metrics()

    for name, count in (
        (request_metric("GET", "/v1/todos/{todo_id}", 200), 2),
        (request_metric("GET", "/v1/todos/{todo_id}", 404), 1),
        (request_metric("GET", "/v1/todos", 200), 1),
        (request_metric("GET", "unmatched", 404), 1),
        (request_metric("POST", "/v1/todos", 201), 1),
        (request_metric("POST", "/v1/todos", 422), 1),
        ('headway_http_request_seconds_count{method="POST",route="/v1/todos"}', 2),
    ):
        assert after[name] - before.get(name, 0) == count, name
    whole = " ".join(after)
    assert not re.search("777777777|secret-path|status=pending", whole)


def test_todos_are_counted_by_status_over_all_tenants(service: Service) -> None:
    before = service.read_metrics()
    for count, status in enumerate(("pending", "in_progress", "completed", "canceled"), 1):
        for _ in range(count):
            with service.tenant() as client:
                client.add(status=status)
    after = service.read_metrics()

    growth = {name: after[name] - before[name] for name in after if name.startswith("headway_todos{")}
    assert growth == {
        'headway_todos{status="pending"}': 1,
        'headway_todos{status="in_progress"}': 2,
        'headway_todos{status="completed"}': 3,
        'headway_todos{status="canceled"}': 4,
    }


def test_streams_and_their_events_are_counted(client: Client, service: Service) -> None:
    wait_until(lambda: service.read_metrics()["headway_open_streams"] == 0, "streams of earlier tests end")
    before = service.read_metrics()
    with open_stream(client) as stream:
        client.add()
        stream.take(1)
        during = service.read_metrics()
    wait_until(lambda: service.read_metrics()["headway_open_streams"] == 0, "the stream ends")

    assert during["headway_open_streams"] == 1
    assert during["headway_events_delivered_total"] - before["headway_events_delivered_total"] == 1


def test_an_open_stream_does_not_count_as_a_slow_answer(client: Client, service: Service) -> None:
    spent = 'headway_http_request_seconds_sum{method="GET",route="/v1/events"}'
    count = spent.replace("_sum", "_count")
    wait_until(lambda: service.read_metrics()["headway_open_streams"] == 0, "streams of earlier tests end")
    before = service.read_metrics()
    began = monotonic()
    with open_stream(client):
        opened = monotonic() - began
        while (duration := monotonic() - began) < 10 * opened:  # however long it took the machine to open the stream
            client.add()
    wait_until(lambda: service.read_metrics().get(count, 0) == before.get(count, 0) + 1, "the stream is counted")

    assert service.read_metrics()[spent] - before.get(spent, 0) < duration / 2


def test_a_database_of_a_newer_headway_is_not_ready(tmp_path: Path) -> None:
    with run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as service:
        service.database.write(lambda tx: tx.run("INSERT INTO migrations (number, name, applied_at) VALUES (9999, 'later', 0)"))

        detail = check_problem(httpx.get(f"{service.url}/readyz", **LOCAL_OPTIONS), 503, "not_ready")
        assert "migrations" in detail
        assert httpx.get(f"{service.url}/healthz", **LOCAL_OPTIONS).status_code == 200
