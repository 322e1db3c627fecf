"""The guard with the real assistants. A scripted model stands behind them, so what differs is only the program."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.assistants.real_programs import Assistant
from tests.assistants.scripted_provider import Answer, Say
from tests.npm_packages import install_packages
from tests.surfaces.shell import Shell

CLIENTS = ("claude-code", "codex", "gemini", "opencode")
TODO, DONE = "pending", "completed"
OPEN_PLAN = (("Write a", DONE), ("Write b", TODO), ("Write c", TODO))
DONE_PLAN = (("Write a", DONE), ("Write b", DONE), ("Write c", DONE))

pytestmark = pytest.mark.compatibility
each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of the user who starts them. opencode takes minutes for its first start with a new one."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture
def assistant(client: str, headway: Shell, user: Path) -> Assistant:
    (headway.folder / ".git").mkdir()
    headway.ok("guard", "install", client)
    return Assistant(client, install_packages("assistants"), headway.folder, user)


def get_sessions(headway: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = headway.json("guard", "status")["sessions"]
    return found


def list_rows(headway: Shell) -> list[tuple[int, str, str]]:
    return sorted((todo["id"], todo["subject"], todo["status"]) for todo in headway.json("todo", "list", "--all")["todos"])


@each_client
def test_done_after_one_of_three_items_is_sent_back(assistant: Assistant, headway: Shell) -> None:
    finishing: list[Answer] = assistant.write_list(*DONE_PLAN, before=OPEN_PLAN)
    provider = assistant.work([*assistant.write_list(*OPEN_PLAN), Say("All done."), *finishing, Say("Now it is done.")])
    assert any("You are not done: 2 items are open on your list." in text for text in provider.texts)
    (session,) = get_sessions(headway)
    assert (session["open"], session["refusals"]) == ([], 1)
    assert [(subject, status) for _, subject, status in list_rows(headway)] == list(DONE_PLAN)


@each_client
def test_a_failing_check_is_sent_back_with_its_output(assistant: Assistant, headway: Shell) -> None:
    headway.ok("guard", "add", "the notes exist", "--check-command", "cat notes.txt", "--yes")
    script: list[Answer] = [Say("All done."), assistant.run_shell("echo hello > notes.txt"), Say("Now it is done.")]
    provider = assistant.work(script, until=lambda: '"proven"' in headway.ok("todo", "list", "--all", "--json"))
    assert any("cat: notes.txt: No such file or directory" in text for text in provider.texts)
    (todo,) = headway.json("todo", "list", "--all")["todos"]
    assert (todo["subject"], todo["status"], todo["proof"]) == ("the notes exist", "completed", "proven")
    assert "The answer was refused" in headway.ok("why", f"turn:{todo['turn_id']}")


@each_client
def test_a_model_that_never_finishes_may_stop_after_three_refusals(assistant: Assistant, headway: Shell) -> None:
    script: list[Answer] = [*assistant.write_list(("Write a", TODO)), *[Say("All done.")] * 4]
    provider = assistant.work(script, until=lambda: get_sessions(headway)[0]["outcome"] is not None)
    assert sum("You are not done" in text for text in provider.texts) == 3
    (session,) = get_sessions(headway)
    assert (session["outcome"], session["refusals"], [item["title"] for item in session["open"]]) == ("incomplete", 3, ["Write a"])


@each_client
def test_a_killed_session_continues_with_the_same_plan(assistant: Assistant, headway: Shell) -> None:
    planning = assistant.write_list(*OPEN_PLAN)
    assistant.work([*planning, Say("never sent")], kill_at=len(planning) + 1)
    before = list_rows(headway)
    assert [(subject, status) for _, subject, status in before] == list(OPEN_PLAN)
    (session,) = get_sessions(headway)
    finishing: list[Answer] = assistant.write_list(*DONE_PLAN, before=OPEN_PLAN)
    provider = assistant.work([Say("All done."), *finishing, Say("Now it is done.")], session=session["session"])
    assert any("Write b" in text and "2 items are open" in text for text in provider.texts)
    assert list_rows(headway) == [(number, subject, DONE) for number, subject, _ in before]
    assert [found["session"] for found in get_sessions(headway)] == [session["session"]]


@each_client
def test_a_session_is_not_held_by_the_plan_of_another(assistant: Assistant, headway: Shell) -> None:
    planning = assistant.write_list(*OPEN_PLAN)
    assistant.work([*planning, Say("never sent")], kill_at=len(planning) + 1)
    provider = assistant.work([Say("The answer is 4.")])
    assert len(provider.requests) == 1
    assert "#2 Write b" not in json.dumps(provider.requests)  # the other one may still be at work
    assert len(get_sessions(headway)) == 1


@each_client
def test_a_broken_ledger_lets_the_assistant_go_on(assistant: Assistant, headway: Shell) -> None:
    for file in headway.ledger.parent.glob("headway.db*"):
        file.unlink()
    headway.ledger.write_bytes(b"this is not a database" * 500)
    planning = assistant.write_list(("Write a", TODO))
    provider = assistant.work([*planning, Say("All done.")])
    assert len(provider.requests) == len(planning) + 1


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini"])
def test_a_missing_program_lets_the_assistant_go_on(assistant: Assistant, headway: Shell) -> None:
    for path in headway.folder.glob(".*/*.json"):
        if path.parent.name != ".headway":
            path.write_text(re.sub(r'"[^" ]+( -m headway)? guard hook', '"/nowhere/headway guard hook', path.read_text()))
    planning = assistant.write_list(("Write a", TODO))
    provider = assistant.work([*planning, Say("All done.")])
    assert len(provider.requests) == len(planning) + 1
    assert not any("blocked" in text or "nowhere" in text for text in provider.texts)


@pytest.mark.parametrize("client", ["claude-code", "opencode"])
def test_a_sub_agent_finishes_its_own_plan_before_its_result_is_used(assistant: Assistant, headway: Shell) -> None:
    begun, ended = assistant.plan_of_sub_agent("Sub item")
    script: list[Answer] = [
        assistant.delegate("Do a part."),
        begun,
        Say("Half of it."),
        ended,
        Say("The whole part."),
        Say("Done."),
    ]
    provider = assistant.work(script)
    assert any("1 item is open" in text and "Sub item" in text for text in provider.texts)
    assert "The whole part." in provider.texts[-1]
    assert "Half of it." not in provider.texts[-1]
    (todo,) = headway.json("todo", "list", "--all")["todos"]
    assert (todo["subject"], todo["status"]) == ("Sub item", DONE)
    assert todo["agent_id"].startswith(f"{assistant.client}/")
