"""What `headway serve` needs at scale: for a thousand runs that wait, for the streams of many tenants, and after much work."""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx

from bench import bare
from bench.engine_life import PATIENCE_S, find_process
from bench.harness import Measurements, Pace, Workshop, at_least, at_most, benchmark, in_turns, rate
from bench.http import start_server, stop
from bench.peers import errand
from bench.postgres import new_database
from bench.streams import EVENTS, Crowd, raise_file_limit
from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.model_server import ModelServer, Reply, Request, calls, environment, text

CALLERS = 8  # threads that send requests
SETTLE_S = 2.0
STUCK_S = 180.0  # turns that run together also end together, so nothing may change for a while


class Site(NamedTuple):
    """A server of its own, and a token of each tenant."""

    url: str
    process: "Popen[str]"
    database_url: str
    secrets: list[str]

    @property
    def kilobytes(self) -> float:
        time.sleep(SETTLE_S)
        return float(find_process(self.process.pid).memory_info().rss / 1024)

    def send(self, method: str, path: str, bodies: Iterable[Any]) -> None:
        """Send a request for each of these bodies, and raise an error unless all of them succeed."""
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=PATIENCE_S) as client:

            def send_one(numbered: tuple[int, Any]) -> None:
                headers = {"Authorization": f"Bearer {self.secrets[numbered[0] % len(self.secrets)]}"}
                answer = client.request(method, path, json=numbered[1], headers=headers)
                if answer.status_code >= 300:
                    raise RuntimeError(f"{method} {path} was answered with {answer.status_code}: {answer.text}")

            with ThreadPoolExecutor(CALLERS) as pool:
                list(pool.map(send_one, enumerate(bodies)))

    def start_turns(self, content: str, count: int) -> None:
        self.send("POST", "/v1/conversations", [{"message": {"content": content}}] * count)

    def wait_for(self, counting: str, expected: int) -> None:
        """Wait until a query counts this many rows of all tenants. Fail when the number does not change for a while."""

        def count(tx: Transaction) -> int:
            tx.enter_all_tenants()
            row = tx.one(f"SELECT COUNT(*) FROM {counting}")
            return int(row[0]) if row else 0

        with DirectDatabase(self.database_url) as database:
            before, changed_at = -1, 0.0
            while (found := database.read(count)) != expected:
                if found != before:
                    before, changed_at = found, time.monotonic()
                if time.monotonic() > changed_at + STUCK_S:
                    raise RuntimeError(f"there are still {found} {counting}, not {expected}, after {STUCK_S:.0f} s")
                time.sleep(0.1)


def open_site(
    shop: Workshop, name: str, variables: dict[str, str], tenant_count: int, each: int = 1, database_url: str = ""
) -> Site:
    """Start a server with these settings, so many tenants, and so many tokens of each."""
    home = shop.folder / name
    home.mkdir()
    database_url = database_url or f"sqlite:///{home / 'headway.db'}"
    url, process = start_server(shop, home, HEADWAY_DATABASE_URL=database_url, **variables)
    with DirectDatabase(database_url) as database:
        ids = [database.write(partial(tenants.add_tenant, name=f"tenant {number}")).id for number in range(tenant_count)]
        secrets = [database.write(partial(tokens.create_token, tenant_id=one)).secret for one in ids for _ in range(each)]
    return Site(url, process, database_url, secrets)


# Runs that wait

RUNS = 1_000
ENDED = 100  # turns that end first, so that both sides have loaded the same code
TENANTS = 10
WATCHED_S = 5.0
UNFINISHED = "jobs WHERE state IN ('queued', 'running', 'delayed')"
ASK, TELL = "Ask me which colour.", "Tell me a colour."
QUESTION = calls(("ask_person", {"question": "Which colour?", "choices": ["red", "blue"]}))


class State(NamedTuple):
    kilobytes: float
    percent: float  # of a core


class Waiting(NamedTuple):
    """A server without runs, and the same server with RUNS that wait."""

    none: State
    many: State


def answer(request: Request) -> Reply:
    return QUESTION if any(ASK in said for said in request.texts) else text("Red.")


def measure_waiting(shop: Workshop, *, for_people: bool) -> Waiting:
    raise_file_limit()
    model = shop.cleanup.enter_context(ModelServer(answer))
    name = "waiting-for-people" if for_people else "waiting-for-models"
    site = open_site(shop, name, {**environment(model), "HEADWAY_MODEL_TIMEOUT_S": "600"}, TENANTS)
    site.start_turns(TELL, Pace.size(ENDED, TENANTS))
    site.wait_for(UNFINISHED, 0)
    model.forget()
    none, runs = read_state(site), Pace.size(RUNS, TENANTS)
    if for_people:
        site.start_turns(ASK, runs)
        site.wait_for("requests WHERE state = 'open'", runs)
        site.wait_for("jobs WHERE state = 'running'", 0)
    else:
        model.hold()
        site.start_turns(TELL, runs)
        model.wait_for_requests(runs)
    many = read_state(site)
    stop(site.process)
    return Waiting(none, many)


def read_state(site: Site) -> State:
    kilobytes, before, start = site.kilobytes, read_processor_s(site.process.pid), time.perf_counter()
    time.sleep(Pace.size(WATCHED_S, 1.0))
    return State(kilobytes, 100 * (read_processor_s(site.process.pid) - before) / (time.perf_counter() - start))


def read_processor_s(pid: int) -> float:
    """Return the processor time of the threads that run, in nanoseconds' resolution: an idle server uses few of psutil's ticks."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


WAIT_FOR_PEOPLE, WAIT_FOR_MODELS = (partial(measure_waiting, for_people=for_people) for for_people in (True, False))
NONE = "the same server without them"


def compare_memory(waiting: Waiting) -> Measurements:
    return Measurements([waiting.many.kilobytes / 1024], [waiting.none.kilobytes / 1024], "MB")


def compare_processor_time(waiting: Waiting) -> Measurements:
    return Measurements([waiting.many.percent], [waiting.none.percent], "% of a core")


@benchmark("scale.waiting.people", "memory of `headway serve` on SQLite with 1,000 runs that wait for a person", NONE, at_most(1.5))
def memory_for_people(shop: Workshop) -> Measurements:
    return compare_memory(shop.once(WAIT_FOR_PEOPLE))


@benchmark("scale.waiting.people.cpu", "the same: processor time in a second without requests", NONE, at_most(2.0))
def processor_for_people(shop: Workshop) -> Measurements:
    return compare_processor_time(shop.once(WAIT_FOR_PEOPLE))


@benchmark("scale.waiting.models", "memory of `headway serve` on SQLite with 1,000 runs that wait for a model", NONE, None)
def memory_for_models(shop: Workshop) -> Measurements:
    return compare_memory(shop.once(WAIT_FOR_MODELS))


@benchmark("scale.waiting.models.cpu", "the same: processor time in a second without requests", NONE, None)
def processor_for_models(shop: Workshop) -> Measurements:
    return compare_processor_time(shop.once(WAIT_FOR_MODELS))


@benchmark(
    "scale.waiting.run", "memory that the server needs for a run that waits for a person", "for one that waits for a model", None
)
def memory_of_a_run(shop: Workshop) -> Measurements:
    runs = Pace.size(RUNS, TENANTS)
    people, models = (
        max(0.1, (waiting.many.kilobytes - waiting.none.kilobytes) / runs)  # the few runs of a trial may need no new page
        for waiting in (shop.once(WAIT_FOR_PEOPLE), shop.once(WAIT_FOR_MODELS))
    )
    return Measurements([people], [models], "KB")


# The streams of many tenants

EACH = 10  # streams of a tenant, or of a conversation
GROUPS = 100
STREAM_ROUNDS = 3
BATCH = 100


class Streams(NamedTuple):
    """The streams of a server, in groups: all streams of a group get the same events."""

    groups: list[Crowd]
    kilobytes: float  # that a stream has added


class TwoSites(NamedTuple):
    runner: asyncio.Runner
    tenants: Streams
    conversations: Streams


def open_streams(shop: Workshop) -> TwoSites:
    raise_file_limit()
    runner, count = asyncio.Runner(), Pace.size(GROUPS, 5)
    shop.cleanup.callback(runner.close)
    many = open_site(shop, "streams-of-tenants", {}, count)
    of_tenants = [follow(many, secret, "/v1/events") for secret in many.secrets]
    one = open_site(shop, "streams-of-conversations", {}, 1, each=count)
    with DirectDatabase(one.database_url) as database:
        tenant_id = database.read(lambda tx: tenants.get_by_name(tx, "tenant 0")).id
        ids = [database.write(partial(conversations.add_conversation, tenant_id=tenant_id)).id for _ in range(count)]
    of_conversations = [
        follow(one, secret, f"/v1/conversations/{number}/events", {"conversation_id": number})
        for secret, number in zip(one.secrets, ids, strict=True)
    ]
    return TwoSites(runner, gather(runner, many, of_tenants), gather(runner, one, of_conversations))


def follow(site: Site, secret: str, stream: str, fields: Mapping[str, int] = MappingProxyType({})) -> Crowd:
    """Return readers of a stream, which get the events of new todos with these fields."""
    body = json.dumps({"subject": bare.SUBJECT, **fields}).encode()
    return Crowd(site.url, stream, "/v1/todos", [secret], body, EACH)


def gather(runner: asyncio.Runner, site: Site, groups: list[Crowd]) -> Streams:
    """Open all streams, and let them deliver events once."""
    batch = {"todos": [{"subject": bare.SUBJECT}] * BATCH}
    site.send("POST", "/v1/todos", [batch] * (len(groups) * EVENTS // BATCH))  # fills SQLite's cache
    before = site.kilobytes
    for group in groups:
        runner.run(group.gather())
    deliver(runner, groups)
    return Streams(groups, (site.kilobytes - before) / (EACH * len(groups)))


def deliver(runner: asyncio.Runner, groups: list[Crowd]) -> float:
    """Return the deliveries a second when the events of each group follow each other as fast as they are accepted."""

    async def burst() -> None:
        await asyncio.gather(*(group.burst() for group in groups))

    return rate(EVENTS * EACH * len(groups), lambda: runner.run(burst()))


OF_CONVERSATIONS = "as many streams of 100 conversations of one tenant"


@benchmark(
    "scale.streams.tenants", "deliveries a second to 1,000 streams of 100 tenants, durable commits", OF_CONVERSATIONS, at_least(0.8)
)
def deliveries_to_tenants(shop: Workshop) -> Measurements:
    sites = shop.once(open_streams)
    ours, reference = (partial(deliver, sites.runner, streams.groups) for streams in (sites.tenants, sites.conversations))
    return in_turns(ours, reference, STREAM_ROUNDS, warm=False)


@benchmark("scale.streams.memory", "memory of a stream, among 1,000 of 100 tenants", OF_CONVERSATIONS, at_most(1.5))
def memory_of_streams(shop: Workshop) -> Measurements:
    sites = shop.once(open_streams)
    return Measurements([sites.tenants.kilobytes], [sites.conversations.kilobytes], "KB")


# Memory after much work

TODOS, TURNS, LISTS = 2_000, 100, 400  # in each half
ITERATIONS = 6


def work(request: Request) -> Reply:
    """Write a list, call a trivial tool a few times, complete the list and answer."""
    if request.assistant_turns >= ITERATIONS:
        return text("All done.")
    return calls(errand.call(request.assistant_turns, ITERATIONS))


def measure_growth(shop: Workshop, name: str, database_url: str = "") -> Measurements:
    """Do the same work twice, and compare the memory that the second half added with the memory after the first."""
    raise_file_limit()
    model = shop.cleanup.enter_context(ModelServer(work))
    site = open_site(shop, name, environment(model), TENANTS, database_url=database_url)
    with asyncio.Runner() as runner:
        halves = []
        for _ in range(2):
            work_hard(runner, site)
            model.forget()
            halves.append(site.kilobytes / 1024)
    stop(site.process)
    first, second = halves
    return Measurements([max(0.0, second - first)], [first], "MB")


def work_hard(runner: asyncio.Runner, site: Site) -> None:
    site.send("POST", "/v1/todos", [{"subject": f"todo {number}"} for number in range(Pace.size(TODOS, 50))])
    site.start_turns(errand.REQUEST, Pace.size(TURNS, TENANTS))
    site.wait_for(UNFINISHED, 0)
    for path in ("/v1/todos?limit=50", "/v1/conversations?limit=50"):
        site.send("GET", path, [None] * (Pace.size(LISTS, TENANTS) // 2))
    for secret in site.secrets:  # streams come, get events and go
        group = follow(site, secret, "/v1/events")
        runner.run(group.gather())
        runner.run(group.burst())
        runner.run(group.disperse())


HALF = f"{TODOS:,} todos, {TURNS} turns of {ITERATIONS + 1} model calls, {LISTS} lists, {TENANTS * EACH} streams"
FIRST_HALF = "its memory after the same work, done once before"


@benchmark("scale.work.memory", f"memory that `headway serve` on SQLite gains in {HALF}", FIRST_HALF, at_most(0.1))
def growth_on_sqlite(shop: Workshop) -> Measurements:
    return measure_growth(shop, "work")


@benchmark("scale.work.memory.pg", "the same on Postgres", FIRST_HALF, at_most(0.1))
def growth_on_postgres(shop: Workshop) -> Measurements:
    return measure_growth(shop, "work-pg", new_database(shop))
