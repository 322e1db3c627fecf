"""Follows a page of the documentation: types its commands at a terminal and compares the output.

Only the port and the Postgres URL are replaced.
"""

import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from typing import NamedTuple

from tests.surfaces.shell import read_terminal, render_screen

ROOT = Path(__file__).parents[2]
PORT = "8484"
POSTGRES = re.compile(r"postgresql://\S+@db\.example/headway")
STAYS = re.compile(r"headway (serve|worker)\b|curl -N ")
TYPED = 'source "$STATE"; {command}\ncode=$?; export -p > "$STATE"; exit $code'


class TypedCommand(NamedTuple):
    command: str
    shown: list[str]  # the output that the README shows

    @property
    def words(self) -> str:
        return re.sub(r"\s+# .*", "", self.command).strip()


def list_blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


def parse_session(page: str) -> list[TypedCommand]:
    found: list[TypedCommand] = []
    for line in "\n".join(list_blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            found.append(TypedCommand(line[2:], []))
        elif line:
            found[-1].shown.append(line)
    return found


def list_pasted_commands(page: str) -> list[TypedCommand]:
    """Return the commands of the blocks that readers copy as a whole."""
    return [TypedCommand(line, []) for line in "\n".join(list_blocks(page, "sh")).splitlines() if line]


class Reader:
    """Types one command after the other. Commands that keep running stay open in another window."""

    def __init__(self, folder: Path, postgres_url: str) -> None:
        self.folder = folder
        self.port = find_free_port()
        self.postgres_url = postgres_url
        self.state = folder.parent / "exported"
        self.state.write_text("", encoding="utf-8")
        self.windows: list[tuple[str, subprocess.Popen[bytes], int]] = []
        unwanted = ("HEADWAY_", "OPENAI_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        ours = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        path = f"{Path(sys.executable).parent}:{ours['PATH']}"
        self.env = {**ours, "PATH": path, "STATE": str(self.state), "HEADWAY_PORT": self.port, "TERM": "xterm-256color"}

    def follow(self, one: TypedCommand) -> None:
        """Type the command, and check that it prints the documented output."""
        printed = self.type(expand_make_target(one.words) if one.words.startswith("make ") else one.command)
        left = list(printed)
        for line in one.shown:
            found = next((place for place, shown in enumerate(left) if build_pattern(line).search(shown)), None)
            assert found is not None, "\n".join([one.command, "does not show", line, "but", *printed])
            left = left[found + 1 :]

    def type(self, command: str) -> list[str]:
        here = POSTGRES.sub(lambda _: self.postgres_url, command.replace(PORT, self.port))
        if STAYS.match(here):
            return self.leave_running(here)
        process, terminal = self.start(here)
        seen = b""
        while more := read_terminal(terminal):
            seen += more
        os.close(terminal)
        assert process.wait(60) == 0, (command, seen.decode())
        return render_screen(seen.decode())

    def leave_running(self, command: str) -> list[str]:
        """Run the command in another window, and return its first output."""
        if command.startswith("headway serve"):
            self.close()  # only one server at a time can use the port
        process, terminal = self.start(command)
        self.windows.append((command, process, terminal))
        return render_screen(read_terminal(terminal).decode())

    def start(self, command: str) -> "tuple[subprocess.Popen[bytes], int]":
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 40, 100, 0, 0))
        script = TYPED.format(command=f"exec {command}" if STAYS.match(command) else command)
        process = subprocess.Popen(
            ["bash", "--norc", "-c", script],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        return process, ours

    def close(self) -> None:
        for command, process, terminal in reversed(self.windows):
            assert process.poll() is None, f"{command} should have gone on"
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
            assert code == (-signal.SIGINT if command.startswith("curl") else 0), command
            os.close(terminal)
        self.windows.clear()

    def abandon(self) -> None:
        """Kill all commands that are still running."""
        for _, process, _ in self.windows:
            process.kill()
            process.wait()


@contextmanager
def open_reader(folder: Path, postgres_url: str) -> Iterator[Reader]:
    reader = Reader(folder, postgres_url)
    try:
        yield reader
        reader.close()
    finally:
        reader.abandon()


def find_free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def build_pattern(line: str) -> re.Pattern[str]:
    """Match the documented line with any spacing, and any text for "…"."""
    pattern = r"\s+".join(re.escape(word) for word in line.split())
    return re.compile(pattern.replace("…", ".*").replace(r"\ ", r"\s+"))


def expand_make_target(words: str) -> str:
    """Return the command of a Makefile target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{words.removeprefix('make ')}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe, words
    return recipe[1].strip().removeprefix("$(BIN)/")
