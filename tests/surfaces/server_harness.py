"""Runs `headway serve` and connects to it over real sockets."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

from headway import trust
from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.ledger.errors import TenantMoving
from headway.ledger.tenancy import LOCAL_TENANT
from headway.storage.direct import DirectDatabase
from headway.storage.stores import worker_leases
from headway.surfaces.http.problems import is_openai_path
from headway.testing import FixedClock, TenantHarness
from tests.warm_start import Program

PATIENCE_S = 60


# Options for requests to a local server. Loading certificates would take 0.1 s, and plain HTTP needs none.
LOCAL_OPTIONS: dict[str, Any] = {"timeout": PATIENCE_S, "verify": False, "trust_env": False}


def client_options(url: str) -> dict[str, Any]:
    """Options for a client of this local server."""
    return {"base_url": url, **LOCAL_OPTIONS}


class Client(httpx.Client):
    """An HTTP client with a tenant's token. `desk` accesses the same tenant in the database, to set up tests."""

    def __init__(self, url: str, desk: TenantHarness) -> None:
        created = desk.write(tokens.create_token, "a test")
        self.desk = desk
        self.secret = created.secret
        self.token_id = created.token.id
        super().__init__(headers={"Authorization": f"Bearer {created.secret}"}, **client_options(url))

    def ok(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """Send a request that must return this status, and return the JSON of its response."""
        answer = self.request(method, path, **options)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        assert answer.headers["content-type"] == "application/json"
        return answer.json()

    def refused(self, method: str, path: str, status: int, code: str, **options: Any) -> str:
        """Send a request that must fail with this status and code, and return the detail of its response."""
        return check_problem(self.request(method, path, **options), status, code)

    def add(self, subject: str = "write it down", **fields: Any) -> dict[str, Any]:
        todo: dict[str, Any] = self.ok("POST", "/v1/todos", 201, json={"subject": subject, **fields})["todo"]
        return todo

    def change(self, todo: dict[str, Any], **fields: Any) -> dict[str, Any]:
        changed: dict[str, Any] = self.ok("PATCH", f"/v1/todos/{todo['id']}", json=fields)["todo"]
        return changed

    def subjects(self, **filters: Any) -> list[str]:
        return [todo["subject"] for todo in self.ok("GET", "/v1/todos", params={"limit": 500, **filters})["todos"]]

    def conversation(self, **fields: Any) -> int:
        return int(self.ok("POST", "/v1/conversations", 201, json=fields)["conversation"]["id"])

    def turn(self, conversation_id: int) -> str:
        return str(self.ok("POST", "/v1/turns", 201, json={"conversation_id": conversation_id})["turn"]["id"])

    def again(self) -> "Client":
        """Return another client of the same tenant, with a new token."""
        return Client(str(self.base_url), self.desk)


def admin_headers(client: Client) -> dict[str, str]:
    """Create a token for the administrator of the client's tenant. Return the headers that use it."""
    return {"Authorization": f"Bearer {client.desk.write(tokens.create_token, 'admin', scope='admin').secret}"}


def operator_headers(client: Client) -> dict[str, str]:
    """Create a token for the installation's operator. Return the headers that use it."""
    local = TenantHarness(client.desk.database, LOCAL_TENANT)
    return {"Authorization": f"Bearer {local.write(tokens.create_token, 'operator', scope='operator').secret}"}


def check_problem(answer: httpx.Response, status: int, code: str | None = None) -> str:
    """Check the format of an error response, which is the same everywhere, and return its detail."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    if is_openai_path(answer.request.url.path):
        return check_openai_error(answer, code)
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    extra = {"check_failed": ["failures"], "wrong_cell": ["cell", "location"]}.get(code or "", [])
    assert set(document) == {"title", "status", "detail", "code", *extra}
    assert document["status"] == status
    assert code in (None, document["code"]), document
    assert document["title"]
    assert document["detail"]
    return str(document["detail"])


def check_openai_error(answer: httpx.Response, code: str | None) -> str:
    """Check an error in the form of OpenAI's API, and return its message."""
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert code in (None, error["code"]), error
    assert error["message"]
    return str(error["message"])


class ServerExit(NamedTuple):
    code: int
    seconds: float


def parse_log_line(line: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(line)
    except ValueError:
        raise AssertionError(f"The server's log has a line that is not JSON: {line!r}") from None
    return parsed


class Service:
    """One server process and its database."""

    def __init__(self, process: Program, database_url: str, log: Path) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        self.announced: dict[str, Any] = json.loads(line)
        self.url = str(self.announced["url"])
        self.process = process
        self.database_url = database_url
        self.log = log
        self.database = DirectDatabase(database_url)

    @contextmanager
    def tenant(self) -> Iterator[Client]:
        """Open a client of a new tenant. At the end its work is stopped, so that none of it asks the model of the next test."""
        desk = TenantHarness(self.database, f"tenant {uuid4().hex}")
        try:
            with Client(self.url, desk) as client:
                yield client
        finally:
            if self.process.poll() is None:
                with suppress(TenantMoving):
                    self.database.write(lambda tx: tenants.shut_out(tx, desk.tenant))

    def read_metrics(self) -> dict[str, float]:
        answer = httpx.get(f"{self.url}/metrics", **LOCAL_OPTIONS)
        assert answer.headers["content-type"].startswith("text/plain")
        lines = (line.rsplit(" ", 1) for line in answer.text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def operator(self) -> Client:
        """Return a client of the tenant `local` with an operator's token."""
        client = Client(self.url, TenantHarness(self.database, LOCAL_TENANT))
        client.headers.update(operator_headers(client))
        return client

    @contextmanager
    def ago(self, seconds: float) -> Iterator[DirectDatabase]:
        """Open the same database with a clock that is this far in the past."""
        with DirectDatabase(self.database_url, FixedClock(int((time.time() - seconds) * 1000))) as earlier:
            yield earlier

    @contextmanager
    def beside(self, owner: str) -> Iterator[None]:
        """Another process is alive until the block ends, however long that takes."""
        with self.ago(-3_600) as later:
            later.write(lambda tx: worker_leases.record_heartbeat(tx, owner))
            try:
                yield
            finally:
                later.write(lambda tx: worker_leases.release_owner(tx, owner))

    def end(self, by: signal.Signals = signal.SIGTERM) -> ServerExit:
        start = time.monotonic()
        self.process.send_signal(by)
        return ServerExit(self.process.wait(PATIENCE_S), time.monotonic() - start)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of its log."""
        whole, _, _unfinished = self.log.read_text().rpartition("\n")
        return [parse_log_line(line) for line in whole.splitlines()]

    def close(self) -> None:
        self.database.close()
        if self.process.poll() is None:
            assert self.end().code == 0
        errors = [line for line in self.lines() if line["level"] == "error"]
        assert not errors, errors


def trust_folder(folder: Path) -> None:
    """Agree to the files that a test has put into a folder."""
    if (inspection := trust.inspect(str(folder))).needs_trust:
        trust.record_trust(inspection)


@contextmanager
def run_server(
    database_url: str, folder: Path, flags: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """Run `headway serve` until the block ends. The test fails if the server logged an error."""
    trust_folder(folder)
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")} | dict(environment or {})
    command = ["serve", "--json", "--port", "0", "--database-url", database_url, *flags]
    log = folder / f"log {uuid4().hex}"
    with (
        log.open("w") as stderr,
        Program(command, folder, env, (DEVNULL, PIPE, stderr)) as process,
    ):
        service: Service | None = None
        try:
            service = Service(process, database_url, log)
            yield service
            service.close()
        finally:
            process.kill()
            if service:
                service.database.close()


def wait_until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Poll until the condition is true."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)
