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


class Place(NamedTuple):
    """One ledger for a server, one for commands, and the todos that each has acknowledged."""

    service: Service
    client: Client
    shell: Shell
    folder: Path
    served: list[str]
    typed: list[str]

    def headway(self, *arguments: str) -> tuple[str, ...]:
        return (*arguments, "--database-url", f"sqlite:///{self.folder / 'shell.db'}")

    def command(self) -> None:
        """Run a command that must succeed, and check that all earlier writes are listed."""
        self.typed.append(f"typed {len(self.typed)}")
        self.shell.ok(*self.headway("todo", "add", self.typed[-1]))
        shown = self.shell.json(*self.headway("todo", "list", "--limit", "500"))["todos"]
        assert [todo["subject"] for todo in shown] == self.typed

    def well(self) -> None:
        """Check that writes succeed again, and that exactly the acknowledged todos are stored."""
        self.served.append(self.client.add(f"served {len(self.served)}")["subject"])
        assert self.client.subjects() == self.served
        self.command()


@contextmanager
def placed(folder: Path, ledgers: Path) -> Iterator[Place]:
    ledgers.mkdir(exist_ok=True)
    os.chdir(folder)
    with run_server(f"sqlite:///{ledgers / 'served.db'}", folder) as service, service.tenant() as client:
        place = Place(service, client, Shell(folder), ledgers, [], [])
        place.well()
        yield place


def refused_over_http(client: Client, statuses: dict[int, str], subject: str) -> list[str]:
    """Write until the disk refuses. Return the todos acknowledged before that, which must stay."""
    acknowledged: list[str] = []
    for number in range(MANY):
        answer = client.post("/v1/todos", json={"subject": f"{subject}.{number}", "description": LARGE})
        if answer.status_code != 201:
            said = check_problem(answer, answer.status_code, statuses[answer.status_code])
            assert "nothing was changed" in said, said
            assert answer.status_code == 507 or int(answer.headers["retry-after"]) > 0
            return acknowledged
        acknowledged.append(f"{subject}.{number}")
    raise AssertionError("the disk was never in the way")


def full(place: Place, cycles: int) -> None:
    """A file system with no free space."""
    for cycle in range(cycles):
        with ballast(place.folder / "ballast"):
            stored = refused_over_http(place.client, {507: "database_full"}, f"full {cycle}")
            assert place.client.subjects() == place.served + stored, "reads go on"
            assert "is full" in get_error_line(place.shell(*place.headway("todo", "add", "too much", "-d", LARGE)), 1)
        for todo in place.client.ok("GET", "/v1/todos", params={"limit": 500})["todos"]:
            if todo["subject"] in stored:  # so that the disk does not stay full
                place.client.ok("DELETE", f"/v1/todos/{todo['id']}")
        place.well()


@contextmanager
def ballast(path: Path) -> Iterator[None]:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    yield
    path.unlink()


def refusing(place: Place, cycles: int) -> None:
    """No file can be written, as on a file system that turned read-only under a running server."""
    for cycle in range(cycles):
        with unable_to_write(place.service.process.pid), unable_to_write(os.getpid()):
            refusals = {503: "database_unreachable", 507: "database_full"}
            assert refused_over_http(place.client, refusals, f"refused {cycle}") == []
            assert place.client.subjects() == place.served, "reads go on"
            assert str(place.folder) in get_error_line(place.shell(*place.headway("todo", "add", "refused")), 1)
        place.well()


@contextmanager
def unable_to_write(pid: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def read_only(place: Place, cycles: int) -> None:
    """Mounted read-only: commands report it, and a server does not start."""
    place.service.end()  # a disk with an open file cannot be remounted read-only
    place.service.database.close()
    for cycle in range(cycles):
        subprocess.run(["mount", "-o", "remount,ro", place.folder], check=True)
        refused = [place.shell(*place.headway("todo", "add", "refused"))]
        if cycle == 0:
            refused.append(place.shell.process(*place.headway("serve", "--port", "0")))
        for ran in refused:
            assert "cannot be opened for writing" in get_error_line(ran, 1)
        subprocess.run(["mount", "-o", "remount,rw", place.folder], check=True)
        place.command()


def unwritable(place: Place, cycles: int) -> None:
    """A folder in which no file can be created: a running server continues, and commands report the fault."""
    for _ in range(cycles):
        place.folder.chmod(0o555)
        place.served.append(place.client.add(f"goes on {len(place.served)}")["subject"])
        said = get_error_line(place.shell(*place.headway("todo", "add", "refused")), 1)
        assert "check that its folder exists and is writable" in said
        place.folder.chmod(0o755)
        place.well()


KINDS: dict[str, Callable[[Place, int], None]] = {
    "full": full,
    "refusing": refusing,
    "read_only": read_only,
    "unwritable": unwritable,
}


MOUNTED = {"full", "read_only"}


def main(kinds: list[str], folder: Path, cycles: int) -> None:
    ledgers = folder / "ledgers"
    if MOUNTED & set(kinds):
        ledgers.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", ledgers], check=True)
    with placed(folder, ledgers) as place:
        for kind in kinds:
            KINDS[kind](place, cycles)


if __name__ == "__main__":
    main(sys.argv[1].split(","), Path(sys.argv[2]), int(sys.argv[3]))
