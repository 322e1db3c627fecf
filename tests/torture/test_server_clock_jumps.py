"""The clock of the Postgres server is set back while goals are pursued: all of them are reached, and nothing is done twice."""

from pathlib import Path

import pytest

from tests.journeys.goal_scenario import Script
from tests.journeys.test_goal_takeover import NAMES, PLAN, TOGETHER, open_crew
from tests.jumping_server import run_jumping_server
from tests.surfaces.server_harness import wait_until

HOUR = 3_600


@pytest.mark.torture
@pytest.mark.parametrize("jump", [-60, -HOUR])
def test_goals_are_reached_when_the_clock_of_the_server_is_set_back(postgres_url: str, tmp_path: Path, jump: int) -> None:
    script = Script({"Jump.": PLAN}, gated=TOGETHER)
    with (
        run_jumping_server(postgres_url) as server,
        open_crew(server.url, tmp_path, script) as crew,
        crew.run_worker() as left,
        crew.run_worker() as right,
    ):
        goal_id = crew.set_goal("Jump.")
        wait_until(lambda: set(script.waiting) == TOGETHER, "everybody is at work")
        server.set_ahead(jump)
        script.gate.set()
        crew.wait_until_completed(goal_id)
        crew.check_once(NAMES)
        assert (left.end(), right.end()) == (0, 0)
