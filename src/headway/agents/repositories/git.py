"""Runs git so that nothing in a repository can make it run another program or reach the network.

No configuration outside the repository is read. Hooks, file system monitors, signatures, submodules and background maintenance are
off. A repository whose configuration defines programs (filters, merge or diff drivers) is refused. We pass
git its folders explicitly, so it never follows a `.git` that an agent wrote.
"""

import fcntl
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from threading import Timer
from typing import Final, NamedTuple

from headway.agents.repositories.places import RepositoryPlace
from headway.agents.tools.files.folders import SCRATCH_PREFIX
from headway.agents.tools.programs.sandbox import build_search_path
from headway.ledger.errors import HeadwayError
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
    r"filter\..*\.(clean|smudge|process)|merge\..*\.driver|diff\..*\.(command|textconv)|diff\.external"
)
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

    place: RepositoryPlace
    lock: int  # a file descriptor. Git inherits it, so the lock is held until git ends, even if this process is killed
    excludes: str  # a file with the names that are never committed
    git_dir: str
    work_tree: str = ""

    def run(
        self, *arguments: str, stdin: str = "", author: str = "", accept: tuple[int, ...] = (0,), limit: int = OUTPUT_LIMIT
    ) -> GitOutput:
        names = {f"GIT_{who}_NAME": author or "Headway" for who in ("AUTHOR", "COMMITTER")}
        environment = {"PATH": build_search_path(), **ENVIRONMENT, **names, "GIT_DIR": self.git_dir}
        if self.work_tree:
            environment["GIT_WORK_TREE"] = self.work_tree
        arguments = ("-c", f"core.excludesFile={self.excludes}", *arguments)
        return run_program(arguments, environment, self.work_tree or self.place.git_dir, self.lock, stdin, accept, limit)

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


def run_program(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    folder: str,
    lock: int,
    stdin: str,
    accept: tuple[int, ...],
    limit: int,
) -> GitOutput:
    with TemporaryFile() as messages, TemporaryFile() as source:
        source.write(stdin.encode("utf-8", "replace"))
        source.seek(0)
        process = Popen(  # noqa: S603  a fixed program and no shell
            [find_git(), "--no-pager", *OPTIONS, *arguments],
            cwd=folder,
            env=environment,
            stdin=source if stdin else DEVNULL,
            stdout=PIPE,
            stderr=messages,
            start_new_session=True,
            pass_fds=(lock,),
        )
        assert process.stdout is not None
        timer = Timer(TIMEOUT_S, kill_group, (process,))
        timer.start()
        try:
            data = process.stdout.read(limit + 1)
            if len(data) > limit:
                kill_group(process)
            code = process.wait()
        finally:
            timer.cancel()
            process.stdout.close()
        if len(data) > limit:
            return GitOutput(0, data[:limit], is_cut=True)
        if code in accept:
            return GitOutput(code, data, is_cut=False)
        messages.seek(0)
        reason = to_one_line(messages.read(4 * ERROR_LIMIT).decode("utf-8", "replace").strip())[:ERROR_LIMIT]
    message = f"git {arguments[2]} failed: {reason or f'exit code {code}'}"
    raise GitBusy(message) if LOCK_MESSAGE.search(reason) else GitFailed(message)


def kill_group(process: "Popen[bytes]") -> None:
    """Kill git and the programs that it started."""
    with suppress(ProcessLookupError, PermissionError):  # no process is left or, on macOS, only zombies
        os.killpg(process.pid, signal.SIGKILL)


@lru_cache(maxsize=1)
def find_git() -> str:
    program = shutil.which("git", path=build_search_path())
    if program is None:
        raise GitFailed("git is not installed, and agents need it to work in a repository. Install git 2.38 or newer.")
    return program


@lru_cache(maxsize=1)
def check_version() -> str:
    """Return the version of git, or raise GitFailed if it is missing or too old."""
    process = Popen([find_git(), "version"], env={"PATH": build_search_path()}, stdout=PIPE)  # noqa: S603
    output = process.communicate()[0].decode("utf-8", "replace").strip()
    numbers = re.match(r"git version (\d+)\.(\d+)", output)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise GitFailed(f"{output} is too old for agents to work in a repository. Install git 2.38 or newer.")
    return output.removeprefix("git version ")


@contextmanager
def open_git(root: str, place: RepositoryPlace) -> Iterator[Git]:
    """Lock the repository against all other processes that use the same home, and check that git can be run on it."""
    check_version()
    with hold_lock(os.path.join(root, "locks"), place.common_dir) as lock:
        git = Git(place, lock, write_excludes(root), place.git_dir)
        check_configuration(git)
        yield git


def write_excludes(root: str) -> str:
    """Write the names of files that are never committed: those of interrupted writes."""
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
    """Refuse a repository whose configuration names programs. Agents may have written it."""
    for key in git.run("config", "--list", "--name-only", "-z").fields:
        if PROGRAM_KEYS.fullmatch(key.lower()):
            raise GitFailed(f"The repository's configuration sets {to_one_line(key)}, a program that git would run. Remove it.")
