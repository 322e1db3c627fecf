"""A turn in a git repository whose sub-agents work in parallel, one of them with a sub-agent of its own: the model, the home folder
and the expected end. The model's reply depends on the request alone, so a request repeated after a crash gets the same reply."""

import json
from collections import Counter
from pathlib import Path
from uuid import uuid4

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.agents.repository_harness import check_untouched, git, list_branches, make_repository, name_repository, show
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.snapshot import Snapshot
from tests.model_server import Reply, Request, call, calls, text

REQUEST = "Tidy up."
FINAL = "It is tidy."
TASKS = ("Write b.", "Write c.", "Write d.")


def write(name: str) -> Reply:
    return calls(call("write_file", {"path": f"{name}.txt", "content": f"{name}\n"}, id=f"write-{name}"))


def reply(request: Request) -> Reply:
    words = next((message for message in request.texts if message.startswith("[DELEGATION CONTEXT]")), "")
    task = next((task for task in TASKS if words.endswith(task)), "")
    script = {"": reply_to_user, TASKS[0]: reply_with_worker, TASKS[1]: reply_with_report, TASKS[2]: reply_at_the_end}[task]
    return script(request)


def reply_to_user(request: Request) -> Reply:
    match request.assistant_turns:
        case 0:
            return write("a")
        case 1:
            return calls(*(call("spawn_agent", {"task": task}, id=f"spawn-{task[6]}") for task in TASKS[:2]))
        case 2:
            spawned = [json.loads(result.content)["run_id"] for result in request.tool_results if result.name == "spawn_agent"]
            return calls(*(call("await_agent", {"run_id": run_id}, id=f"await-{n}") for n, run_id in enumerate(spawned)))
    return text(FINAL)


def reply_with_worker(request: Request) -> Reply:
    match request.assistant_turns:
        case 0:
            return write("b")
        case 1:
            return calls(call("delegate", {"agent": "writer", "task": TASKS[2]}, id="delegate-d"))
    return text("b and d are written.")


def reply_with_report(request: Request) -> Reply:
    return calls(call("report_outcome", {"summary": "c is written."}, id="report-c")) if request.assistant_turns else write("c")


def reply_at_the_end(request: Request) -> Reply:
    return text("d is written.") if request.assistant_turns else write("d")


def build_scenario(folder: Path, database_url: str) -> ProcessPlan:
    """A fresh home folder, a repository with one commit, and a tenant with a conversation."""
    repository = make_repository(folder / "repository", a="one\n")
    (folder / "home").mkdir()
    name_repository(folder / "home", repository)
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        conversation_id = desk.conversation().id
    return ProcessPlan(str(folder / "home"), database_url, desk.tenant.id, conversation_id, request=REQUEST, cleans_up=True)


def check_end(plan: ProcessPlan, left: Snapshot) -> None:
    """Check that every agent's work is merged once, that nothing else is left, and that the user's checkout is as it was."""
    (turn,) = left["turns"]
    assert (turn["status"], left["runs"][0]["result"]) == ("finished", FINAL)
    assert [run["status"] for run in left["runs"]] == ["completed"] * 4
    repository = Path(plan.home).parent / "repository"
    branch = f"headway/conversation-{plan.conversation_id}"
    assert list_branches(repository) == [branch], git(repository, "log", "--all", "--graph", "--oneline")
    assert [show(repository, branch, name) for name in "abcd"] == list("abcd")
    commits = git(repository, "log", "--format=%s", f"main..{branch}").splitlines()
    merges = Counter(commit.partition(": ")[2] for commit in commits if commit.startswith("Merge "))
    assert merges == dict.fromkeys(TASKS, 1), commits
    assert [commits.count(task) for task in TASKS[1:]] == [1, 1], commits  # Write b. has a merge, and a kill may split its commit
    (finished,) = [json.loads(event["data"]) for event in left["events"] if event["kind"] == "turn_finished"]
    assert [file["path"] for file in finished["changes"]["files"]] == ["a.txt", "b.txt", "c.txt", "d.txt"]
    assert git(repository, "worktree", "list").count("\n") == 1  # the user's and the conversation's
    check_untouched(repository, git(repository, "rev-list", "--max-parents=0", "main"))
