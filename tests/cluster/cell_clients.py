"""HTTP clients of tenants that are moved: they follow 421, send again what was not answered, and remember every answer."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

MAX_HOPS = 2  # answers with 421 that are followed in a row
PATIENCE_S = 120  # for one request, with all its repetitions
REST_S = 0.1  # between two attempts, and between two writes
STRAY = 0.2  # the share of requests that are sent to any cell, rather than to the one that answered last
TURN_EVERY_S = 3.0


class Stored(NamedTuple):
    """A todo that a cell has acknowledged."""

    id: int
    subject: str
    cell: str
    certain: bool  # whether this cell stored it: no attempt before it was left without an answer


class Client:
    """Sends requests of one tenant, each with an Idempotency-Key, until a cell has done it."""

    def __init__(self, secret: str, cells: Mapping[str, str], seed: int) -> None:
        self.cells = cells  # address → name
        self.chance = random.Random(seed)
        self.address = self.chance.choice(list(cells))
        self.http = httpx.Client(
            headers={"Authorization": f"Bearer {secret}"}, timeout=10, verify=False, trust_env=False, follow_redirects=False
        )
        self.is_abandoned = False
        self.surprises: list[str] = []
        self.refused = 0  # answers that said the tenant is being moved
        self.followed = 0

    def send(self, method: str, path: str, body: Any) -> tuple[Any, str, bool]:
        """Return the answer, the address that gave it, and whether every attempt was answered."""
        key, until, certain = uuid4().hex, time.monotonic() + PATIENCE_S, True
        if self.chance.random() < STRAY:
            self.address = self.chance.choice(list(self.cells))
        hops = 0
        while time.monotonic() < until and not self.is_abandoned:
            try:
                answer = self.http.request(method, self.address + path, json=body, headers={"Idempotency-Key": key})
            except httpx.HTTPError as error:  # the process was killed, or its cell is down
                certain = certain and isinstance(error, httpx.ConnectError)
                self.address = self.chance.choice(list(self.cells))
                time.sleep(REST_S)
                continue
            if answer.is_success:
                return (answer.json() if answer.content else None), self.address, certain
            if answer.status_code == 503 and b"tenant_moving" not in answer.content:
                certain = False  # the database was lost, perhaps after it had stored the change
            hops = self.handle_refusal(answer, hops)
        self.surprises.append(f"no answer within {PATIENCE_S} s: {method} {path}")
        raise TimeoutError(path)

    def handle_refusal(self, answer: httpx.Response, hops: int) -> int:
        """Choose where to send the request next. Returns how many answers with 421 were followed in a row."""
        code = answer.json().get("code") if "json" in answer.headers.get("content-type", "") else ""
        if answer.status_code == 421 and hops < MAX_HOPS:
            self.address = answer.json()["location"]
            self.followed += 1
            return hops + 1
        if answer.status_code == 503 or code == "key_busy":
            self.refused += code == "tenant_moving"
        elif answer.status_code != 421:  # a third 421 in a row means that the tenant has moved on meanwhile
            self.surprises.append(f"{answer.status_code} {code} from {self.cells[self.address]}")
        time.sleep(REST_S)
        return 0


class Load:
    """Threads that write for one tenant until they are stopped: todos, and turns of agents."""

    def __init__(self, tenant: str, secret: str, cells: Mapping[str, str], writers: int) -> None:
        self.tenant = tenant
        self.stored: list[Stored] = []
        self.turns: list[str] = []  # names of turns that were acknowledged
        self.stopped = threading.Event()
        self.clients = [Client(secret, cells, hash((tenant, number)) & 0xFFFF) for number in range(writers + 1)]
        self.threads = [threading.Thread(target=self._run, args=[self.write_todos, client]) for client in self.clients[1:]]
        self.threads.append(threading.Thread(target=self._run, args=[self.start_turns, self.clients[0]]))

    def _run(self, work: Callable[[Client], None], client: Client) -> None:
        try:
            work(client)
        except TimeoutError:
            pass  # it is among the surprises
        except Exception as error:  # noqa: BLE001  shown at the end
            client.surprises.append(repr(error))

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Wait until every request that was sent has been answered."""
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def abandon(self) -> None:
        """Do not wait for answers, because the row has ended."""
        for client in self.clients:
            client.is_abandoned = True
        self.stop()

    def write_todos(self, client: Client) -> None:
        while not self.stopped.wait(REST_S):
            subject = f"{self.tenant} {uuid4().hex}"
            document, address, certain = client.send("POST", "/v1/todos", {"subject": subject})
            self.stored.append(Stored(int(document["todo"]["id"]), subject, client.cells[address], certain))

    def start_turns(self, client: Client) -> None:
        number = 0
        while not self.stopped.wait(TURN_EVERY_S):
            name = f"{self.tenant}_f{number}"
            opened, _, _ = client.send("POST", "/v1/conversations", {})
            path = f"/v1/conversations/{opened['conversation']['id']}/messages"
            client.send("POST", path, {"content": f"Note {name}."})
            self.turns.append(name)
            number += 1

    @property
    def surprises(self) -> list[str]:
        return [f"{self.tenant}: {surprise}" for client in self.clients for surprise in client.surprises]


def count_changes_of_owner(stored: Sequence[Stored]) -> int:
    """How often the cell changes, if the todos are ordered by id. The ids of a tenant grow, so with one owner at a time the cell
    changes once per move; two cells that both accept writes would alternate, or give an id twice."""
    cells = [todo.cell for todo in sorted(stored) if todo.certain]
    return sum(before != after for before, after in pairwise(cells))


def list_repeated_ids(stored: Sequence[Stored]) -> list[int]:
    """The ids that were given to two todos."""
    subjects: dict[int, set[str]] = {}
    for todo in stored:
        subjects.setdefault(todo.id, set()).add(todo.subject)
    return [todo_id for todo_id, found in subjects.items() if len(found) > 1]
