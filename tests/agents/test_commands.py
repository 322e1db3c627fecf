"""Running programs: allowed ones only, without a shell, with a separate environment and a time limit. In a sandbox or without."""

import asyncio
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from headway.agents.tools.builtin import ExternalAccess, build_builtin_tools
from headway.agents.tools.external_calls import call_external
from headway.agents.tools.programs import shell
from headway.ledger.errors import Invalid
from headway.ledger.limits import Sandbox
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller, build_caller
from tests.surfaces.server_harness import wait_until
from tests.tables import each_row

LISTED = ("sh", "env", "echo", "pwd", "cat", "no-such-program", "../bin/sh", "/bin/sh")


@pytest.fixture(params=["required", "off"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return Sandbox(request.param)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def caller(sqlite_agent: Agent, workspace: Path, sandbox: Sandbox) -> ToolCaller:
    return build_caller(sqlite_agent, workspace, ExternalAccess(commands=LISTED, sandbox=sandbox))


def test_a_program_runs_in_the_workspace_and_its_output_and_exit_code_come_back(caller: ToolCaller, workspace: Path) -> None:
    assert caller("run_command", command=["pwd"]) == {"exit_code": 0, "output": f"{workspace.resolve()}\n"}
    assert caller("run_command", command=["sh", "-c", "echo out; echo err >&2; exit 3"]) == {"exit_code": 3, "output": "out\nerr\n"}
    caller("run_command", command=["sh", "-c", "echo made > file"])
    assert caller("read_file", path="file") == {"content": "made\n"}


def test_no_shell_reads_the_arguments(caller: ToolCaller) -> None:
    words = ["$HOME", "`id`", "; id", "*", "a b", ""]

    assert caller("run_command", command=["echo", *words])["output"] == " ".join(words) + "\n"


@each_row("program", ["ls", "/bin/sh", "../bin/sh", "./sh", "sh ", "SH", "", "sh\0", "bin/sh", "-c"])
def test_a_program_that_is_not_listed_by_its_plain_name_is_not_run(caller: ToolCaller, program: str) -> None:
    assert "is not an allowed command" in caller.refused("run_command", command=[program, "-c", "echo hello"])


@each_row("command", [[], "sh", ["echo", "a\0b"], ["echo", "x" * 200_001], ["no-such-program"], ["echo", *["x" * 100_000] * 50]])
def test_a_command_that_cannot_run_is_refused_in_one_sentence(caller: ToolCaller, command: object) -> None:
    assert caller.refused("run_command", command=command)


def test_a_program_in_the_workspace_never_takes_the_place_of_a_listed_one(
    caller: ToolCaller, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.mkdir()
    (workspace / "echo").write_text("#!/bin/sh\necho taken over\n")
    (workspace / "echo").chmod(0o755)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")

    assert caller("run_command", command=["echo", "mine"])["output"] == "mine\n"


def test_nothing_of_our_environment_is_passed_on(caller: ToolCaller, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    output = caller("run_command", command=["env"])["output"]
    variables = dict(line.split("=", 1) for line in output.splitlines())

    assert "sk-secret" not in output
    assert {*variables} - {"PWD"} == {"HOME", "LANG", "PATH"}
    assert not Path(variables["HOME"]).exists()
    assert not Path(variables["HOME"]).is_relative_to(workspace)


def test_a_program_that_asks_for_input_gets_none(caller: ToolCaller) -> None:
    assert caller("run_command", command=["cat"]) == {"exit_code": 0, "output": ""}


def test_a_program_that_a_signal_ended_says_so(caller: ToolCaller) -> None:
    assert caller("run_command", command=["sh", "-c", "kill -9 $$"])["exit_code"] == 128 + 9


def test_of_endless_output_the_end_is_kept(caller: ToolCaller) -> None:
    answer = caller("run_command", command=["sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo done"])

    assert answer["output"].startswith("[The beginning is left out.]\nxxx")
    assert answer["output"].endswith("xxx\ndone\n")
    assert len(answer["output"]) < 50_100


def test_output_that_is_not_text_is_made_text(caller: ToolCaller) -> None:
    assert caller("run_command", command=["sh", "-c", r"printf 'a\377\000b'"])["output"] == "a\ufffd\ufffdb"


def has_ended(pid: int) -> bool:
    """Return whether a process has ended. A zombie counts as ended."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def ends_soon(pid: int) -> bool:
    end = time.monotonic() + 30
    while not has_ended(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return has_ended(pid)


def list_sleepers(mark: str) -> list[psutil.Process]:
    """List the processes that sleep for this time. In a sandbox, their ids are others than here."""
    return [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", mark]]


def test_at_the_limit_a_program_is_stopped_with_all_it_started(workspace: Path, sandbox: Sandbox) -> None:
    mark = f"300.{time.time_ns()}"
    started_at = time.monotonic()
    with pytest.raises(Invalid, match=r"did not finish within 1 s and was stopped\."):
        shell.run(["sh", "-c", f"sleep {mark} & sleep {mark}"], str(workspace), sandbox, limit_s=1)

    assert time.monotonic() - started_at < 30
    assert all(ends_soon(sleeper.pid) for sleeper in list_sleepers(mark))


def test_a_program_that_is_stopped_is_stopped_with_all_it_started_and_its_output_is_told(workspace: Path, sandbox: Sandbox) -> None:
    mark, canceled = f"300.{time.time_ns()}", threading.Event()
    script = f"echo begun; sleep {mark} & sleep {mark}"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(shell.run, ["sh", "-c", script], str(workspace), sandbox, canceled=canceled)
        wait_until(lambda: len(list_sleepers(mark)) == 2, "both children")
        canceled.set()
        with pytest.raises(Invalid, match=r"was canceled and was stopped\. Its last output: begun"):
            running.result()

    assert all(ends_soon(sleeper.pid) for sleeper in list_sleepers(mark))


def test_children_of_a_program_are_stopped_when_it_ends(caller: ToolCaller) -> None:
    mark, started_at = f"300.{time.time_ns()}", time.monotonic()
    answer = caller("run_command", command=["sh", "-c", f"sleep {mark} & echo done"])

    assert answer == {"exit_code": 0, "output": "done\n"}
    assert time.monotonic() - started_at < 30
    assert all(ends_soon(sleeper.pid) for sleeper in list_sleepers(mark))


def test_a_program_that_ignores_sigterm_is_killed(workspace: Path, sandbox: Sandbox) -> None:
    with pytest.raises(Invalid, match="was stopped"):
        shell.run(["sh", "-c", "trap '' TERM INT HUP; while :; do :; done"], str(workspace), sandbox, limit_s=0.2)


def test_a_program_whose_call_is_canceled_is_stopped(sqlite_agent: Agent, workspace: Path, sandbox: Sandbox) -> None:
    mark = f"300.{time.time_ns()}"
    (tool,) = (
        tool for tool in build_builtin_tools(ExternalAccess(commands=("sh",), sandbox=sandbox)) if tool.name == "run_command"
    )
    execution = sqlite_agent.execution._replace(workspace=str(workspace), sandbox=sandbox)

    async def cancel_call() -> None:
        call = asyncio.create_task(call_external(tool, {"command": ["sh", "-c", f"sleep {mark}"]}, execution))
        while not list_sleepers(mark):
            await asyncio.sleep(0.01)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call

    asyncio.run(cancel_call())
    assert all(ends_soon(sleeper.pid) for sleeper in list_sleepers(mark))


def test_a_child_that_left_the_process_group_blocks_nothing(workspace: Path) -> None:
    leaving = 'import os, time; os.setsid(); print(os.getpid(), flush=True); open("left", "w"); time.sleep(300)'
    script = f"{sys.executable} -c '{leaving}' & while [ ! -e left ]; do sleep 0.01; done"
    started_at = time.monotonic()
    answer = shell.run(["sh", "-c", script], str(workspace), Sandbox("off"))
    try:
        assert time.monotonic() - started_at < 60
    finally:
        psutil.Process(int(answer.output)).kill()


def test_without_a_workspace_nothing_is_run(sqlite_agent: Agent) -> None:
    caller = build_caller(sqlite_agent, world=ExternalAccess(commands=LISTED))

    assert caller.refused("run_command", command=["pwd"]) == "No workspace is available here."


@each_row(
    "program",
    [
        "./git",
        "/usr/bin/env",
        "../bin/sh",
        "git ",
        " git",
        "git;sh",
        "git\nsh",
        "GIT",
        "g\u0131t",
        "git\u200b",
        "ｇit",
        "",
        "-c",
        "~/git",
    ],
)
def test_only_the_very_word_that_is_listed_is_a_program(program: str) -> None:
    with pytest.raises(Invalid):
        shell.resolve_program(program, ["git"], Sandbox())


def test_a_listed_program_runs_with_any_arguments(tmp_path: Path, sqlite_agent: Agent, sandbox: Sandbox) -> None:
    """An allow-list cannot prevent this: many programs can start other programs. docs/security.md documents it."""
    caller = build_caller(sqlite_agent, tmp_path, ExternalAccess(commands=("env",), sandbox=sandbox))
    caller("run_command", command=["env", "sh", "-c", "echo yes > started"])
    assert (tmp_path / "started").read_text() == "yes\n"
