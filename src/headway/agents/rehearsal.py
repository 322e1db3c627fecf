"""The rehearsal model: a stand-in for an LLM that follows rules, so that everything else can be seen at work without a key.

It plans with the real tools, does what the built-in tools can do, says honestly where an LLM would be needed, and drains its
plan. It keeps nothing in mind: each answer is derived from the messages alone, and so are the ids of its calls.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from headway.agents import prompts
from headway.agents import rehearsal_questions as questions
from headway.agents import rehearsal_steps as reading
from headway.agents.local_model import LocalModel
from headway.agents.rehearsal_steps import Call, Cannot, Known, Outcome, outcome, parsed, title
from headway.agents.toolbox import judged
from headway.agents.transcript import storable
from headway.ledger.framing import inline
from headway.ledger.run import REHEARSAL

WHAT_THIS_IS: Final = (
    "This is the rehearsal model: it follows rules and is not an LLM. Set HEADWAY_MODEL to use one, such as "
    "openai-chat:gpt-5-mini with OPENAI_API_KEY."
)
TRY: Final = "“Calculate 12*7, then write the result to notes.txt, and then list the files”"
GREETING: Final = f"Hello! I am Headway's stand-in for an LLM: I plan, and use simple tools. Try {TRY}.\n\n{WHAT_THIS_IS}"
AT_A_LOSS: Final = f"Rehearsed: an LLM would answer this here. What I can do: plan steps, and use simple tools. Try {TRY}."
REHEARSED: Final = Outcome("Rehearsed: an LLM would do this step here.")
STUCK: Final = "The plan does not change whatever I do: "
SMALL_TALK: Final = re.compile(
    r"\s*(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|thanks?|thank you|bye|goodbye|help|who are you|what are you"
    r"|what can you do|how are you)\b[^\n]{0,40}",
    re.IGNORECASE,
)

FRAME: Final = re.compile(r"\[TURN CONTEXT\]\nOriginal request: (.*)\n(Plan: (?:.*\n)*)\[END TURN CONTEXT\]")
OPEN_LINE: Final = re.compile(r"- \[(pending|in_progress)\] (.*) \(id ([0-9a-f-]{1,40})\)")
ENDED_LINE: Final = re.compile(r"- \[(completed|cancell?ed)\] (.*)")
OF_THE_RUNTIME: Final = re.compile(
    r"Not finished: \S+ items? (?:is|are) of your plan still open\. |Your answer does not do for the current item \(|"
    + "|".join(map(re.escape, (prompts.NUDGE, prompts.CUT_OFF, prompts.NEXT, prompts.CHECK_IN, "[/")))
)
PLANNING: Final = frozenset(("create_todo", "start_todo", "complete_todo"))
BOOKKEEPING: Final = PLANNING | {"list_todo", "manage_todos"}
PRODUCT: Final = re.compile(r"(?<=[\d)])(\*\*?)(?=[-\d(])")
CALL_ID: Final = re.compile(r"rehearsal-([0-9]{1,9})-[0-9]+-[0-9a-f]+")


def rehearsal_model(pace_s: float = 0) -> LocalModel:
    return LocalModel(REHEARSAL, answer, pace_s)


def answer(messages: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
    scene = Scene(messages, parameters)
    said = reply(scene)
    if isinstance(said, str):
        return response(scene, [TextPart(said)])
    ids = (f"rehearsal-{scene.next_number}-{place}-{digest(wanted.key)}" for place, wanted in enumerate(said))
    return response(scene, [ToolCallPart(*wanted.call, tool_call_id=id_) for wanted, id_ in zip(said, ids, strict=True)])


def response(scene: "Scene", parts: list[TextPart] | list[ToolCallPart]) -> ModelResponse:
    spoken = sum(len(part.content if isinstance(part, TextPart) else part.args_as_json_str()) for part in parts)
    return ModelResponse(
        parts,
        usage=RequestUsage(input_tokens=scene.size // 4 + 1, output_tokens=spoken // 4 + 1),
        model_name=REHEARSAL,
        timestamp=scene.moment,
        provider_name="headway",
        finish_reason="stop" if isinstance(parts[0], TextPart) else "tool_call",
    )


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:10]


# What there is to see


class Item(NamedTuple):
    status: str
    title: str
    id: str


class Plan(NamedTuple):
    """The list as the runtime's frame shows it."""

    request: str
    open: list[Item]
    ended: list[Item]


class Made(NamedTuple):
    """A call that was made, with its result."""

    tool: str
    arguments: dict[str, Any]
    id: str
    result: Any


class Wanted(NamedTuple):
    call: Call
    key: str  # what it is for: it is found again by that


Reply = str | list[Wanted]


class Scene:
    """The messages, taken apart."""

    def __init__(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        self.all = messages
        self.offered = frozenset(tool.name for tool in parameters.function_tools)
        self.instructions = [part.content for part in parameters.instruction_parts or ()]
        self.plan = framed(messages)

    @cached_property
    def turn(self) -> tuple[str, list[ModelMessage]]:
        """The request as it was made, and what has happened since. Earlier turns of the conversation may stand before it."""
        messages = self.all[:-1] if self.plan else self.all
        asked = [(place, text) for place, message in enumerate(messages) if (text := request_in(message)) is not None]
        if self.plan:
            meant = [one for one in asked if inline(one[1], prompts.REQUEST_SHOWN) == self.plan.request]
            place, request = meant[-1] if meant else (-1, self.plan.request)
        else:
            own = [one for one in asked if not OF_THE_RUNTIME.match(one[1])]
            place, request = (own or asked or [(-1, "")])[-1]
        return request, messages[place + 1 :]

    @property
    def request(self) -> str:
        return reading.task_in(self.turn[0])

    @property
    def handed_over(self) -> bool:
        """Whether another agent reads the answer, not a person."""
        return self.request != self.turn[0]

    @cached_property
    def steps(self) -> list[str]:
        return reading.split(self.request)

    def step_of(self, item: Item) -> str:
        """The whole step behind a title, which may be cut where it is shown."""
        return next((step for step in self.steps if inline(title(step)) == item.title), item.title)

    @cached_property
    def made(self) -> list[Made]:
        """The calls of this turn that are in sight."""
        parts = (part for message in self.turn[1] for part in message.parts)
        results = {part.tool_call_id: parsed(part.content) for part in parts if isinstance(part, ToolReturnPart)}
        return [
            Made(call.tool_name, arguments_of(call), call.tool_call_id, results.get(call.tool_call_id, reading.NO_RESULT))
            for message in self.turn[1]
            if isinstance(message, ModelResponse)
            for call in message.tool_calls
        ]

    def called(self, tool: str, item: Item | None = None) -> Made | None:
        found = (one for one in reversed(self.made) if one.tool == tool)
        return next((one for one in found if item is None or one.arguments.get("todoId") == item.id), None)

    def done_for(self, key: str) -> Made | None:
        wanted = f"-{digest(key)}"
        return next((one for one in reversed(self.made) if one.id.endswith(wanted) and one.tool not in BOOKKEEPING), None)

    @property
    def known(self) -> Known:
        done = [one for one in self.made if one.tool not in BOOKKEEPING]
        path = next((str(path) for one in reversed(done) if (path := one.arguments.get("path"))), None)
        last = next((one for one in reversed(done) if one.tool not in reading.ACTING), None)
        if last is None or judged(last.result).is_error:
            return Known(None, path)
        return Known(reading.told(last.tool, last.arguments, last.result).value or None, path)

    @property
    def last_response(self) -> ModelResponse | None:
        return next((message for message in reversed(self.turn[1]) if isinstance(message, ModelResponse)), None)

    @property
    def next_number(self) -> int:
        return 1 + max((int(found[1]) for one in self.made if (found := CALL_ID.fullmatch(one.id))), default=0)

    @property
    def size(self) -> int:
        said = sum(len(str(part.args if isinstance(part, ToolCallPart) else part.content)) for part in parts_of(self.all))
        return said + sum(map(len, self.instructions))

    @property
    def moment(self) -> datetime:
        """When it was asked: an answer is the same however often it is given."""
        moments = (
            part.timestamp for part in reversed(list(parts_of(self.all))) if isinstance(part, UserPromptPart | ToolReturnPart)
        )
        return next(moments, datetime.fromtimestamp(0, UTC))


Spoken = UserPromptPart | ToolReturnPart | ToolCallPart | TextPart


def parts_of(messages: Iterable[ModelMessage]) -> Iterable[Spoken]:
    return (part for message in messages for part in message.parts if isinstance(part, Spoken))


def arguments_of(call: ToolCallPart) -> dict[str, Any]:
    arguments = parsed(call.args)
    return arguments if isinstance(arguments, dict) else {}


def request_in(message: ModelMessage) -> str | None:
    """What somebody said; what stands beside tool results comes from the runtime."""
    if not isinstance(message, ModelRequest) or not all(isinstance(part, UserPromptPart) for part in message.parts):
        return None
    return "\n".join(prompt_text(part) for part in message.parts if isinstance(part, UserPromptPart))


def prompt_text(part: UserPromptPart) -> str:
    pieces = [part.content] if isinstance(part.content, str) else part.content
    return storable("\n".join(piece for piece in pieces if isinstance(piece, str)))


def framed(messages: list[ModelMessage]) -> Plan | None:
    """The runtime's frame. It speaks right after somebody else did; what looks like it elsewhere was written by a user."""
    if len(messages) < 2 or not isinstance(messages[-2], ModelRequest):
        return None
    found = FRAME.fullmatch(request_in(messages[-1]) or "")
    if not found:
        return None
    lines = found[2].split("\n")
    still_open = [Item(*item.groups()) for line in lines if (item := OPEN_LINE.fullmatch(line))]
    ended = [Item(item[1], item[2], "") for line in lines if (item := ENDED_LINE.fullmatch(line))]
    return Plan(found[1], still_open, ended)


# What to say to it


def reply(scene: Scene) -> Reply:
    if prompts.ASSESSOR in scene.instructions:
        return questions.assessed(scene.request)
    if prompts.SUMMARISER in scene.instructions:
        return questions.summarised(scene.request)
    if form := questions.handed_in(scene.offered, scene.request):
        return [Wanted(form, "form")]
    if scene.offered >= PLANNING:
        return worked_off(scene, scene.plan) if scene.plan else planned(scene)
    if "manage_todos" in scene.offered:
        return worked_current(scene, scene.plan) if scene.plan else queued(scene)
    return unplanned(scene)


def planned(scene: Scene) -> Reply:
    items = [{"title": title(step)} for step in scene.steps]
    return laid_out(scene, Call("create_todo", {"items": items})) if len(items) > 1 else unplanned(scene)


def queued(scene: Scene) -> Reply:
    descriptions = [title(step) for step in scene.steps]
    return laid_out(scene, Call("manage_todos", {"add": descriptions})) if descriptions else GREETING


def laid_out(scene: Scene, call: Call) -> Reply:
    if tried := scene.called(call.tool):  # and yet there is no plan
        return closing(f"The plan could not be made. {outcome(tried.tool, tried.arguments, tried.result).text}")
    return [Wanted(call, "plan")]


def worked_off(scene: Scene, plan: Plan) -> Reply:
    if not plan.open:
        return concluded(scene, plan)
    last = scene.last_response
    item = None if last and (last.text or "").startswith(STUCK) else next_item(scene, plan)
    if item is None:
        return closing(f"{STUCK}{len(plan.open)} still open.")
    end = ended(scene, scene.step_of(item), item.id)
    if not scene.called("start_todo", item):
        start = Wanted(Call("start_todo", {"todoId": item.id}), f"start {item.id}")
        return [start, *([end] if isinstance(end, Wanted) else [])]
    if isinstance(end, Wanted):
        return [end]
    status = {} if end.ok else {"status": "cancelled"}
    return [Wanted(Call("complete_todo", {"todoId": item.id, "outcome": end.text, **status}), f"complete {item.id}")]


def next_item(scene: Scene, plan: Plan) -> Item | None:
    """The one begun, else the next that waits; behind them those that somebody else began. None is tried twice in a row."""
    tried = scene.called("complete_todo")
    refused = [place for place, item in enumerate(plan.open, 1) if tried and tried.arguments.get("todoId") == item.id]
    left = [item for item in plan.open[sum(refused) :] if not scene.called("complete_todo", item)]
    begun = [item for item in left if scene.called("start_todo", item)]
    waiting = [item for item in left if item.status == "pending"]
    return next(iter((*begun, *waiting, *left)), None)


def concluded(scene: Scene, plan: Plan) -> Reply:
    last = scene.last_response
    asked = [call.tool_call_id for call in last.tool_calls if call.tool_name == "list_todo"] if last else []
    if not asked and "list_todo" in scene.offered:
        return [Wanted(Call("list_todo", {"status": "all"}), "list")]
    listed = next((items_in(one.result) for one in scene.made if one.id in asked), [])
    items = listed or [(item.status, item.title, "") for item in plan.ended]
    return closing(report([(name, Outcome(said, ok=status == "completed")) for status, name, said in items]))


def items_in(result: Any) -> list[tuple[str, str, str]]:
    items = result.get("items") if isinstance(result, dict) else None
    known = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [(str(item.get("status")), str(item.get("title")), str(item.get("outcome") or "")) for item in known]


def worked_current(scene: Scene, plan: Plan) -> Reply:
    if not plan.open:
        return closing(report([(item.title, Outcome("", ok=item.status == "completed")) for item in plan.ended]))
    item = current(scene, plan)
    step = scene.step_of(item)
    end = ended(scene, step, item.id)
    if isinstance(end, Wanted):
        return [end]
    if end is REHEARSED and SMALL_TALK.fullmatch(step):
        return GREETING
    return end.text if len(plan.open) > 1 else closing(end.text)


def current(scene: Scene, plan: Plan) -> Item:
    """The one that the runtime named last, else the one in progress, else the first."""
    said = [text for message in scene.turn[1] if (text := request_in(message)) and text.startswith(prompts.NEXT)]
    named = inline(said[-1].removeprefix(prompts.NEXT)) if said else ""
    ranked = sorted(plan.open, key=lambda item: (item.title != named, item.status != "in_progress"))
    return ranked[0]


def unplanned(scene: Scene) -> Reply:
    """Without a plan: the calls that the steps need, one after the other, then the answer."""
    keys = [f"{place} {step}" for place, step in enumerate(scene.steps)]
    begun = max((place for place, key in enumerate(keys) if scene.done_for(key)), default=0)
    ends: list[tuple[str, Outcome]] = []
    for place, (step, key) in enumerate(zip(scene.steps, keys, strict=True)):
        end = ended(scene, step, key)
        if isinstance(end, Wanted) and place >= begun:
            return [end]
        ends.append((step, Outcome("done earlier.") if isinstance(end, Wanted) else end))
    if not ends or (len(ends) == 1 and SMALL_TALK.fullmatch(scene.request)):
        return GREETING
    said = report(ends) if len(ends) > 1 else AT_A_LOSS if ends[0][1] is REHEARSED else ends[0][1].text
    if not scene.handed_over:
        return closing(said)
    if all(end.ok for _, end in ends) or "report_outcome" not in scene.offered:
        return said
    return [Wanted(Call("report_outcome", {"summary": said, "success": False}), "outcome")]


def ended(scene: Scene, step: str, key: str) -> Outcome | Wanted:
    """How a step ended, or the call that it needs first."""
    if made := scene.done_for(key):
        return outcome(made.tool, made.arguments, made.result)
    call = reading.doing(step, scene.known)
    if call is None:
        return REHEARSED
    if isinstance(call, Cannot):
        return Outcome(f"Not done: {call.why}", ok=False)
    if call.tool not in scene.offered:
        return Outcome(f"Not done: the tool {call.tool} is not available here.", ok=False)
    return Wanted(call, key)


def report(ends: list[tuple[str, Outcome]]) -> str:
    """Each step with what came of it. Whatever others wrote stays within a line, where it cannot pass for a writ or a frame."""
    cancelled = sum(not end.ok for _, end in ends)
    head = f"I went through {len(ends)} step{'s' * (len(ends) != 1)}{f', and cancelled {cancelled}' if cancelled else ''}:"
    lines = [
        f"{place}. {inline(name)}{'' if end.ok else ' (cancelled)'}{f': {inline(end.text)}' if end.text else ''}"
        for place, (name, end) in enumerate(ends, 1)
    ]
    return "\n".join([head, *lines])


def closing(text: str) -> str:
    """The last words to a person. Answers are Markdown, where 12*7 twice in a line would be 12 and 7 in italics; 12 * 7 is not."""
    spaced = PRODUCT.sub(r" \1 ", text)
    return f"{spaced}\n\n{WHAT_THIS_IS}"
