"""Recordings and traces of attempts: files that a later run can replay or compare."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from headway.agents.tools import catalogue
from headway.agents.tools.execution import Execution
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.tools.toolbox import OnEventLoop, Tool
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line

TEXT_LIMIT: Final = 600  # characters of arguments, results and answers that are kept
STEPS_LIMIT: Final = 500
STEP_LIMIT: Final = 160  # characters of a step in a report
# Values that differ between attempts although the agent did the same: ids, times, times of day.
VOLATILE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]{5,18}(?:Z|[+-]\d\d:\d\d)?|\d{10,16}"
)
ANSWER: Final = "answer"
# Their results have numbers of rows, which differ between homes.
UNCOMPARED_RESULTS: Final = frozenset(("todo_add", "todo_list", "todo_update", "todo_ready", "todo_claim", "remember", "recall"))


class TraceStep(NamedTuple):
    """One tool call, or the final answer."""

    tool: str
    arguments: str = ""
    result: str = ""
    ok: bool = True

    @property
    def shown(self) -> str:
        what = f"{self.tool} {self.arguments}" if self.arguments else self.tool
        return to_one_line(f"{what} → {self.result}" if self.result else what)[:STEP_LIMIT]


class Difference(NamedTuple):
    step: int  # counts from 1
    expected: str
    found: str
    reference: str  # what it was compared with

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def scrub(value: Any) -> str:
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return VOLATILE.sub("…", content[: TEXT_LIMIT * 2])[:TEXT_LIMIT]


class TraceCollector:
    """Collects the tool calls of all agents of an attempt from its events."""

    def __init__(self) -> None:
        self.by_run: dict[str, dict[str, TraceStep]] = {}
        self.calls: list[dict[str, Any]] = []  # the ended calls, as a recording keeps them
        self.arguments: dict[tuple[str, str], Any] = {}
        self.items: dict[str, int] = {}  # the plan's items by the names that calls used, numbered as they appear

    def take(self, kind: str, data: dict[str, Any]) -> None:
        if kind not in ("tool_call", "tool_result"):
            return
        steps = self.by_run.setdefault(data["run_id"], {})
        if kind == "tool_call":
            self.arguments[data["run_id"], data["call_id"]] = data["arguments"]
            steps[data["call_id"]] = TraceStep(data["tool"], scrub(self.number_item(data["arguments"])))
            return
        call = steps.get(data["call_id"], TraceStep(data["tool"]))
        result = "" if call.tool in UNCOMPARED_RESULTS else scrub(data["result"])
        steps[data["call_id"]] = call._replace(result=result, ok=not data["is_error"])
        arguments = self.arguments.get((data["run_id"], data["call_id"]), {})
        self.calls.append({"tool": data["tool"], "arguments": arguments, "result": data["result"], "is_error": data["is_error"]})

    def number_item(self, arguments: Any) -> Any:
        """Replace the id of a plan's item, which differs between homes, by a number."""
        if not isinstance(arguments, dict) or not isinstance(name := arguments.get("todoId"), str):
            return arguments
        return {**arguments, "todoId": self.items.setdefault(name.removeprefix("#"), len(self.items) + 1)}

    @property
    def tools(self) -> set[str]:
        return {step.tool for steps in self.by_run.values() for step in steps.values()}

    def list_steps(self, main_run_id: str, answer: str) -> list[TraceStep]:
        """List the main agent's steps, the other agents' steps in an order that does not depend on timing, and the answer."""
        main = list(self.by_run.get(main_run_id, {}).values())
        others = sorted(list(steps.values()) for run_id, steps in self.by_run.items() if run_id != main_run_id)
        calls = [*main, *(step for steps in others for step in steps)][:STEPS_LIMIT]
        return [*calls, TraceStep(ANSWER, result=scrub(answer))]


def find_difference(steps: Sequence[TraceStep], expected: Sequence[TraceStep], reference: str) -> Difference | None:
    """Return the first step in which an attempt differs from another, or None."""
    for index in range(max(len(steps), len(expected))):
        found = steps[index] if index < len(steps) else None
        other = expected[index] if index < len(expected) else None
        if found != other:
            return Difference(index + 1, other.shown if other else "(nothing)", found.shown if found else "(nothing)", reference)
    return None


# Recordings: the tool calls of a turn with their results. A replay serves them instead of making the calls again.


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

        return tool._replace(run=OnEventLoop(serve), needs_approval=False, idempotent=False, check=lambda _arguments: None)

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
    """Keep the calls that a replay serves: of tools that are not always there."""
    inside = catalogue.build_toolbox().tools
    return tuple(call for call in calls if call["tool"] not in inside)
