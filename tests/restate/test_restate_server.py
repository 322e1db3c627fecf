"""The engine over real Restate servers from npm: what every dispatcher must do, and what only Restate does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from headway.dispatch.opening import open_dispatcher
from headway.engine.external import Dispatcher
from tests.dispatch.conformance import Crew, DispatcherConformance
from tests.free_ports import find_ports
from tests.restate.nodes import RestateCluster, make_signing_key, run_restate

SERVICES = (f"Headway{number}" for number in count())  # each test has its own, so that none gets another one's jobs

SECRET = "5ec2e7" * 10

pytestmark = pytest.mark.torture


class Server(NamedTuple):
    cluster: RestateCluster
    options: str  # more of the address


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("restate")
    path, key = make_signing_key(folder)
    with run_restate(folder, signing_key=path) as cluster:
        yield Server(cluster, f"&identity_key={key}")


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_restate(tmp_path_factory.mktemp("restate"), 3) as cluster:
        yield Server(cluster, "")


class RestateConformance(DispatcherConformance):
    """All workers of a test listen on one address, as several workers of one machine do."""

    restate: RestateCluster
    options: str

    @asynccontextmanager
    async def open_dispatchers(self, folder: Path) -> AsyncIterator[Callable[[], Dispatcher]]:
        address = (
            f"restate://{self.restate.ingress}?listen=127.0.0.1:{find_ports()}&admin={self.restate.admin}"
            f"&service={next(SERVICES)}{self.options}"
        )
        yield lambda: open_dispatcher(address, SECRET)


class TestOneNode(RestateConformance):
    @pytest.fixture(autouse=True)
    def _use_server(self, one_node: Server) -> None:
        self.restate, self.options = one_node

    def test_after_the_loss_of_all_data_everything_is_run(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            crew.start_worker()
            job_ids = crew.enqueue(10, delays_ms=[3_000])
            await crew.until(lambda: len(crew.count_runs()) == 10)
            await asyncio.to_thread(self.restate.kill)
            self.restate.wipe()
            job_ids += crew.enqueue(5)
            await asyncio.to_thread(self.restate.start)
            await crew.until_done()
            assert crew.count_runs() == {job_id: 2 if place < 10 else 1 for place, job_id in enumerate(job_ids)}

        self.run(url, tmp_path, scenario)


class TestThreeNodes(RestateConformance):
    @pytest.fixture(autouse=True)
    def _use_server(self, three_nodes: Server) -> None:
        self.restate, self.options = three_nodes

    def test_each_node_can_be_lost(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            crew.start_worker()
            job_ids: list[str] = []
            for node in self.restate.nodes:
                job_ids += crew.enqueue(5, delays_ms=[500])
                await asyncio.to_thread(node.kill)
                job_ids += crew.enqueue(5)
                await crew.until_done()
                node.start()
                await asyncio.to_thread(self.restate.wait_until_ready)
            assert crew.count_runs() == {job_id: 2 if place % 10 < 5 else 1 for place, job_id in enumerate(job_ids)}

        self.run(url, tmp_path, scenario)
