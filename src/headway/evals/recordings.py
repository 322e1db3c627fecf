"""Recordings: the tool calls of a turn with their results. A replay serves them instead of making the calls again.

The model is asked again. Tools that work only on the attempt's own database and files are called as usual: there they have the same
results. A call of any other tool gets the recorded result of the same call; without one, the attempt stops.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from headway.agents.tools import catalogue
from headway.agents.tools.execution import Execution
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.tools.toolbox import Tool
from headway.evals.traces import TraceStep
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line

FORMAT: Final = 1
OUTSIDE_TOOLS: Final = frozenset(("http_get", *PROGRAM_TOOLS))  # the built-in ones that reach outside the attempt's home
CALL_LIMIT: Final = 300  # characters of a call in a message
LIMIT: Final = 50_000_000  # bytes of a file


class Recording(NamedTuple):
    calls: tuple[dict[str, Any], ...] = ()  # tool, arguments, result, is_error
    trace: tuple[TraceStep, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "calls": list(self.calls), "trace": [step._asdict() for step in self.trace]}


def load_recording(path: Path) -> Recording:
    try:
        if path.stat().st_size > LIMIT:
            raise Invalid(f"{path} is larger than {LIMIT:,} bytes.")
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise Invalid(f"{path} was written by another version of Headway.")
        calls = [{name: call[name] for name in ("tool", "arguments", "result", "is_error")} for call in document["calls"]]
        return Recording(tuple(calls), tuple(TraceStep(**step) for step in document["trace"]))
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Invalid(f"{path} is not a recording.") from None


def reaches_outside(tool: Tool) -> bool:
    """Whether a call of the tool depends on more than the attempt's own home, or changes more."""
    return tool.name in OUTSIDE_TOOLS or tool.family == "own" or bool(tool.server)


class RecordedCalls:
    """Serves the calls of a recording. A call that was recorded several times gets its results one after the other."""

    def __init__(self, calls: Sequence[Mapping[str, Any]]) -> None:
        self.calls = calls
        self.results: dict[str, list[Any]] = {}
        self.missing = ""  # the first call without a recorded result

    def substitute(self, tool: Tool) -> Tool:
        """Return a tool that serves recorded results, or the tool itself if it stays within the attempt's home."""
        if not reaches_outside(tool):
            return tool
        for call in self.calls:
            if call["tool"] == tool.name:
                self.results.setdefault(self.make_key(tool, call["arguments"]), []).append(call["result"])

        async def serve(_execution: Execution, arguments: Any) -> Any:
            return self.serve(tool, arguments.model_dump(mode="json", by_alias=True))

        plain = tool._replace(in_transaction=None, on_thread=None, begin_wait=None, poll=None, on_event_loop=serve)
        return plain._replace(needs_approval=False, idempotent=False, check=lambda _arguments: None)

    def make_key(self, tool: Tool, arguments: Any) -> str:
        with suppress(ValidationError):  # the tool has changed since: then no call is the same
            arguments = tool.arguments.model_validate(arguments).model_dump(mode="json", by_alias=True)
        return json.dumps([tool.name, arguments], sort_keys=True)

    def serve(self, tool: Tool, arguments: Any) -> Any:
        results = self.results.get(self.make_key(tool, arguments), [])
        if results:
            return results.pop(0) if len(results) > 1 else results[0]
        self.missing = self.missing or to_one_line(f"{tool.name} {json.dumps(arguments, ensure_ascii=False)}")[:CALL_LIMIT]
        raise Invalid("The recording has no result of this call.")


def keep_outside_calls(calls: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Keep the calls that a replay serves: those of tools that are not always there."""
    inside = catalogue.build_toolbox().tools
    return tuple(call for call in calls if call["tool"] not in inside)
