"""Follows a page of the documentation: types its commands at a terminal and compares the output.

Only the port and the Postgres URL are replaced.
"""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from typing import NamedTuple

from tests.free_ports import find_ports
from tests.surfaces.shell import read_terminal, render_screen
from tests.warm_start import install_command

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
    commands: list[TypedCommand] = []
    for line in "\n".join(list_blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            commands.append(TypedCommand(line[2:], []))
        elif line:
            commands[-1].shown.append(line)
    return commands


def list_pasted_commands(page: str) -> list[TypedCommand]:
    """Return the commands of the blocks that readers copy as a whole."""
    return [TypedCommand(line, []) for line in "\n".join(list_blocks(page, "sh")).splitlines() if line]


class Reader:
    """Types one command after the other. Commands that keep running stay open in another window."""

    def __init__(self, folder: Path, postgres_url: str) -> None:
        self.folder = folder
        self.port = str(find_ports())
        self.postgres_url = postgres_url
        self.state = folder.parent / "exported"
        self.state.write_text("", encoding="utf-8")
        self.windows: list[tuple[str, subprocess.Popen[bytes], int]] = []
        unwanted = ("HEADWAY_", "OPENAI_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        path = f"{install_command(folder.parent / 'bin').parent}:{Path(sys.executable).parent}:{inherited['PATH']}"
        self.env = {**inherited, "PATH": path, "STATE": str(self.state), "HEADWAY_PORT": self.port, "TERM": "xterm-256color"}

    def follow(self, typed: TypedCommand) -> None:
        """Type the command, and check that it prints the documented output."""
        printed = self.type(expand_make_target(typed.words) if typed.words.startswith("make ") else typed.command)
        remaining = list(printed)
        for line in typed.shown:
            match = next((place for place, output in enumerate(remaining) if build_pattern(line).search(output)), None)
            assert match is not None, "\n".join([typed.command, "does not show", line, "but", *printed])
            remaining = remaining[match + 1 :]

    def type(self, command: str) -> list[str]:
        local = POSTGRES.sub(lambda _: self.postgres_url, command.replace(PORT, self.port))
        if STAYS.match(local):
            return self.leave_running(local)
        process, terminal = self.start(local)
        output = b""
        while more := read_terminal(terminal):
            output += more
        os.close(terminal)
        assert process.wait(60) == 0, (command, output.decode())
        return render_screen(output.decode())

    def leave_running(self, command: str) -> list[str]:
        """Run the command in another window, and return its first output."""
        if command.startswith("headway serve"):
            self.close()  # only one server at a time can use the port
        process, terminal = self.start(command)
        self.windows.append((command, process, terminal))
        return render_screen(read_terminal(terminal).decode())

    def start(self, command: str) -> "tuple[subprocess.Popen[bytes], int]":
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, pack("HHHH", 40, 100, 0, 0))
        script = TYPED.format(command=f"exec {command}" if STAYS.match(command) else command)
        process = subprocess.Popen(
            ["bash", "--norc", "-c", script],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        return process, controller

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
