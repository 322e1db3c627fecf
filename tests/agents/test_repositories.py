"""Agents that work in a git repository: each on a branch of its own, merged when it ends."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from headway.actions.engine import dead_letters
from headway.agents.repositories.git import Git
from headway.agents.repositories.places import check_path, find_repository, show_repository
from headway.agents.repositories.worktrees import Worktree, remove, remove_stale_locks
from headway.agents.tools.programs import shell
from headway.agents.tools.programs.sandbox import probe
from headway.ledger.errors import Invalid
from headway.ledger.limits import Sandbox
from tests.agents.repository_harness import (
    check_untouched,
    commit,
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
from tests.agents.sub_agent_harness import (
    await_calls,
    by_role,
    by_task,
    by_transcript,
    delegate_call,
    list_sub_agents,
    list_tool_answers,
    spawn_calls,
)
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import Reply, Request, error, text


def wait_for_cleanup(talk: Talk) -> None:
    """Wait until the worktrees of ended agents are removed."""
    sql = "SELECT COUNT(*) FROM jobs WHERE kind = 'worktree' AND state <> 'completed'"
    talk.wait(talk.until(lambda: talk.database.read(lambda tx: tx.one(sql)) == (0,)))


def test_a_turn_works_on_a_branch_of_its_conversation(sqlite_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository", a="one\n")
    head = git(repository, "rev-parse", "HEAD")
    name_repository(tmp_path, repository)
    with open_talk(sqlite_url, tmp_path, write_and_end(a="two\n", b="new\n")) as talk:
        turn = talk.say("Change it.\nQuickly.")
        branch = f"headway/conversation-{talk.conversation_id}"
        changes = turn["changes"]
        assert changes["files"] == [{"path": "a.txt", "added": 1, "deleted": 1}, {"path": "b.txt", "added": 1, "deleted": 0}]
        assert (changes["branch"], changes["base"], changes["merged"]) == (branch, head, False)
        assert "-one\n+two\n" in changes["diff"]
        (event,) = talk.list_event_data("turn_finished")
        assert event["changes"]["files"] == changes["files"]
        assert "diff" not in event["changes"]
        assert list_subjects(repository, branch) == ["Change it."]
        assert git(repository, "log", "-1", "--format=%an", branch) == "Headway index"
        check_untouched(repository, head)

        talk.server.script = in_order(write("c", "more\n"), text("Done."))
        assert [file["path"] for file in talk.say("Go on.")["changes"]["files"]] == ["c.txt"]
        git(repository, "merge", "-q", branch)
        commit(repository, d="the user's\n")

        talk.server.script = in_order(write("e", "last\n"), text("Done."))
        turn = talk.say("Go on.")
        assert [file["path"] for file in turn["changes"]["files"]] == ["e.txt"]
        assert turn["changes"]["base"] == git(repository, "rev-parse", "main")
        assert show(repository, branch, "d") == "the user's"


def test_the_work_of_a_sub_agent_is_merged_into_its_parents_branch(database_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    head = git(repository, "rev-parse", "HEAD")
    name_repository(tmp_path, repository)
    script = by_role(
        index=by_transcript(write("a", "pending\n"), delegate_call("dig"), text("Dug.")), researcher=write_and_end(b="a hole\n")
    )
    with open_talk(database_url, tmp_path, script) as talk:
        changes = talk.say("Dig a hole.")["changes"]
        (child,) = list_sub_agents(talk).values()
        (result,) = list_tool_answers(talk.server.requests[-1], "delegate")
        assert (result["status"], result["changes"]["merged"]) == ("completed", True)
        assert result["changes"]["files"] == [{"path": "b.txt", "added": 1, "deleted": 0}]
        assert "+a hole" in result["changes"]["diff"]
        opening = next(request.texts[1] for request in talk.server.requests if "[DELEGATION CONTEXT]" in request.texts[1])
        assert f"Repository: your workspace is your own branch of it, headway/agent-{child.id[:8]}." in opening
        branch = changes["branch"]
        assert list_subjects(repository, branch) == [f"Merge headway/agent-{child.id[:8]}: dig", "dig", "Dig a hole."]
        assert [file["path"] for file in changes["files"]] == ["a.txt", "b.txt"]
        wait_for_cleanup(talk)
        assert list_branches(repository) == [branch]
        assert "agent-" not in git(repository, "worktree", "list")
        check_untouched(repository, head)


def test_a_sub_agent_whose_work_conflicts_has_failed(sqlite_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    name_repository(tmp_path, repository)
    workers = by_task(left=write_and_end(a="left\n"), right=write_and_end(a="right\n", b="b\n"), other=write_and_end(c="c\n"))
    script = by_role(
        index=by_transcript(spawn_calls("left", "right", "other"), await_calls, text("Awaited.")), researcher=together(3, workers)
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        changes = talk.say()["changes"]
        results = list_tool_answers(talk.server.requests[-1], "await_agent")
        loser = next(result for result in results if result["status"] == "failed")
        kept = f"headway/agent-{loser['run_id'][:8]}"
        assert loser["error"] == (f"{kept} conflicts with {changes['branch']} in a.txt. Nothing was merged; the branch is kept.")
        assert [result["changes"]["merged"] for result in results].count(True) == 2
        assert "c.txt" in [file["path"] for file in changes["files"]]
        wait_for_cleanup(talk)
        assert list_branches(repository) == sorted([kept, changes["branch"]])
        assert loser["changes"]["commit"] == git(repository, "rev-parse", kept)


def test_nothing_is_committed_while_everything_is_halted(sqlite_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    name_repository(tmp_path, repository)
    with open_talk(sqlite_url, tmp_path, text("")) as talk:

        def halt_and_answer(_request: Request) -> Reply:
            talk.halt()
            return text("Done.")

        talk.server.script = in_order(write("b", "new\n"), halt_and_answer)
        assert talk.say()["status"] == "running"
        branch = f"headway/conversation-{talk.conversation_id}"
        assert list_subjects(repository, branch) == []
        talk.unhalt()
        talk.headway.nudge()
        talk.wait(talk.until(lambda: talk.turn()["status"] == "finished"))
        assert list_subjects(repository, branch) == ["Do it."]


def test_a_retried_turn_goes_on_in_its_worktree(sqlite_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    name_repository(tmp_path, repository)
    with open_talk(sqlite_url, tmp_path, in_order(write("b", "half\n"), error(400), write("c", "rest\n"), text("Done."))) as talk:
        assert talk.say()["status"] == "failed"
        wait_for_cleanup(talk)
        failed = talk.turn()["changes"]
        assert [file["path"] for file in failed["files"]] == ["b.txt"]
        job_id = talk.job().id
        talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, job_id))
        talk.headway.engine.adopt(job_id)
        talk.wait(talk.until(lambda: talk.turn()["status"] == "finished"))
        changes = talk.turn()["changes"]
        assert [file["path"] for file in changes["files"]] == ["b.txt", "c.txt"]
        assert changes["base"] == failed["base"]


def test_renamed_and_binary_files_are_part_of_the_changes(sqlite_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository", a="".join(f"line {n}\n" for n in range(50)))
    name_repository(tmp_path, repository)

    def rearrange(_request: Request) -> Reply:
        folder = next(path for path in (tmp_path / "worktrees").glob("*/*/conversation-*"))
        (folder / "a.txt").rename(folder / "b.txt")
        (folder / "image.png").write_bytes(b"\x89PNG\0\xff")
        (folder / ".git").write_text("gitdir: /nowhere\n")
        (folder / ".headway-scratch").write_text("interrupted")
        return text("Rearranged.")

    with open_talk(sqlite_url, tmp_path, rearrange) as talk:
        changes = talk.say()["changes"]
        assert changes["files"] == [
            {"path": "b.txt", "added": 0, "deleted": 0, "renamed_from": "a.txt"},
            {"path": "image.png", "added": None, "deleted": None},
        ]
        assert "Binary files /dev/null and b/image.png differ" in changes["diff"]


@pytest.mark.parametrize("hostile", ["filter", "hook", "nested", "commondir"])
def test_a_hostile_repository_runs_no_program(hostile: str, sqlite_url: str, tmp_path: Path) -> None:
    """A repository in the workspace, where agents could have written each of these files."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    name_repository(tmp_path, "app")

    def attack(_request: Request) -> Reply:
        folder = next(path for path in (tmp_path / "worktrees").glob("*/*/conversation-*"))
        if hostile == "nested":
            nested = make_repository(folder / "nested")
            git(nested, "config", "filter.x.clean", str(program))
            (nested / ".gitattributes").write_text("* filter=x\n")
        (folder / "b.txt").write_text("new\n")
        return text("Done.")

    with open_talk(sqlite_url, tmp_path, attack) as talk:
        repository = make_repository(tmp_path / "workspace" / str(talk.tenant_id) / "app")
        if hostile == "filter":
            (repository / ".gitattributes").write_text("* filter=x\n")
            git(repository, "config", "filter.x.smudge", str(program))
        for key in ("core.fsmonitor", "core.sshCommand", "gpg.program", "diff.x.xfuncname"):
            git(repository, "config", key, str(program))
        for name in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change", "post-merge"):
            shutil.copy(program, repository / ".git" / "hooks" / name)
        if hostile == "commondir":
            other = make_repository(tmp_path / "workspace" / "another tenant")
            (repository / ".git" / "commondir").write_text(str(other / ".git"))
        turn = talk.say()
        error_text = talk.run_row().result or ""
        assert not ran.exists()
        if hostile == "nested":  # the next turn can put it right
            shutil.rmtree(next((tmp_path / "worktrees").glob("*/*/conversation-*/nested/.git")))
            talk.server.script = in_order(text("Removed."))
            assert show(repository, talk.say()["changes"]["branch"], "nested/a") == "one"
        if hostile == "hook":
            assert [file["path"] for file in turn["changes"]["files"]] == ["b.txt"]
        else:
            assert turn["status"] == "failed"
            assert {"filter": "filter.x.smudge", "nested": "nested is another repository", "commondir": "leads elsewhere"}[
                hostile
            ] in (error_text)


@pytest.mark.parametrize("key", ["include.path", "includeIf.gitdir:worktrees/.path", "extensions.worktreeConfig"])
def test_without_a_sandbox_a_configuration_with_other_parts_is_refused(key: str, sqlite_url: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    name_repository(tmp_path, repository)
    with open_talk(sqlite_url, tmp_path, write_and_end(b="new\n"), sandbox="off") as talk:
        assert talk.say()["changes"]["files"] == [{"path": "b.txt", "added": 1, "deleted": 0}]
        git(repository, "config", key, "true")
        talk.server.script = in_order(text("Done."))
        assert talk.say()["status"] == "failed"
        assert "and so has parts elsewhere, which could name programs" in (talk.run_row().result or "")


def test_a_required_sandbox_that_is_missing_stops_git(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    name_repository(tmp_path, make_repository(tmp_path / "repository"))
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    probe.cache_clear()
    try:
        with open_talk(sqlite_url, tmp_path, text("Done."), sandbox="required") as talk:
            assert talk.say()["status"] == "failed"
            assert "HEADWAY_SANDBOX is required, but bubblewrap does not work here" in (talk.run_row().result or "")
    finally:
        probe.cache_clear()


def test_objects_of_another_repository_of_the_operator_are_found(sqlite_url: str, tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--shared", str(origin), "shared")
    name_repository(tmp_path, tmp_path / "shared")
    with open_talk(sqlite_url, tmp_path, write_and_end(b="new\n")) as talk:
        assert [file["path"] for file in talk.say()["changes"]["files"]] == ["b.txt"]


def test_a_repository_that_is_exchanged_for_a_link_is_not_shown(tmp_path: Path) -> None:
    """As a program of an agent could do it, between the check and the start of git."""
    app, other = make_repository(tmp_path / "workspace" / "1" / "app"), make_repository(tmp_path / "workspace" / "2" / "app")
    repository = find_repository(str(tmp_path / "workspace" / "1"), "app")
    sandbox = show_repository(Sandbox("required"), repository, is_writable=False)
    command = ["git", "--git-dir", str(app / ".git"), "rev-parse", "HEAD"]
    assert shell.run(command, str(tmp_path / "worktree"), sandbox).output.strip() == git(app, "rev-parse", "HEAD")
    app.rename(tmp_path / "workspace" / "1" / "moved")
    app.symlink_to(other)
    refusal = shell.run(command, str(tmp_path / "worktree"), sandbox)
    assert (refusal.exit_code, refusal.output) == (126, "A folder of the repository was exchanged. Nothing was run.\n")


@pytest.mark.parametrize("exchanged", ["app/.git", "app/.git/worktrees"])
def test_nothing_is_deleted_through_a_link_in_place_of_a_folder_of_git(tmp_path: Path, exchanged: str) -> None:
    """As a program of an agent could do it, between the search for a worktree's record and its removal. The name of the record is
    that of the folder of another tenant."""
    workspaces, folder, branch = tmp_path / "workspace", tmp_path / "worktrees" / "1" / "goal-1", "headway/goal-1"
    make_repository(workspaces / "1" / "app")
    folders = find_repository(str(workspaces / "1"), "app")
    victim = workspaces / ("2" if exchanged.endswith("worktrees") else "worktrees/2")
    victim.mkdir(parents=True)
    (victim / "gitdir").write_text(f"{folder}/.git\n")
    (victim / "index.lock").touch()
    os.utime(victim / "index.lock", (0, 0))
    path = workspaces / "1" / exchanged
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(workspaces)
    worktree = Worktree(str(folder), branch, "Ada", "x", "r", "b")
    git = Git(folders, Sandbox("required"), 0, "", os.path.join(folders.git_dir, "worktrees", "2"))
    for change in (partial(remove, git, worktree), partial(remove_stale_locks, git, branch)):
        with pytest.raises((Invalid, NotADirectoryError)):
            change()
    assert sorted(os.listdir(victim)) == ["gitdir", "index.lock"]


def test_a_repository_is_found_while_git_removes_folders_in_it(tmp_path: Path) -> None:
    """As when the work of one agent is cleaned up, and another agent begins: this look does not wait for the repository's lock."""
    records = make_repository(tmp_path / "app") / ".git" / "worktrees"
    found, is_done = find_repository(str(tmp_path), "app"), Event()

    def work_and_clean_up() -> None:
        while not is_done.is_set():
            for number in range(50):
                (records / f"agent-{number}" / "logs").mkdir(parents=True)
            shutil.rmtree(records)

    with ThreadPoolExecutor(1) as executor:
        others = executor.submit(work_and_clean_up)
        try:
            for _ in range(300):
                assert find_repository(str(tmp_path), "app") == found
        finally:
            is_done.set()
        others.result()


def test_a_pipe_in_place_of_a_file_of_git_keeps_nothing_waiting(tmp_path: Path) -> None:
    app = make_repository(tmp_path / "app")
    (app / ".git" / "HEAD").unlink()
    os.mkfifo(app / ".git" / "HEAD")
    with pytest.raises(Invalid, match="has no commit yet"):
        check_path(str(tmp_path), "app")


def test_a_bare_repository_in_a_workspace_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(make_repository(tmp_path / "app")), "bare")
    for check in (check_path, find_repository):
        with pytest.raises(Invalid, match=r"must have a \.git folder"):
            check(str(tmp_path), "bare")
