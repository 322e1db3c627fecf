"""The README, followed by somebody who types what stands in it: every command ends well and shows what is promised.

They sit at a terminal, in a folder of their own, with one ledger. Only what cannot be the same is exchanged: the port, and where
Postgres is.
"""

import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import NamedTuple

import pytest
from shell import read_terminal, screen

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PORT = "8484"
POSTGRES = "postgresql://headway@db.example/headway"
STAYS = re.compile(r"headway (serve|worker)\b|curl -N ")
# What installs things, or has a test of its own.
ELSEWHERE = {"make test": "Makefile", "headway demo": "tests/surfaces/test_cli_demo.py"}
TYPED = 'source "$STATE"; {command}\ncode=$?; export -p > "$STATE"; exit $code'
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


class Typed(NamedTuple):
    command: str
    shown: list[str]  # what the README says it prints

    @property
    def words(self) -> str:
        return re.sub(r"\s+# .*", "", self.command).strip()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


def session() -> list[Typed]:
    found: list[Typed] = []
    for line in "\n".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append(Typed(line[2:], []))
        elif line:
            found[-1].shown.append(line)
    return found


class Reader:
    """Types one command after the other; what stays is left running in another window."""

    def __init__(self, folder: Path, port: int, postgres_url: str) -> None:
        self.folder = folder
        self.port = str(port)
        self.postgres_url = postgres_url
        self.state = folder.parent / "exported"
        self.state.write_text("", encoding="utf-8")
        self.windows: list[tuple[str, subprocess.Popen[bytes], int]] = []
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OPENAI_"))}
        path = f"{Path(sys.executable).parent}:{ours['PATH']}"
        self.env = {**ours, "PATH": path, "STATE": str(self.state), "HEADWAY_PORT": self.port, "TERM": "xterm-256color"}

    def type(self, command: str) -> list[str]:
        here = command.replace(PORT, self.port).replace(POSTGRES, self.postgres_url)
        if STAYS.match(here):
            return self.leave_running(here)
        process, terminal = self.start(here)
        seen = b""
        while more := read_terminal(terminal):
            seen += more
        os.close(terminal)
        assert process.wait(60) == 0, (command, seen.decode())
        return screen(seen.decode())

    def leave_running(self, command: str) -> list[str]:
        """Until it has said its first words."""
        if command.startswith("headway serve"):
            self.close()  # one server at a time has the port
        process, terminal = self.start(command)
        self.windows.append((command, process, terminal))
        return screen(read_terminal(terminal).decode())

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


@pytest.fixture
def reader(tmp_path: Path, new_postgres_url: str) -> Iterator[Reader]:
    folder = tmp_path / "folder"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reader = Reader(folder, port, new_postgres_url)
    yield reader
    for _, process, _ in reader.windows:
        process.kill()
        process.wait()


def like(line: str) -> re.Pattern[str]:
    """As it is printed, with other spaces, times and whatever stands for … ."""
    pattern = r"\s+".join(re.escape(word) for word in line.split())
    return re.compile(pattern.replace("…", ".*").replace(r"\ ", r"\s+"))


def test_every_command_works_and_shows_what_is_promised(reader: Reader) -> None:
    typed = session()
    assert len(typed) > 20
    for one in typed:
        if one.words in ELSEWHERE:
            place = (ROOT / ELSEWHERE[one.words]).read_text(encoding="utf-8")
            assert one.words.split()[1] in place
            continue
        printed = reader.type(made(one.words) if one.words.startswith("make ") else one.command)
        left = list(printed)
        for line in one.shown:
            found = next((place for place, shown in enumerate(left) if like(line).search(shown)), None)
            assert found is not None, (one.command, line, printed)
            left = left[found + 1 :]
    reader.close()


def made(words: str) -> str:
    """What a target of the Makefile runs when all is installed."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{words.removeprefix('make ')}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe, words
    return recipe[1].strip().removeprefix("$(BIN)/")


def test_the_entry_for_an_editor_starts_our_server(tmp_path: Path) -> None:
    [entry] = [json.loads(block)["mcpServers"]["headway"] for block in blocks("json")]
    arguments = [one.replace("/path/to/your", str(tmp_path)) for one in entry["args"]]
    command = [str(Path(sys.executable).parent / entry["command"]), *arguments]
    ran = subprocess.run(command, input=json.dumps(INITIALIZE) + "\n", capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "headway"


def test_every_claim_and_picture_is_where_the_readme_says() -> None:
    named = re.findall(r'\]\(([^)#]+)(?:#[^)]*)?\)|(?:src|srcset)="([^"]+)"', README)
    places = {one or other for one, other in named if "://" not in one}
    assert len(places) > 30
    assert [place for place in sorted(places) if not (ROOT / place).exists()] == []
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    for name in re.findall(r"RESULTS\.md\), `([\w.*]+)`", README):
        assert f"| {name.rstrip('*')}" in results


def test_claims_that_name_a_test_name_one_that_runs() -> None:
    for place in set(re.findall(r"\((tests/[^)]+\.py)\)", README)):
        assert re.search(r"^def test_", (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE), place
