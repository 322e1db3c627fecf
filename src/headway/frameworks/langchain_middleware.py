"""Planning for LangChain, in place of TodoListMiddleware: `create_agent(model, middleware=[HeadwayMiddleware(headway)])`.

The plan is in the ledger. A request with several items becomes the plan, and its items are completed by the files that the agent's
calls write; what is left is taken up in new, short contexts. Any other request is planned by the agent with `write_todos`. It may
not end while its plan has open steps, and a run that was interrupted continues its plan.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from headway.actions.turns.plan import Item, choose_next
from headway.agents.instructions.prompts import render_focus, render_report
from headway.agents.instructions.roles import SUPERVISOR
from headway.agents.tools.external_loop import ExternalLoop
from headway.agents.tools.toolbox import Result
from headway.extras import describe_remedy
from headway.frameworks.langchain import run_blocking
from headway.ledger.items.request_items import refers_back
from headway.ledger.items.work import MadeCall
from headway.ledger.todo import Todo
from headway.process.assembly import Headway

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        OmitFromInput,
        PrivateStateAttr,
        hook_config,
    )
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.config import get_config
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ModuleNotFoundError:
    raise ImportError(f"LangChain is not installed: {describe_remedy('langchain')}.") from None

REPLACED_NAME: Final = "TodoListMiddleware"  # an agent with both is refused, and deepagents replaces its own by this one
MOST_REMINDERS: Final = 10  # in a row; then the agent may end, and the ledger shows what is open
MOST_ANSWERS: Final = 6  # of the model in one context
REMINDER_MARK: Final = "headway_reminder"
SYSTEM_PROMPT: Final = """## Planning

Plan work that takes several steps with `write_todos`: one item per step, the current one in_progress. Mark each step as completed
as soon as it is done, and go on with the next one. Leave out a step that is no longer needed. You cannot end while a step is open.
After the last step, answer the user in full: the plan is not the answer."""
STATUSES: Final[dict[str, Literal["pending", "in_progress", "completed"]]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}


class TodoListItem(TypedDict):
    content: str
    status: Literal["pending", "in_progress", "completed"]


class PlanState(AgentState[Any]):
    todos: Annotated[NotRequired[list[TodoListItem]], OmitFromInput]  # the plan in the form of TodoListMiddleware, for front ends
    headway_turn: Annotated[NotRequired[str], PrivateStateAttr]  # with a checkpointer, an interrupted run continues its plan
    headway_items: Annotated[NotRequired[bool], PrivateStateAttr]  # the plan is the request's, and not the agent's to keep


class HeadwayMiddleware(AgentMiddleware[PlanState, Any, Any]):
    """Gives an agent tools for its plan, and sends it back to work while the plan has open steps.

    Each thread of the agent (`thread_id`) is a conversation in Headway, unless `conversation` names one. Each run has its own plan,
    or continues one that is open. Works with `invoke` and `ainvoke`.
    """

    state_schema = PlanState

    def __init__(
        self,
        headway: Headway,
        *,
        conversation: int | str | None = None,
        agent: str = "langchain",
        role: str = SUPERVISOR,
        tenant: str | None = None,
        tools: Sequence[str] = ("write_todos",),
        system_prompt: str = SYSTEM_PROMPT,
    ) -> None:
        super().__init__()
        self.headway = headway
        self.conversation = conversation
        self.agent, self.role, self.tenant = agent, role, tenant
        self.tool_names = tuple(tools)
        self.system_prompt = system_prompt
        specs = headway.toolbox.tools
        chosen = [spec for spec in specs.values() if spec.name in tools or (spec.family in tools and not spec.is_hidden)]
        self.tools = [declare_tool(spec.name, spec.description, spec.as_json()["input_schema"]) for spec in chosen]
        self.own_names = frozenset(tool.name for tool in self.tools)

    @property
    def name(self) -> str:
        return REPLACED_NAME

    # The plan of this run

    async def abefore_agent(self, state: PlanState, runtime: Runtime[Any]) -> dict[str, Any]:
        turn_id = state.get("headway_turn")
        loop = await self.open_loop(turn_id) if turn_id else None
        if loop is not None and await loop.unfinished():
            return {"todos": to_items(await loop.plan())}
        loop = await self.open_loop(None)
        plan = await loop.plan_request(get_request(state["messages"]))
        return {"headway_turn": loop.turn_id, "headway_items": bool(plan), "todos": to_items(plan)}

    async def open_loop(self, turn_id: str | None) -> ExternalLoop:
        conversation = None if turn_id else (self.conversation if self.conversation is not None else find_thread_key())
        loop = await self.headway.own_loop(conversation, turn=turn_id, role=self.role, agent=self.agent, tenant=self.tenant)
        return loop.only(*self.tool_names)

    # The tools

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        if request.tool_call["name"] not in self.own_names:
            return await handler(request)
        return await self.call_tool(request)

    async def call_tool(self, request: ToolCallRequest) -> ToolMessage:
        call = request.tool_call
        loop = await self.open_loop(request.state["headway_turn"])
        result: Result = await loop.call(call["name"], dict(call["args"]))
        status: Literal["success", "error"] = "error" if result.is_error else "success"
        return ToolMessage(result.as_text, name=call["name"], tool_call_id=call["id"], status=status)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | AIMessage:
        return await handler(self.add_prompt(request))

    def add_prompt(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if request.state.get("headway_items"):
            tools = [tool for tool in request.tools if get_tool_name(tool) not in self.own_names]
            return request.override(tools=tools, messages=select_context(request.messages))
        blocks: list[Any] = list(request.system_message.content_blocks) if request.system_message else []
        text = f"\n\n{self.system_prompt}" if blocks else self.system_prompt
        return request.override(system_message=SystemMessage(content=[*blocks, {"type": "text", "text": text}]))

    # The gate

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: PlanState, runtime: Runtime[Any]) -> dict[str, Any]:
        loop = await self.open_loop(state["headway_turn"])
        if not state.get("headway_items") or not isinstance(state["messages"][-1], ToolMessage):
            return {"todos": to_items(await loop.plan())}
        messages = state["messages"]
        items = await loop.settle(list_calls(messages))
        update: dict[str, Any] = {"todos": to_items(await loop.plan())}
        if not items:
            return update | {"messages": [AIMessage(render_report(await loop.plan(), {}))], "jump_to": "end"}
        focus = list_contexts(messages)[-1:]
        is_over = bool(focus) and not any(item.id in focus[0] for item in items)
        if is_over or count_answers(messages) >= MOST_ANSWERS:
            return update | await self.take_next(loop, messages, items, "end")
        return update

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: PlanState, runtime: Runtime[Any]) -> dict[str, Any]:
        loop, messages = await self.open_loop(state["headway_turn"]), state["messages"]
        if state.get("headway_items"):
            return await self.check_items(loop, messages)
        plan = await loop.plan()
        update: dict[str, Any] = {"todos": to_items(plan)}
        unfinished = [todo.subject for todo in plan if not todo.ended]
        if unfinished and count_reminders(messages) < MOST_REMINDERS:
            words = f"Not finished. These steps are still open: {', '.join(unfinished)}. Do them, or take them off the plan."
            reminder = HumanMessage(words, additional_kwargs={REMINDER_MARK: True})
            update |= {"messages": [reminder], "jump_to": "model"}
        return update

    async def check_items(self, loop: ExternalLoop, messages: Sequence[Any]) -> dict[str, Any]:
        """Look at what is done when the agent has answered, and send it back to the items that are open."""
        contexts = list_contexts(messages)
        is_reported = bool(messages[-1].additional_kwargs.get(REMINDER_MARK))
        items = [] if is_reported else await loop.settle(list_calls(messages), contexts[-1] if contexts else (), messages[-1].text)
        update: dict[str, Any] = {"todos": to_items(await loop.plan())}
        if items:
            return update | await self.take_next(loop, messages, items, "model")
        if contexts and not is_reported:  # the last answer is about the last items only
            update["messages"] = [AIMessage(render_report(await loop.plan(), {}))]
        return update

    async def take_next(
        self, loop: ExternalLoop, messages: Sequence[Any], items: Sequence[Item], jump: Literal["model", "end"]
    ) -> dict[str, Any]:
        """Begin a new context with the next open items; if nothing can succeed any more, say what is not done and why."""
        chosen = choose_next(items, list_contexts(messages))
        if not chosen:
            reasons = {item.id: item.finding.reason if item.finding else "" for item in items}
            report = AIMessage(render_report(await loop.plan(), reasons), additional_kwargs={REMINDER_MARK: True})
            return {"messages": [report], **({"jump_to": "end"} if jump == "end" else {})}
        texts = [item.text for item in chosen]
        request = get_request(messages) if any(refers_back(item.text) for item in chosen) else ""
        reminder = HumanMessage(render_focus(request, texts), additional_kwargs={REMINDER_MARK: [item.id for item in chosen]})
        return {"messages": [reminder], **({"jump_to": "model"} if jump == "model" else {})}

    # The same for callers without an event loop

    def before_agent(self, state: PlanState, runtime: Runtime[Any]) -> dict[str, Any]:
        return run_blocking(self.abefore_agent(state, runtime))

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: PlanState, runtime: Runtime[Any]) -> dict[str, Any]:
        return run_blocking(self.abefore_model(state, runtime))

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: PlanState, runtime: Runtime[Any]) -> dict[str, Any]:
        return run_blocking(self.aafter_agent(state, runtime))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        if request.tool_call["name"] not in self.own_names:
            return handler(request)
        return run_blocking(self.call_tool(request))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | AIMessage:
        return handler(self.add_prompt(request))


def declare_tool(name: str, description: str, schema: dict[str, Any]) -> StructuredTool:
    """Declare a tool to the model. The middleware answers its calls, because they need the plan of the run."""

    def call(**_arguments: Any) -> str:
        raise RuntimeError(f"{name} works only in an agent with HeadwayMiddleware.")

    return StructuredTool(name=name, description=description, args_schema=schema, func=call)


def find_thread_key() -> str | None:
    """Return the key of the conversation that belongs to the running thread. Without a thread, the run has a new conversation."""
    thread_id = get_config().get("configurable", {}).get("thread_id")
    return f"thread {thread_id}" if thread_id else None


def get_request(messages: Sequence[Any]) -> str:
    """Return the user's last message."""
    own = [one for one in messages if isinstance(one, HumanMessage) and not one.additional_kwargs.get(REMINDER_MARK)]
    return own[-1].text if own else ""


def list_run(messages: Sequence[Any]) -> Sequence[Any]:
    """List the messages since the user's last one."""
    last = max((n for n, one in enumerate(messages) if isinstance(one, HumanMessage) and not get_focus(one)), default=0)
    return messages[last:]


def get_focus(message: Any) -> list[int]:
    """Return the items of the context that a message begins; none if it begins no context."""
    mark = message.additional_kwargs.get(REMINDER_MARK) if isinstance(message, HumanMessage) else None
    return mark if isinstance(mark, list) else []


def list_contexts(messages: Sequence[Any]) -> list[list[int]]:
    return [focus for message in list_run(messages) if (focus := get_focus(message))]


def select_context(messages: Sequence[Any]) -> list[Any]:
    """Select what the model sees: everything, or the context of the items that it works on."""
    start = max((n for n, message in enumerate(messages) if get_focus(message)), default=0)
    return list(messages[start:])


def count_answers(messages: Sequence[Any]) -> int:
    """Count the model's answers in the current context."""
    return sum(isinstance(message, AIMessage) for message in select_context(list_run(messages)))


def list_calls(messages: Sequence[Any]) -> list[MadeCall]:
    """List the calls of this run with their results."""
    calls = {call["id"]: call for message in list_run(messages) if isinstance(message, AIMessage) for call in message.tool_calls}
    results = [one for one in list_run(messages) if isinstance(one, ToolMessage) and one.tool_call_id in calls]
    return [
        MadeCall(
            calls[one.tool_call_id]["name"],
            calls[one.tool_call_id]["args"],
            one.text,
            succeeded=one.status != "error" and not one.text.lower().startswith("error"),
        )
        for one in results
    ]


def get_tool_name(tool: Any) -> str:
    return str(tool.get("name", "") if isinstance(tool, dict) else tool.name)


def to_items(plan: Sequence[Todo]) -> list[TodoListItem]:
    return [TodoListItem(content=todo.subject, status=STATUSES[todo.status]) for todo in plan if todo.status in STATUSES]


def count_reminders(messages: Sequence[Any]) -> int:
    """Count the reminders since the user's last message."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            if not message.additional_kwargs.get(REMINDER_MARK):
                break
            count += 1
    return count
