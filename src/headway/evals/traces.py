"""What an agent did in an attempt, in a form that can be compared with another attempt: its tool calls and its answer, in order."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headway.ledger.text import to_one_line

TEXT_LIMIT: Final = 600  # characters of arguments, results and answers that are kept
STEPS_LIMIT: Final = 500
STEP_LIMIT: Final = 160  # characters of a step in a report
# What differs between attempts without a difference in what the agent did: ids, times, times of day.
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
        self.calls: list[dict[str, Any]] = []  # those that ended, as a recording keeps them
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
        """List the main agent's steps, then those of the others in an order that does not depend on timing, then the answer."""
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
