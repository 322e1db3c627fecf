"""The reply to a commit is lost: stored work is not planned, run or paid for a second time."""

from pathlib import Path

import pytest

from tests.autonomy.goal_harness import by_part, open_pursuit, plan, step
from tests.lost_commits import lose_commit_answer


@pytest.mark.parametrize("after", [b"INSERT INTO sub_goals", b"SET divergence"], ids=["of a plan", "of an evaluation"])
def test_an_answer_whose_commit_is_uncertain_counts_once(postgres_url: str, tmp_path: Path, after: bytes) -> None:
    script = by_part(plan=plan(step("dig"), step("fill", "dig")))
    with (
        lose_commit_answer(postgres_url, after) as way,
        open_pursuit(way.url, tmp_path, script, priced=True, budget_usd="1000") as pursuit,
    ):
        goal = pursuit.achieve()
        assert way.lost == 1
        assert goal.plan_no == len(pursuit.list_requests("plan")) == 1
        assert pursuit.statuses() == {"dig": "completed", "fill": "completed"}
        assert len(pursuit.sub_goals()) == 2
        booked = pursuit.database.read(lambda tx: tx.one("SELECT COUNT(*) FROM model_calls"))
        assert booked == (len(pursuit.server.requests),)
