"""A simulated model with stated faults, behind the interface of OpenAI's API. It needs no weights and is repeatable by its seed.

It reads the request that a real model would get, and nothing else. It knows the tasks, and recognises an item by the file that the
text names. It works through the items that it sees, with the tools that it is offered, and makes mistakes at stated rates. They are
the same for every system, and so is the first draw for each item of a task. An item is overlooked only among others: a message that
names a single item is not forgotten. Nothing else depends on the length or the words of a context.
"""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse

from bench.effect.plan_tools import Demand, demand_plan, fill_outcome, fill_plan, find_open_todos, find_plan_tool
from bench.effect.proxy import RUN_HEADER
from bench.effect.task_list import TASKS
from bench.effect.tasks import Item

CHARACTERS_PER_TOKEN: Final = 4
MOST_TRIES: Final = 2  # of one call that fails
FILE_NAME: Final = re.compile(r"[\w-]+\.[a-z]{2,4}\b")
ENDED_LINE: Final = re.compile(r"\[(?:completed|cancelled|canceled|done|x)\]|\"status\": ?\"completed\"", re.IGNORECASE)
BLOCK: Final = re.compile(r"\[([A-Z ]+)\].*?\[END \1\]", re.DOTALL)
BACKGROUND: Final = re.compile(r"^Original request:.*$", re.MULTILINE)
ITEMS_BY_FILE: Final[dict[str, list[Item]]] = defaultdict(list)
for each_task in TASKS.values():
    for each_item in each_task.items:
        ITEMS_BY_FILE[each_item.path].append(each_item)
ARGUMENT_NAMES: Final = {
    "path": ("path", "file_path", "filename"),
    "content": ("content", "text"),
    "old": ("old", "old_string"),
    "new": ("new", "new_string"),
    "expression": ("expression",),
}


class Rates(NamedTuple):
    """How often the model does something wrong."""

    stops: float = 0.15  # answers although it knows that items are left, drawn after each item and after each reminder
    forgets: float = 0.15  # overlooks an item of a list, or forgets to mark one as completed
    claims: float = 0.7  # claims what is not done, when it knows; otherwise it says what is left
    repeats: float = 0.1  # makes a call a second time
    texts: float = 0.2  # writes a call as text
    slips: float = 0.1  # does an item wrongly, without knowing
    plans: float = 0.3  # makes a plan if it is offered a tool for it, and the request has several items

    def scale(self, share: float) -> "Rates":
        """Return the rates of a better model: this share of the faults, and as much nearer to always planning."""
        faults = {name: rate * share for name, rate in self._asdict().items()}
        return Rates(**{**faults, "plans": 1 - (1 - self.plans) * share})


class Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]

    @property
    def signature(self) -> str:
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True)}"


class Context(NamedTuple):
    """What a request shows: the tools, the texts, and the model's own calls with their results."""

    tools: dict[str, dict[str, Any]]  # the parameters of each tool
    prompts: list[str]  # the messages that are not the model's own, without results
    results: dict[str, list[str]]  # by the signature of a call
    result_texts: list[str]
    answers: int  # how often the model ended without a call
    schema: dict[str, Any] | None  # of the answer, if it has to have a form

    @property
    def key(self) -> str:
        return next((prompt for prompt in self.prompts), "")


class Memory:
    """The draws of one run. A decision holds for one stretch of a conversation: until the model answers, or a new one begins."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.decisions: dict[tuple[str, str], bool] = {}
        self.conversations: Counter[str] = Counter()

    def draw(self, rate: float, what: str, stretch: str) -> bool:
        if (what, stretch) not in self.decisions:
            self.counts[what] += 1
            number = random.Random(f"{self.seed}|{what}|{self.counts[what]}").random()
            self.decisions[what, stretch] = number < rate
        return self.decisions[what, stretch]


class SimulatedModel:
    def __init__(self, rates: Rates, seed: int = 1) -> None:
        self.rates = rates
        self.seed = seed
        self.memories: dict[str, Memory] = {}

    async def complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        run = request.headers.get(RUN_HEADER, "")
        return JSONResponse(self.answer(body, run))

    def answer(self, body: dict[str, Any], run: str) -> dict[str, Any]:
        """Answer one request. The name of a run is SYSTEM.TASK.REPETITION; the system does not influence the draws."""
        memory = self.memories.setdefault(run, Memory(f"{self.seed}|{run.partition('.')[2]}"))
        text, calls = Reader(self.rates, memory, read_context(body)).decide()
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{uuid4().hex}",
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
                }
                for call in calls
            ]
        prompt_tokens = len(json.dumps([body["messages"], body.get("tools")])) // CHARACTERS_PER_TOKEN
        completion_tokens = 1 + len(json.dumps(message)) // CHARACTERS_PER_TOKEN
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {
            "id": "simulated",
            "object": "chat.completion",
            "created": 0,
            "model": "simulated",
            "choices": [choice],
            "usage": usage,
        }


class Reader:
    """Decides on one answer."""

    def __init__(self, rates: Rates, memory: Memory, context: Context) -> None:
        self.rates, self.memory, self.context = rates, memory, context
        if not context.results and not context.answers:
            memory.conversations[context.key] += 1
        self.conversation = f"{context.key} {memory.conversations[context.key]}"
        self.stretch = f"{self.conversation} {context.answers}"
        self.named, self.focus = find_items(context.prompts)
        self.open_todos = find_open_todos([*context.prompts, *context.result_texts])

    def decide(self) -> tuple[str, list[Call]]:
        demand = demand_plan(self.context.tools, self.context.schema)
        if demand:
            return self.submit(demand)
        work = self.choose_work()
        books = self.keep_books()
        if work:
            return self.speak([*books, work])
        if books:
            return self.speak(books)
        return self.finish()

    # What to do next

    def choose_work(self) -> Call | None:
        if plan := self.make_plan():
            return plan
        finished = 0
        for item in self.focus:
            if self.is_finished(item):
                finished += 1
                if repeated := self.repeat(item):
                    return repeated
                continue
            if self.overlooks(item) or self.has_given_up(item):
                continue
            if (finished or self.context.answers) and self.draw(self.rates.stops, f"stops after {finished}"):
                return None
            if step := self.take_step(item):
                return step
        return None

    def make_plan(self) -> Call | None:
        tool = find_plan_tool(self.context.tools)
        if not tool or len(self.focus) < 2 or self.open_todos or self.called(tool) or not self.draw(self.rates.plans, "plans"):
            return None
        planned = [item for item in self.focus if not self.overlooks(item)]
        return Call(tool, fill_plan(self.context.tools[tool], [(item.words, False) for item in planned])) if planned else None

    def take_step(self, item: Item) -> Call | None:
        """Return the next call for an item: read what it needs, calculate, then change the file."""
        for step in self.list_steps(item):
            results = self.context.results.get(step.signature, [])
            if not results or (is_error(results[-1]) and len(results) < MOST_TRIES):
                return step
            if is_error(results[-1]) and not (item.is_impossible and self.invents(item)):
                return None
        return None

    def list_steps(self, item: Item) -> Iterator[Call]:
        for path in item.reads:
            yield from self.offer("read_file", path=path)
        if item.expression:
            yield from self.offer("calculate", expression=item.expression)
        if item.old and "edit_file" not in self.context.tools:
            yield from self.offer("read_file", path=item.path)
        yield self.change(item)

    def change(self, item: Item) -> Call:
        if not item.old:
            content = "unknown" if item.is_impossible else f"{item.content[::-1]}?" if self.is_wrong(item) else item.content
            return next(self.offer("write_file", path=item.path, content=content))
        attempt = self.count_failures(item)
        old, new = self.choose_text(item, attempt - 1) if attempt else item.old, self.choose_text(item, attempt)
        if "edit_file" in self.context.tools:
            return next(self.offer("edit_file", path=item.path, old=old, new=new))
        reading = next(self.offer("read_file", path=item.path), Call("read_file", {"path": item.path}))
        current = extract_content(self.context.results.get(reading.signature, [""])[0])
        for other in ITEMS_BY_FILE[item.path]:
            if other is not item and self.is_finished(other):
                current = current.replace(other.old, self.choose_text(other, self.count_failures(other)))
        return next(self.offer("write_file", path=item.path, content=current.replace(item.old, new)))

    def choose_text(self, item: Item, attempt: int) -> str:
        return f"{item.new[::-1]}?" if self.is_wrong(item, attempt) else item.new

    def is_wrong(self, item: Item, attempt: int | None = None) -> bool:
        """Whether it does an item wrongly. It tries again, with a new draw, if a check has refused the result."""
        tries = self.count_failures(item) if attempt is None else attempt
        return self.memory.draw(self.rates.slips, f"slips {item.marks}", f"{self.conversation} {tries}")

    def count_failures(self, item: Item) -> int:
        """Count the refusals of this item's completion."""
        calls = (
            signature
            for signature in self.context.results
            if signature.startswith("complete_todo") and f"{item.path} is" in signature
        )
        return sum(is_error(result) for signature in calls for result in self.context.results[signature])

    def offer(self, tool: str, **arguments: str) -> Iterator[Call]:
        """Yield a call in the tool's own argument names, if the tool is offered. Writing is attempted in any case."""
        known = self.context.tools.get(tool)
        if known is None and tool != "write_file":
            return
        properties = (known or {}).get("properties", {})
        names = {name: next((spelling for spelling in ARGUMENT_NAMES[name] if spelling in properties), name) for name in arguments}
        yield Call(tool, {names[name]: value for name, value in arguments.items()})

    # What it believes

    def is_finished(self, item: Item) -> bool:
        return any(not is_error(result) for result in self.find_changes(item))

    def find_changes(self, item: Item) -> list[str]:
        """Return the results of this item's change. Writing the whole file counts if the new text is in it."""
        if not item.old or "edit_file" in self.context.tools:
            return self.context.results.get(self.change(item).signature, [])
        text = json.dumps(self.choose_text(item, self.count_failures(item)))[1:-1]
        calls = [call for call in self.context.results if call.startswith("write_file") and item.path in call and text in call]
        return [result for call in calls for result in self.context.results[call]]

    def has_given_up(self, item: Item) -> bool:
        return self.take_step(item) is None and not self.is_finished(item)

    def overlooks(self, item: Item) -> bool:
        return len(self.focus) > 1 and self.draw(self.rates.forgets, f"forgets {item.marks}")

    def invents(self, item: Item) -> bool:
        return self.memory.draw(self.rates.claims, f"invents {item.marks}", self.conversation)

    def repeat(self, item: Item) -> Call | None:
        change = self.change(item)
        is_once = len(self.context.results.get(change.signature, ())) == 1
        return change if is_once and self.memory.draw(self.rates.repeats, f"repeats {item.marks}", self.conversation) else None

    def called(self, tool: str) -> bool:
        return any(signature.startswith(f"{tool} ") for signature in self.context.results)

    def draw(self, rate: float, what: str) -> bool:
        return self.memory.draw(rate, what, self.stretch)

    # The plan's books

    def keep_books(self) -> list[Call]:
        if "complete_todo" in self.context.tools:
            return list(self.complete_todos())
        tool = find_plan_tool(self.context.tools)
        return list(self.rewrite_plan(tool)) if tool and self.called(tool) else []

    def complete_todos(self) -> Iterator[Call]:
        for todo_id, words in self.open_todos.items():
            for item in find_items([words])[0]:
                if self.draw(self.rates.forgets, f"forgets to complete {item.marks}"):
                    continue
                if self.is_finished(item):
                    call = Call("complete_todo", {"todoId": todo_id, "outcome": f"{item.path} is written."})
                elif self.has_given_up(item):
                    call = Call(
                        "complete_todo",
                        {"todoId": todo_id, "outcome": "A file that it needs does not exist.", "status": "cancelled"},
                    )
                else:
                    continue
                results = self.context.results.get(call.signature, ())
                if not results or (is_error(results[-1]) and len(results) < MOST_TRIES):
                    yield call

    def rewrite_plan(self, tool: str) -> Iterator[Call]:
        """Send the whole list again with the new statuses, if they have changed."""
        planned = [item for item in self.named if not self.overlooks(item)]
        states = [
            (item.words, self.is_finished(item) and not self.draw(self.rates.forgets, f"forgets to complete {item.marks}"))
            for item in planned
        ]
        call = Call(tool, fill_plan(self.context.tools[tool], states))
        if any(done for _, done in states) and call.signature not in self.context.results:
            yield call

    # The answer

    def speak(self, calls: Sequence[Call]) -> tuple[str, list[Call]]:
        """Make the calls, or write them as text."""
        count = sum(len(results) for results in self.context.results.values())
        if self.draw(self.rates.texts, f"writes call {count} as text"):
            return "\n".join(
                f"<tool_call>\n{json.dumps({'name': call.tool, 'arguments': call.arguments})}\n</tool_call>" for call in calls
            ), []
        return "", list(calls)

    def submit(self, demand: Demand) -> tuple[str, list[Call]]:
        """Answer a request whose answer must have a form: a plan of the items that it names, for example."""
        planned = [(item.words, False) for item in self.named if not self.overlooks(item)]
        value = fill_plan(demand.schema, planned)
        return self.speak([Call(demand.tool, value)]) if demand.tool else (json.dumps(value), [])

    def finish(self) -> tuple[str, list[Call]]:
        left = [item for item in self.focus if not self.is_finished(item) and not self.overlooks(item)]
        has_more = any(not self.has_given_up(item) for item in left)
        is_claim = self.draw(self.rates.claims, "claims") if has_more else not left
        finished = ", ".join(item.path for item in self.focus if self.is_finished(item))
        words = f"Done: {finished or 'everything you asked for'}." if is_claim else f"Done: {finished}. Not done: {name(left)}."
        if "report_outcome" in self.context.tools:
            return self.speak([Call("report_outcome", fill_outcome(words, is_success=is_claim))])
        return words, []


def name(items: Iterable[Item]) -> str:
    return ", ".join(item.path for item in items)


def is_error(result: str) -> bool:
    return (
        re.match(r"\W*error\b|.{0,40}\b(?:not found|no file|does not exist|rejected|refused)\b", result, re.IGNORECASE | re.DOTALL)
        is not None
    )


def extract_content(result: str) -> str:
    """Return the text of a file from the result of reading it, which may be JSON."""
    try:
        document = json.loads(result)
    except ValueError:
        return result
    return str(document["content"]) if isinstance(document, dict) and "content" in document else result


def find_items(prompts: Sequence[str]) -> tuple[list[Item], list[Item]]:
    """Return all items that the messages name, and those to work on: in the newest message that names any, if it can be told from
    the background that the message repeats."""
    named = list(dict.fromkeys(item for prompt in prompts for item in name_items(prompt)))
    for prompt in reversed(prompts):
        for text in (BLOCK.sub("", prompt), BACKGROUND.sub("", prompt), prompt):
            if items := list(dict.fromkeys(name_items(text))):
                return named, items
    return named, []


def name_items(text: str) -> Iterator[Item]:
    """Yield the items that a text names, in its order. A line that marks an item as ended names none."""
    open_text = "\n".join(line for line in text.splitlines() if not ENDED_LINE.search(line))
    for file_name in FILE_NAME.findall(open_text):
        for item in ITEMS_BY_FILE.get(file_name, ()):
            if all(mark in open_text for mark in item.marks):
                yield item


def read_context(body: dict[str, Any]) -> Context:
    tools = {
        tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in body.get("tools") or () if "function" in tool
    }
    prompts: list[str] = []
    result_texts: list[str] = []
    results: dict[str, list[str]] = {}
    signatures: dict[str, str] = {}
    answers = 0
    for message in body["messages"]:
        content = flatten(message.get("content"))
        if message["role"] == "tool":
            result_texts.append(content)
            if message.get("tool_call_id") in signatures:
                results.setdefault(signatures[message["tool_call_id"]], []).append(content)
        elif message["role"] == "assistant":
            calls = message.get("tool_calls") or ()
            answers += not calls
            signatures |= {call["id"]: sign(call["function"]) for call in calls}
        elif message["role"] == "user":
            prompts.append(content)
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    return Context(tools, prompts, results, result_texts, answers, schema)


def sign(function: dict[str, Any]) -> str:
    try:
        return Call(function["name"], json.loads(function["arguments"] or "{}")).signature
    except ValueError:
        return f"{function['name']} {function['arguments']}"


def flatten(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content or ""
