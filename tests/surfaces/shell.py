"""A shell to type `headway …` into: in this process, in one of its own, or on a terminal."""

import fcntl
import io
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select
from struct import pack
from typing import Any, NamedTuple

from headway.surfaces.cli.main import main
from tests.warm_start import Program

HEADWAY = (sys.executable, "-m", "headway")
PATIENCE_S = 60


class CommandResult(NamedTuple):
    """How a command ended: its exit code, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Shell:
    """Commands are typed into one folder, with a ledger of its own unless HEADWAY_DATABASE_URL is set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / ".headway" / "headway.db"

    def __call__(self, *arguments: str, stdin: str | bytes = b"") -> CommandResult:
        """Run in this process, through the same door as the installed command."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        with replace_streams(given, "headway", *arguments) as (out, err):
            try:
                main()
            except SystemExit as end:
                code = end.code
        assert code is None or isinstance(code, int)
        return CommandResult(code or 0, out.getvalue().decode(), err.getvalue().decode())

    def json(self, *arguments: str, stdin: str | bytes = b"") -> Any:
        return self(*arguments, "--json", stdin=stdin).json

    def ok(self, *arguments: str, stdin: str | bytes = b"") -> str:
        """What a command that has to succeed printed."""
        ran = self(*arguments, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran.out

    def process(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> CommandResult:
        """Run in a process of its own."""
        done = subprocess.run(
            [*HEADWAY, *arguments],
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            preexec_fn=before,
            timeout=patience_s,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def loaded(self, *arguments: str) -> CommandResult:
        """The same without the seconds that it takes to load what `serve` and `chat` need."""
        with Program(arguments, self.folder) as program:
            out, err = program.communicate(PATIENCE_S)
            return CommandResult(program.wait(), out, err)

    def terminal(self, *arguments: str, question: str = "", answer: str = "", width: int = 100) -> CommandResult:
        """Run on a terminal of its own, where a person answers the question when it is asked.

        Both streams are what that person sees, and line ends are a terminal's.
        """
        with self.seated(*arguments, width=width) as terminal:
            if answer and terminal.sees(question):
                terminal.type(answer)
            return terminal.leave()

    @contextmanager
    def seated(self, *arguments: str, width: int = 100) -> Iterator["Terminal"]:
        """Run on a terminal of its own, in front of which a person sits."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 40, width, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            env.pop(name, None)
        with Program(arguments, self.folder, env, (theirs, theirs, theirs), terminal=True) as child:
            os.close(theirs)
            try:
                yield Terminal(child, ours)
            finally:
                child.kill()
                os.close(ours)


class Terminal:
    """What a person does and sees while a command runs."""

    def __init__(self, child: Program, descriptor: int) -> None:
        self.child = child
        self.descriptor = descriptor
        self.seen = b""
        self.place = 0  # behind what was looked for last

    def sees(self, text: str) -> bool:
        """Look until the text is there, behind what was looked for before, or nothing more comes."""
        wanted = text.encode()
        while (found := self.seen.find(wanted, self.place)) < 0:
            more = read_terminal(self.descriptor)
            self.seen += more
            if not more:
                return False
        self.place = found + len(wanted)
        return True

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def leave(self) -> CommandResult:
        """Look on until it is over."""
        while more := read_terminal(self.descriptor):
            self.seen += more
        return CommandResult(self.child.wait(PATIENCE_S), self.seen.decode(), "")


def render_screen(seen: str) -> list[str]:
    """The lines that are left on a terminal, of what was shown on it: lines that were wiped are gone."""
    rows, row, column = [""], 0, 0
    for escape, code, control, words in re.findall(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)", seen):
        if code == "A":
            row = max(0, row - int(escape or 1))
        elif code == "K" and escape == "2":
            rows[row] = ""
        elif code:
            assert code in "mhl", f"a command that is not understood here: {escape}{code}"
        elif control == "\r":
            column = 0
        elif control == "\n":
            row, column = row + 1, 0  # a terminal sends a carriage return along
            rows += [""] * (row - len(rows) + 1)
        else:
            rows[row] = f"{rows[row]:<{column}}"[:column] + words + rows[row][column + len(words) :]
            column += len(words)
    return [line.rstrip() for line in rows]


def read_terminal(descriptor: int) -> bytes:
    readable, _, _ = select([descriptor], [], [], PATIENCE_S)
    assert readable, "the command neither says anything nor ends"
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that everybody has left the terminal
        return b""


@contextmanager
def replace_streams(stdin: bytes, *argv: str) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Arguments and pipes as a new process would find them."""
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.argv = list(argv)
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace")
    try:
        yield out, err
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.detach()
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before


def get_error_line(ran: CommandResult, code: int) -> str:
    """The one line on standard error of a command that failed with this code, and did not print anything else."""
    assert (ran.code, ran.out) == (code, ""), ran
    assert ran.err.endswith("\n"), ran.err
    assert ran.err.startswith("headway: "), ran.err
    lines = ran.err.splitlines()
    assert len(lines) == 1, ran.err
    return lines[0]
