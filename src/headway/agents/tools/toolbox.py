"""Tools: a name, a description, a schema and a function, called by name with the arguments that a model sent."""

import json
from collections.abc import Awaitable, Callable, Collection, Container, Iterable
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from headway.agents.instructions.roles import ToolFamily
from headway.agents.tools.arguments import Arguments, build_input_schema, describe_validation_error
from headway.agents.tools.execution import Execution, build_agent_rights, use_execution
from headway.ledger.errors import ChecksRequired, HeadwayError, Invalid, NotFound, StorageError
from headway.ledger.file_versions import WrittenFiles
from headway.ledger.job import NEVER
from headway.ledger.text import check_numbers
from headway.storage.transaction import Transaction, act_as

MISSING_CONTEXT: Final = "Missing execution context"
NO_FILES: Final = WrittenFiles()


class InTransaction(NamedTuple):
    """A tool of the ledger. It runs inside one transaction, so that its changes and its result are stored together."""

    function: Callable[[Transaction, Execution, Any], Any]


class OnThread(NamedTuple):
    """A tool that reaches outside the ledger, with a function that blocks."""

    function: Callable[[Execution, Any], Any]


class OnEventLoop(NamedTuple):
    """A tool that reaches outside the ledger, with a coroutine function."""

    function: Callable[[Execution, Any], Awaitable[Any]]


class Waits(NamedTuple):
    """A tool that waits for a sub-agent or a person. It is started once, then polled until there is a result."""

    begin: Callable[[Transaction, Execution, Any], "Pending"]
    poll: Callable[[Transaction, Execution, Any, "Pending"], Any | None]


class Tool(NamedTuple):
    """A tool that agents can call."""

    name: str
    description: str
    family: ToolFamily
    arguments: type[Arguments]
    run: InTransaction | OnThread | OnEventLoop | Waits | None = None  # without a function, the loop itself handles its calls
    timeout_s: float = 60.0
    # Whether calling it twice has the same effect as once. Otherwise it is never repeated while its outcome is unknown.
    idempotent: bool = False
    # Whether a person must approve each call, unless the policy says otherwise.
    needs_approval: bool = False
    no_rule: str = ""  # why a person cannot always allow its calls
    # The arguments that say what a call touches. A rule that always allows a call names them.
    key_arguments: tuple[str, ...] = ()
    path_arguments: tuple[str, ...] = ()  # the arguments that are paths in the workspace
    server: str = ""  # the MCP server that has the tool
    schema: dict[str, Any] | None = None  # of the arguments, if an MCP server has sent one
    # The form in which this tool family returns an error.
    refuse: Callable[[str], Any] = lambda message: {"error": message}
    # The form of its result that our own agents get: without what they do not need.
    abridge: Callable[[Any], Any] | None = None
    # Raises Invalid for arguments that the operator's limits exclude, before anyone is asked to approve the call.
    check: Callable[[Any], None] = lambda _arguments: None
    needs: Callable[[Execution], bool] = lambda _execution: True
    missing: str = MISSING_CONTEXT
    is_hidden: bool = False  # a compatible form of another agent's tool: it can be called, but is not offered to our models

    @property
    def changes_ledger(self) -> bool:
        return isinstance(self.run, InTransaction)

    def as_json(self) -> dict[str, Any]:
        schema = build_input_schema(self.arguments) if self.schema is None else self.schema
        return {"name": self.name, "description": self.description, "input_schema": schema}


class Pending(NamedTuple):
    """The run or the question that a call waits for, and the deadline."""

    id: str
    until: int = NEVER


class ToolImage(NamedTuple):
    """An image in a tool's result."""

    media_type: str
    data: str  # base64


class Result(NamedTuple):
    value: Any
    is_error: bool
    is_uncertain: bool = False  # whether the call took effect is unknown
    is_transient: bool = False  # it failed transiently and is safe to repeat
    images: tuple[ToolImage, ...] = ()
    written: WrittenFiles = NO_FILES

    def as_json(self) -> dict[str, Any]:
        return {"result": self.value, "is_error": self.is_error}

    @property
    def as_text(self) -> str:
        """The value as text, for clients that accept nothing else."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)

    @property
    def error(self) -> str:
        """The error message, or the whole result if the tool returns errors in another form."""
        value = self.value
        if isinstance(value, dict) and isinstance(value.get("error"), str) and value.keys() <= {"ok", "error"}:
            return str(value["error"])
        return self.as_text


class Toolbox:
    """All tools, by name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.fixed = {tool.name: tool for tool in tools}
        self.extra: dict[str, list[Tool]] = {}  # tools of MCP servers, by family
        self.missing: dict[str, str] = {}  # why the tools whose names begin so are not there
        self.version = 0  # counts the changes
        self.tools = self.fixed

    def replace_extra(self, family: str, tools: list[Tool]) -> None:
        """Set the tools of a family that can change while the process runs. The names of other tools stay theirs."""
        self.extra = {**self.extra, family: tools}
        added = {tool.name: tool for tools in self.extra.values() for tool in tools}
        self.tools = {**added, **self.fixed}
        self.version += 1

    def substitute(self, change: Callable[[Tool], Tool]) -> None:
        """Replace tools by others with the same names."""
        self.fixed = {name: change(tool) for name, tool in self.fixed.items()}
        self.tools = {**self.tools, **self.fixed}
        self.version += 1

    def find(self, name: str) -> Tool:
        tool = self.tools.get(match_name(name, self.tools))
        if tool is None:
            raise NotFound(self.explain_missing(name) or f"No tool named {name[:80]!r}. Available: {', '.join(self.tools)}.")
        return tool

    def explain_missing(self, name: str) -> str:
        """Return why a tool is not there, if its MCP server is down."""
        return next((reason for prefix, reason in self.missing.items() if name.startswith(prefix)), "")

    def only(self, families: Collection[ToolFamily]) -> "Toolbox":
        return Toolbox(tool for tool in self.tools.values() if tool.family in families)

    def list_asking_tools(self) -> list[str]:
        """List the tools that need approval if no rule of the policy matches."""
        return [tool.name for tool in self.tools.values() if tool.needs_approval]

    def catalogue(self) -> list[dict[str, Any]]:
        return [tool.as_json() for tool in self.tools.values()]


def match_name(name: str, known: Container[str]) -> str:
    """Return the name under which a tool is registered: `spawn-agent` matches `spawn_agent`."""
    plain = name.replace("-", "_")
    return plain if name not in known and plain in known else name


def call_in_transaction(tool: Tool, arguments: dict[str, Any], execution: Execution | None, tx: Transaction) -> Result:
    """Run a tool synchronously. A ledger tool runs inside the caller's transaction; if it is refused, it has changed nothing."""
    outer_agent = tx.agent
    try:
        execution, parsed_arguments = validate_call(tool, arguments, execution)
        tx.agent = build_agent_rights(tx, execution)
        with use_execution(execution):
            match tool.run:
                case InTransaction(change):
                    with act_as(tx, describe_actor(tool, execution)):
                        return to_result(tx.attempt(lambda tx: change(tx, execution, parsed_arguments)))
                case OnThread(work):
                    return to_result(work(execution, parsed_arguments))
                case _:
                    raise AssertionError(f"{tool.name} cannot run inside a transaction")
    except (StorageError, ChecksRequired):
        raise  # the transaction is lost, with everything else the caller did in it; or the caller has to run the checks first
    except HeadwayError as error:
        return to_result(tool.refuse(str(error)))
    finally:
        tx.agent = outer_agent


def describe_actor(tool: Tool, execution: Execution) -> str:
    """Name the caller of a ledger tool, for the log."""
    run = f" (run {execution.run_id})" if execution.run_id else ""
    return f"agent {execution.scope.agent_id} with {tool.name}{run}"


def validate_call(tool: Tool, arguments: dict[str, Any], execution: Execution | None) -> tuple[Execution, Arguments]:
    """Check the grant and the arguments of a call. Returns the execution and the parsed arguments, or raises Invalid."""
    if execution is None:
        raise Invalid(tool.missing)
    if not execution.role.grants(tool.family, tool.name):
        raise Invalid(describe_missing_grant(tool, execution))
    if not tool.needs(execution):
        raise Invalid(tool.missing)
    return execution, parse_arguments(tool, arguments)


def parse_arguments(tool: Tool, arguments: dict[str, Any]) -> Arguments:
    check_numbers(arguments)
    try:
        parsed_arguments = tool.arguments.model_validate(arguments)
    except ValidationError as error:
        raise Invalid(describe_validation_error(error)) from None
    tool.check(parsed_arguments)
    return parsed_arguments


def to_result(value: Any) -> Result:
    """Wrap a tool's return value. Families report errors in different forms, which `is_error` makes uniform."""
    if isinstance(value, Result):
        return value
    refused = isinstance(value, dict) and (value.get("ok") is False or (set(value) == {"error"}))
    return Result(value, refused or (isinstance(value, str) and value.startswith("Error: ")))


def describe_missing_grant(tool: Tool, execution: Execution) -> str:
    if tool.family in ("turn_plan", "queue"):
        return f"{tool.name} belongs to the supervisor; the role {execution.role.name} works only on its task."
    return f"The role {execution.role.name} is not granted {tool.name}."
