"""The work of runs in repositories, from the first commit to the merge. Each function locks the repository, and can be repeated."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from headway.agents.repositories import worktrees
from headway.agents.repositories.git import Git, GitFailed, open_git
from headway.agents.repositories.places import find_repository
from headway.agents.repositories.worktrees import FILES_LIMIT, EmbeddedRepository, Worktree, list_files, render_diff
from headway.ledger.limits import Sandbox
from headway.ledger.run import Run
from headway.ledger.text import to_one_line

CONFLICTS_SHOWN = 5


class BranchTaken(GitFailed):
    """A branch of the same name exists."""


class Lineage(NamedTuple):
    """A run with its ancestors in the same repository, the oldest first."""

    root: str  # the folder of all worktrees
    workspace: str  # the tenant's
    sandbox: Sandbox  # for git
    runs: Sequence[Run]

    @property
    def run(self) -> Run:
        return self.runs[-1]

    def open_git(self) -> AbstractContextManager[Git]:
        return open_git(self.root, find_repository(self.workspace, self.run.repository), self.sandbox)

    @property
    def worktrees(self) -> list[Worktree]:
        return [Worktree.of(self.root, run) for run in self.runs]

    @property
    def parent(self) -> Worktree | None:
        return self.worktrees[-2] if len(self.runs) > 1 else None


class Delivery(NamedTuple):
    changes: dict[str, Any]
    diff: str
    conflicts: list[str]  # files that could not be merged


def is_ready(lineage: Lineage) -> bool:
    """Whether the run's worktree exists. Runs no program, so that a run that continues costs nothing."""
    worktree = lineage.worktrees[-1]
    common_dir = find_repository(lineage.workspace, lineage.run.repository).common_dir
    return bool(worktree.base) and worktrees.is_complete(worktrees.find_admin(common_dir, worktree.folder), worktree.folder)


def choose_base(lineage: Lineage, *, continues: bool) -> str:
    """Return the commit that the run's work starts from: its parent's work so far, its conversation's, or the repository's HEAD.

    With `continues`, an earlier turn of the conversation has worked on the branch.
    """
    own, parent = lineage.worktrees[-1], lineage.parent
    with lineage.open_git() as git:
        if parent:
            return worktrees.commit_all(worktrees.ensure(git, parent), parent)
        head = git.find_commit("HEAD")
        if not head:
            raise GitFailed(f"The repository {to_one_line(lineage.run.repository)[:200]} has no commit yet. Make one first.")
        tip = git.find_commit(f"refs/heads/{own.branch}")
        if not tip:
            return head
        if not continues:
            raise BranchTaken(f"The branch {own.branch} exists already, from other work. Rename or delete it, then retry.")
        return continue_branch(git, own._replace(base=tip), head)


def continue_branch(git: Git, worktree: Worktree, head: str) -> str:
    """Commit what an earlier turn left. If the user has merged the branch meanwhile, it continues from the user's commit."""
    own_git = worktrees.ensure(git, worktree)
    try:
        tip = worktrees.commit_all(own_git, worktree)
    except EmbeddedRepository:
        return worktree.base  # the turn can remove it
    if tip == head or not git.is_ancestor(tip, head):
        return tip
    worktrees.advance(own_git, worktree, tip, head)
    return head


def create_worktree(lineage: Lineage) -> None:
    with lineage.open_git() as git:
        worktrees.ensure(git, lineage.worktrees[-1])


def deliver(lineage: Lineage, *, merge: bool) -> Delivery:
    """Commit the run's work to its branch and, with `merge`, merge that into its parent's branch, unless they conflict."""
    own, parent = lineage.worktrees[-1], lineage.parent
    with lineage.open_git() as git:
        commit = worktrees.commit_all(worktrees.ensure(git, own), own)
        conflicts = merge_into(git, parent, own, commit) if merge and parent else []
        return describe(git, lineage.run, own, commit, conflicts, is_merged=merge and parent is not None and not conflicts)


def merge_into(git: Git, parent: Worktree, child: Worktree, commit: str) -> list[str]:
    """Merge a commit into the parent's branch and worktree, and return the conflicting files. With any, nothing changes."""
    parent_git = worktrees.ensure(git, parent)
    tip = worktrees.commit_all(parent_git, parent)
    if git.is_ancestor(commit, tip):
        return []
    merge = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", tip, commit)
    output = parent_git.run(*merge, accept=(0, 1))
    tree, *names = output.fields
    if output.code:
        return sorted({to_one_line(name) for name in names if name})
    message = f"Merge {child.branch}: {child.subject}\n\nHeadway-Run: {child.run_id}\n"
    merged = git.commit_tree(tree, (tip, commit), parent.author, message)
    worktrees.advance(parent_git, parent, tip, merged)
    return []


def describe(git: Git, run: Run, worktree: Worktree, commit: str, conflicts: list[str], *, is_merged: bool) -> Delivery:
    files = list_files(git, worktree.base, commit)
    changes = {
        "repository": run.repository,
        "branch": worktree.branch,
        "base": worktree.base,
        "commit": commit,
        "merged": is_merged,
        "files": [file.as_json() for file in files[:FILES_LIMIT]],
        "omitted_files": max(0, len(files) - FILES_LIMIT),
    }
    return Delivery(changes, render_diff(git, worktree.base, commit), conflicts)


def describe_conflict(lineage: Lineage, conflicts: list[str]) -> str:
    own, parent = lineage.worktrees[-1], lineage.parent
    assert parent is not None
    shown = ", ".join(name[:100] for name in conflicts[:CONFLICTS_SHOWN])
    more = f" and {len(conflicts) - CONFLICTS_SHOWN} more" if len(conflicts) > CONFLICTS_SHOWN else ""
    return f"{own.branch} conflicts with {parent.branch} in {shown}{more}. Nothing was merged; the branch is kept."


def release(lineage: Lineage) -> Delivery | None:
    """Commit what an ended run left uncommitted, and return what it changed. None if it never began, or nothing of it is left."""
    run, own, parent = lineage.run, lineage.worktrees[-1], lineage.parent
    if not own.base:
        return None
    with lineage.open_git() as git:
        commit = commit_rest(git, own)
        return describe(git, run, own, commit, [], is_merged=is_merged(git, run, parent, commit)) if commit else None


def is_merged(git: Git, run: Run, parent: Worktree | None, commit: str) -> bool:
    """Whether an ended run's work is in its parent's branch. If it was delivered, its row says so: that branch may be gone."""
    if run.changes:
        return bool(json.loads(run.changes)["merged"])
    tip = git.find_commit(f"refs/heads/{parent.branch}") if parent else ""
    return bool(tip) and commit != run.base and git.is_ancestor(commit, tip)


def commit_rest(git: Git, worktree: Worktree) -> str:
    """Return the last commit of a worktree's branch, after everything is committed; empty if the branch is gone."""
    admin = worktrees.find_admin(git.folders.common_dir, worktree.folder)
    if not worktrees.is_complete(admin, worktree.folder):
        return git.find_commit(f"refs/heads/{worktree.branch}")
    return worktrees.commit_all(worktrees.ensure(git, worktree), worktree)


def discard(lineage: Lineage, released: Delivery) -> None:
    """Remove the worktree of an ended run, and its branch unless it has work that is not merged."""
    own, commit = lineage.worktrees[-1], released.changes["commit"]
    with lineage.open_git() as git:
        if commit_rest(git, own) != commit:
            return  # an operator has retried the run, and it is at work again
        worktrees.remove(git, own)
        if released.changes["merged"] or commit == own.base:
            git.run("update-ref", "-d", f"refs/heads/{own.branch}", commit)
