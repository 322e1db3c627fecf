"""The tools that run programs. They exist only if the operator lists programs, and need approval where there is no sandbox."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from headway.agents.tools.arguments import Arguments, Text
from headway.agents.tools.execution import NO_WORKSPACE, Execution, has_workspace
from headway.agents.tools.external_calls import run_on_thread
from headway.agents.tools.files import snapshots
from headway.agents.tools.programs import shell
from headway.agents.tools.programs.sandbox import find_fault
from headway.agents.tools.toolbox import OnEventLoop, Result, Tool, to_result
from headway.ledger.errors import HeadwayError
from headway.ledger.limits import Sandbox

RUN_COMMAND: Final = "run_command"
RUN_PYTHON: Final = "run_python"
PROGRAM_TOOLS: Final = (RUN_COMMAND, RUN_PYTHON)
INTERPRETERS: Final = ("python3", "python")
CODE_TIMEOUT_MAX_S: Final = 300
GRACE_S: Final = 30.0  # between the limit of a program and the one of its call: starting and stopping take a moment
NO_RULE: Final = (
    "{tool} cannot be allowed always, because there is no sandbox here: {fault}. Without one, each call needs approval. Install "
    "bubblewrap, or write a rule into policy.toml yourself."
)


class RunCommand(Arguments):
    command: Annotated[tuple[str, ...], Field(min_length=1, description="the program and its arguments, without a shell")]


class RunPython(Arguments):
    code: Annotated[Text, Field(min_length=1)]
    timeout_s: Annotated[int, Field(ge=1, le=CODE_TIMEOUT_MAX_S)] = int(shell.TIMEOUT_S)


def build_program_tools(allowed_programs: tuple[str, ...], sandbox: Sandbox) -> tuple[Tool, ...]:
    """Build the tools. The first call in a process finds out whether there is a sandbox."""
    if not allowed_programs:
        return ()
    fault = find_fault(sandbox)
    interpreter = next((name for name in INTERPRETERS if name in allowed_programs), None)
    tools = (
        build_run_command(allowed_programs, sandbox),
        *((build_run_python(interpreter, sandbox),) if interpreter else ()),
    )
    return tuple(
        tool._replace(
            needs=has_workspace,
            missing=NO_WORKSPACE,
            needs_approval=bool(fault),
            no_rule=NO_RULE.format(tool=tool.name, fault=fault) if fault else "",
        )
        for tool in tools
    )


def build_run_command(allowed_programs: tuple[str, ...], sandbox: Sandbox) -> Tool:
    def check(arguments: RunCommand) -> None:
        shell.resolve_program(arguments.command[0], allowed_programs, sandbox)

    async def act(execution: Execution, arguments: RunCommand) -> Result:
        return await run(arguments.command, execution, shell.TIMEOUT_S)

    description = f"Run a program in the workspace: {', '.join(allowed_programs)}."
    tool = Tool(RUN_COMMAND, description, "builtin", RunCommand, OnEventLoop(act))
    return tool._replace(check=check, key_arguments=("command",), timeout_s=shell.TIMEOUT_S + GRACE_S)


def build_run_python(interpreter: str, sandbox: Sandbox) -> Tool:
    def check(_arguments: RunPython) -> None:
        shell.find_program(interpreter, sandbox)

    async def act(execution: Execution, arguments: RunPython) -> Result:
        # The code is not an argument of the program: arguments are visible to other users, and short.
        return await run((interpreter, "-"), execution, arguments.timeout_s, stdin=arguments.code)

    tool = Tool(RUN_PYTHON, "Run Python code in the workspace.", "builtin", RunPython, OnEventLoop(act))
    return tool._replace(check=check, key_arguments=("code",), timeout_s=CODE_TIMEOUT_MAX_S + GRACE_S)


async def run(command: Sequence[str], execution: Execution, limit_s: float, stdin: str = "") -> Result:
    """Run a program on a thread. It is stopped if the call is canceled."""
    canceled = threading.Event()
    sandbox = execution.sandbox._replace(has_network=execution.role.network)
    work = partial(shell.run, command, execution.workspace, sandbox, limit_s, stdin=stdin, canceled=canceled)
    try:
        result: Result = await run_on_thread(partial(run_and_compare, execution, work))
        return result
    finally:
        canceled.set()


def run_and_compare(execution: Execution, work: Callable[[], shell.CommandResult]) -> Result:
    """Run a program, also one that fails, and note which files of the workspace are different afterwards."""
    before = snapshots.take(execution.workspace)
    try:
        ran = work()
        result = to_result({"exit_code": ran.exit_code, "output": ran.output})
    except HeadwayError as error:
        result = to_result({"error": execution.redact(str(error))})
    return result._replace(written=snapshots.compare(execution.workspace, before))
