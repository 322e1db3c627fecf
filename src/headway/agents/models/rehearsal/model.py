"""The rehearsal model: a rule-based stand-in for an LLM, so that the whole system can be tried without an API key.

It plans with the real tools, performs the steps that the built-in tools can do, says where an LLM would be needed, and drains its
plan. It is stateless: every answer, including the ids of its tool calls, is derived from the messages alone. It reads users' words
and tool results, but never the wording of the runtime's messages: their facts say the same as data.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from headway.agents.attachments import strip_attachments
from headway.agents.facts import Facts, find_facts
from headway.agents.models.local import LocalModel
from headway.agents.models.rehearsal import judging as questions
from headway.agents.models.rehearsal import reading
from headway.agents.models.rehearsal.reading import (
    CannotRun,
    RecentResults,
    RehearsalCall,
    StepOutcome,
    format_title,
    parse_json,
    to_outcome,
)
from headway.agents.tools.toolbox import to_result
from headway.agents.transcript import to_storable
from headway.ledger.framing import format_inline
from headway.ledger.run import REHEARSAL_MODEL
from headway.ledger.todo import OPEN_STATUSES

DISCLAIMER: Final = (
    "This is the rehearsal model: it follows rules and is not an LLM. Set HEADWAY_MODEL to use one, such as "
    "openai:gpt-5-mini with OPENAI_API_KEY."
)
EXAMPLE_REQUEST: Final = "“Calculate 12*7, then write the result to notes.txt, and then list the files”"
GREETING: Final = f"Hello! I am Headway's stand-in for an LLM: I plan, and use simple tools. Try {EXAMPLE_REQUEST}.\n\n{DISCLAIMER}"
NO_RULE_ANSWER: Final = (
    f"Rehearsed: an LLM would answer this here. What I can do: plan steps, and use simple tools. Try {EXAMPLE_REQUEST}."
)
REHEARSED_OUTCOME: Final = StepOutcome("Rehearsed: an LLM would do this step here.")
STUCK_PREFIX: Final = "The plan does not change whatever I do: "
SMALL_TALK: Final = re.compile(
    r"\s*(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|thanks?|thank you|bye|goodbye|help|who are you|what are you"
    r"|what can you do|how are you)\b[^\n]{0,40}",
    re.IGNORECASE,
)
TEXT_ONLY: Final = ModelProfile(supports_image_input=False, supports_document_input=False)
PLANNING_TOOLS: Final = frozenset(("create_todo", "start_todo", "complete_todo"))
BOOKKEEPING_TOOLS: Final = PLANNING_TOOLS | {"list_todo", "manage_todos"}
PRODUCT_SIGN: Final = re.compile(r"(?<=[\d)])(\*\*?)(?=[-\d(])")
CALL_ID: Final = re.compile(r"rehearsal-([0-9]{1,9})-[0-9]+-[0-9a-f]+")


def build_rehearsal_model(pace_s: float = 0) -> LocalModel:
    return LocalModel(REHEARSAL_MODEL, answer, pace_s, TEXT_ONLY)


def answer(messages: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
    parsed = ParsedMessages(messages, parameters)
    reply = choose_reply(parsed)
    if isinstance(reply, str):
        return build_response(parsed, [TextPart(reply)])
    ids = (f"rehearsal-{parsed.next_number}-{index}-{hash_key(planned_call.key)}" for index, planned_call in enumerate(reply))
    return build_response(
        parsed, [ToolCallPart(*planned_call.call, tool_call_id=id_) for planned_call, id_ in zip(reply, ids, strict=True)]
    )


def build_response(parsed: "ParsedMessages", parts: list[TextPart] | list[ToolCallPart]) -> ModelResponse:
    characters = sum(len(part.content if isinstance(part, TextPart) else part.args_as_json_str()) for part in parts)
    return ModelResponse(
        parts,
        usage=RequestUsage(input_tokens=parsed.size // 4 + 1, output_tokens=characters // 4 + 1),
        model_name=REHEARSAL_MODEL,
        timestamp=parsed.moment,
        provider_name="headway",
        finish_reason="stop" if isinstance(parts[0], TextPart) else "tool_call",
    )


def hash_key(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:10]


class RehearsalItem(NamedTuple):
    id: str
    title: str
    status: str


class RehearsalPlan(NamedTuple):
    open: list[RehearsalItem]
    ended: list[RehearsalItem]


class RehearsalRequest(NamedTuple):
    text: str
    is_delegated: bool = False  # the answer goes to another agent instead of a user


class CompletedCall(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    id: str
    result: Any


class PlannedCall(NamedTuple):
    call: RehearsalCall
    key: str  # identifies the call's purpose, so that its result can be found later


RehearsalReply = str | list[PlannedCall]


class ParsedMessages:
    def __init__(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        self.all = messages
        self.offered = frozenset(iter_tool_names(parameters))
        self.instructions = [part.content for part in parameters.instruction_parts or ()]
        requests = [(index, request) for index, message in enumerate(messages) if (request := find_request(message))]
        index, request = requests[-1] if requests else (0, RehearsalRequest(""))
        # The turn's request and the messages since. Earlier turns of the conversation may precede it.
        self.turn = (request, messages[index + bool(requests) :])
        self.facts = merge_facts(messages[index:])
        self.plan = load_plan(self.facts)

    @property
    def request(self) -> RehearsalRequest:
        return self.turn[0]

    @cached_property
    def steps(self) -> list[str]:
        return reading.split_request(self.request.text)

    def find_step(self, item: RehearsalItem) -> str:
        """Return the full step for an item, whose title may be shortened."""
        return next((step for step in self.steps if format_title(step) == item.title), item.title)

    @cached_property
    def completed_calls(self) -> list[CompletedCall]:
        """The turn's tool calls that are still inside the context window."""
        parts = (part for message in self.turn[1] for part in message.parts)
        results = {part.tool_call_id: parse_json(part.content) for part in parts if isinstance(part, ToolReturnPart)}
        return [
            CompletedCall(
                call.tool_name, parse_arguments(call), call.tool_call_id, results.get(call.tool_call_id, reading.NO_RESULT)
            )
            for message in self.turn[1]
            if isinstance(message, ModelResponse)
            for call in message.tool_calls
        ]

    def find_call(self, tool: str, item: RehearsalItem | None = None) -> CompletedCall | None:
        calls = (call for call in reversed(self.completed_calls) if call.tool == tool)
        return next((call for call in calls if item is None or call.arguments.get("todoId") == item.id), None)

    def find_call_for(self, key: str) -> CompletedCall | None:
        suffix = f"-{hash_key(key)}"
        return next(
            (call for call in reversed(self.completed_calls) if call.id.endswith(suffix) and call.tool not in BOOKKEEPING_TOOLS),
            None,
        )

    @property
    def recent_results(self) -> RecentResults:
        calls = [call for call in self.completed_calls if call.tool not in BOOKKEEPING_TOOLS]
        path = next((str(path) for call in reversed(calls) if (path := call.arguments.get("path"))), None)
        last = next((call for call in reversed(calls) if call.tool not in reading.ACTION_TOOLS), None)
        if last is None or to_result(last.result).is_error:
            return RecentResults(None, path)
        return RecentResults(reading.describe_result(last.tool, last.arguments, last.result).value or None, path)

    @property
    def last_response(self) -> ModelResponse | None:
        return next((message for message in reversed(self.turn[1]) if isinstance(message, ModelResponse)), None)

    @property
    def next_number(self) -> int:
        return 1 + max((int(match[1]) for call in self.completed_calls if (match := CALL_ID.fullmatch(call.id))), default=0)

    @property
    def size(self) -> int:
        characters = sum(len(str(part.args if isinstance(part, ToolCallPart) else part.content)) for part in iter_parts(self.all))
        return characters + sum(map(len, self.instructions))

    @property
    def moment(self) -> datetime:
        """The time of the last message, so that the same messages always give the same answer."""
        moments = (
            part.timestamp for part in reversed(list(iter_parts(self.all))) if isinstance(part, UserPromptPart | ToolReturnPart)
        )
        return next(moments, datetime.fromtimestamp(0, UTC))


def iter_tool_names(parameters: ModelRequestParameters) -> Iterator[str]:
    """Yield the tools that can be called, including those whose names are only listed in the schema of use_tool."""
    for tool in parameters.function_tools:
        yield tool.name
        yield from tool.parameters_json_schema.get("properties", {}).get("name", {}).get("enum", ())


SpokenPart = UserPromptPart | ToolReturnPart | ToolCallPart | TextPart


def iter_parts(messages: Iterable[ModelMessage]) -> Iterable[SpokenPart]:
    return (part for message in messages for part in message.parts if isinstance(part, SpokenPart))


def parse_arguments(call: ToolCallPart) -> dict[str, Any]:
    arguments = parse_json(call.args)
    return arguments if isinstance(arguments, dict) else {}


def merge_facts(messages: Iterable[ModelMessage]) -> Facts:
    """Merge the facts of all messages. Later ones replace earlier ones."""
    merged: Facts = {}
    for message in messages:
        merged.update(find_facts(message) or {})
    return merged


def load_plan(facts: Facts) -> RehearsalPlan | None:
    if "plan" not in facts:
        return None
    items = [RehearsalItem(**item) for item in facts["plan"]]
    open_items = [item for item in items if item.status in OPEN_STATUSES]
    return RehearsalPlan(open_items, [item for item in items if item.status not in OPEN_STATUSES])


def find_request(message: ModelMessage) -> RehearsalRequest | None:
    """Return the request that a user's message or a delegation makes. Text next to tool results comes from the runtime."""
    if not isinstance(message, ModelRequest) or not all(isinstance(part, UserPromptPart) for part in message.parts):
        return None
    facts = find_facts(message)
    if facts is not None and "request" in facts:
        return RehearsalRequest(facts["request"])
    if facts is not None:
        return RehearsalRequest(facts["task"], is_delegated=True) if "task" in facts else None
    prompts = [format_prompt(part) for part in message.parts if isinstance(part, UserPromptPart)]
    return RehearsalRequest(strip_attachments("\n".join(prompts)))


def format_prompt(part: UserPromptPart) -> str:
    pieces = [part.content] if isinstance(part.content, str) else part.content
    return to_storable("\n".join(piece for piece in pieces if isinstance(piece, str)))


def choose_reply(parsed: ParsedMessages) -> RehearsalReply:
    if "answer" in parsed.facts:
        return questions.assess_answer(parsed.facts["answer"])
    if "cut_off" in parsed.facts:
        return questions.summarise(parsed.facts["cut_off"])
    if "stretch" in parsed.facts:
        return questions.summarise(parsed.facts["stretch"])
    if "last_call" in parsed.facts:
        return sum_up(parsed)
    if form := questions.fill_form(parsed.offered, parsed.facts):
        return [PlannedCall(form, "form")]
    if parsed.offered >= PLANNING_TOOLS:
        return work_on_plan(parsed, parsed.plan) if parsed.plan else plan_steps(parsed)
    if "manage_todos" in parsed.offered:
        return work_on_queue(parsed, parsed.plan) if parsed.plan else queue_steps(parsed)
    return work_without_plan(parsed)


def plan_steps(parsed: ParsedMessages) -> RehearsalReply:
    items = [{"title": format_title(step)} for step in parsed.steps]
    return create_plan(parsed, RehearsalCall("create_todo", {"items": items})) if len(items) > 1 else work_without_plan(parsed)


def queue_steps(parsed: ParsedMessages) -> RehearsalReply:
    descriptions = [format_title(step) for step in parsed.steps]
    return create_plan(parsed, RehearsalCall("manage_todos", {"add": descriptions})) if descriptions else GREETING


def create_plan(parsed: ParsedMessages, call: RehearsalCall) -> RehearsalReply:
    if earlier_call := parsed.find_call(call.tool):  # it was called before, but there is still no plan
        return append_disclaimer(
            f"The plan could not be made. {to_outcome(earlier_call.tool, earlier_call.arguments, earlier_call.result).text}"
        )
    return [PlannedCall(call, "plan")]


def work_on_plan(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalReply:
    if not plan.open:
        return conclude(parsed, plan)
    last = parsed.last_response
    item = None if last and (last.text or "").startswith(STUCK_PREFIX) else find_next_item(parsed, plan)
    if item is None:
        return append_disclaimer(f"{STUCK_PREFIX}{len(plan.open)} still open.")
    end = resolve_step(parsed, parsed.find_step(item), item.id)
    if not parsed.find_call("start_todo", item):
        start = PlannedCall(RehearsalCall("start_todo", {"todoId": item.id}), f"start {item.id}")
        return [start, *([end] if isinstance(end, PlannedCall) else [])]
    if isinstance(end, PlannedCall):
        return [end]
    status = {} if end.ok else {"status": "cancelled"}
    return [PlannedCall(RehearsalCall("complete_todo", {"todoId": item.id, "outcome": end.text, **status}), f"complete {item.id}")]


def sum_up(parsed: ParsedMessages) -> RehearsalReply:
    """Say what was done so far, at the step limit."""
    ended = parsed.plan.ended if parsed.plan else []
    return render_report([(item.title, StepOutcome("", ok=item.status == "completed")) for item in ended])


def find_next_item(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalItem | None:
    """Choose an item that this model started, else a pending one, else any other, but not one whose end was just refused."""
    last_call = parsed.find_call("complete_todo")
    refused = [number for number, item in enumerate(plan.open, 1) if last_call and last_call.arguments.get("todoId") == item.id]
    candidates = [item for item in plan.open[sum(refused) :] if not parsed.find_call("complete_todo", item)]
    started = [item for item in candidates if parsed.find_call("start_todo", item)]
    pending = [item for item in candidates if item.status == "pending"]
    return next(iter((*started, *pending, *candidates)), None)


def conclude(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalReply:
    last = parsed.last_response
    list_call_ids = [call.tool_call_id for call in last.tool_calls if call.tool_name == "list_todo"] if last else []
    if not list_call_ids and "list_todo" in parsed.offered:
        return [PlannedCall(RehearsalCall("list_todo", {"status": "all"}), "list")]
    listed_items = next(
        (parse_items(completed_call.result) for completed_call in parsed.completed_calls if completed_call.id in list_call_ids), []
    )
    items = listed_items or [(item.status, item.title, "") for item in plan.ended]
    return append_disclaimer(
        render_report([(name, StepOutcome(outcome, ok=status == "completed")) for status, name, outcome in items])
    )


def parse_items(result: Any) -> list[tuple[str, str, str]]:
    items = result.get("items") if isinstance(result, dict) else None
    documents = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [(str(item.get("status")), str(item.get("title")), str(item.get("outcome") or "")) for item in documents]


def work_on_queue(parsed: ParsedMessages, plan: RehearsalPlan) -> RehearsalReply:
    if not plan.open:
        return append_disclaimer(
            render_report([(item.title, StepOutcome("", ok=item.status == "completed")) for item in plan.ended])
        )
    item = get_current_item(plan)
    step = parsed.find_step(item)
    end = resolve_step(parsed, step, item.id)
    if isinstance(end, PlannedCall):
        return [end]
    if end is REHEARSED_OUTCOME and SMALL_TALK.fullmatch(step):
        return GREETING
    return end.text if len(plan.open) > 1 else append_disclaimer(end.text)


def get_current_item(plan: RehearsalPlan) -> RehearsalItem:
    """Return the item in progress, else the first. The runtime judges an answer against the same item."""
    return next((item for item in plan.open if item.status == "in_progress"), plan.open[0])


def work_without_plan(parsed: ParsedMessages) -> RehearsalReply:
    """Make the calls that the steps need, one after the other, then answer. Used when the turn has no plan."""
    keys = [f"{index} {step}" for index, step in enumerate(parsed.steps)]
    last_started = max((index for index, key in enumerate(keys) if parsed.find_call_for(key)), default=0)
    ends: list[tuple[str, StepOutcome]] = []
    for index, (step, key) in enumerate(zip(parsed.steps, keys, strict=True)):
        end = resolve_step(parsed, step, key)
        if isinstance(end, PlannedCall) and index >= last_started:
            return [end]
        ends.append((step, StepOutcome("done earlier.") if isinstance(end, PlannedCall) else end))
    if not ends or (len(ends) == 1 and SMALL_TALK.fullmatch(parsed.request.text)):
        return GREETING
    reply = render_report(ends) if len(ends) > 1 else NO_RULE_ANSWER if ends[0][1] is REHEARSED_OUTCOME else ends[0][1].text
    if not parsed.request.is_delegated:
        return append_disclaimer(reply)
    if all(end.ok for _, end in ends) or "report_outcome" not in parsed.offered:
        return reply
    return [PlannedCall(RehearsalCall("report_outcome", {"summary": reply, "success": False}), "outcome")]


def resolve_step(parsed: ParsedMessages, step: str, key: str) -> StepOutcome | PlannedCall:
    """Return how a step ended, or the tool call that it needs first."""
    if earlier_call := parsed.find_call_for(key):
        return to_outcome(earlier_call.tool, earlier_call.arguments, earlier_call.result)
    call = reading.find_call(step, parsed.recent_results)
    if call is None:
        return REHEARSED_OUTCOME
    if isinstance(call, CannotRun):
        return StepOutcome(f"Not done: {call.reason}", ok=False)
    if call.tool not in parsed.offered:
        return StepOutcome(f"Not done: the tool {call.tool} is not available here.", ok=False)
    return PlannedCall(call, key)


def render_report(ends: list[tuple[str, StepOutcome]]) -> str:
    """Render each step with its outcome. Text from elsewhere stays within its line, so that it cannot imitate a writ or a frame."""
    cancelled = sum(not end.ok for _, end in ends)
    head = f"I went through {len(ends)} step{'s' * (len(ends) != 1)}{f', and cancelled {cancelled}' if cancelled else ''}:"
    lines = [
        f"{number}. {format_inline(name)}{'' if end.ok else ' (cancelled)'}{f': {format_inline(end.text)}' if end.text else ''}"
        for number, (name, end) in enumerate(ends, 1)
    ]
    return "\n".join([head, *lines])


def append_disclaimer(text: str) -> str:
    """Append the disclaimer for users, and space out products: Markdown would turn two of `12*7` in a line into italics."""
    spaced = PRODUCT_SIGN.sub(r" \1 ", text)
    return f"{spaced}\n\n{DISCLAIMER}"
