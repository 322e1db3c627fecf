"""One run: people act, processes break, and the witness compares. The seed repeats the choices, but not the timing."""

import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from tests.model_server import ModelServer
from tests.soak import script, witness
from tests.soak.assistant import Assistant
from tests.soak.people import Person, Tenant, add_tenant
from tests.soak.witness import Ledger, Mailbox, Reader
from tests.soak.world import Place, World

TENANTS = 3
PEOPLE = 2  # of each tenant
READERS = 4  # of each tenant's log
BETWEEN_ACTS_S = (0.1, 1.5)
BETWEEN_FAULTS_S = (3.0, 10.0)
BETWEEN_TENANTS_S = 15.0
DONE_S = 180
LAST_EVENT_S = 60


class Report(NamedTuple):
    seed: int
    did: Counter[str]
    happened: Counter[str]
    counts: dict[str, int]
    violations: list[str]


class Soak:
    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        self.stopped = threading.Event()
        self.violations: list[str] = []
        self.tenants = [add_tenant(world.base_url, world.operator, number) for number in range(1, TENANTS + 1)]
        self.people = [
            Person(world.base_url, tenant, [other for other in self.tenants if other is not tenant], f"{seed} {tenant.number} {n}")
            for tenant in self.tenants
            for n in range(PEOPLE)
        ]
        self.assistant = Assistant(world, seed)
        self.mailbox = Mailbox()
        self.readers = {
            tenant.id: [Reader(world.base_url, tenant.secret, tenant.number) for _ in range(READERS)] for tenant in self.tenants
        }

    def run(self, seconds: float) -> None:
        for person in self.people[::PEOPLE]:
            person.add_schedule()
            person.add_webhook(self.mailbox.url)
        threads = [threading.Thread(target=self.keep_acting, args=(person,)) for person in self.people]
        threads.append(threading.Thread(target=self.keep_assisting))
        threads.append(threading.Thread(target=self.keep_breaking))
        threads.append(threading.Thread(target=self.keep_moving_in_and_out))
        for thread in threads:
            thread.start()
        self.stopped.wait(seconds / 3)
        self.world.spare_some()
        self.stopped.wait(seconds * 2 / 3)
        self.stopped.set()
        for thread in threads:
            thread.join()
        self.world.wait_until_up()
        self.finish()

    def keep_acting(self, person: Person) -> None:
        while not self.stopped.is_set():
            self.attempt(person.act)
            self.stopped.wait(person.chance.uniform(*BETWEEN_ACTS_S))

    def keep_assisting(self) -> None:
        while not self.stopped.is_set():
            self.attempt(self.assistant.work)
            self.stopped.wait(self.assistant.chance.uniform(*BETWEEN_ACTS_S))

    def keep_breaking(self) -> None:
        while not self.stopped.wait(self.world.chance.uniform(*BETWEEN_FAULTS_S)):
            self.attempt(self.world.break_something)

    def keep_moving_in_and_out(self) -> None:
        """Tenants come, work for a while, and are deleted in the middle of it."""
        for number in count(TENANTS + 1):
            if self.stopped.wait(BETWEEN_TENANTS_S):
                return
            self.attempt(lambda number=number: self.visit(number))

    def visit(self, number: int) -> None:
        guest = Person(self.world.base_url, *self.move_in(number), f"{self.seed} {number}")
        with closing(guest.http):
            for _ in range(guest.chance.randint(2, 10)):
                guest.act()
            self.world.remove_tenant(guest.tenant.name)
            guest.check(guest.send("GET", "/v1/todos")[0] in (401, 404), "the token of a deleted tenant is refused")

    def move_in(self, number: int) -> tuple[Tenant, list[Tenant]]:
        return add_tenant(self.world.base_url, self.world.operator, number), self.tenants

    def attempt(self, act: Any) -> None:
        try:
            act()
        except Exception:  # noqa: BLE001  whatever it is, it is reported at the end
            self.violations.append(traceback.format_exc(limit=-3))
            print(self.violations[-1], file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Let everything end that began, and answer whatever it waits for."""
        for person in self.people[::PEOPLE]:
            self.attempt(person.end_schedules)
            self.attempt(person.restore_costs)
        with closing(Ledger(self.world.witness_url)) as ledger:
            self.wait_until_done(ledger)

    def wait_until_done(self, ledger: Ledger) -> None:
        deadline = time.monotonic() + DONE_S
        while not witness.is_done(ledger) and time.monotonic() < deadline:
            for person in self.people[::PEOPLE]:
                self.attempt(person.answer_everything)
            time.sleep(0.5)

    def check(self) -> Iterator[str]:
        notes = self.world.count_notes()
        yield from (f"{name} happened {times} times" for name, times in notes.items() if times > 1)
        with closing(Ledger(self.world.witness_url)) as ledger:
            for tenant in self.tenants:
                yield from self.check_log(ledger, tenant)
            self.wait_until_done(ledger)  # the last webhooks were delivered meanwhile
            yield from witness.list_violations(ledger, witness.ALWAYS | witness.AT_THE_END)
            yield from witness.check_tenants(ledger, {tenant.id: tenant.number for tenant in self.tenants})
            for tenant in self.tenants:
                yield from witness.check_turn_ends(ledger, tenant.id)
                yield from witness.check_turns(ledger, tenant.id, dict(tenant.turns))
                yield from witness.check_names(ledger, tenant.id, list(tenant.named))
                yield from witness.check_effects(ledger, tenant.id, tenant.number, notes)
            yield from self.assistant.check_rows(ledger)
        yield from self.world.violations
        yield from self.world.list_growth()

    def check_log(self, ledger: Ledger, tenant: Tenant) -> Iterator[str]:
        """Check that everyone who followed the tenant's log got all of it."""
        ((last,),) = ledger.rows(f"SELECT MAX(seq) FROM events WHERE tenant_id = {tenant.id}")
        for reader in self.readers[tenant.id]:
            wait_for_event(last, reader.list_seqs)
            yield from reader.violations
            yield from witness.check_events(ledger, tenant.id, reader.received)
        delivered = self.mailbox.received.setdefault(f"/{tenant.number}", [])
        wait_for_event(last, lambda: delivered)
        yield from witness.check_webhook(ledger, tenant.id, delivered)

    def count(self) -> dict[str, int]:
        with closing(Ledger(self.world.witness_url)) as ledger:
            tables = ("turns", "runs", "goals", "sub_goals", "effects", "requests", "todos", "jobs", "events", "model_calls")
            counts = {table: ledger.rows(f"SELECT COUNT(*) FROM {table}")[0][0] for table in tables}
            compactions = ledger.rows("SELECT COUNT(*) FROM events WHERE kind = 'compacted'")[0][0]
            return counts | {"compactions": compactions}

    def close(self) -> None:
        self.stopped.set()
        readers = list(chain.from_iterable(self.readers.values()))
        for reader in readers:
            reader.stopped.set()
        for reader in readers:
            reader.thread.join()
        for person in self.people:
            person.http.close()
        self.mailbox.close()


def wait_for_event(last: int, list_received: Callable[[], list[int]]) -> None:
    """Wait until the last event has arrived. If it does not, the check says so."""
    deadline = time.monotonic() + LAST_EVENT_S
    while not any(seq >= last for seq in list_received()[-1:]) and time.monotonic() < deadline:
        time.sleep(0.1)


def run_soak(folder: Path, place: Place, seconds: float, seed: int) -> Report:
    with ModelServer(script.reply) as model, ExitStack() as stack:
        world = stack.enter_context(closing(World(folder, place, model, seed)))
        soak = stack.enter_context(closing(Soak(world, seed)))
        soak.run(seconds)
        violations = [*soak.violations, *soak.check(), *model.violations]
        did = sum((person.did for person in soak.people), Counter({f"hook {name}": n for name, n in soak.assistant.did.items()}))
        return Report(seed, did, world.happened, soak.count(), violations)
