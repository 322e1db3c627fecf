"""Runs git in the sandbox of programs, because a repository's configuration can make it run others.

Git sees the repository's .git folder and one worktree, both writable, and has no network. No configuration outside the repository
is read. Hooks, file system monitors, signatures, submodules and background maintenance are off. We pass git its folders explicitly,
so it never follows a `.git` that an agent wrote. Where there is no sandbox, the repository's configuration must be harmless.
"""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import IO, Final, NamedTuple

from headway.agents.repositories.places import RepositoryFolders, show_repository
from headway.agents.tools.files.folders import SCRATCH_PREFIX
from headway.agents.tools.programs import processes
from headway.agents.tools.programs.processes import Launch, has_sandbox
from headway.agents.tools.programs.sandbox import build_search_path
from headway.agents.tools.programs.shell import find_program
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.limits import Sandbox
from headway.ledger.text import to_one_line

OLDEST: Final = (2, 38)  # has `merge-tree --write-tree`
TIMEOUT_S: Final = 300.0
LOCK_WAIT_S: Final = 120.0
LOCK_POLL_S: Final = 0.02
OUTPUT_LIMIT: Final = 10_000_000  # bytes
ERROR_LIMIT: Final = 500  # characters of git's own message in ours
EMAIL: Final = "noreply@headway.invalid"
OPTIONS: Final = tuple(
    part
    for option in (
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.attributesFile=/dev/null",
        "core.quotePath=false",
        "core.packedGitLimit=256m",  # of the memory that the sandbox allows
        "core.sharedRepository=umask",  # else it sets bits that the sandbox refuses
        "commit.gpgSign=false",
        "gc.auto=0",
        "maintenance.auto=false",
        "submodule.recurse=false",
        "i18n.commitEncoding=UTF-8",
        "advice.detachedHead=false",
    )
    for part in ("-c", option)
)
ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_AUTHOR_EMAIL": EMAIL,
    "GIT_COMMITTER_EMAIL": EMAIL,
}
PROGRAM_KEYS: Final = re.compile(
    r"filter\..*\.(clean|smudge|process)|merge\..*\.driver|diff\..*\.(command|textconv)|diff\.external|hook\..*\.command"
)
INDIRECT_KEYS: Final = re.compile(r"include\.path|includeif\..*|extensions\.worktreeconfig")  # more settings are elsewhere
LOCK_MESSAGE: Final = re.compile(r"\.lock': File exists|cannot lock ref|Unable to create '[^']*\.lock'")


class GitFailed(HeadwayError):
    """Git failed."""


class GitBusy(GitFailed):
    """Another program is using the repository."""


class GitOutput(NamedTuple):
    code: int
    data: bytes
    is_cut: bool

    @property
    def line(self) -> str:
        return self.data.decode("utf-8", "replace").strip()

    @property
    def fields(self) -> list[str]:
        """The fields of output that separates them with NUL."""
        return [os.fsdecode(field) for field in self.data.split(b"\0")[:-1]]


class Git(NamedTuple):
    """Git on one repository while this process holds the repository's lock."""

    folders: RepositoryFolders
    sandbox: Sandbox
    lock: int  # a file descriptor. Git inherits it, so the lock is held until git ends, even if this process is killed
    excludes: str  # a file with the names that are never committed
    git_dir: str
    work_tree: str = ""

    def run(
        self, *arguments: str, stdin: str = "", author: str = "", accept: tuple[int, ...] = (0,), limit: int = OUTPUT_LIMIT
    ) -> GitOutput:
        names = {f"GIT_{who}_NAME": author or "Headway" for who in ("AUTHOR", "COMMITTER")}
        environment = {**ENVIRONMENT, **names, "GIT_DIR": self.git_dir}
        if self.work_tree:
            environment["GIT_WORK_TREE"] = self.work_tree
        program = [find_git(self.sandbox), "--no-pager", *OPTIONS, "-c", f"core.excludesFile={self.excludes}", *arguments]
        with ExitStack() as stack:
            source = stack.enter_context(TemporaryFile())
            source.write(stdin.encode("utf-8", "replace"))
            source.seek(0)
            messages = stack.enter_context(TemporaryFile())
            folder = self.work_tree or self.folders.git_dir
            launch = Launch(program, folder, self.sandbox, source, messages, environment, (self.lock,), dies_with_us=False)
            output = wait_for_output(processes.start(launch, stack), launch, limit)
            if output.is_cut or output.code in accept:
                return output
            messages.seek(0)
            reason = to_one_line(messages.read(4 * ERROR_LIMIT).decode("utf-8", "replace").strip())[:ERROR_LIMIT]
        message = f"git {arguments[0]} failed: {reason or f'exit code {output.code}'}"
        raise GitBusy(message) if LOCK_MESSAGE.search(reason) else GitFailed(message)

    def writing(self, folder: str) -> "Git":
        """Return the same git, which may also write to a folder."""
        return self._replace(sandbox=self.sandbox._replace(writable=(*self.sandbox.writable, folder)))

    def commit_tree(self, tree: str, parents: tuple[str, ...], author: str, message: str) -> str:
        """Create a commit, without a reference to it."""
        options = [option for parent in parents for option in ("-p", parent)]
        return self.run("commit-tree", tree, *options, "-F", "-", stdin=message, author=author).line

    def find_commit(self, name: str) -> str:
        """Return the id of a commit; empty if there is none of that name."""
        return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1)).line

    def is_ancestor(self, commit: str, descendant: str) -> bool:
        return self.run("merge-base", "--is-ancestor", commit, descendant, accept=(0, 1)).code == 0

    def move_branch(self, branch: str, commit: str, before: str) -> None:
        """Point a branch at a commit, if it still is where it was. An empty `before` creates it."""
        self.run("update-ref", f"refs/heads/{branch}", commit, before)


def wait_for_output(running: processes.Running, launch: Launch, limit: int) -> GitOutput:
    """Wait until git ends, and return the beginning of its output. Git is stopped if there is more."""
    output = OutputBeginning(running.process.stdout, limit)
    try:
        reason = processes.wait_for_end(running, launch.sandbox, TIMEOUT_S, output.is_full)
    finally:
        processes.kill(running)
    data = output.read()
    if len(data) > limit:
        return GitOutput(0, data[:limit], is_cut=True)
    if reason:
        raise GitFailed(f"git {reason} and was stopped.")
    if not processes.has_run(running):
        raise GitFailed("git was not run, because the sandbox cannot be set up.")
    return GitOutput(running.process.returncode, data, is_cut=False)


class OutputBeginning:
    """Collects the beginning of a program's output, and one byte more if there is more."""

    def __init__(self, source: IO[bytes] | None, limit: int) -> None:
        assert source is not None
        self.source = source
        self.limit = limit
        self.data = b""
        self.is_full = Event()
        self.reader = Thread(target=self.listen, name="headway-git-output", daemon=True)
        self.reader.start()

    def listen(self) -> None:
        with self.source:
            self.data = self.source.read(self.limit + 1)
        if len(self.data) > self.limit:
            self.is_full.set()

    def read(self) -> bytes:
        self.reader.join()
        return self.data


def find_git(sandbox: Sandbox) -> str:
    try:
        return find_program("git", sandbox)
    except Invalid as error:
        raise GitFailed(f"{error} Agents need git 2.38 or newer to work in a repository.") from None


@lru_cache(maxsize=8)
def check_version(sandbox: Sandbox) -> str:
    """Return the version of git, or raise GitFailed if it is missing or too old."""
    process = Popen([find_git(sandbox), "version"], env={"PATH": build_search_path()}, stdout=PIPE)  # noqa: S603
    output = process.communicate()[0].decode("utf-8", "replace").strip()
    numbers = re.match(r"git version (\d+)\.(\d+)", output)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise GitFailed(f"{output} is too old for agents to work in a repository. Install git 2.38 or newer.")
    return output.removeprefix("git version ")


@contextmanager
def open_git(root: str, folders: RepositoryFolders, sandbox: Sandbox) -> Iterator[Git]:
    """Lock the repository against all other processes that use the same home, and check that git can be run on it."""
    check_version(sandbox)
    with hold_lock(os.path.join(root, "locks"), folders.common_dir) as lock:
        excludes = write_excludes(root)
        own = sandbox._replace(readable=(*sandbox.readable, excludes), has_network=False)
        git = Git(folders, show_repository(own, folders, is_writable=True), lock, excludes, folders.git_dir)
        check_configuration(git)
        yield git


def write_excludes(root: str) -> str:
    """Write a list of files to exclude from commits: leftovers of interrupted writes."""
    path = os.path.join(root, "exclude")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{SCRATCH_PREFIX}*\n")
    return path


@contextmanager
def hold_lock(folder: str, name: str) -> Iterator[int]:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, sha256(os.fsencode(name)).hexdigest()[:24])
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > deadline:
                raise GitBusy(f"Another agent has been using the repository for {LOCK_WAIT_S:g} s.")
            time.sleep(LOCK_POLL_S)
        yield lock
    finally:
        os.close(lock)


def check_configuration(git: Git) -> None:
    """Refuse a repository whose configuration names programs, which are never used.

    In the sandbox this is only a clear message: whatever the configuration starts stays inside. Without a sandbox it is the
    protection, so the configuration must not have other parts, which git reads depending on where it works.
    """
    for key in git.run("config", "--list", "--name-only", "-z").fields:
        if PROGRAM_KEYS.fullmatch(key.lower()):
            raise GitFailed(f"The repository's configuration sets {to_one_line(key)}, a program that git would run. Remove it.")
        if INDIRECT_KEYS.fullmatch(key.lower()) and not has_sandbox(git.sandbox):
            raise GitFailed(
                f"The repository's configuration sets {to_one_line(key)}, and so has parts elsewhere, which could name programs. "
                "That is allowed only in a sandbox. Remove it, or install bubblewrap."
            )
