"""`headway serve` is killed with a hundred turns under way, or stopped cleanly, and another process sees them through."""

import signal
from pathlib import Path

import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.crew import (
    all_end,
    check_each_ended_once,
    enqueue,
    furnish,
    lapse,
    named,
    notes,
    noting,
    owners,
    rows,
    surroundings,
    told,
    unfinished,
    working,
)
from tests.model_server import model_process
from tests.surfaces.chatting import say
from tests.surfaces.serving import serving

STAGGER_S = 1
FIRST, SECOND = named(range(60)), named(range(60, 100))  # of two tenants
TORTURE = pytest.mark.torture


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("new_postgres", marks=TORTURE)])
def test_a_hundred_turns_end_after_their_server_was_killed_and_nothing_is_done_twice(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    names = FIRST + SECOND
    furnish(tmp_path)
    with model_process(noting(names, stuck_before=names[::2], stuck_after=names[1::2]), tmp_path) as model:
        env = surroundings(tmp_path, model, restart_stagger_s=str(STAGGER_S))
        with (
            serving(database_url, tmp_path, environment=env) as first,
            first.tenant() as one,
            first.tenant() as other,
        ):
            desks = [(one.desk, FIRST), (other.desk, SECOND)]
            for client, its in ((one, FIRST), (other, SECOND)):
                for name in its:
                    say(client, client.conversation(), f"Note {name}.")
            model.wait_for_requests(150)  # half of them have had their effect
            assert notes(tmp_path) == dict.fromkeys(names[1::2], 1)
            first.end(signal.SIGKILL)
            assert unfinished(one.desk) == 100
            model.forget()
            lapse(one.desk)
            with serving(database_url, tmp_path, environment=env):
                all_end(one.desk)
            for desk, its in desks:
                check_each_ended_once(desk, its)
                assert [event["runs"] for event in told(desk, "recovered")] == [len(its)]
            assert notes(tmp_path) == dict.fromkeys(names, 1)
            assert len(model.requests) == 150  # each asked again for what it had no answer to, and went on
            ends = sorted(int(ended) for (ended,) in rows(one.desk, "SELECT ended_at FROM turns"))
            assert ends[-1] - ends[0] > STAGGER_S * 1000 / 2
        assert model.violations == []


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_clean_stop_hands_its_work_back_at_once_and_nothing_is_told_as_recovered(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database_url: str = request.getfixturevalue(f"{kind}_url")
    names = named(range(6))
    furnish(tmp_path)
    with (
        model_process(noting(names, stuck_before=names[:3], stuck_after=names[3:]), tmp_path) as model,
        DirectDatabase(database_url) as database,
    ):
        desk, env = TenantHarness(database), surroundings(tmp_path, model)
        enqueue(desk, names)
        with working(database_url, tmp_path, env) as first:
            model.wait_for_requests(9)
            assert owners(desk) == {first.owner: 6}
            assert first.end() == 0
        assert owners(desk) == {}
        states = rows(desk, "SELECT DISTINCT state, owner, attempts, errors FROM jobs")
        assert states == [("queued", "", 0, "[]")]
        with working(database_url, tmp_path, env) as second:
            all_end(desk)
            assert second.end() == 0
        check_each_ended_once(desk, names)
        assert notes(tmp_path) == dict.fromkeys(names, 1)
        assert told(desk, "recovered") == []
        assert model.violations == []
