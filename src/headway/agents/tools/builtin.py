"""Built-in tools. HTTP requests and programs are offered only where the operator allowed them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from headway.actions import memory
from headway.agents.tools import arithmetic, files, shell, web
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Arguments, NonEmptyText, Tool
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction

NO_WORKSPACE: Final = "No workspace is available here."
RUN_COMMAND: Final = "run_command"
BUILTIN_NAMES: Final = frozenset(
    ("calculate", "now", "remember", "recall", "read_file", "write_file", "list_files", "http_get", RUN_COMMAND)
)


class ExternalAccess(NamedTuple):
    """The hosts that agents may contact and the programs that they may run."""

    http_hosts: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Calculate(Arguments):
    expression: NonEmptyText


def calculate(_execution: Execution, wanted: Calculate) -> dict[str, Any]:
    return {"result": arithmetic.calculate(wanted.expression)}


class Now(Arguments):
    timezone: Annotated[NonEmptyText, Field(description="such as Europe/Berlin")] = "UTC"


def now(tx: Transaction, _execution: Execution, wanted: Now) -> dict[str, Any]:
    try:
        zone = ZoneInfo(wanted.timezone)
    except (KeyError, ValueError, OSError):  # unknown, malformed, or the name of a folder of zones
        raise Invalid(f"Unknown timezone {to_one_line(wanted.timezone[:80])!r}; use a name such as Europe/Berlin or UTC.") from None
    moment = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=tx.now)).astimezone(zone)
    return {"now": moment.isoformat(timespec="seconds"), "weekday": WEEKDAYS[moment.weekday()]}


WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")  # strftime would use the locale


class Remember(Arguments):
    text: NonEmptyText
    kind: NonEmptyText = memory.DEFAULT_KIND
    tenant_wide: Annotated[bool, Field(description="for every conversation, not only this one")] = False


def remember(tx: Transaction, execution: Execution, wanted: Remember) -> dict[str, Any]:
    scope = execution.scope.home(tenant_wide=wanted.tenant_wide)
    return {"remembered": memory.remember(tx, scope, wanted.text, wanted.kind).as_json()}


class Recall(Arguments):
    query: Annotated[str, Field(description="words that must all occur; empty: the newest")] = ""
    limit: Annotated[int, Field(ge=1, le=50)] = 10


def recall(tx: Transaction, execution: Execution, wanted: Recall) -> dict[str, Any]:
    return {"entries": [entry.as_json() for entry in memory.recall(tx, execution.scope, wanted.query, wanted.limit)]}


class ReadFile(Arguments):
    path: NonEmptyText


def read_file(execution: Execution, wanted: ReadFile) -> dict[str, Any]:
    return files.read(execution.workspace, wanted.path)


class WriteFile(Arguments):
    path: NonEmptyText
    content: str


def write_file(execution: Execution, wanted: WriteFile) -> dict[str, Any]:
    return files.write(execution.workspace, wanted.path, wanted.content)


class ListFiles(Arguments):
    path: NonEmptyText = "."


def list_files(execution: Execution, wanted: ListFiles) -> dict[str, Any]:
    return files.list_folder(execution.workspace, wanted.path)


class HttpGet(Arguments):
    url: NonEmptyText


class RunCommand(Arguments):
    command: Annotated[tuple[str, ...], Field(min_length=1, description="the program and its arguments, without a shell")]


def has_workspace(execution: Execution) -> bool:
    return bool(execution.workspace)


LEDGER_BUILTINS: Final = (
    Tool("now", "Get the current time and weekday.", "builtin", Now, now, idempotent=True),
    Tool("remember", "Keep a note beyond this turn.", "builtin", Remember, remember),
    Tool(
        "recall",
        "Search the notes of this conversation and the tenant-wide ones, newest first.",
        "builtin",
        Recall,
        recall,
        idempotent=True,
    ),
)
CALCULATE_TOOL: Final = Tool(
    "calculate",
    "Do arithmetic: + - * / // % **, sqrt, round, abs, min, max, sum, pi, e.",
    "builtin",
    Calculate,
    on_thread=calculate,
    idempotent=True,
)


def build_workspace_tool(name: str, description: str, arguments: type[Arguments], act: Any) -> Tool:
    tool = Tool(name, description, "builtin", arguments, on_thread=act, idempotent=True)
    return tool._replace(needs=has_workspace, missing=NO_WORKSPACE)


WORKSPACE_BUILTINS: Final = (
    build_workspace_tool("read_file", "Read a text file in the workspace.", ReadFile, read_file),
    build_workspace_tool("write_file", "Write a whole text file in the workspace; creates folders.", WriteFile, write_file),
    build_workspace_tool("list_files", "List the files in the workspace or in a folder.", ListFiles, list_files),
)


def build_http_get(hosts: tuple[str, ...]) -> Tool:
    def act(_execution: Execution, wanted: HttpGet) -> dict[str, Any]:
        return web.fetch(wanted.url, hosts)

    return Tool("http_get", "Fetch a web page as text.", "builtin", HttpGet, on_thread=act, idempotent=True)


def build_run_command(listed: tuple[str, ...]) -> Tool:
    def act(execution: Execution, wanted: RunCommand) -> dict[str, Any]:
        return shell.run(wanted.command, listed, execution.workspace)

    tool = Tool(RUN_COMMAND, f"Run a program in the workspace: {', '.join(listed)}.", "builtin", RunCommand, on_thread=act)
    return tool._replace(needs=has_workspace, missing=NO_WORKSPACE)


def build_builtin_tools(world: ExternalAccess) -> tuple[Tool, ...]:
    reaching = (build_http_get(world.http_hosts),) if world.http_hosts else ()
    running = (build_run_command(world.commands),) if world.commands else ()
    return (CALCULATE_TOOL, *LEDGER_BUILTINS, *WORKSPACE_BUILTINS, *reaching, *running)
