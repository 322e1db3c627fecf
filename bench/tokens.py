"""What a job costs in tokens: the same scripted work through Headway and its peers, captured over HTTP.

An agent reads files, notes a fact of each in its plan, and reports all facts (peers/stations.py). The model behind all of them is
one scripted server, which counts what it is sent and what it answers (peers/scripted_model.py). Counts hardly vary, so one round is
enough.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from bench.harness import Measurements, Unavailable, Workshop, at_least, at_most, benchmark, open_workshop, progress
from bench.peer import DEEPAGENTS_READER, LANGCHAIN_READER, OPENAI_READER, PYDANTIC_READER, SCRIPTED_MODEL
from bench.peers import stations
from bench.report import aligned

LENGTHS = (12, 30, 60)
# Nothing is shortened in a job of 12 steps, so only the plan's own tokens can be saved: see RESULTS.md.
BILL_TARGETS = {12: 0.95, 30: 0.7, 60: 0.7}
SMALL_WINDOW = 32_000  # tokens; small enough for compactions
TENANT = "1"  # the local tenant of a new database
FEW = 20  # steps whose mean cost is compared: nearly a whole cycle of stubs
JOB = "dollar cents for a job of {steps} steps, a file of 2 to 20 KB each"
CHEAPEST = "the cheapest peer that keeps a plan and the same facts"
FACTS = "facts in view after 60 steps, or one call away"
NO_PLAN = "pydantic-ai without any plan"


class Product(NamedTuple):
    """A way to do the job."""

    protocol: str  # how the model keeps the plan: headway, todos or no plan
    read_arguments: dict[str, Any]
    work: Callable[["Job", str, int], None]


class Run(NamedTuple):
    """What a job cost."""

    agent: str
    steps: int
    figures: dict[str, Any]

    @property
    def cents(self) -> float:
        return float(100 * self.figures["dollars"])

    @property
    def cacheable(self) -> float:
        return float(100 * self.figures["cached"] / self.figures["input"])

    @property
    def facts(self) -> int:
        """Both facts of every file count, if they are in view at the end or one call away."""
        view = self.figures["view"]
        return int(view["codes"] + view["keepers"] + view["one_call_away"])

    def as_row(self) -> dict[str, Any]:
        kept = {name: self.figures[name] for name in ("calls", "input", "output", "largest", "view")}
        return {"agent": self.agent, "steps": self.steps, "cacheable": self.cacheable, "cents": self.cents, **kept}


class Job:
    """Runs each product once and keeps its figures."""

    def __init__(self, shop: Workshop) -> None:
        self.shop = shop
        self.folder = shop.folder / "workspace" / TENANT
        self.runs: dict[tuple[str, int], Run] = {}
        stations.write_files(self.folder, max(LENGTHS))

    def run(self, product: str, steps: int) -> Run:
        if (product, steps) not in self.runs:
            progress(f"{product}, {steps} steps")
            self.runs[product, steps] = Run(product, steps, self.measure(product, steps))
        return self.runs[product, steps]

    def measure(self, name: str, steps: int) -> dict[str, Any]:
        product, model = PRODUCTS[name], self.shop.once(SCRIPTED_MODEL)
        url = model.ask("open", protocol=product.protocol, steps=steps, read_arguments=product.read_arguments)
        try:
            product.work(self, url, steps)
        finally:
            figures: dict[str, Any] = model.ask("close")
        if figures["errors"]:
            raise Unavailable(f"{name} got errors: {figures['errors'][0]}")
        if figures["view"] is None:
            raise Unavailable(f"{name} stopped after {figures['calls']} calls")
        return figures

    def list_peers(self, steps: int) -> list[Run]:
        return [self.run(name, steps) for name in PEERS]

    def cheapest_peer(self, ours: Run) -> Run:
        equal = [run for run in self.list_peers(ours.steps) if run.facts >= ours.facts]
        return min(equal, key=lambda run: run.cents)


def run_headway(job: Job, url: str, steps: int, **settings: str) -> None:
    """Send the request with `headway chat`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HEADWAY_"))}
    surroundings = {
        **inherited,
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "none",
        "HEADWAY_MODEL": f"openai-chat:{stations.MODEL}",
        "HEADWAY_HOME": str(job.shop.folder / f"home-{len(job.runs)}"),
        "HEADWAY_WORKSPACE": str(job.folder.parent),
        "HEADWAY_BUDGET_USD": "1000",
        "HEADWAY_DRIVE": "plan",  # as for a hosted model; at an address of this machine, Headway would take up the items one by one
        **settings,
    }
    command = [str(Path(sys.executable).with_name("headway")), "chat", stations.write_request(steps)]
    ran = subprocess.run(command, env=surroundings, cwd=job.shop.folder, capture_output=True, text=True)
    if ran.returncode:
        raise Unavailable(f"headway chat failed: {(ran.stderr or ran.stdout).strip()[-300:]}")
    if stations.state_code(steps) not in ran.stdout:
        raise Unavailable(f"headway chat did not report all codes: {ran.stdout.strip()[-300:]}")


def run_in_small_window(job: Job, url: str, steps: int) -> None:
    run_headway(job, url, steps, HEADWAY_CONTEXT_TOKENS=str(SMALL_WINDOW))


def run_peer(peer: Callable[[Workshop], Any], **options: Any) -> Callable[[Job, str, int], None]:
    def work(job: Job, url: str, steps: int) -> None:
        job.shop.once(peer).ask("run", url=url, folder=str(job.folder), steps=steps, **options)

    return work


BY_PATH = {"path": ""}
PRODUCTS = {
    "Headway": Product("headway", BY_PATH, run_headway),
    f"Headway, window of {SMALL_WINDOW:,}": Product("headway", BY_PATH, run_in_small_window),
    "LangChain, todo middleware": Product("todos", BY_PATH, run_peer(LANGCHAIN_READER)),
    "deepagents, todo middleware": Product("todos", {"file_path": "/", "limit": 1_000}, run_peer(DEEPAGENTS_READER)),
    "OpenAI Agents, a todo tool": Product("todos", BY_PATH, run_peer(OPENAI_READER)),
    "pydantic-ai, a todo tool": Product("todos", BY_PATH, run_peer(PYDANTIC_READER)),
    "pydantic-ai, no plan": Product("no plan", BY_PATH, run_peer(PYDANTIC_READER, has_plan=False)),
}
OURS, OURS_COMPACTED, *PEERS, LOWER_BOUND = PRODUCTS


def add_benchmarks(steps: int) -> None:
    job_name = JOB.format(steps=steps)

    @benchmark(f"tokens.{steps}.bill", job_name, CHEAPEST, at_most(BILL_TARGETS[steps]))
    def bill(shop: Workshop) -> Measurements:
        job = shop.once(Job)
        ours = job.run(OURS, steps)
        rows = [ours, *job.list_peers(steps), job.run(LOWER_BOUND, steps)]
        return Measurements([ours.cents], [job.cheapest_peer(ours).cents], "¢", rows=[row.as_row() for row in rows])

    @benchmark(f"tokens.{steps}.input", f"input tokens of the job of {steps} steps", CHEAPEST, None)
    def input_tokens(shop: Workshop) -> Measurements:
        job = shop.once(Job)
        ours = job.run(OURS, steps)
        return Measurements([ours.figures["input"]], [job.cheapest_peer(ours).figures["input"]], "tokens")

    @benchmark(f"tokens.{steps}.cacheable", f"cacheable share of the input of the job of {steps} steps", CHEAPEST, None)
    def cacheable(shop: Workshop) -> Measurements:
        job = shop.once(Job)
        ours = job.run(OURS, steps)
        return Measurements([ours.cacheable], [job.cheapest_peer(ours).cacheable], "%")

    @benchmark(f"tokens.{steps}.lower", job_name, NO_PLAN, None)
    def lower_bound(shop: Workshop) -> Measurements:
        job = shop.once(Job)
        return Measurements([job.run(OURS, steps).cents], [job.run(LOWER_BOUND, steps).cents], "¢")

    @benchmark(f"tokens.{steps}.32k", f"{job_name}, HEADWAY_CONTEXT_TOKENS=32000", CHEAPEST, None)
    def in_small_window(shop: Workshop) -> Measurements:
        job = shop.once(Job)
        ours = job.run(OURS_COMPACTED, steps)
        return Measurements([ours.cents], [job.cheapest_peer(ours).cents], "¢", rows=[ours.as_row()])


for length in LENGTHS:
    add_benchmarks(length)


@benchmark("tokens.60.facts", FACTS, "all facts in the files", at_least(1))
def facts(shop: Workshop) -> Measurements:
    return compare_facts(shop.once(Job).run(OURS, max(LENGTHS)))


@benchmark("tokens.60.32k.facts", f"{FACTS}, HEADWAY_CONTEXT_TOKENS=32000", "all facts in the files", at_least(1))
def facts_in_small_window(shop: Workshop) -> Measurements:
    return compare_facts(shop.once(Job).run(OURS_COMPACTED, max(LENGTHS)))


def compare_facts(run: Run) -> Measurements:
    return Measurements([run.facts], [2 * run.steps], "facts")


@benchmark(
    "tokens.flat",
    "HEADWAY_CONTEXT_TOKENS=32000: a step's input in cents without notes, mean of the last twenty of 60",
    "of the twenty after the first compaction",
    at_most(1.15),
)
def flat(shop: Workshop) -> Measurements:
    run = shop.once(Job).run(OURS_COMPACTED, max(LENGTHS))
    exchanges = run.figures["exchanges"]
    steps = [exchange for exchange in exchanges if exchange["is_step"]]
    sizes = [exchange["input"] for exchange in steps]
    shrunk = next((n for n, size in enumerate(sizes) if n and size < sizes[n - 1]), len(steps))
    if shrunk + 2 * FEW >= len(steps):
        raise Unavailable("there is no compaction early enough to compare with")
    # A note is written about every 25 steps, so that either part has one or none. The bills above have all of them.
    costs = [100 * exchange["input_dollars"] for exchange in steps]
    return Measurements([fmean(costs[-FEW - 1 : -1])], [fmean(costs[shrunk + 1 : shrunk + 1 + FEW])], "¢")


# Where the tokens go: `python -m bench.tokens [STEPS …]`


def describe(run: Run) -> str:
    """Return a table of the tokens of a run by kind: in the whole run, in its first and in its last request."""
    exchanges = run.figures["exchanges"]
    kinds = list(dict.fromkeys(kind for exchange in exchanges for kind in exchange["by_kind"]))
    rows: list[tuple[str, ...]] = [("tokens", "all calls", "a call", "first call", "last call")]
    for kind in kinds:
        by_call = [exchange["by_kind"].get(kind, 0) for exchange in exchanges]
        rows.append((kind, *(f"{n:,.0f}" for n in (sum(by_call), fmean(by_call), by_call[0], by_call[-1]))))
    for name in ("input", "cached", "output"):
        by_call = [exchange[name] for exchange in exchanges]
        rows.append((name, *(f"{n:,.0f}" for n in (sum(by_call), fmean(by_call), by_call[0], by_call[-1]))))
    title = f"{run.agent}, {run.steps} steps: {run.figures['calls']} calls, {run.cents:.1f} ¢, {run.figures['view']}"
    return f"{title}\n\n{aligned(rows)}\n"


def main() -> None:
    lengths = [int(argument) for argument in sys.argv[1:]] or LENGTHS
    with open_workshop() as shop:
        job = Job(shop)
        for steps in lengths:
            for product in PRODUCTS:
                print(describe(job.run(product, steps)), flush=True)


if __name__ == "__main__":
    main()
