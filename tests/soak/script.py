"""The model: a request says which steps its agent takes, and the reply depends on the request alone."""

import re
from typing import Any

from tests.model_server import Document, Reply, Request, calls, get_text, text

STEPS = re.compile(r"^Steps of (\w+): ([\w:, ]+)\.$", re.MULTILINE)
GOAL = re.compile(r"Goal (\w+) with (\d+) parts\.")
OPEN_ITEM = re.compile(r'\{"id": "?(\d+)"?, "title": ')
TICK = "Tick."
CHOICES = ["red", "blue"]
READINGS = 3
NUMBER = {"kind": "outcome", "schema": {"type": "integer"}}


def build_request(name: str, steps: list[str]) -> str:
    return f"Steps of {name}: {', '.join(steps)}."


def reply(request: Request) -> Reply:
    if request.tools and request.tools[0].startswith("submit_"):
        return fill_form(request)
    place, name, steps = find_task(request)
    if not name:
        return text("Tock.")
    done = sum(message["role"] == "assistant" for message in request.messages[place:])
    if done >= len(steps):
        return text(f"Finished {name}.")
    return take_step(request, *steps[done].split(":"))


def find_task(request: Request) -> tuple[int, str, list[str]]:
    """The newest task in the conversation: its place, its name and its steps."""
    for place in range(len(request.messages) - 1, -1, -1):
        message = request.messages[place]
        said = get_text(message) if message["role"] == "user" else ""
        if found := STEPS.findall(said):
            name, steps = found[-1]
            return place, name, list(expand(steps.split(", ")))
        if TICK in said:
            break
    return 0, "", []


def expand(steps: list[str]) -> Any:
    for step in steps:
        yield step
        if step.startswith("plan:"):
            yield step.replace("plan:", "finish:")
        if step.startswith("read:"):  # long results, which become stubs when there are many
            yield from [step] * (READINGS - 1)
        if step.startswith("prove:"):  # the first outcome fails the check of the item
            yield step.replace("prove:", "finish:")
            yield step.replace("prove:", "pass:")


def take_step(request: Request, kind: str, name: str) -> Reply:
    made: tuple[str, Document]
    match kind:
        case "note" | "sign" | "read":
            made = kind, {"name": name}
        case "ask":
            made = "ask_person", {"question": f"Which one for {name}?", "choices": CHOICES}
        case "plan":
            made = "create_todo", {"items": [{"title": f"item {name}"}]}
        case "prove":
            made = "create_todo", {"items": [{"title": f"item {name}", "checks": [NUMBER]}]}
        case "finish" | "pass":
            made = finish_item(request, {"finish": "done", "pass": "7"}[kind])
        case "delegate":
            made = "delegate", {"agent": "researcher", "task": build_request(name, [f"note:{name}"])}
        case "mcp" | "die":
            made = f"frail__{kind}", {"name": name}
        case _:
            raise ValueError(kind)
    return calls(made)


def finish_item(request: Request, outcome: str) -> tuple[str, Document]:
    for said in reversed(request.texts):
        if found := OPEN_ITEM.findall(said):
            return "complete_todo", {"todoId": found[-1], "outcome": outcome}
    return "list_todo", {}


def fill_form(request: Request) -> Reply:
    (form,) = request.tools
    answers: dict[str, Document] = {
        "submit_evaluation": {"divergence": "none", "reason": "As expected."},
        "submit_verdict": {"met": True},
        "submit_resumption": {"sub_goals": []},
    }
    if form == "submit_plan":
        ((name, parts),) = set(GOAL.findall(request.last))
        return calls((form, {"sub_goals": plan_parts(name, int(parts))}))
    return calls((form, answers[form]))


def plan_parts(name: str, parts: int) -> list[Document]:
    """A chain of parts, every second one for a sub-agent."""
    names = [f"{name}p{number}" for number in range(parts)]
    return [
        {
            "id": part,
            "description": build_request(part, [f"note:{part}"]),
            "expected_outcome": f"{part} is noted.",
            "depends_on": names[max(0, number - 1) : number],
            "mode": ("agent", "inline")[number % 2],
            "kind": "note",
        }
        for number, part in enumerate(names)
    ]
