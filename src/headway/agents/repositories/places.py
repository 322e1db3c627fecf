"""Where a repository and the worktrees of its runs are. Runs no program, so it can be used anywhere."""

import os
from contextlib import suppress
from hashlib import sha256
from typing import Final, NamedTuple

from headway.actions.goals import REPOSITORY_LIMIT, NewGoal
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.run import Run

LINK_LIMIT: Final = 10_000  # characters of a file that names a folder
OUTWARD_FILES: Final = ("commondir", "objects/info/alternates")  # name other folders with references or objects
REFTABLE_HEAD: Final = "ref: refs/heads/.invalid"  # HEAD of a repository whose references are not files


class RepositoryPlace(NamedTuple):
    path: str
    git_dir: str
    common_dir: str  # the same folder, unless the repository is itself a linked worktree


def get_branch(run: Run) -> str:
    return f"headway/{get_worktree_name(run)}"


def get_worktree_name(run: Run) -> str:
    """Name the run's worktree. A goal and a conversation have one that lasts, and each sub-agent has its own."""
    if run.parent_run_id is not None:
        return f"agent-{run.id[:8]}"
    return f"goal-{run.goal_id}" if run.goal_id is not None else f"conversation-{run.conversation_id}"


def get_worktree_folder(root: str, run: Run) -> str:
    digest = sha256(run.repository.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return os.path.join(os.path.realpath(root), str(run.tenant_id), digest, get_worktree_name(run))


def check_repository(new_goal: NewGoal, workspace: str) -> NewGoal:
    """Check the repository that a new goal names, and name it relative to the tenant's workspace."""
    return new_goal._replace(repository=check_path(workspace, new_goal.repository))


def check_path(workspace: str, path: str) -> str:
    """Return the path of a repository that a goal names, relative to the tenant's workspace.

    Raises Invalid if it is not inside the workspace, or is no repository with a commit.
    """
    path = text.check_text(path.strip(), "repository", REPOSITORY_LIMIT)
    if not path:
        return ""
    root = os.path.realpath(workspace)
    resolved = os.path.realpath(os.path.join(root, path))
    if not is_inside(resolved, root):
        raise Invalid(f"repository: {text.to_one_line(path)[:200]} is not inside the workspace.")
    if not has_commit(read_place(resolved, path)):
        raise Invalid(f"repository: {text.to_one_line(path)[:200]} has no commit yet. Make one first.")
    return os.path.relpath(resolved, root)


def is_inside(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def find_place(workspace: str, repository: str) -> RepositoryPlace:
    """Find a repository's folders. One inside the workspace, where agents can write, must be complete there."""
    root = os.path.realpath(workspace)
    path = os.path.realpath(os.path.join(root, repository))
    if not os.path.isabs(repository) and not is_inside(path, root):
        raise Invalid(f"The repository {text.to_one_line(repository)[:200]} is not inside the workspace any more.")
    place = read_place(path, repository)
    if is_inside(path, root):
        check_contained(place)
    return place


def list_history_folders(workspace: str, repository: str) -> tuple[str, ...]:
    """List the folders that git needs in a worktree: to read the history, which programs of agents may do but not write."""
    try:
        place = find_place(workspace, repository)
    except (Invalid, OSError):
        return ()  # preparing the worktree tells what is wrong
    return tuple(dict.fromkeys((place.common_dir, place.git_dir)))


def read_place(path: str, name: str) -> RepositoryPlace:
    """Find the folders of the repository at a path, which the caller knows by another name."""
    git_dir = os.path.join(path, ".git")
    if not os.path.lexists(git_dir):
        git_dir = path  # a bare repository
    elif os.path.isfile(git_dir):
        git_dir = os.path.join(path, read_link(git_dir).removeprefix("gitdir:").strip())
    if not all(os.path.exists(os.path.join(git_dir, name)) for name in ("HEAD", "objects")):
        common = read_link(os.path.join(git_dir, "commondir")).strip()
        common_dir = os.path.join(git_dir, common)
        if not common or not os.path.exists(os.path.join(common_dir, "objects")):
            raise Invalid(f"repository: {text.to_one_line(name)[:200]} is not a git repository.")
        return RepositoryPlace(path, os.path.realpath(git_dir), os.path.realpath(common_dir))
    return RepositoryPlace(path, os.path.realpath(git_dir), os.path.realpath(git_dir))


def read_link(path: str) -> str:
    """Read the small file in which git keeps the path of a folder; empty if there is none."""
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(LINK_LIMIT)
    return ""


def check_contained(place: RepositoryPlace) -> None:
    """Raise Invalid if anything in the .git folder leads outside it, for example into the repository of another tenant."""
    if place.git_dir not in (place.path, os.path.join(place.path, ".git")) or place.common_dir != place.git_dir:
        raise Invalid("The repository's .git leads elsewhere. In a workspace it must be a folder.")
    folders = [place.git_dir]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                name = os.path.relpath(entry.path, place.git_dir)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_symlink() or name in OUTWARD_FILES or leads_outside(name, entry.path):
                    raise Invalid(f"The repository's {text.to_one_line(name)} leads elsewhere, which a workspace does not allow.")


def leads_outside(name: str, path: str) -> bool:
    """Whether a file of a linked worktree names another repository than the one it belongs to."""
    parts = name.split(os.sep)
    return parts[0] == "worktrees" and parts[2:] == ["commondir"] and read_link(path).strip() != "../.."


def has_commit(place: RepositoryPlace) -> bool:
    head = read_link(os.path.join(place.git_dir, "HEAD")).strip()
    if not head.startswith("ref: ") or head == REFTABLE_HEAD:
        return bool(head)
    ref = head.removeprefix("ref: ")
    if not ref.startswith("refs/") or ".." in ref:
        return False
    if read_link(os.path.join(place.common_dir, ref)).strip():
        return True
    with suppress(OSError), open(os.path.join(place.common_dir, "packed-refs"), encoding="utf-8", errors="replace") as file:
        return any(line.rstrip("\n").endswith(f" {ref}") for line in file)
    return False
