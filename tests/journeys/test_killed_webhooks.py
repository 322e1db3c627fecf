"""A worker is killed while it delivers to a webhook: the next one delivers the rest, in order, and loses nothing."""

import signal
from pathlib import Path
from threading import Event

import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import expire_leases, run_worker
from tests.proofs import Proof
from tests.surfaces.server_harness import wait_until
from tests.webhooks.receiver import HOSTS, Received, run_receiver, subscribe

EVENTS = 40


@pytest.mark.proof
def test_deliveries_survive_killed_workers(database_url: str, tmp_path: Path, proof: Proof) -> None:
    env = {"HEADWAY_HOME": str(tmp_path), "HEADWAY_WEBHOOK_HOSTS": ",".join(HOSTS), "HEADWAY_RESTART_STAGGER_S": "0"}
    with DirectDatabase(database_url) as database, run_receiver() as receiver:
        hook = subscribe(TenantHarness(database), receiver)
        for number in range(EVENTS):
            hook.desk.add(f"todo {number}")
        for kill in proof.seeds("kill -9 of a worker that delivers to a webhook", share=1, whole=5):
            is_stuck, over, stop_at = Event(), Event(), len(receiver.received) + 5 + kill

            def answer(_received: Received, is_stuck: Event = is_stuck, over: Event = over, stop_at: int = stop_at) -> int:
                if len(receiver.received) >= stop_at:
                    is_stuck.set()
                    over.wait()
                return 204

            receiver.answer = answer
            with run_worker(database_url, tmp_path, env) as worker:
                assert is_stuck.wait(60)
                worker.end(signal.SIGKILL)
            over.set()
            expire_leases(hook.desk)
        receiver.answer = lambda _received: 204
        with run_worker(database_url, tmp_path, env):
            wait_until(lambda: hook.show()["after"] == hook.list_seqs()[-1], "everything is delivered")
        assert list(dict.fromkeys(receiver.seqs)) == hook.list_seqs()
        assert hook.show()["state"] == "active"
