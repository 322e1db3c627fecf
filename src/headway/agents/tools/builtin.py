"""Built-in tools: arithmetic, time, memory, files, skills and the web."""

import ast
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from headway.actions.turns import memory
from headway.agents.instructions import skills
from headway.agents.tools import web
from headway.agents.tools.arguments import Arguments, NonEmptyText
from headway.agents.tools.execution import NO_WORKSPACE, Execution, has_workspace
from headway.agents.tools.files import contents, search
from headway.agents.tools.programs.tools import PROGRAM_TOOLS, build_program_tools
from headway.agents.tools.toolbox import InTransaction, OnThread, Result, Tool, to_result
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.file_versions import WrittenFiles
from headway.ledger.limits import Sandbox
from headway.ledger.text import MAX_INTEGER, to_one_line
from headway.storage.stores.memory import MemoryEntry
from headway.storage.transaction import Transaction

Number = int | float

LENGTH_LIMIT: Final = 1_000
BITS_LIMIT: Final = 4_096  # for integers: more than a thousand digits, and fast to compute
DIGITS_LIMIT: Final = 300

TOO_LARGE: Final = "The result is too large."
SUPPORTED_SYNTAX: Final = "Supported: numbers, + - * / // % **, parentheses, sqrt, round, abs, min, max, sum, pi, e."


def evaluate_expression(expression: str) -> Number | str:
    """Evaluate an expression. An integer too large for most JSON readers is returned as a string of digits."""
    if len(expression) > LENGTH_LIMIT:
        raise Invalid(f"The expression has {len(expression):,} characters; at most {LENGTH_LIMIT:,} are allowed.")
    try:
        result = evaluate(ast.parse(" ".join(expression.split()), mode="eval").body)
    except SyntaxError as error:
        raise Invalid(f"This is not an arithmetic expression. {SUPPORTED_SYNTAX}") from error
    except ZeroDivisionError:
        raise Invalid("Division by zero.") from None
    except OverflowError:
        raise Invalid(TOO_LARGE) from None
    except (RecursionError, MemoryError):
        raise Invalid("The expression is nested too deeply.") from None
    except (ValueError, TypeError) as error:
        raise Invalid(f"This cannot be calculated: {error}.") from None
    return result if isinstance(result, float) or abs(result) <= MAX_INTEGER else str(result)


def evaluate(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return check_number(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
            return check_number(SIGNS[type(sign)](evaluate(operand)))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATIONS:
            return check_number(OPERATIONS[type(sign)](evaluate(left), evaluate(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return check_number(FUNCTIONS[name](*evaluate_arguments(arguments)))
    raise Invalid(f"The expression is not only arithmetic. {SUPPORTED_SYNTAX}")


def evaluate_arguments(arguments: list[ast.expr]) -> list[Number]:
    """Evaluate the arguments, given separately or as one list, because models write both sum(1, 2) and sum([1, 2])."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.List | ast.Tuple):
        arguments = arguments[0].elts
    return [evaluate(argument) for argument in arguments]


def check_number(number: Any) -> Number:
    if isinstance(number, complex):
        raise Invalid("The result is not a real number.")
    if number.bit_length() > BITS_LIMIT if isinstance(number, int) else not math.isfinite(number):
        raise Invalid(TOO_LARGE)
    return number  # type: ignore[no-any-return]


def raise_to_power(base: Number, exponent: Number) -> Any:
    # Check the size first: Python would compute an integer power however much time and memory it takes.
    if isinstance(base, int) and isinstance(exponent, int) and (abs(base).bit_length() - 1) * exponent > BITS_LIMIT:
        raise Invalid(TOO_LARGE)
    return base**exponent


def round_number(number: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > DIGITS_LIMIT:
        raise Invalid(f"round takes a whole number of digits, at most {DIGITS_LIMIT}.")
    return round(number, digits) if digits else round(number)


CONSTANTS: Final[dict[str, Number]] = {"pi": math.pi, "e": math.e}
SIGNS: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
OPERATIONS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: raise_to_power,
    ast.BitXor: raise_to_power,  # 2^3: models mean the power
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sqrt": math.sqrt,
    "round": round_number,
    "abs": abs,
    "min": lambda *numbers: min(numbers),
    "max": lambda *numbers: max(numbers),
    "sum": lambda *numbers: sum(numbers),
}


# Built-in tools. HTTP requests and programs are offered only where the operator allowed them.


NO_SKILLS: Final = "There are no skills here."
READ_SKILL: Final = "read_skill"
BUILTIN_NAMES: Final = frozenset(
    (
        *("calculate", "now", "remember", "recall", READ_SKILL, "http_get", *PROGRAM_TOOLS),
        *("read_file", "write_file", "edit_file", "list_files", "search_files"),
    )
)


class ExternalAccess(NamedTuple):
    """The hosts that agents may contact and the programs that they may run."""

    http_hosts: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    sandbox: Sandbox = Sandbox()


class Calculate(Arguments):
    expression: NonEmptyText


def calculate(_execution: Execution, arguments: Calculate) -> dict[str, Any]:
    return {"result": evaluate_expression(arguments.expression)}


class Now(Arguments):
    timezone: Annotated[NonEmptyText, Field(description="such as Europe/Berlin")] = "UTC"


def now(tx: Transaction, _execution: Execution, arguments: Now) -> dict[str, Any]:
    try:
        zone = ZoneInfo(arguments.timezone)
    except (KeyError, ValueError, OSError):  # unknown, malformed, or the name of a folder of zones
        raise Invalid(
            f"Unknown timezone {to_one_line(arguments.timezone[:80])!r}; use a name such as Europe/Berlin or UTC."
        ) from None
    moment = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=tx.now)).astimezone(zone)
    return {"now": moment.isoformat(timespec="seconds"), "weekday": WEEKDAYS[moment.weekday()]}


WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")  # strftime would use the locale


class Remember(Arguments):
    text: NonEmptyText
    kind: NonEmptyText = memory.DEFAULT_KIND
    tenant_wide: Annotated[bool, Field(description="for every conversation, not only this one")] = False


def remember(tx: Transaction, execution: Execution, arguments: Remember) -> dict[str, Any]:
    entry = memory.remember(
        tx, execution.scope, arguments.text, arguments.kind, tenant_wide=arguments.tenant_wide, run_id=execution.run_id
    )
    return {"remembered": describe_entry(entry)}


def describe_entry(entry: MemoryEntry) -> dict[str, Any]:
    """Describe an entry to a model: of its origin only the author, and the person who wrote or last edited it."""
    origin = entry.origin
    authors = {"agent_id": origin.agent_id, "person": origin.person}
    return {
        "id": entry.id,
        "conversation_id": entry.conversation_id,
        **{name: author for name, author in authors.items() if author},
        "kind": entry.kind,
        "text": entry.text,
        "created_at": entry.created_at // 1000,
    }


class Recall(Arguments):
    query: Annotated[str, Field(description="words that must all occur; empty: the newest")] = ""
    limit: Annotated[int, Field(ge=1, le=50)] = 10


def recall(tx: Transaction, execution: Execution, arguments: Recall) -> dict[str, Any]:
    entries = memory.recall(tx, execution.scope, arguments.query, arguments.limit)
    return {"entries": [describe_entry(entry) for entry in entries]}


class ReadFile(Arguments):
    path: NonEmptyText


def read_file(execution: Execution, arguments: ReadFile) -> dict[str, Any]:
    return contents.read(execution.workspace, arguments.path)


class WriteFile(Arguments):
    path: NonEmptyText
    content: str


def write_file(execution: Execution, arguments: WriteFile) -> Result:
    return to_file_result(contents.write(execution.workspace, arguments.path, arguments.content))


def to_file_result(written: contents.FileWrite) -> Result:
    return to_result(written.answer)._replace(written=WrittenFiles((written.file,)))


class EditFile(Arguments):
    path: NonEmptyText
    old: str
    new: str
    all: bool = False


def edit_file(execution: Execution, arguments: EditFile) -> Result:
    return to_file_result(
        contents.edit(execution.workspace, arguments.path, arguments.old, arguments.new, replace_all=arguments.all)
    )


class ListFiles(Arguments):
    path: NonEmptyText = "."
    pattern: Annotated[str, Field(description="such as **/*.py")] = ""


def list_files(execution: Execution, arguments: ListFiles) -> dict[str, Any]:
    if arguments.pattern:
        return search.list_matches(execution.workspace, arguments.path, arguments.pattern)
    return search.list_folder(execution.workspace, arguments.path)


class SearchFiles(Arguments):
    pattern: Annotated[str, Field(min_length=1)]
    path: NonEmptyText = "."
    limit: Annotated[int, Field(ge=1, le=500)] = 100


def search_files(execution: Execution, arguments: SearchFiles) -> dict[str, Any]:
    return search.search(execution.workspace, arguments.pattern, arguments.path, arguments.limit)


class ReadSkill(Arguments):
    name: NonEmptyText
    path: Annotated[NonEmptyText, Field(description="a file in the skill's folder")] = skills.FILE_NAME


def read_skill(execution: Execution, arguments: ReadSkill) -> dict[str, Any]:
    skill = next((skill for skill in execution.skills if skill.name == arguments.name), None)
    if skill is None:
        names = ", ".join(skill.name for skill in execution.skills)
        raise NotFound(f"There is no skill {to_one_line(arguments.name[:80])!r}. Known: {names}.")
    result = skills.read_file(skill.folder, arguments.path)
    others = skills.list_other_files(skill) if arguments.path == skills.FILE_NAME else []
    return {**result, "files": others} if others else result


class HttpGet(Arguments):
    url: NonEmptyText


LEDGER_BUILTINS: Final = (
    Tool("now", "Get the current time and weekday.", "builtin", Now, InTransaction(now), idempotent=True),
    Tool("remember", "Keep a note beyond this turn.", "builtin", Remember, InTransaction(remember)),
    Tool(
        "recall",
        "Search the notes of this conversation and the tenant-wide ones, newest first.",
        "builtin",
        Recall,
        InTransaction(recall),
        idempotent=True,
    ),
)
CALCULATE_TOOL: Final = Tool(
    "calculate",
    "Do arithmetic: + - * / // % **, sqrt, round, abs, min, max, sum, pi, e.",
    "builtin",
    Calculate,
    OnThread(calculate),
    idempotent=True,
)


def build_workspace_tool(name: str, description: str, arguments: type[Arguments], act: Any, *, idempotent: bool = True) -> Tool:
    tool = Tool(name, description, "builtin", arguments, OnThread(act), idempotent=idempotent)
    return tool._replace(needs=has_workspace, missing=NO_WORKSPACE, key_arguments=("path",), path_arguments=("path",))


WORKSPACE_BUILTINS: Final = (
    build_workspace_tool("read_file", "Read a text file in the workspace.", ReadFile, read_file),
    build_workspace_tool("write_file", "Write a whole text file in the workspace; creates folders.", WriteFile, write_file),
    # After a crash, it would not find the text that it has replaced, or it would replace it twice.
    build_workspace_tool(
        "edit_file",
        "Replace the exact text old, which must occur once in a file, or everywhere with all.",
        EditFile,
        edit_file,
        idempotent=False,
    ),
    build_workspace_tool("list_files", "List the files in the workspace or in a folder.", ListFiles, list_files),
    build_workspace_tool(
        "search_files", "Find the lines of files that match an RE2 regular expression.", SearchFiles, search_files
    ),
)


READ_SKILL_TOOL: Final = Tool(
    READ_SKILL,
    "Read the instructions of a skill, or another file of it.",
    "builtin",
    ReadSkill,
    OnThread(read_skill),
    idempotent=True,
    needs=lambda execution: bool(execution.skills),
    missing=NO_SKILLS,
    key_arguments=("name", "path"),
)


def build_http_get(hosts: tuple[str, ...]) -> Tool:
    def act(_execution: Execution, arguments: HttpGet) -> dict[str, Any]:
        return web.fetch(arguments.url, hosts)

    return Tool("http_get", "Fetch a web page as text.", "builtin", HttpGet, OnThread(act), idempotent=True, key_arguments=("url",))


def build_builtin_tools(access: ExternalAccess) -> tuple[Tool, ...]:
    web_tools = (build_http_get(access.http_hosts),) if access.http_hosts else ()
    program_tools = build_program_tools(access.commands, access.sandbox)
    return (CALCULATE_TOOL, *LEDGER_BUILTINS, *WORKSPACE_BUILTINS, READ_SKILL_TOOL, *web_tools, *program_tools)
