"""Jobs that Restate dispatches, compared with the built-in dispatch. The server comes from npm and runs on this machine, so both
sides share its cores: what the ratio loses is also what the server takes.
"""

import secrets
import subprocess

from bench.engine_jobs import ROUNDS, SINGLE, WORKLOAD, Ours, ours_on_postgres, own_database, waits_in_turns
from bench.harness import Measurements, Unavailable, Workshop, at_least, at_most, benchmark, in_turns
from headway.dispatch.opening import open_dispatcher
from tests.free_ports import find_ports
from tests.restate.nodes import RestateCluster, run_restate

BUILT_IN = "the same with the built-in dispatch"


def dispatched(shop: Workshop, nodes: int) -> Ours:
    """Our engine, behind this many nodes of Restate."""
    try:
        restate = shop.cleanup.enter_context(run_restate(shop.folder / f"restate-{nodes}", nodes))
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"needs Restate's server from npm: {str(error)[:200]}") from error
    return Ours(shop, own_database(shop), open_dispatcher(build_address(restate), secrets.token_hex(32)))


def build_address(restate: RestateCluster) -> str:
    return f"restate://{restate.ingress}?listen=127.0.0.1:{find_ports()}&admin={restate.admin}"


def one_node(shop: Workshop) -> Ours:
    return dispatched(shop, 1)


def measure_jobs(shop: Workshop, ours: Ours) -> Measurements:
    return in_turns(ours.jobs_a_second, shop.once(ours_on_postgres).jobs_a_second, ROUNDS)


def measure_starts(shop: Workshop, ours: Ours) -> Measurements:
    return waits_in_turns(ours.waits, shop.once(ours_on_postgres).waits).p50


@benchmark("dispatch.jobs", f"Postgres and one Restate node: {WORKLOAD}", BUILT_IN, at_least(0.3))
def jobs(shop: Workshop) -> Measurements:
    return measure_jobs(shop, shop.once(one_node))


@benchmark("dispatch.start", f"one Restate node, {SINGLE}, p50", BUILT_IN, at_most(3.0))
def start(shop: Workshop) -> Measurements:
    return measure_starts(shop, shop.once(one_node))


def three_nodes(shop: Workshop) -> Ours:
    return dispatched(shop, 3)


@benchmark("dispatch.jobs.three", f"Postgres and three Restate nodes: {WORKLOAD}", BUILT_IN, None)
def jobs_on_three(shop: Workshop) -> Measurements:
    return measure_jobs(shop, shop.once(three_nodes))


@benchmark("dispatch.start.three", f"three Restate nodes, {SINGLE}, p50", BUILT_IN, None)
def start_on_three(shop: Workshop) -> Measurements:
    return measure_starts(shop, shop.once(three_nodes))
