"""Cells: how long the changes of a tenant are refused while it is moved, and what an iteration costs with several cells."""

import time
from functools import partial

from bench import bare
from bench.agent_loop import Ours as Loop
from bench.harness import Measurements, Workshop, at_most, benchmark, in_turns
from bench.postgres import CALLERS, find_server, new_database, read_cpu_s
from headway.actions.todos import todos
from headway.cells import moving
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, CellUrls, prepare_cells

ROWS = 100_000
BATCH = 500
LIMIT_MS = 10_000.0
ITERATIONS = 40
ROUNDS = 5


@benchmark("cells.move", "a tenant of 100,000 rows moves: its changes are refused", "ten seconds", at_most(1))
def move(shop: Workshop) -> Measurements:
    cells = fill_cells(shop)
    places = ["a", "b"]

    def one_round() -> float:
        route = cells.route(*places)
        begun = moving.begin(route, "acme")
        start = time.perf_counter()
        moving.carry_over(route, begun)
        pause_s = time.perf_counter() - start
        moving.move_tenant(route, "acme")
        places.reverse()
        return pause_s * 1000

    return in_turns(one_round, lambda: LIMIT_MS, ROUNDS, unit="ms", warm=False)


@benchmark(
    "cells.cpu", "CPU of client and server per iteration, 8 turns in each of two cells", "8 turns in one database", at_most(1.1)
)
def processor_time(shop: Workshop) -> Measurements:
    server, urls = find_server(shop), CellUrls(new_database(shop), new_database(shop))
    prepare_cells(urls)
    cells = [Loop(shop, f"cell-{number}", url) for number, url in enumerate(urls)]
    single = Loop(shop, "single", new_database(shop))

    def milliseconds(loops: list[Loop]) -> float:
        start = time.process_time() + read_cpu_s(server)
        for loop in loops:
            loop.round(ITERATIONS, CALLERS)
        iterations = len(loops) * CALLERS * (ITERATIONS + 1)
        return (time.process_time() + read_cpu_s(server) - start) * 1000 / iterations

    return in_turns(partial(milliseconds, cells), partial(milliseconds, [single]), ROUNDS, unit="ms")


def fill_cells(shop: Workshop) -> Cells:
    """Open two cells, of which the first has a tenant with as many rows."""
    urls = CellUrls(new_database(shop), new_database(shop))
    prepare_cells(urls)
    cells = Cells(urls, shop.folder)
    shop.cleanup.callback(cells.close)
    desk = TenantHarness(cells.databases["a"])
    for _ in range(ROWS // 2 // BATCH):  # each todo has an event
        desk.write(partial(todos.add_many, drafts=[bare.DRAFT] * BATCH))
    return cells
