"""A Postgres outage: responses while it lasts, and automatic recovery afterwards."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.surfaces.event_stream import list_logged_ids, open_stream
from tests.surfaces.postgres_wire import Wire, open_wire
from tests.surfaces.server_harness import LOCAL_OPTIONS, Client, Service, check_problem, run_server, wait_until


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Wire]:
    with open_wire(postgres_url) as opened:
        yield opened


@pytest.fixture
def service(wire: Wire, tmp_path: Path) -> Iterator[Service]:
    """A server whose database connection can be cut."""
    with run_server(wire.url, tmp_path) as started:
        yield started


@pytest.fixture
def client(service: Service, postgres_url: str) -> Iterator[Client]:
    """A tenant whose harness has its own database connection, which is not cut."""
    with DirectDatabase(postgres_url) as database, Client(service.url, TenantHarness(database)) as visitor:
        yield visitor


def test_an_outage_is_503_and_ends_and_no_stream_ends_or_misses_anything(client: Client, service: Service, wire: Wire) -> None:
    with open_stream(client) as stream, open_stream(client, params={"after": "0"}) as other:
        client.add("before")
        wire.cut()
        refused = [client.get("/readyz"), client.get("/v1/todos"), client.post("/v1/todos", json={"subject": "lost"})]
        alive = client.get("/healthz")
        client.desk.add("meanwhile")
        wire.reconnect()
        wait_until(lambda: client.get("/readyz").status_code == 200, "the server is ready again")
        client.add("after")
        changes = [stream.changes(3), other.changes(3)]

    for answer in refused:
        assert "Postgres cannot be reached" in check_problem(answer, 503, "database_unreachable")
        assert int(answer.headers["retry-after"]) > 0
    assert alive.status_code == 200
    assert changes == [[("created", "before"), ("created", "meanwhile"), ("created", "after")]] * 2
    assert client.subjects() == ["before", "meanwhile", "after"]
    assert len(list_logged_ids(client)) == 3


def test_a_server_without_its_database_still_stops_at_once(service: Service, wire: Wire) -> None:
    with httpx.Client(**LOCAL_OPTIONS) as visitor:
        assert visitor.get(f"{service.url}/readyz").status_code == 200
        wire.cut()
        assert visitor.get(f"{service.url}/readyz").status_code == 503
    service.database.close()

    ended = service.end()
    assert ended.code == 0
    assert ended.seconds < 30
