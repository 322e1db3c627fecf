"""Worker processes on one database, a model that outlives them, and checks of the final state."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple

from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.events import TURN_ENDS
from headway.ledger.job import LEASE_MS
from headway.storage.transaction import Row, Transaction
from headway.testing import TenantHarness
from tests.journeys.forked_process import age_beats
from tests.model_server import Reachable, environment
from tests.surfaces.server_harness import wait_until
from tests.warm_start import Program

OWN = '''
from pathlib import Path
from headway.agents.tools.custom import tool

NOTES = Path(__file__).parent.parent / "notes.txt"

@tool
def note(name: str) -> str:
    """Notes a name."""
    with NOTES.open("a") as file:
        print(name, file=file)
    return "noted"
'''
FOREVER_S = 600
ENDING_S = 120  # ten times what a worker takes on a busy machine


def make_home(folder: Path) -> Path:
    """A home folder with a tool whose effect can be counted and must not be repeated."""
    (folder / "home" / "tools").mkdir(parents=True)
    (folder / "home" / "tools" / "own.py").write_text(OWN)
    return folder / "home"


def count_notes(folder: Path) -> Counter[str]:
    path = folder / "home" / "notes.txt"
    return Counter(path.read_text().split() if path.exists() else [])


def build_environment(folder: Path, model: Reachable, **settings: str) -> dict[str, str]:
    """The environment of every worker and server."""
    chosen = {f"HEADWAY_{name.upper()}": value for name, value in settings.items()}
    return {**environment(model), "HEADWAY_HOME": str(folder / "home"), "SSL_CERT_DIR": str(folder), **chosen}


# Rules of the model. Each turn has a name, notes it once, and reports that it did.


def make_names(numbers: Iterable[int]) -> list[str]:
    return [f"n{number:03}" for number in numbers]


def build_rules(names: Iterable[str], stuck_before: Iterable[str] = (), stuck_after: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rules for these turns. The first request of a stuck turn, before or after its note, is never answered; its repetition is."""
    before, after = set(stuck_before), set(stuck_after)
    rules: list[dict[str, Any]] = []
    for name in names:
        call = {"calls": [{"name": "note", "arguments": {"name": name}}]}
        for reply, results, stuck in ((call, 0, name in before), ({"text": f"Noted {name}."}, 1, name in after)):
            when = {"contains": f"Note {name}.", "tool_results": results}
            rules += [{"when": when, "reply": {**reply, "seconds": FOREVER_S}, "times": 1}] * stuck
            rules.append({"when": when, "reply": reply})
    return rules


def enqueue(desk: TenantHarness, names: Iterable[str], limit: int = 10) -> list[str]:
    """Queue a turn per name, each in a new conversation, and return their ids."""

    def start(tx: Transaction, tenant_id: int) -> list[str]:
        turn_ids = []
        for name in names:
            conversation = conversations.add_conversation(tx, tenant_id)
            run = turns.start_turn(tx, tenant_id, conversation.id, turns.TurnRequest(f"Note {name}.", limit=limit))
            turn_ids.append(str(run.turn_id))
        return turn_ids

    return desk.write(start)


# Workers


class Worker(NamedTuple):
    process: Program
    owner: str  # its name in `jobs.owner`

    def send(self, what: signal.Signals) -> None:
        """Send a signal. SIGSTOP stops the threads when the one that handles it gets a core, and the others run until then."""
        os.kill(self.process.pid, what)
        if what == signal.SIGSTOP:
            wait_until(lambda: self.thread_states == {"T"}, "the process stops")

    @property
    def thread_states(self) -> set[str]:
        """The states of its threads, as /proc shows them. T: stopped."""
        return {path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{self.process.pid}/task").glob("*/stat")}

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.send(by)
        return self.process.wait(ENDING_S)


@contextmanager
def run_worker(database_url: str, folder: Path, env: Mapping[str, str]) -> Iterator[Worker]:
    """Run `headway worker` until the block ends."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    command = ["worker", "--json", "--database-url", database_url]
    with Program(command, folder, {**own, **env}, (DEVNULL, PIPE, 2)) as process:
        try:
            assert process.stdout is not None
            yield Worker(process, str(json.loads(process.stdout.readline())["worker"]))
        finally:
            process.kill()


def expire_leases(desk: TenantHarness, owner: str = "%") -> None:
    """Move the last heartbeats back until the leases of matching workers have expired."""
    desk.database.write(lambda tx: age_beats(tx, LEASE_MS + 1, owner))


# The final state


def read_rows(desk: TenantHarness, sql: str, *parameters: Any) -> list[Row]:
    return desk.database.read(lambda tx: tx.all(sql, *parameters))


def count_owners(desk: TenantHarness) -> Counter[str]:
    """The number of running jobs per worker."""
    return Counter(str(owner) for (owner,) in read_rows(desk, "SELECT owner FROM jobs WHERE state = 'running'"))


def count_unfinished(desk: TenantHarness) -> int:
    return len(read_rows(desk, "SELECT id FROM turns WHERE ended_at = 0"))


def list_events(desk: TenantHarness, kind: str) -> list[dict[str, Any]]:
    return [json.loads(data) for name, data in desk.events() if name == kind]


def wait_until_all_end(desk: TenantHarness) -> None:
    wait_until(lambda: count_unfinished(desk) == 0, "every turn ends")


def check_each_ended_once(desk: TenantHarness, names: Iterable[str]) -> None:
    """Check that each turn has one user message, one effect, one answer and one end."""
    expected = sorted(names)
    messages = Counter(desk.read(lambda tx, tenant_id: tx.all("SELECT role, content FROM messages WHERE tenant_id = ?", tenant_id)))
    assert messages == Counter(
        [("user", f"Note {name}.") for name in expected] + [("assistant", f"Noted {name}.") for name in expected]
    )
    ends = [(kind, json.loads(data)["turn_id"]) for kind, data in desk.events() if kind in TURN_ENDS]
    assert {kind for kind, _ in ends} == {"turn_finished"}
    assert len(ends) == len({turn_id for _, turn_id in ends}) == len(expected)
    effects = desk.read(lambda tx, tenant_id: tx.all("SELECT arguments, state FROM effects WHERE tenant_id = ?", tenant_id))
    found = sorted((json.loads(arguments)["name"], state) for arguments, state in effects)
    assert found == [(name, "succeeded") for name in expected], found
    assert len(list_events(desk, "tool_call")) == len(list_events(desk, "tool_result")) == len(expected)
    states = desk.read(lambda tx, tenant_id: tx.all("SELECT state, owner FROM jobs WHERE tenant_id = ?", tenant_id))
    assert set(states) == {("completed", "")}
