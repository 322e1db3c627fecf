"""A server and a shell whose disk is full, refuses every write, or whose folder is not writable, and then recovers.

`python disk_trials.py KIND,KIND FOLDER CYCLES` runs in a separate process, with private mounts or reduced privileges.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.surfaces.server_harness import Client, Service, check_problem, run_server
from tests.surfaces.shell import Shell, get_error_line

LARGE = "x" * 60_000
MANY = 200


class Trial(NamedTuple):
    """One ledger for a server, one for commands, and the todos that each has acknowledged."""

    service: Service
    client: Client
    shell: Shell
    folder: Path
    served: list[str]
    typed: list[str]

    def build_command(self, *arguments: str) -> tuple[str, ...]:
        return (*arguments, "--database-url", f"sqlite:///{self.folder / 'shell.db'}")

    def check_command(self) -> None:
        """Run a command that must succeed, and check that all earlier writes are listed."""
        self.typed.append(f"typed {len(self.typed)}")
        self.shell.ok(*self.build_command("todo", "add", self.typed[-1]))
        todos = self.shell.json(*self.build_command("todo", "list", "--limit", "500"))["todos"]
        assert [todo["subject"] for todo in todos] == self.typed

    def check_recovered(self) -> None:
        """Check that writes succeed again, and that exactly the acknowledged todos are stored."""
        self.served.append(self.client.add(f"served {len(self.served)}")["subject"])
        assert self.client.subjects() == self.served
        self.check_command()


@contextmanager
def open_trial(folder: Path, ledgers: Path) -> Iterator[Trial]:
    ledgers.mkdir(exist_ok=True)
    os.chdir(folder)
    with run_server(f"sqlite:///{ledgers / 'served.db'}", folder) as service, service.tenant() as client:
        trial = Trial(service, client, Shell(folder), ledgers, [], [])
        trial.check_recovered()
        yield trial


def write_until_refused(client: Client, statuses: dict[int, str], subject: str) -> list[str]:
    """Write until the disk refuses. Return the todos acknowledged before that, which must stay."""
    acknowledged: list[str] = []
    for number in range(MANY):
        answer = client.post("/v1/todos", json={"subject": f"{subject}.{number}", "description": LARGE})
        if answer.status_code != 201:
            message = check_problem(answer, answer.status_code, statuses[answer.status_code])
            assert "nothing was changed" in message, message
            assert answer.status_code == 507 or int(answer.headers["retry-after"]) > 0
            return acknowledged
        acknowledged.append(f"{subject}.{number}")
    raise AssertionError("the disk was never in the way")


def try_full_disk(trial: Trial, cycles: int) -> None:
    """A file system with no free space."""
    for cycle in range(cycles):
        with fill_disk(trial.folder / "ballast"):
            stored = write_until_refused(trial.client, {507: "database_full"}, f"full {cycle}")
            assert trial.client.subjects() == trial.served + stored, "reads go on"
            assert "is full" in get_error_line(trial.shell(*trial.build_command("todo", "add", "too much", "-d", LARGE)), 1)
        for todo in trial.client.ok("GET", "/v1/todos", params={"limit": 500})["todos"]:
            if todo["subject"] in stored:  # so that the disk does not stay full
                trial.client.ok("DELETE", f"/v1/todos/{todo['id']}")
        trial.check_recovered()


@contextmanager
def fill_disk(path: Path) -> Iterator[None]:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    yield
    path.unlink()


def try_refused_writes(trial: Trial, cycles: int) -> None:
    """No file can be written, as on a file system that turned read-only under a running server."""
    for cycle in range(cycles):
        with block_writes(trial.service.process.pid), block_writes(os.getpid()):
            refusals = {503: "database_unreachable", 507: "database_full"}
            assert write_until_refused(trial.client, refusals, f"refused {cycle}") == []
            assert trial.client.subjects() == trial.served, "reads go on"
            assert str(trial.folder) in get_error_line(trial.shell(*trial.build_command("todo", "add", "refused")), 1)
        trial.check_recovered()


@contextmanager
def block_writes(pid: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def try_read_only_mount(trial: Trial, cycles: int) -> None:
    """Mounted read-only: commands report it, and a server does not start."""
    trial.service.end()  # a disk with an open file cannot be remounted read-only
    trial.service.database.close()
    for cycle in range(cycles):
        subprocess.run(["mount", "-o", "remount,ro", trial.folder], check=True)
        results = [trial.shell(*trial.build_command("todo", "add", "refused"))]
        if cycle == 0:
            results.append(trial.shell.process(*trial.build_command("serve", "--port", "0")))
        for result in results:
            assert "cannot be opened for writing" in get_error_line(result, 1)
        subprocess.run(["mount", "-o", "remount,rw", trial.folder], check=True)
        trial.check_command()


def try_unwritable_folder(trial: Trial, cycles: int) -> None:
    """A folder in which no file can be created: a running server continues, and commands report the fault."""
    for _ in range(cycles):
        trial.folder.chmod(0o555)
        trial.served.append(trial.client.add(f"goes on {len(trial.served)}")["subject"])
        message = get_error_line(trial.shell(*trial.build_command("todo", "add", "refused")), 1)
        assert "check that its folder exists and is writable" in message
        trial.folder.chmod(0o755)
        trial.check_recovered()


KINDS: dict[str, Callable[[Trial, int], None]] = {
    "full": try_full_disk,
    "refusing": try_refused_writes,
    "read_only": try_read_only_mount,
    "unwritable": try_unwritable_folder,
}


MOUNTED = {"full", "read_only"}


def main(kinds: list[str], folder: Path, cycles: int) -> None:
    ledgers = folder / "ledgers"
    if MOUNTED & set(kinds):
        ledgers.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", ledgers], check=True)
    with open_trial(folder, ledgers) as trial:
        for kind in kinds:
            KINDS[kind](trial, cycles)


if __name__ == "__main__":
    main(sys.argv[1].split(","), Path(sys.argv[2]), int(sys.argv[3]))
