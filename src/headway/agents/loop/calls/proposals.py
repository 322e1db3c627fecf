"""Calls that a run has proposed or made: their arguments, approvals, and how they are continued after a crash."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ToolCallPart

from headway.actions.goals import goals
from headway.actions.runs import inbox
from headway.actions.todos import references
from headway.actions.turns import plan
from headway.agents.loop.requests import Sleep, Stop
from headway.agents.loop.step import Step
from headway.agents.permission import rule_on_call
from headway.agents.tools.agents import complete_item
from headway.agents.tools.arguments import parse_json_text
from headway.agents.tools.results import USE_TOOL
from headway.agents.tools.toolbox import Tool, match_name
from headway.ledger.errors import HeadwayError, Invalid, StorageError
from headway.ledger.inbox import PersonRequest, compute_digest
from headway.ledger.job import NEVER
from headway.ledger.parsing.writ_parser import Writ
from headway.ledger.permission import ALLOW_RULING, Ruling
from headway.ledger.run import Effect, RunEnd
from headway.ledger.text import to_one_line, to_storable
from headway.storage.stores import forks as fork_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

DENIED_MESSAGE = "The policy does not allow this call ({}). Find another way, or say that you could not do it."
REJECTED_MESSAGE = "A person rejected this call{}. It was not made."
EXPIRED_MESSAGE = "No person decided about this call in time, so it was not made."
CHANGED_MESSAGE = "The call was not made: it is not the call that was approved."


def rule(step: Step, tool: Tool, arguments: dict[str, Any]) -> Ruling:
    """Apply the policy. A call with bad arguments passes, because the tool itself then says what is wrong."""
    try:
        return rule_on_call(step.tx, tool, arguments, step.context.execution)
    except Invalid:
        return ALLOW_RULING


def propose(step: Step, effect: Effect, ruling: Ruling) -> Sleep:
    """Store the call as proposed, and wait for the decision or until it expires."""
    proposed = effect._replace(state="proposed")
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, proposed)
    approval = inbox.propose_call(step.tx, step.run, proposed, ruling.why, step.tx.now + step.limits.approval_ms)
    step.proposed.append(approval)
    return wait_for(approval)


def wait_for(approval: PersonRequest) -> Sleep:
    return Sleep(approval.expires_at)


def load_decision(step: Step, effect: Effect) -> PersonRequest:
    """Return the approval of a proposed call. One that was not decided in time expires here."""
    approval = inbox.find_by_call(step.tx, step.run, effect)
    assert approval is not None
    return inbox.expire_if_due(step.tx, approval)


def limit_wait(step: Step, sleep: Sleep) -> Sleep:
    """Wake up in time for the approvals of later calls to expire. The current call may wait for much longer."""
    return Sleep(min([sleep.until, *(approval.expires_at for approval in inbox.expire_due(step.tx, step.run))]))


def find_refusal(approval: PersonRequest, effect: Effect) -> str:
    """Return why the call may not be made; empty if it may."""
    if approval.state == "rejected":
        return REJECTED_MESSAGE.format(f": {approval.reason.rstrip('.')}" if approval.reason else "")
    if approval.state != "approved":
        return EXPIRED_MESSAGE
    return "" if approval.digest == compute_digest(effect.tool, approval.arguments) else CHANGED_MESSAGE


# The arguments of tool calls as models write them: JSON, or text that should be JSON.


MAX_JSON_DEPTH: Final = 500  # half of Python's recursion limit, and far more than any tool needs


class ResolvedCall(NamedTuple):
    name: str
    arguments: Any
    tool: Tool | None
    on_demand: bool = False


def reject_constant(constant: str) -> None:
    """Reject NaN and infinity, which Python's JSON parser accepts and other parsers do not."""
    raise ValueError(constant)


# Shared, because json.loads and json.dumps with options build a new codec on every call.
JSON_DECODER: Final = json.JSONDecoder(parse_constant=reject_constant)
JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def resolve_tool(step: Step, call: ToolCallPart) -> ResolvedCall:
    """Find the tool that a call names. A call of use_tool names another tool in its arguments."""
    tools = step.context.tools
    name, arguments = match_name(call.tool_name, tools), parse_arguments(call)
    on_demand = name == USE_TOOL and isinstance(arguments, dict) and isinstance(arguments.get("name"), str)
    if on_demand:
        name, arguments = match_name(arguments["name"], tools), parse_json_text(arguments.get("arguments"))
    return ResolvedCall(name, arguments, tools.get(name) if name != USE_TOOL else None, on_demand)


def parse_arguments(call: ToolCallPart) -> Any:
    """Parse a call's arguments. Returns the raw text if it is not valid JSON."""
    if not isinstance(call.args, str):
        return call.args or {}
    try:
        arguments = JSON_DECODER.decode(call.args) if call.args.strip() else {}
    except (ValueError, RecursionError):
        return call.args
    return call.args if is_too_deep(arguments) else arguments


def is_too_deep(value: Any) -> bool:
    """Return whether JSON is nested so deeply that encoding it could hit the recursion limit, which depends on the call stack."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        below = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        level = list(chain.from_iterable(below))
        if not level:
            return False
    return True


def encode_arguments(arguments: Any) -> str:
    return to_storable(JSON_ENCODER.encode({} if arguments is None else arguments))


# The calls of a fork that makes no new ones: results that the original has recorded are served, and any other call stops
# the fork.


OWN_FAMILIES: Final = frozenset(("turn_plan", "queue", "outcome", "runtime"))  # they work on the run's own plan and results
PURE_TOOLS: Final = frozenset(("calculate", "now"))
READING_TOOLS: Final = frozenset(("todo_list", "todo_ready", "recall"))
TODO_VERBS: Final = frozenset(("start", "done", "cancel", "describe", "subject"))
SOURCES_LIMIT: Final = 20  # forks of forks whose records are searched
CALL_LIMIT: Final = 300  # characters of a call in the message that says why the fork stopped
STOP_MESSAGE: Final = (
    "This fork stopped at step {}, because it would have needed the real world: {}. The original has no recorded result of this "
    "call. Fork it again with --live (in the API: live) to make new calls."
)


def answer_call(step: Step, effect: Effect, tool: Tool, arguments: dict[str, Any]) -> Effect | Sleep | Stop | None:
    """Answer a call of a fork from the record, or stop the fork. Returns None if the call may be made."""
    if not step.run.replays or is_own_call(step, tool, arguments):
        return None
    recorded = find_recorded(step, effect)
    if recorded is None:
        return stop(step, f"{effect.tool} {effect.arguments}")
    return serve(step, effect, recorded)


def is_own_call(step: Step, tool: Tool, arguments: dict[str, Any]) -> bool:
    """Whether a call changes nothing but the fork's own rows, and reads nothing outside the ledger."""
    scope = step.context.scope
    if tool.family in OWN_FAMILIES or tool.name in PURE_TOOLS or tool.name in READING_TOOLS:
        return not tool.server
    if not scope.conversation_id:
        return False  # a goal's agents share the tenant's todos and notes
    if tool.name == "todo_update":
        return isinstance(arguments.get("id"), int) and is_own_todo(step.tx, step, arguments["id"])
    return (tool.name == "todo_add" and not arguments.get("tenant_wide")) or tool.name == "remember"


def is_own_todo(tx: Transaction, step: Step, number: int) -> bool:
    scope = step.context.scope
    todo = todo_store.find_todo(tx, scope.tenant_id, references.find_own_id(tx, scope, number))
    return todo is None or todo.conversation_id == scope.conversation_id  # an unknown one is an error, which changes nothing


def find_recorded(step: Step, effect: Effect) -> Effect | None:
    """Find the recorded call with the same tool and arguments, after the same number of calls like it."""
    tx, run = step.tx, step.run
    wanted = normalize(step, effect.arguments)
    own_source = f"{fork_store.GOAL_PREFIX}{run.goal_id}" if run.goal_id is not None else run.id
    own_calls = fork_store.list_recorded(tx, run.tenant_id, own_source, effect.tool)
    earlier = sum(normalize(step, call.arguments) == wanted for call in own_calls)
    source = run.replays
    for _ in range(SOURCES_LIMIT):
        calls = fork_store.list_recorded(tx, run.tenant_id, source, effect.tool)
        same = [call for call in calls if normalize(step, call.arguments) == wanted]
        if earlier < len(same):
            return same[earlier]
        original = run_store.find_run(tx, run.tenant_id, source)
        if original is None or not original.replays:
            return None
        source = original.replays
    return None


def normalize(step: Step, arguments: str) -> str:
    """Return arguments in a form that can be compared: keys in order, and the numbers of copied todos replaced by the copies'."""
    values = json.loads(arguments)
    if isinstance(values, dict) and "checks" in values:
        values.pop("todo", None)  # the checks of a copied todo, which has another number
    if isinstance(values, dict) and isinstance(values.get("todoId"), str):
        name = values["todoId"].removeprefix("#")
        scope = step.context.scope
        values["todoId"] = str(fork_store.find_copy(step.tx, scope.tenant_id, scope.conversation_id, name) or name)
    return json.dumps(values, sort_keys=True)


def serve(step: Step, effect: Effect, recorded: Effect) -> Effect:
    """Store a recorded result as the result of this call, and repeat what the call did to the plan."""
    served = effect._replace(state=recorded.state, result=recorded.result, images=recorded.images, replayed=1)
    if effect.tool == "delegate":
        repeat_delegation(step, served)
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, served)
    if effect.call_id:  # an /agent writ has no events of its own
        is_error = served.state != "succeeded"
        data = {"run_id": step.run.id, "call_id": effect.call_id, "tool": effect.tool, "is_error": is_error}
        step.emit("tool_result", {**data, "state": served.state, "replayed": True}, result=to_result_json(served.result))
    return served


def to_result_json(text: str) -> str:
    """Return a stored result as JSON: results that are not text are stored as JSON already."""
    try:
        return text if isinstance(json.loads(text), dict | list) else JSON_ENCODER.encode(text)
    except ValueError:
        return JSON_ENCODER.encode(text)


def repeat_delegation(step: Step, served: Effect) -> None:
    """Start and complete the plan item that was delegated, as the original call did."""
    todo_uuid = json.loads(served.arguments).get("todoId")
    if not todo_uuid or served.state != "succeeded":
        return
    result = json.loads(served.result)
    execution = step.context.execution

    def change_plan(tx: Transaction) -> None:
        plan.start_plan_item(tx, execution.scope, execution.scope.turn_id or "", todo_uuid)
        if result.get("status") == "completed":
            complete_item(tx, execution, todo_uuid, str(result["summary"]))

    try:
        step.tx.attempt(change_plan)
    except StorageError:
        raise  # the transaction is lost, and the step with it
    except HeadwayError:
        return  # in this fork the item has ended already


# Writs


def find_outside_writ(step: Step, writs: Sequence[Writ]) -> str:
    """Return the first writ that would change more than the fork's own rows; empty if there is none. Sub-agents are recorded."""
    return next((f"/{writ.word} {writ.rest}" for writ in writs if step.run.replays and is_outside(step, writ)), "")


def is_outside(step: Step, writ: Writ) -> bool:
    verb, _, rest = writ.rest.partition(" ")
    if writ.word == "schedule":
        return writ.rest != "list"
    if writ.word != "todo":
        return False
    if verb == "add":
        return rest.startswith("--tenant-wide") or not step.context.scope.conversation_id
    if verb not in TODO_VERBS:
        return False
    try:
        todo = references.resolve_todo(step.tx, step.context.scope, rest.partition(": ")[0])
    except HeadwayError:
        return False  # the writ fails in the same way, and changes nothing
    return todo.conversation_id != step.context.scope.conversation_id or not todo.conversation_id


# The end


def stop(step: Step, call: str) -> Sleep | Stop:
    """End the fork where it would need the real world. A goal is paused instead."""
    run = step.run
    reason = STOP_MESSAGE.format(run.iterations, to_one_line(call)[:CALL_LIMIT])
    if run.goal_id is None:
        return step.end(RunEnd.finish("needs_live", "", reason))
    goal = goals.get_goal(step.tx, run.tenant_id, run.goal_id)
    if goal.status == "active":
        goals.escalate(step.tx, goal, "escalation", reason)
    return Sleep(NEVER) if run.is_main else step.end(RunEnd("failed", error=reason))
