"""Where a repository and the worktrees of its runs are. Runs no program, so it can be used anywhere."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from typing import Final, NamedTuple

from headway.actions.goals.goals import REPOSITORY_LIMIT, NewGoal
from headway.agents.tools.files.folders import FOLDER_FLAGS, open_entry
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.limits import ExactFolder, Sandbox
from headway.ledger.run import Run

LINK_LIMIT: Final = 10_000  # characters of a file that names a folder
ALTERNATES_DEPTH: Final = 6  # git follows five
OUTWARD_FILES: Final = ("commondir", "objects/info/alternates")  # name other folders with references or objects
# The file tools do not write into .git, so only there a tenant without programs cannot write a repository's configuration.
BARE: Final = "A repository in a workspace must have a .git folder. Make it with git init, without --bare."
EXCHANGE_REFUSAL: Final = "The repository's folder was exchanged."
REFTABLE_HEAD: Final = "ref: refs/heads/.invalid"  # HEAD of a repository whose references are not files


class RepositoryFolders(NamedTuple):
    path: str
    git_dir: str
    common_dir: str  # the same folder, unless the repository is itself a linked worktree
    alternates: tuple[str, ...] = ()  # folders with more objects, of other repositories
    identity: str = ""  # of the .git folder in a workspace, where agents could put another in its place


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
    repository = read_repository(resolved, path)
    if repository.git_dir == repository.path:
        raise Invalid(f"repository: {BARE}")
    if not has_commit(repository):
        raise Invalid(f"repository: {text.to_one_line(path)[:200]} has no commit yet. Make one first.")
    return os.path.relpath(resolved, root)


def is_inside(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def find_repository(workspace: str, repository: str) -> RepositoryFolders:
    """Find a repository's folders. One inside the workspace, where agents can write, must be complete there."""
    root = os.path.realpath(workspace)
    path = os.path.realpath(os.path.join(root, repository))
    if not os.path.isabs(repository) and not is_inside(path, root):
        raise Invalid(f"The repository {text.to_one_line(repository)[:200]} is not inside the workspace any more.")
    found = read_repository(path, repository)
    if not is_inside(path, root):
        return found._replace(alternates=list_alternates(os.path.join(found.common_dir, "objects")))
    check_contained(found)
    return found._replace(identity=read_identity(found.git_dir))


@contextmanager
def open_inside(repository: RepositoryFolders, *parts: str) -> Iterator[int]:
    """Open a folder in the .git folder, to change it without git. Agents may exchange folders for links at any time, so none is
    followed, and the .git folder must still be the one that was checked."""
    with ExitStack() as stack:
        handle = stack.enter_context(open_entry(repository.common_dir, FOLDER_FLAGS))
        if repository.identity and format_identity(handle) != repository.identity:
            raise Invalid(EXCHANGE_REFUSAL)
        for part in parts:
            handle = stack.enter_context(open_entry(part, FOLDER_FLAGS, handle))
        yield handle


def read_identity(path: str) -> str:
    """Return the identity of a folder that is really at this path. On the way there, agents may have put a link meanwhile."""
    if sys.platform != "linux":
        return ""  # there is no sandbox, either
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.readlink(f"/proc/self/fd/{handle}") != path:
            raise Invalid(EXCHANGE_REFUSAL)
        return format_identity(handle)
    finally:
        os.close(handle)


def format_identity(handle: int) -> str:
    status = os.fstat(handle)
    return f"{status.st_dev}:{status.st_ino}"


def show_history(sandbox: Sandbox, workspace: str, repository: str) -> Sandbox:
    """Let programs of agents read the history, which git needs in a worktree, but not write it."""
    try:
        return show_repository(sandbox, find_repository(workspace, repository), is_writable=False)
    except (Invalid, OSError):
        return sandbox  # preparing the worktree tells what is wrong


def show_repository(sandbox: Sandbox, repository: RepositoryFolders, *, is_writable: bool) -> Sandbox:
    """Show a repository's .git folders in a sandbox."""
    if repository.identity:
        return sandbox._replace(exact=(*sandbox.exact, ExactFolder(repository.git_dir, repository.identity, is_writable)))
    folders = tuple(dict.fromkeys((repository.common_dir, repository.git_dir)))
    if is_writable:
        return sandbox._replace(readable=(*sandbox.readable, *repository.alternates), writable=(*sandbox.writable, *folders))
    return sandbox._replace(readable=(*sandbox.readable, *folders, *repository.alternates))


def list_alternates(objects: str, depth: int = ALTERNATES_DEPTH) -> tuple[str, ...]:
    """List the folders in which git finds the objects that a folder of objects does not have itself."""
    lines = read_link(os.path.join(objects, "info", "alternates")).splitlines() if depth else []
    folders = [os.path.realpath(os.path.join(objects, line)) for line in lines if line and not line.startswith("#")]
    return tuple(path for folder in folders for path in (folder, *list_alternates(folder, depth - 1)))


def read_repository(path: str, name: str) -> RepositoryFolders:
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
        return RepositoryFolders(path, os.path.realpath(git_dir), os.path.realpath(common_dir))
    return RepositoryFolders(path, os.path.realpath(git_dir), os.path.realpath(git_dir))


def read_link(path: str) -> str:
    """Read the small file in which git keeps the path of a folder; empty if there is none."""
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape", opener=open_at_once) as file:
        return file.read(LINK_LIMIT)
    return ""


def open_at_once(path: str, flags: int) -> int:
    """Open a regular file. Opening a pipe, which an agent may have put there, would wait for a writer."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is not a file")
    return handle


def check_contained(repository: RepositoryFolders) -> None:
    """Raise Invalid if anything in the .git folder leads outside it, for example into the repository of another tenant."""
    if repository.git_dir != os.path.join(repository.path, ".git") or repository.common_dir != repository.git_dir:
        is_bare = repository.git_dir == repository.path
        raise Invalid(BARE if is_bare else "The repository's .git leads elsewhere. In a workspace it must be a folder.")
    folders = [repository.git_dir]
    while folders:
        for entry in list_entries(folders.pop()):
            name = os.path.relpath(entry.path, repository.git_dir)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_symlink() or name in OUTWARD_FILES or leads_outside(name, entry.path):
                raise Invalid(f"The repository's {text.to_one_line(name)} leads elsewhere, which a workspace does not allow.")


def list_entries(folder: str) -> list[os.DirEntry[str]]:
    """List a folder. It is empty if git has just removed it, at work for another agent that holds the repository's lock."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return list(entries)
    return []


def leads_outside(name: str, path: str) -> bool:
    """Whether a file of a linked worktree names another repository than the one it belongs to."""
    parts = name.split(os.sep)
    return parts[0] == "worktrees" and parts[2:] == ["commondir"] and read_link(path).strip() != "../.."


def has_commit(repository: RepositoryFolders) -> bool:
    head = read_link(os.path.join(repository.git_dir, "HEAD")).strip()
    if not head.startswith("ref: ") or head == REFTABLE_HEAD:
        return bool(head)
    ref = head.removeprefix("ref: ")
    if not ref.startswith("refs/") or ".." in ref:
        return False
    if read_link(os.path.join(repository.common_dir, ref)).strip():
        return True
    packed_refs = os.path.join(repository.common_dir, "packed-refs")
    with suppress(OSError), open(packed_refs, encoding="utf-8", errors="replace", opener=open_at_once) as file:
        return any(line.rstrip("\n").endswith(f" {ref}") for line in file)
    return False
