"""Goals whose agents work in a git repository: merges, conflicts that lead to a new plan, and what an abandoned goal leaves."""

from pathlib import Path

import pytest

from headway.actions.goals import goals, views
from headway.ledger.errors import Invalid
from tests.agents.repository_harness import (
    check_untouched,
    git,
    list_branches,
    list_subjects,
    make_repository,
    name_repository,
    show,
    together,
    write,
    write_and_end,
)
from tests.autonomy.goal_harness import Gate, Pursuit, agent, by_part, by_transcript, get_question, open_pursuit, plan, replan, step
from tests.model_server import text


def make_workspace_repository(pursuit: Pursuit) -> Path:
    return make_repository(Path(pursuit.headway.settings.get_workspace(pursuit.tenant_id)) / "app")


def wait_for_cleanup(pursuit: Pursuit) -> None:
    pursuit.until(lambda: all(job.state == "completed" for job in pursuit.jobs() if job.kind == "worktree"))


def test_a_goal_is_replanned_after_a_conflict(sqlite_url: str, tmp_path: Path) -> None:
    rush = together(2, lambda request: write_and_end(a="left\n" if "left" in get_question(request) else "right\n")(request))
    script = by_part(
        {"left": rush, "right": rush, "again": write_and_end(b="both\n"), "sum up": write_and_end(c="sum\n")},
        plan=plan(agent("left"), agent("right")),
        replan=replan(agent("again"), step("sum up", "again")),
    )
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        repository = make_workspace_repository(pursuit)
        head = git(repository, "rev-parse", "HEAD")
        goal = pursuit.achieve("A tidy garden.", repository="app", success_criteria="All is tidy.")
        branch = f"headway/goal-{goal.id}"
        loser = next(sub_goal for sub_goal in pursuit.sub_goals() if sub_goal.status == "failed")
        kept = f"headway/agent-{(loser.run_id or '')[:8]}"
        reason = f"{kept} conflicts with {branch} in a.txt. Nothing was merged; the branch is kept."
        assert loser.reason == reason
        asked = pursuit.list_requests("replan")
        assert len(asked) == 1, pursuit.describe_state()
        assert reason in get_question(asked[0])
        document = pursuit.read(views.show_goal, goal.id)
        assert document["repository"] == "app"
        assert [file["path"] for file in document["changes"]["files"]] == ["a.txt", "b.txt", "c.txt"]
        assert "+both" in document["changes"]["diff"]
        outcome = next(shown["outcome"] for shown in document["sub_goals"] if shown["description"] == "again")
        assert (outcome["changes"]["merged"], outcome["changes"]["files"][0]["path"]) == (True, "b.txt")
        wait_for_cleanup(pursuit)
        assert list_branches(repository) == sorted([kept, branch])
        assert git(repository, "worktree", "list").count("\n") == 0
        assert list_subjects(repository, branch).count("again") == 1
        assert show(repository, branch, "c") == "sum"
        check_untouched(repository, head)
        git(repository, "merge", "-q", branch)


def test_an_abandoned_goal_leaves_its_work_on_branches(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part({"dig": by_transcript(write("b", "half\n"), gate.before(text("Dug.")))}, plan=plan(agent("dig")))
    repository = make_repository(tmp_path / "repository")
    name_repository(tmp_path, repository)
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        goal = pursuit.set_goal()
        pursuit.until(lambda: len(pursuit.list_requests("work")) == 2)
        child = pursuit.run_of("dig")
        pursuit.act(goals.abandon, goal.id)
        gate.open()
        wait_for_cleanup(pursuit)
        branch = f"headway/agent-{child.id[:8]}"
        assert pursuit.goal().repository == str(repository)  # its main agent's role names it
        assert list_branches(repository) == [branch]
        assert show(repository, branch, "b") == "half"
        ended = next(event["run"] for event in reversed(pursuit.events("agent_changed")) if event["run"]["id"] == child.id)
        assert (ended["status"], ended["changes"]["merged"]) == ("canceled", False)
        assert ended["changes"]["files"] == [{"path": "b.txt", "added": 1, "deleted": 0}]


def test_a_goal_cannot_name_a_repository_outside_the_workspace(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(step("dig")))) as pursuit:
        for path in ("/etc", "../2/app", "a/../../b"):
            with pytest.raises(Invalid, match="repository must be a path inside the workspace"):
                pursuit.set_goal(repository=path)
