"""Runs `headway …` and other Python programs in processes that start at once: each is forked from one that has loaded every module.

Everything else is as with `python -m headway …`: arguments, environment, folder, streams, a terminal, signals and the exit code.

With `pytest -p tests.warm_workers`, the workers of xdist are such processes, and each begins by forking a fork server of its own.
The modules are then loaded once in a run, not once in each worker and once in each fork server.
"""

import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PATIENCE_S = 60
WORKER = "WARM_START_WORKER"  # is set for a program that begins by forking a fork server of its own,
SERVER = "WARM_START_SERVER"  # and this then names that server
FOR_WORKERS = "WARM_START_FOR_WORKERS"  # is set for a fork server whose children are tests
CLIENT = Path(__file__).with_name("warm_client.py")
# Modules that `serve`, `worker`, `chat` and `mcp` load at some point. Modules of all commands are loaded as well.
MODULES = (
    "headway.agents.loop.job_handlers",
    "headway.agents.models.openai_client",
    "headway.autonomy.pursuit",
    "headway.autonomy.recovery",
    "headway.process.host",
    "headway.storage.postgres.announcements",
    "headway.storage.sqlite_connection",
    "headway.surfaces.acp.agent",
    "headway.surfaces.cli.commands.chat",
    "headway.surfaces.cli.commands.serve",
    "headway.surfaces.cli.commands.worker",
    "headway.surfaces.cli.main",
    "headway.surfaces.cli.goal_following",
    "headway.surfaces.cli.keyboard.line_editor",
    "headway.surfaces.http.server",
    "headway.surfaces.http.server",
    "headway.surfaces.mcp.stdio_server",
    "headway.webhooks",
    "anyio._backends._asyncio",
    "click.shell_completion",
    "encodings.ascii",
    "genai_prices.data",
    "jiter",
    "openai.lib.streaming.chat",
    "openai.pagination",
    "openai.resources.chat.chat",
    "openai.resources.chat.completions.completions",
    "openai.resources.chat.completions.messages",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "rich.markdown",
    "rich.panel",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvloop",
)


HEADWAY = ("-m", "headway")


def build_command(*program: str) -> list[str]:
    """Return a command that stands for `python PROGRAM…`, where a test or a client of ours starts the process itself."""
    return [sys.executable, "-IS", str(CLIENT), get_fork_server().address, *program]


def install_command(folder: Path) -> Path:
    """Put a `headway` that starts at once into a new folder, and return its path."""
    folder.mkdir()
    return write_script(folder / "headway", f'exec {shlex.join(build_command(*HEADWAY))} "$@"')


def install_python(folder: Path) -> Path:
    """Put a `python` into a folder, for a program that is started with its path in WARM_START_PYTHON and runs others."""
    return write_script(folder / "python", f'exec {shlex.join(build_command())} "$@"')


def install_python_that_starts_once(folder: Path) -> Path:
    """Put such a `python` into a folder with which the first program starts as usual, and all others start at once."""
    first = shlex.quote(str(folder / "the first has started"))
    start = f'mkdir {first} 2>/dev/null && exec {shlex.quote(sys.executable)} "$@"'
    return write_script(folder / "python", f'{start}\nexec {shlex.join(build_command())} "$@"')


def write_script(path: Path, commands: str) -> Path:
    path.write_text(f"#!/bin/sh\n{commands}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


class Program:
    """A running `headway …`, with the parts of subprocess.Popen's interface that tests need. Pipes carry text."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        env: Mapping[str, str] | None = None,
        streams: Sequence[int | IO[Any]] = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE),
        *,
        terminal: bool = False,
    ) -> None:
        """With `terminal`, standard input is a terminal, and the program leads a session on it."""
        request: dict[str, Any] = {"program": HEADWAY, "arguments": list(arguments), "folder": str(folder), "terminal": terminal}
        request["safe_path"] = False
        request["env"] = dict(os.environ if env is None else env)
        self.returncode: int | None = None
        pipes = Pipes(streams)
        self.stdin, self.stdout, self.stderr = pipes.ours
        self.exit_report, report = os.pipe()
        self.pid = get_fork_server().fork(request, [*pipes.theirs, report])
        pipes.close_passed()
        os.close(report)

    def poll(self) -> int | None:
        return self.ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self.ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["headway"], timeout or 0)
        return code

    def ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self.exit_report], [], [], seconds)[0]:
            self.returncode = int(os.read(self.exit_report, 16))
            os.close(self.exit_report)
        return self.returncode

    def send_signal(self, what: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, what)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read the remaining output until the program ends."""
        with ThreadPoolExecutor() as readers:
            out, err = (readers.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # or the readers would never finish
                raise
            return (out.result() if out else ""), (err.result() if err else "")

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
            stream.close()
        self.wait(PATIENCE_S)


class Pipes:
    """The standard streams: the parent's end of each, and the descriptors for the program."""

    def __init__(self, streams: Sequence[int | IO[Any]]) -> None:
        self.ours: list[IO[str] | None] = []
        self.theirs: list[int] = []
        self.opened: list[int] = []  # descriptors opened here for the program
        for number, stream in enumerate(streams):
            if stream == subprocess.PIPE:
                reading, writing = os.pipe()
                kept, given = (writing, reading) if number == 0 else (reading, writing)
                self.ours.append(os.fdopen(kept, "w" if number == 0 else "r", encoding="utf-8"))
                self.opened.append(given)
            else:
                self.ours.append(None)
                if stream == subprocess.DEVNULL:
                    self.opened.append(given := os.open(os.devnull, os.O_RDWR))
                else:
                    given = stream if isinstance(stream, int) else stream.fileno()
            self.theirs.append(given)

    def close_passed(self) -> None:
        for descriptor in self.opened:
            os.close(descriptor)


class ForkServer:
    """The parent's handle on the process that has loaded every module."""

    def __init__(self, channel: socket.socket, address: str, wait: Callable[[], object]) -> None:
        self.lock = threading.Lock()
        self.channel = channel
        self.address = address  # of clients that are no children of this process
        self.wait = wait
        atexit.register(self.close)

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Fork, and return the process id. The child's exit code is written to the last of these descriptors."""
        message = json.dumps(request).encode()
        with self.lock:  # tests have threads, and each must get its own child
            socket.send_fds(self.channel, [len(message).to_bytes(4, "big")], descriptors)
            self.channel.sendall(message)
            return int.from_bytes(receive(self.channel, 4), "big")

    def close(self) -> None:
        self.channel.close()
        self.wait()
        shutil.rmtree(os.path.dirname(self.address))


START_LOCK = threading.Lock()
FORKED_SERVER = os.environ.pop(SERVER, "")  # here, before this process starts another


@cache
def start_fork_server() -> ForkServer:
    if FORKED_SERVER:
        pid, descriptor, address = FORKED_SERVER.split(maxsplit=2)
        return ForkServer(socket.socket(fileno=int(descriptor)), address, partial(os.waitpid, int(pid), 0))
    channel, child_end, listener, address = open_channels()
    passed = [child_end.fileno(), listener.fileno()]
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    command = [sys.executable, "-P", __file__, *map(str, passed)]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, pass_fds=passed, start_new_session=True)
    child_end.close()
    listener.close()
    return ForkServer(channel, address, partial(process.wait, PATIENCE_S))


def open_channels() -> tuple[socket.socket, socket.socket, socket.socket, str]:
    """Return both ends of the channel to a fork server, and its listener with the address."""
    channel, child_end = socket.socketpair()
    address = os.path.join(tempfile.mkdtemp(prefix="hw-fork-"), "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    return channel, child_end, listener, address


def get_fork_server() -> ForkServer:
    """The fork server of this test process."""
    with START_LOCK:
        return start_fork_server()


def receive(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# In the fork server


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    for module in (*MODULES, *list_command_modules()):
        import_module(module)
    prepare_first_turn()
    if os.environ.pop(FOR_WORKERS, None):
        prepare_tests()
    gc.collect()
    gc.freeze()
    serve(*(socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:]))


def serve(channel: socket.socket, listener: socket.socket) -> None:
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    wakeup_reader, wakeup_writer = socket.socketpair()
    wakeup_writer.setblocking(False)
    signal.set_wakeup_fd(wakeup_writer.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reports: dict[int, int] = {}
    clients: dict[int, int] = {}
    try:
        while True:
            watched: list[socket.socket | int] = [channel, listener, wakeup_reader, *clients]
            ready, _, _ = select.select(watched, [], [])
            for client in [client for client in clients if client in ready]:  # it was killed, and says nothing otherwise
                os.kill(clients.pop(client), signal.SIGKILL)
            if wakeup_reader in ready:
                wakeup_reader.recv(4096)
                report_ended(reports, clients)
            if channel in ready:
                fork_child(channel, reports)
            if listener in ready:
                serve_client(listener, reports, clients)
    except EOFError:  # the tests have ended
        for child in reports:
            os.kill(child, signal.SIGKILL)


def list_command_modules() -> set[str]:
    root = import_module("headway.surfaces.cli.main").headway
    admin = import_module("headway.surfaces.cli.commands.admin").admin
    places: list[str] = [entry.target for group in (root, admin) for entry in group.entries.values()]
    return {f"headway.surfaces.cli.commands.{place.partition(':')[0]}" for place in places}


def prepare_first_turn() -> None:
    """Build what a process builds for its first turn, and which takes longer than the turn: types of messages, patterns, prices."""
    import_module("pydantic_ai.messages").ModelMessagesTypeAdapter.rebuild()
    chunks = import_module("openai.types.chat.chat_completion_chunk")
    usage = import_module("openai.types.completion_usage")
    for type_ in (chunks.ChoiceDelta, chunks.Choice, chunks.ChatCompletionChunk, usage.CompletionUsage):
        type_.model_rebuild()
    framing = import_module("headway.ledger.framing")
    for get_pattern in (framing.get_bracket_pattern, framing.get_frame_pattern, framing.get_frame_start_pattern):
        get_pattern()
    os.environ["OPENAI_API_KEY"] = "none"  # no child inherits it
    _ = import_module("headway.agents.models.providers").build_model("openai-chat:any").profile


def prepare_tests() -> None:
    """Load and build what each worker needs sooner or later: the driver of the browser, and the schemas of all events."""
    import_module("playwright.sync_api")
    sys.path.append(str(Path(__file__).parents[1]))
    import_module("tests.event_log").build_validators()
    sys.path.pop()


def report_ended(reports: dict[int, int], clients: dict[int, int]) -> None:
    """Write the exit codes of the children that have ended."""
    for child, report in list(reports.items()):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with suppress(BrokenPipeError):  # the client is gone
                os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
            clients.pop(report, None)
            os.close(reports.pop(child))


def serve_client(listener: socket.socket, reports: dict[int, int], clients: dict[int, int]) -> None:
    """Fork for a client that connected. It gets the exit code over its connection. If the client is killed, so is the child."""
    client, _ = listener.accept()
    with client, suppress(EOFError, OSError):  # a client that was killed meanwhile
        report = os.dup(client.fileno())
        clients[report] = fork_child(client, reports, report)


def fork_child(channel: socket.socket, reports: dict[int, int], *report: int) -> int:
    """Fork, write the exit code to `report`, or to the last of the received descriptors, and return the process id."""
    size, received, _, _ = socket.recv_fds(channel, 4, 4)
    descriptors = [*received, *report]
    if not size:
        raise EOFError
    request = json.loads(receive(channel, int.from_bytes(size, "big")))
    child = os.fork()
    if not child:
        run_child(request, descriptors)
    *streams, reports[child] = descriptors
    for stream in streams:
        os.close(stream)
    channel.sendall(child.to_bytes(4, "big"))
    return child


def run_child(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    code = 1
    is_worker = WORKER in request["env"]
    try:
        enter_environment(request, descriptors)
        if is_worker:
            fork_server()
        run_program(*request["program"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  no exception may reach the parent's code
        traceback.print_exc()
    finally:
        if is_worker:  # its fixtures and plugins remove their folders at its exit
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def fork_server() -> None:
    """Fork a fork server for this process, which has no threads yet, and name it in the environment."""
    del os.environ[WORKER]
    channel, child_end, listener, address = open_channels()
    pid = os.fork()
    if pid:
        os.environ[SERVER] = f"{pid} {channel.detach()} {address}"
        atexit.register(shutil.rmtree, os.path.dirname(address), ignore_errors=True)  # if this process never uses the server
        child_end.close()
        listener.close()
        return
    channel.close()
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    serve(child_end, listener)
    os._exit(0)


def run_program(*program: str) -> None:
    match program:
        case "-m", module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case "-c", code:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case (path,):
            runpy.run_path(path, run_name="__main__")


def enter_environment(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.executable = os.environ.get("WARM_START_PYTHON") or sys.executable
    *option, program = request["program"]
    first = request["folder"] if option else os.path.dirname(program)
    added = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:0] = [*([] if request["safe_path"] else [first]), *added]
    sys.argv[:] = [program, *request["arguments"]]
    for customization in filter(os.path.isfile, (os.path.join(folder, "sitecustomize.py") for folder in added)):
        runpy.run_path(customization)  # as Python does when it starts


if __name__ == "__main__":
    main()
