"""Goals of small models: planned by rule, and judged by what was written."""

from pathlib import Path

from tests.autonomy.goal_harness import open_pursuit
from tests.model_server import Reply, Request, calls, text

ROOMS = "Make these notes:\n1. Write the text wine to cellar.txt.\n2. Write the text flour to pantry.txt."


def write(path: str, content: str) -> Reply:
    return calls(("write_file", {"path": path, "content": content}))


def test_a_goal_with_a_list_is_planned_and_judged_without_a_model(sqlite_url: str, tmp_path: Path) -> None:
    def reply(request: Request) -> Reply:
        return write("cellar.txt", "wine") if "wine" in request.last else write("pantry.txt", "flour")

    with open_pursuit(sqlite_url, tmp_path, reply, drive="item") as pursuit:
        pursuit.achieve(ROOMS)
        assert [(one.status, one.divergence) for one in pursuit.sub_goals()] == [("completed", "none")] * 2
        assert [entry["by"] for entry in pursuit.journal("evaluated")] == ["effect"] * 2
        assert [request.texts[1:] for request in pursuit.server.requests] == [
            ["Write the text wine to cellar.txt.", "Call write_file with the path cellar.txt and the content: wine"],
            ["Write the text flour to pantry.txt.", "Call write_file with the path pantry.txt and the content: flour"],
        ], "one call for each sub-goal, about nothing else, and none to plan or to judge"


def test_what_failed_does_not_stop_the_rest(sqlite_url: str, tmp_path: Path) -> None:
    """The model claims the first sub-goal and does the second. It is asked for a new plan only if someone resumes the goal."""

    def reply(request: Request) -> Reply:
        return write("pantry.txt", "flour") if "flour" in request.last and "plan" not in request.system else text("All done!")

    with open_pursuit(sqlite_url, tmp_path, reply, drive="item") as pursuit:
        pursuit.set_goal(ROOMS)
        pursuit.wait_until_paused()
        first, second = pursuit.sub_goals()
        assert (first.status, first.reason) == ("failed", "incomplete")
        assert second.status == "completed"
        assert "1 of 2 sub-goals were not reached.\n#" in pursuit.goal().pause_reason
        assert all("cellar" in request.last or "pantry" in request.last for request in pursuit.server.requests)
