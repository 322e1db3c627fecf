"""A shell for `headway …` commands: in the test process, in a new process, or on a terminal."""

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
from typing import IO, Any, NamedTuple

from headway.surfaces.cli.main import main
from tests.warm_start import Program, build_command

HEADWAY = (sys.executable, "-m", "headway")
PATIENCE_S = 60
ROWS = 40  # of a terminal


class CommandResult(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Shell:
    """Runs commands in one folder, with a new ledger unless HEADWAY_DATABASE_URL is set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / ".headway" / "headway.db"

    def __call__(self, *arguments: str, stdin: str | bytes = b"") -> CommandResult:
        """Run in the test process, through the entry point of the installed command."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with replace_streams(data, "headway", *arguments) as (out, err):
            try:
                main()
            except SystemExit as end:
                code = end.code
        assert code is None or isinstance(code, int)
        return CommandResult(code or 0, out.getvalue().decode(), err.getvalue().decode())

    def trust(self) -> None:
        """Agree to the files that the test has put into the folder."""
        self.ok("trust", "--yes")

    def json(self, *arguments: str, stdin: str | bytes = b"") -> Any:
        return self(*arguments, "--json", stdin=stdin).json

    def ok(self, *arguments: str, stdin: str | bytes = b"") -> str:
        """Run a command that must succeed, and return its output."""
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
        warm: bool = True,
    ) -> CommandResult:
        """Run in a new process. A warm one has already imported everything, which saves seconds. It ignores variables that Python
        reads when it starts, and `before` needs another one."""
        command = build_command("-m", "headway") if warm and not before else HEADWAY
        result = subprocess.run(
            [*command, *arguments],
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            preexec_fn=before,
            timeout=patience_s,
        )
        return CommandResult(result.returncode, result.stdout.decode(), result.stderr.decode())

    def loaded(self, *arguments: str) -> CommandResult:
        """Run in a forked process that has already imported everything that `serve` and `chat` need, which saves seconds."""
        with Program(arguments, self.folder) as program:
            out, err = program.communicate(PATIENCE_S)
            return CommandResult(program.wait(), out, err)

    def terminal(self, *arguments: str, question: str = "", answer: str = "", width: int = 100) -> CommandResult:
        """Run on a new terminal, and type the answer when the question appears.

        The result's `out` contains both streams, with the line ends of a terminal.
        """
        with self.seated(*arguments, width=width) as terminal:
            if answer and terminal.sees(question):
                terminal.type(answer)
            return terminal.leave()

    @contextmanager
    def seated(self, *arguments: str, width: int = 100, output: IO[str] | None = None) -> Iterator["Terminal"]:
        """Run on a new terminal, for a test that types and reads while the command runs. Standard output can go to a file."""
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, pack("HHHH", ROWS, width, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            env.pop(name, None)
        with Program(arguments, self.folder, env, (terminal, output or terminal, terminal), terminal=True) as child:
            os.close(terminal)
            try:
                yield Terminal(child, controller)
            finally:
                child.kill()
                os.close(controller)


class Terminal:
    """The terminal of a running command: types keys and reads the screen."""

    def __init__(self, child: Program, descriptor: int) -> None:
        self.child = child
        self.descriptor = descriptor
        self.seen = b""
        self.place = 0  # the end of the last match

    def sees(self, text: str) -> bool:
        """Read until the text appears after the last match. Return False if the output ends first."""
        expected = text.encode()
        while (position := self.seen.find(expected, self.place)) < 0:
            more = read_terminal(self.descriptor)
            self.seen += more
            if not more:
                return False
        self.place = position + len(expected)
        return True

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def leave(self) -> CommandResult:
        """Read until the command ends, and return its result."""
        while more := read_terminal(self.descriptor):
            self.seen += more
        return CommandResult(self.child.wait(PATIENCE_S), self.seen.decode(), "")


def render_screen(output: str) -> list[str]:
    """Return the lines that remain on the terminal after this output. Erased lines are gone."""
    rows, row, column = [""], 0, 0
    for escape, code, control, words in re.findall(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n\b])|([^\x1b\r\n\b]+)", output):
        if code == "A":
            row = max(0, len(rows) - ROWS, row - int(escape or 1))  # not above the screen
        elif code in ("C", "D"):
            column = max(0, column + int(escape or 1) * (1 if code == "C" else -1))  # wide characters are not counted as such
        elif code in ("K", "J") and escape in ("", "0"):
            rows[row] = rows[row][:column]
            rows = rows[: row + 1] if code == "J" else rows
        elif code == "K" and escape == "2":
            rows[row] = ""
        elif code:
            assert code in "mhl", f"a command that is not understood here: {escape}{code}"
        elif control == "\r":
            column = 0
        elif control == "\b":
            column = max(0, column - 1)
        elif control == "\n":
            row, column = row + 1, 0  # a terminal also sends a carriage return
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
    except OSError:  # Linux reports a closed terminal as an error
        return b""


@contextmanager
def replace_streams(stdin: bytes, *argv: str) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Replace the arguments and standard streams, as in a new process."""
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
    """Return the only line on standard error of a command that failed with this code and printed nothing else."""
    assert (ran.code, ran.out) == (code, ""), ran
    assert ran.err.endswith("\n"), ran.err
    assert ran.err.startswith("headway: "), ran.err
    lines = ran.err.splitlines()
    assert len(lines) == 1, ran.err
    return lines[0]
