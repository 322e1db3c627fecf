"""`headway serve` is killed with many turns running, or stopped cleanly, and another process finishes them."""

import signal
from pathlib import Path

import pytest

from headway.actions.installation import halts
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import (
    build_environment,
    build_rules,
    check_each_ended_once,
    count_notes,
    count_owners,
    count_unfinished,
    enqueue,
    expire_leases,
    list_events,
    make_home,
    make_names,
    read_rows,
    run_worker,
    wait_until_all_end,
)
from tests.model_server import run_model_process
from tests.proofs import Proof
from tests.surfaces.conversation_client import say
from tests.surfaces.server_harness import run_server, wait_until

STAGGER_S = 1
TORTURE = pytest.mark.torture


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("new_postgres", marks=TORTURE)])
def test_many_turns_end_after_their_server_was_killed_and_nothing_is_done_twice(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, proof: Proof
) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    names = make_names(range(proof.trials(f"turns of a server that is killed, {kind}", share=20, whole=100)))
    middle = len(names) * 6 // 10
    own_names = names[:middle], names[middle:]  # of each tenant
    make_home(tmp_path)
    with run_model_process(build_rules(names, stuck_before=names[::2], stuck_after=names[1::2]), tmp_path) as model:
        env = build_environment(tmp_path, model, restart_stagger_s=str(STAGGER_S))
        with (
            run_server(database_url, tmp_path, environment=env) as first,
            first.tenant() as first_client,
            first.tenant() as second_client,
        ):
            clients = (first_client, second_client)
            for client, turn_names in zip(clients, own_names, strict=True):
                for name in turn_names:
                    say(client, client.conversation(), f"Note {name}.")
            model.wait_for_requests(len(names) * 3 // 2)  # half of the turns have made their note
            assert count_notes(tmp_path) == dict.fromkeys(names[1::2], 1)
            first.end(signal.SIGKILL)
            assert count_unfinished(first_client.desk) == len(names)
            model.forget()
            desk = first_client.desk
            desk.database.write(halts.halt)  # the jobs are taken over, and stay in the queue
            expire_leases(desk)
            with run_server(database_url, tmp_path, environment=env):
                wait_until(lambda: not count_owners(desk), "the jobs are taken over")
                ((first_due, last_due),) = read_rows(desk, "SELECT MIN(due_at), MAX(due_at) FROM jobs WHERE state = 'queued'")
                assert last_due - first_due > STAGGER_S * 1000 / 2
                desk.database.write(halts.unhalt)
                wait_until_all_end(desk)
            for client, turn_names in zip(clients, own_names, strict=True):
                check_each_ended_once(client.desk, turn_names)
                assert [event["runs"] for event in list_events(client.desk, "recovered")] == [len(turn_names)]
            assert count_notes(tmp_path) == dict.fromkeys(names, 1)
            assert len(model.requests) == len(names) * 3 // 2  # each turn repeated only its unanswered request, and continued
        assert model.violations == []


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_clean_stop_returns_its_work_at_once_and_reports_no_recovery(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    names = make_names(range(6))
    make_home(tmp_path)
    with (
        run_model_process(build_rules(names, stuck_before=names[:3], stuck_after=names[3:]), tmp_path) as model,
        DirectDatabase(database_url) as database,
    ):
        desk, env = TenantHarness(database), build_environment(tmp_path, model)
        enqueue(desk, names)
        with run_worker(database_url, tmp_path, env) as first:
            model.wait_for_requests(9)
            assert count_owners(desk) == {first.owner: 6}
            assert first.end() == 0
        assert count_owners(desk) == {}
        states = read_rows(desk, "SELECT DISTINCT state, owner, attempts, errors FROM jobs")
        assert states == [("queued", "", 0, "[]")]
        with run_worker(database_url, tmp_path, env) as second:
            wait_until_all_end(desk)
            assert second.end() == 0
        check_each_ended_once(desk, names)
        assert count_notes(tmp_path) == dict.fromkeys(names, 1)
        assert list_events(desk, "recovered") == []
        assert model.violations == []
