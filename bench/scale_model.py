"""What an installation needs, from one process to a million agents. `python -m bench.scaling` prints it.

This is arithmetic, not a measurement: costs that were measured or counted (figures.json, costs.json) times the assumptions below.
An agent is a run that is at work: it waits for a model, calls a tool, and writes a step. Runs that wait for a person need nothing
but their rows. Names end with their unit: _s seconds, _ms milliseconds, _mb megabytes, _usd dollars, _per_s a rate.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DAY_S = 86_400
HOURS_PER_MONTH = 730
MB, GB, TB = 1e6, 1e9, 1e12
MEASURED_ITERATIONS = 40  # of each turn in the benchmarks pg.turns.cpu and pg.turns.server
MOST_AGENTS = 10_000_000  # where the search for the limit of a cell ends
ITERATION = "an iteration of the loop with a tool call"
TURN = "the rest of a turn: begun, five todos written and ended, ended"
PRICED = ", with a model that costs money"
IDLE_SECOND = "a second of a process that has nothing to do"
ANNOUNCEMENT = "a commit of another process is announced"


class Operation(NamedTuple):
    """What an operation costs the database. Also a rate, if the operation is an agent's second."""

    statements: float
    round_trips: float
    commits: float
    log_bytes: float
    kept_bytes: float

    def times(self, factor: float) -> "Operation":
        return Operation(*(value * factor for value in self))

    def plus(self, other: "Operation") -> "Operation":
        return Operation(*(own + added for own, added in zip(self, other, strict=True)))


class Measured(NamedTuple):
    """Costs from figures.json and costs.json."""

    iteration: Operation
    turn: Operation  # without its iterations
    idle_second: Operation  # of a process
    announcement: Operation  # for each process that hears of a commit of another one
    connections: float  # of a process
    client_ms: float  # processor time per statement, in Headway's process
    server_ms: float  # the same, in Postgres
    process_mb: float  # memory of a process
    frames_per_s: float  # that a process delivers to readers
    tenant_commits_per_s: float  # of one tenant, because its log numbers them one after the other
    call_usd: float  # price of a model call
    call_tokens: float  # input and output of a model call


class Assumptions(NamedTuple):
    """Everything that was not measured."""

    iteration_s: float = 10.0
    iterations_per_turn: float = 10.0
    slots: float = 64.0
    load: float = 0.6
    server_cores: float = 16.0
    server_connections: float = 1_000.0
    pool: float = 100.0
    disk_tb: float = 10.0
    retention_days: float = 30.0
    round_trip_ms: float = 0.5
    readers_per_agent: float = 0.1
    frames_per_reader_s: float = 5.0
    frame_bytes: float = 300.0
    bytes_per_token: float = 4.0
    core_usd_per_h: float = 0.05
    gb_per_core: float = 4.0
    gb_usd_per_month: float = 0.12
    copies: float = 2.0
    heard: float = 0.15


MEANINGS = {
    "iteration_s": "seconds of an iteration: the model's answer and the tool",
    "iterations_per_turn": "model calls of a turn",
    "slots": "agents that a process runs at once (`EngineLimits.slots`)",
    "load": "share of a processor's time that is planned for",
    "server_cores": "cores of the largest Postgres server that you want",
    "server_connections": "connections that such a server has",
    "pool": "connections of the pooler, once there are too many processes for connections of their own",
    "disk_tb": "terabytes of such a server's disk",
    "retention_days": "days that everything is kept (`HEADWAY_RETENTION`)",
    "round_trip_ms": "milliseconds between a process and its server, both ways",
    "readers_per_agent": "open event streams for each agent",
    "frames_per_reader_s": "frames that each of them gets in a second: events and pieces of text",
    "frame_bytes": "bytes of a frame",
    "bytes_per_token": "bytes of a token on the wire",
    "core_usd_per_h": "dollars for a core and its memory, per hour",
    "gb_per_core": "gigabytes of memory that come with a core",
    "gb_usd_per_month": "dollars for a gigabyte of disk, per month",
    "copies": "copies of each database: a primary and its standby",
    "heard": "share of the commits that make other processes look for jobs: 2 of the 14 of a turn with 10 iterations",
}


FIELDS = {
    "tokens.30.bill": ("rows",),
    "pg.turns.cpu": ("ours",),
    "pg.turns.server": ("ratio",),
    "engine.memory": ("ours",),
    "sse.1000": ("ours",),
    "pg.create.tenants": ("against",),
}


class NotMeasured(Exception):
    """A figure that the model needs is missing in figures.json or costs.json."""


def select_figures(results: dict[str, Any]) -> dict[str, Any]:
    """Return the part of all results that the model needs."""
    measured = [result for result in results["benchmarks"] if result["name"] in FIELDS and "missing" not in result]
    return {"benchmarks": [{field: result[field] for field in ("name", *FIELDS[result["name"]])} for result in measured]}


def read_measurements(results: dict[str, Any], costs: dict[str, Any]) -> Measured:
    """Convert the two documents. Processor time was measured per iteration of turns with MEASURED_ITERATIONS; each of them includes
    its share of the turn's other statements, so it is divided by all of these statements. That of the server is taken from the
    ratio, which does not depend on the load of the machine."""
    benchmarks = {benchmark["name"]: benchmark for benchmark in results["benchmarks"]}

    def find(name: str, field: str = "ours") -> Any:
        value = benchmarks.get(name, {}).get(field)
        if value is None:
            raise NotMeasured(f"figures.json has no figure for {name}. Run `python -m bench {name} --write`.")
        return value

    def find_operation(name: str) -> Operation:
        if name not in costs["operations"]:
            raise NotMeasured(f"costs.json does not say what this costs: {name}. Run `python -m bench.costs --write`.")
        return Operation(**costs["operations"][name])

    all_statements = find_operation(ITERATION).times(MEASURED_ITERATIONS).plus(find_operation(TURN)).statements
    statements = all_statements / (MEASURED_ITERATIONS + 1)  # the turn ends with one more model call
    job = next(row for row in find("tokens.30.bill", "rows") if row["agent"] == "Headway")
    return Measured(
        iteration=find_operation(ITERATION + PRICED),
        turn=find_operation(TURN + PRICED),
        idle_second=find_operation(IDLE_SECOND),
        announcement=find_operation(ANNOUNCEMENT),
        connections=float(costs["connections"]) + 1,  # one more while it sends live text
        client_ms=find("pg.turns.cpu") / statements,
        server_ms=find("pg.turns.server", "ratio") * find("pg.turns.cpu") / statements,
        process_mb=find("engine.memory"),
        frames_per_s=find("sse.1000"),
        tenant_commits_per_s=find("pg.create.tenants", "against"),
        call_usd=job["cents"] / 100 / job["calls"],
        call_tokens=(job["input"] + job["output"]) / job["calls"],
    )


# One cell: a Postgres server and its processes


class Cell(NamedTuple):
    agents: float
    processes: int
    work: Operation  # per second
    work_cores: float  # of the server, for the agents' own statements
    idle_cores: float  # for what processes do without work
    heard_cores: float  # for what processes do when others commit
    client_cores: float  # of all processes together

    @property
    def server_cores(self) -> float:
        return self.work_cores + self.idle_cores + self.heard_cores


class Model(NamedTuple):
    measured: Measured
    assumed: Assumptions

    @property
    def agent_second(self) -> Operation:
        """What one agent costs the database in a second."""
        per_second = 1 / self.assumed.iteration_s
        turns_per_second = per_second / self.assumed.iterations_per_turn
        return self.measured.iteration.times(per_second).plus(self.measured.turn.times(turns_per_second))

    def count_processes(self, agents: float) -> int:
        """As many as the agents need slots, or the readers need processes that deliver to them."""
        frames_per_s = agents * self.assumed.readers_per_agent * self.assumed.frames_per_reader_s
        for_readers = frames_per_s / (self.measured.frames_per_s * self.assumed.load)
        return max(1, math.ceil(agents / self.assumed.slots), math.ceil(for_readers))

    def compute_check_rate(self, heard_per_s: float) -> float:
        """How often a second a process looks for jobs. Announcements that arrive while it looks lead to one more look, not to one
        each."""
        announcement = self.measured.announcement
        look_ms = announcement.statements * (self.measured.client_ms + self.measured.server_ms)
        look_s = (look_ms + announcement.round_trips * self.assumed.round_trip_ms) / 1000
        return heard_per_s / (1 + heard_per_s * look_s)

    def plan_cell(self, agents: float) -> Cell:
        processes = self.count_processes(agents)
        work = self.agent_second.times(agents)
        heard_per_s = work.commits * self.assumed.heard * (processes - 1) / processes  # a process ignores its own
        idle = self.measured.idle_second.statements * processes
        heard = self.compute_check_rate(heard_per_s) * self.measured.announcement.statements * processes
        work_cores, idle_cores, heard_cores = (rate * self.measured.server_ms / 1000 for rate in (work.statements, idle, heard))
        client_cores = (work.statements + idle + heard) * self.measured.client_ms / 1000
        return Cell(agents, processes, work, work_cores, idle_cores, heard_cores, client_cores)

    def list_uses(self, cell: Cell) -> dict[str, float]:
        """Return which share of its limits a cell uses. One that uses more than 1 does not fit on a server."""
        own_connections = cell.processes * self.measured.connections
        with_pooler = cell.processes + self.assumed.pool  # each process keeps one connection to the server itself
        kept_bytes = cell.work.kept_bytes * self.assumed.retention_days * DAY_S
        return {
            "the server's processors": cell.server_cores / (self.assumed.server_cores * self.assumed.load),
            "the server's connections": min(own_connections, with_pooler) / self.assumed.server_connections,
            "the server's disk": kept_bytes / (self.assumed.disk_tb * TB),
        }

    def find_most(self, fits: Callable[[Cell], bool]) -> int:
        """Return the largest number of agents whose cell fits."""
        low, high = 0, 1
        while fits(self.plan_cell(high)) and high < MOST_AGENTS:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(self.plan_cell(middle)) else (low, middle)
        return low

    def find_limit(self) -> tuple[int, str]:
        """Return how many agents a cell carries, and what is used up then."""
        agents = self.find_most(lambda cell: max(self.list_uses(cell).values()) <= 1)
        uses = self.list_uses(self.plan_cell(agents + 1))
        return agents, max(uses, key=lambda name: uses[name])


# An installation: as many cells as are needed


class Plan(NamedTuple):
    agents: int
    cells: int
    cell: Cell  # one of them
    iterations_per_s: float
    jobs_per_s: float
    server_cores: int  # of all primaries
    stored_gb_per_day: float
    log_mb_per_s: float
    models_mb_per_s: float
    readers_mb_per_s: float
    infrastructure_usd_per_h: float
    models_usd_per_h: float

    @property
    def processes(self) -> int:
        return self.cell.processes * self.cells


def plan_installation(model: Model, agents: int) -> Plan:
    """Divide the agents equally among as few cells as possible."""
    measured, assumed = model
    cells = math.ceil(agents / max(1, model.find_limit()[0]))
    cell = model.plan_cell(agents / cells)
    iterations_per_s = agents / assumed.iteration_s
    server_cores = cells * max(2, math.ceil(cell.server_cores / assumed.load))
    stored_gb_per_day = cell.work.kept_bytes * cells * DAY_S / GB
    process_cores = max(cell.client_cores / cell.processes / assumed.load, measured.process_mb * MB / GB / assumed.gb_per_core)
    cores = process_cores * cell.processes * cells + server_cores * assumed.copies
    disk_gb = stored_gb_per_day * assumed.retention_days * assumed.copies
    return Plan(
        agents,
        cells,
        cell,
        iterations_per_s,
        iterations_per_s / assumed.iterations_per_turn,
        server_cores,
        stored_gb_per_day,
        cell.work.log_bytes * cells / MB,
        iterations_per_s * measured.call_tokens * assumed.bytes_per_token / MB,
        agents * assumed.readers_per_agent * assumed.frames_per_reader_s * assumed.frame_bytes / MB,
        cores * assumed.core_usd_per_h + disk_gb * assumed.gb_usd_per_month / HOURS_PER_MONTH,
        iterations_per_s * 3600 * measured.call_usd,
    )


class Wall(NamedTuple):
    name: str
    agents: float
    moved_by: str


def list_walls(model: Model) -> list[Wall]:
    """Return the limits in the order in which a growing installation meets them."""
    measured, assumed = model
    quiet = Model(measured, assumed._replace(heard=0.0))
    commits_per_agent_s = model.agent_second.commits
    direct = assumed.server_connections / measured.connections * assumed.slots
    pooled = (assumed.server_connections - assumed.pool) * assumed.slots
    process_second_ms = model.agent_second.statements * measured.client_ms

    def fits(use: str, variant: Model) -> Callable[[Cell], bool]:
        return lambda cell: variant.list_uses(cell)[use] <= 1

    walls = [
        Wall("the slots of one process", assumed.slots, "more processes: `headway worker`"),
        Wall(
            "the core of one process, if it had more slots",
            assumed.load * 1000 / process_second_ms,
            "more processes",
        ),
        Wall("the connections of one server, without a pooler", direct, "a pooler"),
        Wall("the connections of one server, with a pooler", pooled, "cells"),
        Wall("the log of one tenant", measured.tenant_commits_per_s / commits_per_agent_s, "nothing here: use several tenants"),
        Wall(
            "the disk of one server",
            model.find_most(fits("the server's disk", model)),
            "`HEADWAY_RETENTION`, then cells",
        ),
        Wall(
            "the processors of one server",
            model.find_most(fits("the server's processors", model)),
            "cells: each has its own commits and its own processes",
        ),
        Wall(
            "the processors of one server, without the work after announcements",
            quiet.find_most(fits("the server's processors", quiet)),
            "cells",
        ),
    ]
    return sorted(walls, key=lambda wall: wall.agents)
