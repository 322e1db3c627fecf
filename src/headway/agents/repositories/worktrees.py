"""Worktrees of sub-agents, and the changes in them."""

import os
import shutil
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from headway.agents.repositories.git import Git, GitBusy, GitFailed
from headway.agents.repositories.places import RepositoryFolders, get_branch, get_worktree_folder, open_inside, read_link
from headway.ledger.run import Run
from headway.ledger.text import to_one_line, to_storable

STALE_LOCK_S: Final = 10.0  # a lock file of this age was left by a git that was killed
SUBJECT_LENGTH: Final = 72
SUBMODULE_MODE: Final = "160000"
INITIALIZING: Final = "initializing"  # the reason with which git locks a worktree that it has not finished
REMOVED_SUFFIX: Final = ".removed"


class EmbeddedRepository(GitFailed):
    """A worktree contains another repository, which cannot be committed."""


class Worktree(NamedTuple):
    folder: str
    branch: str
    author: str
    subject: str  # first line of its commits
    run_id: str
    base: str

    @classmethod
    def of(cls, root: str, run: Run) -> "Worktree":
        lines = [to_one_line(line).strip() for line in run.task.splitlines()]
        subject = next((line for line in lines if line), "Work of an agent")[:SUBJECT_LENGTH]
        author = f"Headway {to_one_line(run.role)}"
        return cls(get_worktree_folder(root, run), get_branch(run), author, subject, run.id, run.base)

    @property
    def message(self) -> str:
        return f"{self.subject}\n\nHeadway-Run: {self.run_id}\n"


def find_admin(git_common_dir: str, folder: str) -> str:
    """Return the folder in which git keeps the worktree's index and HEAD; empty if the worktree is not registered."""
    link = os.path.join(folder, ".git")
    with suppress(FileNotFoundError), os.scandir(os.path.join(git_common_dir, "worktrees")) as entries:
        for entry in entries:
            if read_link(os.path.join(entry.path, "gitdir")).strip() == link:
                return entry.path
    return ""


def forget_below(git_common_dir: str, root: str) -> None:
    """Remove git's records of the worktrees below a folder. Their branches stay."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(os.path.join(git_common_dir, "worktrees")) as entries:
        for entry in entries:
            if os.path.normpath(read_link(os.path.join(entry.path, "gitdir")).strip()).startswith(os.path.join(root, "")):
                shutil.rmtree(entry.path, ignore_errors=True)


def is_complete(admin: str, folder: str) -> bool:
    is_finished = read_link(os.path.join(admin, "locked")).strip() != INITIALIZING
    return bool(admin) and is_finished and os.path.exists(os.path.join(admin, "index")) and os.path.isdir(folder)


def ensure(git: Git, worktree: Worktree) -> Git:
    """Create the worktree and its branch, or what is missing of them. Returns git at the worktree."""
    if not has_branch(git, worktree.branch):
        git.move_branch(worktree.branch, worktree.base, "")
    admin = find_admin(git.folders.common_dir, worktree.folder)
    if not is_complete(admin, worktree.folder):
        if admin:  # its creation was interrupted, or its folder was deleted
            shutil.rmtree(worktree.folder, ignore_errors=True)
            remove_record(git.folders, admin)
        elif os.path.isdir(worktree.folder) and os.listdir(worktree.folder):
            raise GitFailed(f"{worktree.folder} is not a worktree of the repository any more. Move it away, then retry.")
        os.makedirs(worktree.folder, mode=0o700, exist_ok=True)
        git.writing(worktree.folder).run("worktree", "add", "-f", "--quiet", worktree.folder, worktree.branch)
        admin = find_admin(git.folders.common_dir, worktree.folder)
    restore_link(admin, worktree.folder)
    return git._replace(git_dir=admin, work_tree=worktree.folder)


def remove_record(repository: RepositoryFolders, admin: str) -> None:
    with open_inside(repository, "worktrees") as records:
        shutil.rmtree(os.path.basename(admin), dir_fd=records)


def has_branch(git: Git, branch: str) -> bool:
    ref = f"refs/heads/{branch}"
    return bool(read_link(os.path.join(git.folders.common_dir, ref)).strip() or git.find_commit(ref))


def restore_link(admin: str, folder: str) -> None:
    """Write the worktree's .git file again if an agent has changed it. We never follow it, but programs of agents do."""
    link, content = os.path.join(folder, ".git"), f"gitdir: {admin}\n"
    if os.path.islink(link) or read_link(link) != content:
        if os.path.isdir(link) and not os.path.islink(link):
            shutil.rmtree(link)
        with suppress(FileNotFoundError):
            os.unlink(link)
        with open(link, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)


def commit_all(git: Git, worktree: Worktree) -> str:
    """Commit everything in the worktree to its branch, whatever else is checked out there. Returns the branch's last commit."""
    remove_stale_locks(git, worktree.branch)
    ref = f"refs/heads/{worktree.branch}"
    if read_link(os.path.join(git.git_dir, "HEAD")).strip() != f"ref: {ref}":
        git.run("symbolic-ref", "HEAD", ref)
    refuse(list_embedded(git))
    git.run("add", "--all")
    tree = git.run("write-tree").line
    tip, tip_tree = git.run("rev-parse", f"{ref}^{{commit}}", f"{ref}^{{tree}}").line.split()
    if tree == tip_tree:
        return tip
    if embedded := list_embedded(git):
        git.run("update-index", "--force-remove", "--", *embedded[:100])  # else they would stay when they are put right
        refuse(embedded)
    commit = git.commit_tree(tree, (tip,), worktree.author, worktree.message)
    git.move_branch(worktree.branch, commit, tip)
    return commit


def remove_stale_locks(git: Git, branch: str) -> None:
    """Remove lock files of a git that was killed. Lock files of a git that an agent runs are younger."""
    worktree = os.path.relpath(git.git_dir, git.folders.common_dir)
    for path in (f"{worktree}/index.lock", f"{worktree}/HEAD.lock", f"refs/heads/{branch}.lock"):
        *folders, name = path.split(os.sep)
        with suppress(FileNotFoundError), open_inside(git.folders, *folders) as folder:
            if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > STALE_LOCK_S:
                os.unlink(name, dir_fd=folder)


def refuse(embedded: list[str]) -> None:
    """Refuse a worktree that contains another repository: git would read its configuration and run what it names."""
    if embedded:
        name = to_one_line(embedded[0])[:200]
        raise EmbeddedRepository(f"{name} is another repository, which cannot be committed. Remove its .git.")


def list_embedded(git: Git) -> list[str]:
    """List the folders in the index that are other repositories."""
    entries = (entry.partition("\t") for entry in git.run("ls-files", "--stage", "-z").fields)
    names = [name for details, _, name in entries if details.startswith(SUBMODULE_MODE)]
    return [name for name in names if os.path.lexists(os.path.join(git.work_tree, name, ".git"))]


def advance(git: Git, worktree: Worktree, before: str, after: str) -> None:
    """Move the worktree and its branch from one commit to a later one. The files come first: if this process is killed in between,
    they are committed again, but never lost."""
    try:
        git.run("read-tree", "-m", "-u", before, after)
    except GitFailed as error:
        raise GitBusy(f"The worktree of {worktree.branch} changed during a merge. {error}") from None
    git.move_branch(worktree.branch, after, before)


def remove(git: Git, worktree: Worktree) -> None:
    """Remove the worktree's folder and git's record of it. Its branch stays."""
    removed = f"{worktree.folder}{REMOVED_SUFFIX}"
    shutil.rmtree(removed, ignore_errors=True)
    with suppress(FileNotFoundError):
        os.rename(worktree.folder, removed)  # at once, so that no half-deleted folder is ever taken for an agent's work
    if admin := find_admin(git.folders.common_dir, worktree.folder):
        remove_record(git.folders, admin)
    shutil.rmtree(removed, ignore_errors=True)


# The changes of a run in its repository: the files, with the number of lines, and the diff.


DIFF_LIMIT: Final = 50_000  # characters
FILES_LIMIT: Final = 200
COMPARE: Final = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


class FileChange(NamedTuple):
    path: str
    added: int | None  # lines; None for a binary file
    deleted: int | None
    renamed_from: str = ""

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"path": self.path, "added": self.added, "deleted": self.deleted}
        return {**document, "renamed_from": self.renamed_from} if self.renamed_from else document


def list_files(git: Git, base: str, commit: str) -> list[FileChange]:
    fields = iter(git.run(*COMPARE, "--numstat", "-z", base, commit).fields)
    files = []
    for field in fields:
        added, deleted, path = field.split("\t", 2)
        before = "" if path else next(fields, "")  # of a renamed file, both names follow
        names = to_storable_path(path or next(fields, "")), to_storable_path(before)
        files.append(FileChange(names[0], to_count(added), to_count(deleted), names[1]))
    return files


def to_count(number: str) -> int | None:
    return int(number) if number.isdigit() else None


def to_storable_path(path: str) -> str:
    return to_storable(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def render_diff(git: Git, base: str, commit: str) -> str:
    output = git.run(*COMPARE, "--patch", "--no-color", base, commit, limit=4 * DIFF_LIMIT)
    diff = to_storable(output.data.decode("utf-8", "replace"))
    if len(diff) <= DIFF_LIMIT and not output.is_cut:
        return diff
    return f"{diff[:DIFF_LIMIT]}\n… (cut after {DIFF_LIMIT:,} characters; git diff {base[:12]} {commit[:12]} shows all of it)\n"
