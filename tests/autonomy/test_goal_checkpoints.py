"""The end of a sub-goal is stored before anything else starts. If it cannot be stored, the agent stops and reports the fault."""

from pathlib import Path

import pytest

from headway.actions.goals import goals
from tests.autonomy.goal_harness import Pursuit, agent, by_part, open_pursuit, plan, step

REFUSE = {
    "sqlite": """CREATE TRIGGER refuse BEFORE INSERT ON journal WHEN NEW.kind = 'sub_goal_ended'
                 BEGIN SELECT RAISE(ABORT, 'not now'); END""",
    "postgresql": "ALTER TABLE journal ADD CONSTRAINT refuse CHECK (kind <> 'sub_goal_ended') NOT VALID",
}
ALLOW = {"sqlite": "DROP TRIGGER refuse", "postgresql": "ALTER TABLE journal DROP CONSTRAINT refuse"}


def change(pursuit: Pursuit, statements: dict[str, str]) -> None:
    pursuit.database.write(lambda tx: tx.run(statements[tx.dialect.name]))


def count_failed_attempts(caplog: pytest.LogCaptureFixture) -> int:
    return sum("waits for the database" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", [step, agent])
def test_a_checkpoint_that_fails_is_written_again(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type
) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(kind("dig"), step("fill", "dig")))) as pursuit:
        change(pursuit, REFUSE)
        pursuit.set_goal()
        pursuit.until(lambda: count_failed_attempts(caplog))
        assert pursuit.statuses() == {"dig": "in-progress", "fill": "pending"}, "nothing goes on without it"
        change(pursuit, ALLOW)
        assert pursuit.wait_until_ended().status == "completed"
        assert len(pursuit.journal("sub_goal_ended")) == 2
        assert len([request for request in pursuit.list_requests("work") if "dig" in request.last]) <= 2


def test_a_checkpoint_that_cannot_be_written_stops_the_goal_and_notifies_a_person(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        change(pursuit, REFUSE)
        try:
            pursuit.set_goal()
            assert pursuit.wait_until_paused().pause_kind == "fault"
        finally:
            change(pursuit, ALLOW)
        assert [kind for kind, _ in pursuit.notices()] == ["fault"]
        assert pursuit.statuses() == {"dig": "in-progress", "fill": "pending"}
        assert pursuit.list_started_tasks() == ["dig"]
        pursuit.act(goals.resume, pursuit.goal_id)
        assert pursuit.wait_until_ended().status == "completed"
