"""The runtime's own tools: read a long result again, and call a tool whose schema is not sent with every request."""

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from headway.agents.tools.agents import has_run
from headway.agents.tools.arguments import Arguments, NonEmptyText, build_input_schema
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import InTransaction, Tool
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.run import Effect
from headway.ledger.text import MAX_INTEGER, to_one_line
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

READ_RESULT: Final = "read_result"
USE_TOOL: Final = "use_tool"
RUN_PREFIX_LENGTH: Final = 8
HANDLE: Final = re.compile(r"([0-9a-f]{8})\.(\d{1,9})\.(\d{1,9})")
DEFAULT_LENGTH: Final = 10_000  # characters
MAX_LENGTH: Final = 50_000
FRAME_LENGTH: Final = 120  # the other fields of the result


def build_handle(run_id: str, effect: Effect) -> str:
    """Return a short name for a tool's result, unique within a conversation."""
    return f"{run_id[:RUN_PREFIX_LENGTH]}.{effect.n}.{effect.call_index}"


class ReadResult(Arguments):
    handle: NonEmptyText
    offset: Annotated[int, Field(ge=0, le=MAX_INTEGER)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_LENGTH, description="characters")] = DEFAULT_LENGTH


def read_result(tx: Transaction, execution: Execution, arguments: ReadResult) -> dict[str, Any]:
    """Return a part of a tool's stored result. The handle may name any run of the same conversation."""
    match = HANDLE.fullmatch(arguments.handle)
    if match is None:
        raise Invalid(f"{to_one_line(arguments.handle[:80])!r} is not a handle. Copy it from the shortened result.")
    scope, own_id = execution.scope, execution.run_id or ""
    # Outside conversations, where all runs have the conversation id 0, a run can read only its own results.
    run_id = match[1] if scope.conversation_id or not own_id.startswith(match[1]) else own_id
    result = run_store.find_result(tx, scope.tenant_id, scope.conversation_id, run_id, int(match[2]), int(match[3]))
    if result is None or (run_id != own_id and not scope.conversation_id):
        raise NotFound(f"There is no result {arguments.handle!r}.")
    content = fit(result[arguments.offset : arguments.offset + arguments.limit], execution.result_limit - FRAME_LENGTH)
    end = arguments.offset + len(content)
    return {
        "content": content,
        "offset": arguments.offset,
        "total": len(result),
        "next_offset": end if end < len(result) else None,
    }


def fit(content: str, limit: int) -> str:
    """Shorten a text until its JSON form, in which quotes and line breaks take more room, is within the limit."""
    while len(encoded := json.dumps(content, ensure_ascii=False)) > limit:
        content = content[: len(content) * limit // len(encoded)]
    return content


class UseTool(Arguments):  # not validated: the agent loop replaces a call of use_tool with a call of the tool that it names
    name: NonEmptyText
    arguments: dict[str, Any] | None = None


def list_callable_names(tools: "Iterable[ToolDefinition]") -> list[str]:
    """List the tools that a model may call: tools whose schemas it gets, and tools that use_tool gives access to."""
    names: list[str] = []
    for tool in tools:
        on_demand = tool.parameters_json_schema["properties"]["name"]["enum"] if tool.name == USE_TOOL else ()
        names += [tool.name, *on_demand]
    return names


def build_use_schema(names: list[str]) -> dict[str, Any]:
    """Build the schema of use_tool for a role, which lists the names of its tools."""
    schema = build_input_schema(UseTool)
    return {**schema, "properties": {**schema["properties"], "name": {"type": "string", "enum": names}}}


RUNTIME_TOOLS: Final = (
    Tool(
        READ_RESULT,
        "Read a shortened tool result, or the next part of it.",
        "runtime",
        ReadResult,
        InTransaction(read_result),
        idempotent=True,
        needs=has_run,
    ),
    Tool(
        USE_TOOL,
        "Call one of these further tools; without arguments it returns the tool's parameters. todo_*: todos that people see and "
        "that outlive this turn. *Task*: this conversation's task list. remember, recall: notes for later turns. read_result: the "
        "rest of a shortened result. *_agent: workers in parallel. *_goal: work in the background.",
        "runtime",
        UseTool,
        needs=has_run,
    ),
)
