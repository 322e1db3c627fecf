"""The sandbox for programs: what they see of the machine, what they may use, and that nothing they do reaches beyond it."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import settings
from headway.agents.instructions import role_files
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.programs import shell
from headway.agents.tools.programs.sandbox import find_fault, probe
from headway.ledger.errors import Conflict, Invalid, SettingsError
from headway.ledger.limits import MEBIBYTE, Sandbox
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller, build_caller
from tests.agents.person_harness import decide, decide_and_finish, list_approvals, run_command, write_policy
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, text
from tests.tables import each_row

# Where bubblewrap is missing, these tests fail with the reason.
SANDBOX = Sandbox("required")
DONE = text("Done.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "workspace" / "7"
    folder.mkdir(parents=True)
    return folder


def run_script(workspace: Path, script: str, sandbox: Sandbox = SANDBOX) -> str:
    """Run a shell script and return its output."""
    return shell.run(["sh", "-c", script], str(workspace), sandbox).output


def run_python(workspace: Path, code: str, sandbox: Sandbox = SANDBOX) -> shell.CommandResult:
    return shell.run(["python3", "-"], str(workspace), sandbox, stdin=code)


# The files that a program sees


def test_a_program_sees_the_system_and_its_workspace_and_nothing_else(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "headway.db").write_text("rows of all tenants")
    (tmp_path / "home" / "workspace" / "8").mkdir()
    (workspace / "link").symlink_to(tmp_path / "home" / "headway.db")
    seen = run_script(
        workspace, f"ls {tmp_path}/home {tmp_path}/home/workspace; cat link; ls -A $HOME /root /home /run /sys; ps -e | wc -l"
    )

    assert "headway.db\n" not in seen
    assert "8\n" not in seen.replace("Inappropriate", "").splitlines()
    assert "rows of all tenants" not in seen
    assert "workspace\n" in seen
    for folder in ("/root", "/home", "/run", "/sys"):
        assert f"cannot access '{folder}'" in seen
    assert int(seen.split()[-1]) < 10


def test_only_the_workspace_and_temporary_files_can_be_written(workspace: Path) -> None:
    targets = "/x /usr/x /etc/x /dev/x /proc/sys/kernel/core_pattern $PWD/x $HOME/x /tmp/x /dev/shm/x"
    seen = run_script(workspace, f"for target in {targets}; do (echo x > $target) 2>/dev/null && echo $target; done")

    assert seen.split() == [f"{workspace}/x", "/tmp/home/x", "/tmp/x", "/dev/shm/x"]
    assert [path.name for path in workspace.iterdir()] == ["x"]
    assert not Path("/tmp/home/x").exists()


def test_of_etc_a_program_sees_no_keys_and_no_passwords(workspace: Path) -> None:
    seen = set(run_script(workspace, "ls /etc /etc/ssl").split())

    assert {"passwd", "certs"} <= seen
    assert seen.isdisjoint({"shadow", "private", "sudoers", "ssh", "resolv.conf", "hosts"})


def test_a_program_has_no_privileges_and_cannot_get_any(workspace: Path) -> None:
    assert "CapEff:\t0000000000000000" in run_script(workspace, "cat /proc/self/status")
    assert "unshare failed" in run_script(workspace, "unshare -U true; unshare -m true")


def test_more_folders_are_shown_read_only_and_the_home_stays_hidden(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "headway.db").write_text("rows")
    program = tmp_path / "tools" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    (tmp_path / "alias").symlink_to(tmp_path / "tools")
    sandbox = SANDBOX._replace(readable=(str(tmp_path),), hidden=(str(tmp_path / "home"),))
    seen = run_script(workspace, f"{tmp_path}/alias/greet; ls -A ../..; touch {tmp_path}/x; echo mine > file; cat file", sandbox)

    assert seen.splitlines()[:2] == ["hello", "workspace"]
    assert "Read-only file system\nmine\n" in seen


def test_a_folder_inside_a_writable_one_can_be_read_only(workspace: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "hooks").mkdir(parents=True)
    (repository / "config").write_text("[core]\n")
    sandbox = SANDBOX._replace(
        writable=(str(repository),), readable=(str(repository / "hooks"), str(repository / "config"), str(tmp_path / "missing"))
    )
    run_script(workspace, f"cd {repository}; echo x > object; echo x > hooks/post-checkout; echo x > config", sandbox)

    assert sorted(path.name for path in repository.rglob("*")) == ["config", "hooks", "object"]
    assert (repository / "config").read_text() == "[core]\n"


def test_a_program_that_the_sandbox_does_not_show_is_named_with_the_setting(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    expected = f"greet is {program}, which the sandbox does not show. Add its folder to HEADWAY_SANDBOX_READ."
    with pytest.raises(Invalid) as refused:
        shell.resolve_program("greet", ["greet"], SANDBOX)
    assert str(refused.value) == expected
    shown = SANDBOX._replace(readable=(str(program.parent),))
    assert shell.run(["greet"], str(workspace), shown).output == "hello\n"


# The network


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of a server on this machine, which accepts one connection."""

    def greet() -> None:
        with server.accept()[0] as connection:
            connection.sendall(b"hello")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=greet, daemon=True).start()
        yield server.getsockname()[1]


def test_there_is_no_network_unless_the_role_grants_it(sqlite_agent: Agent, workspace: Path, listener: int, tmp_path: Path) -> None:
    (tmp_path / "surfer.toml").write_text("network = true\n")
    (surfer,) = role_files.load(tmp_path, ())
    caller = build_caller(sqlite_agent, workspace, ExternalAccess(commands=("python3",), sandbox=SANDBOX))
    code = f"import socket\nprint(socket.create_connection(('127.0.0.1', {listener}), 5).recv(5))"

    assert "Connection refused" in caller("run_python", code=code)["output"]
    caller.execution = caller.execution._replace(role=surfer)
    assert caller("run_python", code=code) == {"exit_code": 0, "output": "b'hello'\n"}


# Limits


def test_too_much_memory_fails_in_one_process_and_stops_several(workspace: Path) -> None:
    sandbox = SANDBOX._replace(memory=100 * MEBIBYTE)
    assert "MemoryError" in run_python(workspace, "bytearray(150 << 20)", sandbox).output

    several = "import os, time\nif os.fork(): os.fork()\nkept = b'x' * (60 << 20)\ntime.sleep(300)"
    with pytest.raises(Invalid, match=r"^python3 used more than 100 MiB of memory and was stopped\."):
        run_python(workspace, several, sandbox)


def test_shared_memory_counts_once(workspace: Path) -> None:
    sandbox = SANDBOX._replace(memory=100 * MEBIBYTE)
    code = "import os, time\nkept = b'x' * (60 << 20)\nchild = os.fork()\ntime.sleep(0.3)\nif child: os.wait()\n"
    assert run_python(workspace, code, sandbox).exit_code == 0


def test_too_many_processes_are_stopped(workspace: Path) -> None:
    with pytest.raises(Invalid, match=r"^sh started more than 20 processes and was stopped\."):
        run_script(workspace, "for n in $(seq 40); do sleep 300 & done; wait", SANDBOX._replace(processes=20))


def test_too_many_threads_are_stopped(workspace: Path) -> None:
    code = "import threading\nstop = threading.Event()\nfor _ in range(200): threading.Thread(target=stop.wait).start()"
    with pytest.raises(Invalid, match=r"^python3 started more than 80 threads and was stopped\."):
        run_python(workspace, code, SANDBOX._replace(processes=20))


def test_files_have_a_size_limit(workspace: Path) -> None:
    run_script(workspace, "truncate -s 2G large; ulimit -c > core")
    assert not (workspace / "large").exists() or (workspace / "large").stat().st_size == 0
    assert (workspace / "core").read_text() == "0\n"


# git, which runs what a repository's settings say


@pytest.fixture
def repository(workspace: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    return workspace


@pytest.mark.parametrize("mode", ["required", "off"])
def test_git_reads_no_settings_from_the_workspace(repository: Path, tmp_path: Path, mode: str) -> None:
    marker = tmp_path / "executed"
    for place in (".gitconfig", ".config/git/config"):
        (repository / place).parent.mkdir(parents=True, exist_ok=True)
        (repository / place).write_text(f'[core]\n\tfsmonitor = "touch {marker} {repository}/executed; false"\n')
    assert shell.run(["git", "status"], str(repository), Sandbox(mode)).exit_code == 0  # type: ignore[arg-type]

    assert not marker.exists()
    assert not (repository / "executed").exists()


def test_what_a_hostile_repository_runs_stays_in_the_sandbox(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    with (repository / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {marker} {repository}/executed; false"\n')
    shell.run(["git", "status"], str(repository), SANDBOX)

    assert (repository / "executed").exists()  # the settings were followed, but only inside
    assert not marker.exists()


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/post-checkout", ".GIT/config", ".git"])
def test_file_tools_do_not_write_what_git_would_follow(sqlite_agent: Agent, repository: Path, path: str) -> None:
    caller = build_caller(sqlite_agent, repository)

    refusal = caller.refused("write_file", path=path, content="[core]\n")
    assert refusal == f"{path} belongs to git, which would run what its settings say. Use git to change it."
    assert "belongs to git" in caller.refused("edit_file", path=path, old="[core]", new="[alias]")
    assert caller("read_file", path=".git/HEAD")
    assert caller("write_file", path=".gitignore", content="x")


# run_python


@pytest.fixture
def programmer(sqlite_agent: Agent, workspace: Path) -> ToolCaller:
    return build_caller(sqlite_agent, workspace, ExternalAccess(commands=("git", "python3"), sandbox=SANDBOX))


def test_python_code_runs_in_the_workspace(programmer: ToolCaller, workspace: Path) -> None:
    (workspace / "helper.py").write_text("ANSWER = 42\n")
    code = "import sys, helper\nprint(helper.ANSWER, sys.argv, 'ä')\nopen('made', 'w').write('x')\nsys.exit(3)"

    assert programmer("run_python", code=code) == {"exit_code": 3, "output": "42 ['-'] ä\n"}
    assert (workspace / "made").read_text() == "x"
    assert "ZeroDivisionError" in programmer("run_python", code="1 / 0")["output"]


def test_python_code_has_a_time_limit(programmer: ToolCaller) -> None:
    refusal = programmer.refused("run_python", code="while True: pass", timeout_s=1)

    assert refusal == "python3 did not finish within 1 s and was stopped. Its last output: nothing"
    assert "timeout_s" in programmer.refused("run_python", code="1", timeout_s=301)
    assert "code" in programmer.refused("run_python", code="")


SET_ID_PROGRAM = """
import ctypes, os, platform
os.umask(0)
def attempt(name, work):
    try:
        work()
        print(name, "passed")
    except OSError as error:
        print(name, error.strerror)
for bits in (0o4755, 0o2755, 0o6711):
    os.close(os.open(f"{bits:o}", os.O_CREAT | os.O_WRONLY, 0o755))
    attempt("chmod", lambda: os.chmod(f"{bits:o}", bits))
    folder = os.open(".", os.O_RDONLY)
    attempt("fchmodat", lambda: os.chmod(f"{bits:o}", bits, dir_fd=folder))
    file = os.open(f"{bits:o}", os.O_RDONLY)
    attempt("fchmod", lambda: os.fchmod(file, bits))
    attempt("open", lambda: os.open(f"new {bits:o}", os.O_CREAT | os.O_WRONLY, bits))
    attempt("mknod", lambda: os.mknod(f"node {bits:o}", bits))
    libc = ctypes.CDLL(None, use_errno=True)
    def call(*arguments):
        if libc.syscall(*arguments) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    attempt("fchmodat2", lambda: call(452, folder, f"{bits:o}".encode(), bits, 0))
os.open("plain", os.O_RDONLY | os.O_CREAT, 0o755)
os.chmod("plain", 0o1777)
attempt("io_uring", lambda: call(425, 1, ctypes.create_string_buffer(200)))
attempt("memory", lambda: os.memfd_create("x"))
"""


def test_no_program_leaves_a_file_with_set_id_bits(workspace: Path) -> None:
    output = run_python(workspace, SET_ID_PROGRAM).output
    attempts = [line.partition(" ") for line in output.splitlines()]

    assert len(attempts) == 20, output
    assert {reason for _, _, reason in attempts} <= {"Operation not permitted", "Function not implemented"}, output
    assert [oct(path.lstat().st_mode) for path in workspace.rglob("*") if path.lstat().st_mode & 0o6000] == []
    assert (workspace / "plain").stat().st_mode & 0o7777 == 0o1777


# Whether people are asked


def test_in_a_sandbox_a_command_runs_without_approval_unless_a_rule_asks(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(run_command("echo", "one"), run_command("echo", "two"), DONE)
    with open_talk(sqlite_url, tmp_path, script, commands="echo", sandbox="required") as talk:
        write_policy(tmp_path, 'tool = "run_command"\narguments = {command = "echo two"}\ndecision = "ask"')
        talk.say()
        assert [effect.state for effect in talk.effects()] == ["succeeded", "proposed"]
        (approval,) = list_approvals(talk)
        decide_and_finish(talk, approval["id"], "approve", always=True)
        assert 'decision = "allow"' in (tmp_path / "policy.toml").read_text()


def test_without_a_sandbox_each_call_asks(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("run_python", {"code": "print(1)"})), DONE)
    with open_talk(sqlite_url, tmp_path, script, commands="python3", sandbox="off") as talk:
        talk.say()
        (approval,) = list_approvals(talk)
        with pytest.raises(Conflict, match="run_python cannot be allowed always, because there is no sandbox here"):
            decide(talk, approval["id"], "approve", always=True)
        assert [one["state"] for one in list_approvals(talk)] == ["proposed"]
        decide_and_finish(talk, approval["id"], "approve")
        assert json.loads(talk.effects()[0].result) == {"exit_code": 0, "output": "1\n"}
        assert not (tmp_path / "policy.toml").exists()


# Where there is no sandbox


@pytest.fixture
def fake_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A bubblewrap that does not work, ahead of the real one."""
    path = tmp_path / "bin" / "bwrap"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    probe.cache_clear()
    yield path
    probe.cache_clear()


@pytest.mark.usefixtures("fake_bwrap")
def test_a_sandbox_that_does_not_work_is_not_used_and_the_reason_is_given(workspace: Path, tmp_path: Path) -> None:
    fault = "bubblewrap does not work here: bwrap: setting up uid map: Permission denied"
    assert find_fault(Sandbox()) == fault
    (tmp_path / "outside").write_text("visible")
    assert shell.run(["cat", f"{tmp_path}/outside"], str(workspace), Sandbox("auto")).output == "visible"

    with pytest.raises(Invalid) as refused:
        shell.run(["echo"], str(workspace), SANDBOX)
    assert str(refused.value) == f"Programs cannot be run here: HEADWAY_SANDBOX is required, but {fault}."


def test_an_older_bubblewrap_is_used_without_what_it_cannot_do(workspace: Path, fake_bwrap: Path) -> None:
    real = shutil.which("bwrap", path="/usr/bin")
    fake_bwrap.write_text(
        f'#!/bin/sh\ncase "$*" in *--disable-userns*) echo "Unknown option" >&2; exit 1;; esac\nexec {real} "$@"\n'
    )

    assert not probe().is_strict
    assert run_script(workspace, "cat /proc/sys/kernel/hostname; ls /root 2>&1").endswith("No such file or directory\n")


@each_row(
    ("name", "value", "said"),
    [
        ("sandbox", "maybe", "HEADWAY_SANDBOX must be auto, off or required, not 'maybe'."),
        ("sandbox_read", "/opt,node", "HEADWAY_SANDBOX_READ must be a comma-separated list of absolute paths; 'node' is not one."),
        ("sandbox_memory_mib", "1", "HEADWAY_SANDBOX_MEMORY_MIB must be a whole number from 16 to 10000000, not '1'."),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.load({"home": str(tmp_path), name: value})
    assert str(refused.value) == said
