"""Git repositories for agents to work in, and views of what they did there."""

import os
import subprocess
from pathlib import Path
from threading import Barrier

from tests.agents.sub_agent_harness import by_transcript
from tests.model_server import Reply, Request, Script, calls, text

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(repository: Path, *arguments: str) -> str:
    """Run git as the user does."""
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(command, cwd=repository, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path, **files: str) -> Path:
    """Make a repository with one commit. A file named `a` is a.txt."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    return commit(folder, **(files or {"a": "one\n"}))


def commit(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.txt").write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "The user's work")
    return folder


def name_repository(home: Path, repository: Path | str, role: str = "index") -> None:
    """Let a role's agents work in a repository."""
    (home / "agents").mkdir(exist_ok=True)
    (home / "agents" / f"{role}.toml").write_text(f'repository = "{repository}"\n')


def list_branches(repository: Path) -> list[str]:
    return git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads/headway").split()


def show(repository: Path, branch: str, name: str) -> str:
    """Return a file's content on a branch."""
    return git(repository, "show", f"{branch}:{name}.txt")


def list_subjects(repository: Path, branch: str) -> list[str]:
    """Return the subjects of the commits that a branch has and the user's does not, the newest first."""
    return git(repository, "log", "--topo-order", "--format=%s", f"main..{branch}").splitlines()


def check_untouched(repository: Path, head: str) -> None:
    """Check that the user's checkout is as it was."""
    assert git(repository, "rev-parse", "main") == head
    assert git(repository, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(repository, "status", "--porcelain") == ""


# Scripts for the model


def write(name: str, content: str) -> Reply:
    return calls(("write_file", {"path": f"{name}.txt", "content": content}))


def together(count: int, script: Script) -> Script:
    """Hold the first answers back until `count` agents have asked, so that each has its worktree before any work is merged."""
    barrier = Barrier(count, timeout=30)

    def wait_and_reply(request: Request) -> Reply:
        if not request.assistant_turns:
            barrier.wait()
        return script(request)

    return wait_and_reply


def write_and_end(answer: str = "Written.", **files: str) -> Script:
    """Write files, each in an answer of its own, and end."""
    return by_transcript(*(write(name, content) for name, content in files.items()), text(answer))
