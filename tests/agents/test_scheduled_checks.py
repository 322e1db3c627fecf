"""Jobs of schedules that complete or verify todos with checks."""

from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import proof as proof_todo
from headway.actions.todos import todos
from headway.ledger.job import Job
from headway.ledger.todo import Change, Todo
from tests.agents.test_checks import FILE_CHECK, add_todo
from tests.agents.test_jobs_tools import create_tool_job, get_job
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import text

pytestmark = pytest.mark.usefixtures("dispatch")


def run_job(talk: Talk, name: str, arguments: dict[str, Any]) -> Job:
    job = create_tool_job(talk, name, arguments)
    talk.headway.nudge()
    talk.wait(talk.until(lambda: get_job(talk, job.id).state in ("completed", "dead")))
    return get_job(talk, job.id)


def get(talk: Talk, todo: Todo) -> Todo:
    return talk.database.read(lambda tx: todos.get_todo(tx, talk.tenant_id, todo.id))


def find_report(talk: Talk) -> Path:
    folder = Path(talk.headway.settings.get_workspace(talk.tenant_id))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "report.md"


def test_a_schedule_completes_a_todo_only_if_its_checks_pass(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("Hello."), sweeping=True) as talk:
        todo = add_todo(talk, FILE_CHECK)
        arguments = {"id": todo.id, "status": "completed"}
        failed = run_job(talk, "todo_update", arguments)
        assert (failed.state, get(talk, todo).status) == ("dead", "pending")
        assert "There is no report.md in the workspace." in failed.errors
        find_report(talk).write_text("# Summary")
        assert run_job(talk, "todo_update", arguments).state == "completed"
        assert get(talk, todo).proof == "proven"


def test_a_schedule_verifies_and_the_operator_hears_once_of_what_broke(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("Hello."), sweeping=True) as talk:
        todo, judged = add_todo(talk, FILE_CHECK), add_todo(talk, {"kind": "judge", "rubric": "It is kind."})
        report = find_report(talk)
        report.write_text("# Summary")
        assert run_job(talk, "todo_update", {"id": todo.id, "status": "completed"}).state == "completed"
        for proof in ("proven", "broken", "broken"):
            job = run_job(talk, "verify_todos", {"limit": 5})
            assert job.as_json()["result"] == {"verified": 1, "failed": [todo.id] if proof == "broken" else [], "skipped": []}
            assert get(talk, todo).proof == proof
            report.unlink(missing_ok=True)
        (notice,) = [words for kind, words in talk.notices() if kind == "checks"]
        assert notice == f"Todo {todo.id} (Ship it) no longer passes its checks: file report.md."
        talk.database.write(lambda tx: todos.remove_todo(tx, talk.tenant_id, todo.id))
        job = run_job(talk, "verify_todos", {"ids": [todo.id, judged.id]})
        assert job.as_json()["result"]["skipped"] == [{"id": todo.id, "reason": f"No todo {todo.id}."}]
        newest = talk.database.read(lambda tx: proof_todo.list_newest_receipts(tx, talk.tenant_id, "todo", judged.id, 1))
        assert newest[0].as_json()["checks"][0]["detail"] == "Not asked again."


def test_a_todo_that_lost_its_checks_is_skipped(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello."), sweeping=True) as talk:
        todo = add_todo(talk, FILE_CHECK)
        find_report(talk).write_text("# Summary")
        run_job(talk, "todo_update", {"id": todo.id, "status": "completed"})
        talk.database.write(lambda tx: todos.change_todo(tx, talk.tenant_id, todo.id, Change(checks="")))
        assert get(talk, todo).proof == "none"
        job = run_job(talk, "verify_todos", {"ids": [todo.id]})
        assert job.as_json()["result"]["skipped"] == [{"id": todo.id, "reason": f"Todo {todo.id} has no checks."}]
