"""Commands with HEADWAY_DISPATCH: what `doctor` says, and a worker whose jobs come from Restate."""

import json

import pytest

from tests.free_ports import find_ports
from tests.restate.stand_in import run_stand_in
from tests.surfaces.server_harness import wait_until
from tests.surfaces.shell import Shell
from tests.surfaces.test_cli_engine_worker import NOTE, list_jobs, run_worker


def list_findings(headway: Shell) -> list[tuple[bool, bool, str]]:
    checks = json.loads(headway("doctor", "--json").out)["checks"]
    return [(check["ok"], check["warning"], check["detail"]) for check in checks if check["name"] == "dispatch"]


def test_doctor_looks_at_restate(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    down = f"127.0.0.1:{find_ports()}"
    monkeypatch.setenv("HEADWAY_DISPATCH", f"restate://{down}?identity_key=none")
    assert list_findings(headway) == [(False, False, f"Restate does not answer at {down}. Jobs wait until it does.")]
    with run_stand_in() as stand_in:
        monkeypatch.setenv("HEADWAY_DISPATCH", f"restate://{stand_in.address},{down}?admin={stand_in.address}")
        assert list_findings(headway) == [
            (True, False, "Restate, 1 of 2 addresses answer"),
            (True, True, f"Restate does not answer at {down}. The other addresses are used."),
            (True, True, "Restate has no service Headway yet. The next worker that starts registers it."),
        ]


def test_a_wrong_address_is_an_error_of_every_command(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DISPATCH", "restate://r1?listen=0.0.0.0:9080")
    result = headway("worker")
    assert result.code != 0
    assert "listen=0.0.0.0:9080 would accept deliveries from other machines" in result.err


def test_a_worker_runs_what_restate_delivers_and_stops_on_sigterm(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_stand_in() as stand_in:
        address = f"restate://{stand_in.address}?listen=127.0.0.1:{find_ports()}&admin={stand_in.address}"
        monkeypatch.setenv("HEADWAY_DISPATCH", address)
        headway.ok("schedule", "put", "it", "--every", "1h", *NOTE)
        headway.ok("schedule", "run", "it")
        with run_worker(headway) as worker:
            wait_until(lambda: list_jobs(headway)[0]["state"] == "completed", "the job ends")
            (job,) = list_jobs(headway)
            assert [sent.key.split(":")[0] for sent in stand_in.announcements] == [job["id"]]
            assert worker.end() == (0, "", "")
