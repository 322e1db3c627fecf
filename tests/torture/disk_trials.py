"""A server and a shell whose disk is full, refuses every write, or whose folder cannot be written; and then is well again.

`python disk_trials.py KIND FOLDER CYCLES`, in a process of its own: with mounts of its own, or where even root obeys permissions.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from serving import Client, Service, problem, serving
from shell import Shell, one_error

UNLIMITED = resource.RLIM_INFINITY
LARGE = "x" * 60_000
MANY = 200


class Place(NamedTuple):
    """A ledger that a server has open, and another one beside it for commands."""

    service: Service
    client: Client
    shell: Shell
    folder: Path

    def headway(self, *arguments: str) -> tuple[str, ...]:
        return (*arguments, "--database-url", f"sqlite:///{self.folder / 'shell.db'}")


@contextmanager
def placed(folder: Path, ledgers: Path) -> Iterator[Place]:
    ledgers.mkdir(exist_ok=True)
    os.chdir(folder)
    with serving(f"sqlite:///{ledgers / 'served.db'}", folder) as service, service.tenant() as client:
        place = Place(service, client, Shell(folder), ledgers)
        place.shell.ok(*place.headway("todo", "add", "first"))
        yield place


def refused_over_http(client: Client, statuses: dict[int, str], subject: str) -> list[str]:
    """Writes until the disk is in the way. What was acknowledged before is returned: it must stay."""
    acknowledged = []
    for number in range(MANY):
        answer = client.post("/v1/todos", json={"subject": f"{subject}.{number}", "description": LARGE})
        if answer.status_code != 201:
            said = problem(answer, answer.status_code, statuses[answer.status_code])
            assert "nothing was changed" in said, said
            assert answer.status_code == 507 or int(answer.headers["retry-after"]) > 0
            return acknowledged
        acknowledged.append(f"{subject}.{number}")
    raise AssertionError("the disk was never in the way")


def well(place: Place, stored: list[str], cycle: int) -> None:
    """Everything goes on by itself, and exactly what was acknowledged is there."""
    stored.append(place.client.add(f"well again {cycle}")["subject"])
    place.shell.ok(*place.headway("todo", "add", f"well again {cycle}"))
    assert place.client.subjects() == stored
    shown = place.shell.json(*place.headway("todo", "list"))["todos"]
    assert [todo["subject"] for todo in shown] == ["first", *(f"well again {number}" for number in range(cycle + 1))]


def full(place: Place, cycles: int) -> None:
    """A file system without a byte left."""
    stored: list[str] = []
    for cycle in range(cycles):
        with ballast(place.folder / "ballast"):
            stored += refused_over_http(place.client, {507: "database_full"}, f"full {cycle}")
            assert place.client.subjects() == stored, "reads go on"
            assert "is full" in one_error(place.shell(*place.headway("todo", "add", "too much", "-d", LARGE)), 1)
        well(place, stored, cycle)
        for todo in place.client.ok("GET", "/v1/todos", params={"limit": 500})["todos"]:
            if todo["subject"].startswith("full"):  # so that the disk is never full for good
                place.client.ok("DELETE", f"/v1/todos/{todo['id']}")
                stored.remove(todo["subject"])


@contextmanager
def ballast(path: Path) -> Iterator[None]:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    yield
    path.unlink()


def refusing(place: Place, cycles: int) -> None:
    """No file may be written, as on a file system that has become read-only under a running server."""
    stored: list[str] = []
    for cycle in range(cycles):
        with unable_to_write(place.service.process.pid), unable_to_write(os.getpid()):
            stored += refused_over_http(place.client, {503: "database_unreachable", 507: "database_full"}, f"refused {cycle}")
            assert place.client.subjects() == stored, "reads go on"
            assert str(place.folder) in one_error(place.shell(*place.headway("todo", "add", "refused")), 1)
        well(place, stored, cycle)


@contextmanager
def unable_to_write(pid: int) -> Iterator[None]:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, UNLIMITED))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))


def read_only(place: Place, cycles: int) -> None:
    """Mounted read-only: commands say so, and a server does not start."""
    place.service.end()  # who has a file open keeps its disk writable
    place.service.database.close()
    for cycle in range(cycles):
        subprocess.run(["mount", "-o", "remount,ro", place.folder], check=True)
        said = one_error(place.shell(*place.headway("todo", "add", "refused")), 1)
        assert "cannot be opened for writing" in said
        if cycle == 0:
            assert "cannot be opened for writing" in one_error(place.shell.process(*place.headway("serve", "--port", "0")), 1)
        subprocess.run(["mount", "-o", "remount,rw", place.folder], check=True)
        place.shell.ok(*place.headway("todo", "add", f"well again {cycle}"))
    shown = place.shell.json(*place.headway("todo", "list"))["todos"]
    assert [todo["subject"] for todo in shown] == ["first", *(f"well again {number}" for number in range(cycles))]


def unwritable(place: Place, cycles: int) -> None:
    """A folder in which no file can be made: a server that has its files goes on, commands say so."""
    stored: list[str] = []
    for cycle in range(cycles):
        place.folder.chmod(0o555)
        stored.append(place.client.add(f"goes on {cycle}")["subject"])
        assert place.client.subjects() == stored
        said = one_error(place.shell(*place.headway("todo", "add", "refused")), 1)
        assert "check that its folder exists and is writable" in said
        place.folder.chmod(0o755)
        well(place, stored, cycle)


KINDS: dict[str, Callable[[Place, int], None]] = {
    "full": full,
    "refusing": refusing,
    "read_only": read_only,
    "unwritable": unwritable,
}


def main(kind: str, folder: Path, cycles: int) -> None:
    ledgers = folder / "ledgers"
    if kind in ("full", "read_only"):
        ledgers.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", ledgers], check=True)
    with placed(folder, ledgers) as place:
        KINDS[kind](place, cycles)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
