"""The work that goes on during a fault: turns, sub-agents and goals. Its effects are counted in a file, not in the database."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.model_server import Reply, Request, calls, slow, text

NOTE_TOOL = '''
import os
import time
from pathlib import Path
from headway.agents.tools.custom import tool
from headway.agents.tools.execution import Execution

NOTES = Path(__file__).parent.parent / "notes.txt"
HOLD = NOTES.parent / "hold"

@tool
def note(name: str, execution: Execution) -> str:
    """Notes a name. A second call notes it a second time."""
    file = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{name} {execution.effect_key}\\n".encode())
    os.close(file)
    while HOLD.exists():
        time.sleep(0.05)
    return "noted"
'''
MAIN_ROLE, WORKER_ROLE = 'tools = ["own", "delegate"]\n', 'tools = ["own"]\n'
TURNS = ("a1", "a2", "a3", "a4")
DELEGATED = ("b1", "b2")  # turns that leave their work to a sub-agent
GOALS = ("c1", "c2")
EXTRA = "extra.0"  # the first effect of a turn that is started during a fault
HOLD = "hold"  # the file in the home folder that keeps calls of the tool from returning
STEPS = 8  # effects of a turn and of a sub-agent
GOAL_STEPS = 3  # effects of each of a goal's four sub-goals
ANSWER_S = 0.4  # how long the model takes
ERRAND = re.compile(r"^Note (\w+)\.$", re.MULTILINE)
DELEGATION = re.compile(r"^Delegate (\w+)\.$", re.MULTILINE)
ERRANDS_OF = re.compile(r"Run the errands of (\w+)\.")


class Errand(NamedTuple):
    name: str
    mode: str
    needs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        described = {
            "id": self.name,
            "description": f"Note {self.name}.",
            "expected_outcome": "It is in the notes.",
            "kind": "note",
        }
        return {**described, "depends_on": list(self.needs), "mode": self.mode}


def plan(goal: str) -> list[Errand]:
    first, second, third, fourth = (f"{goal}_{letter}" for letter in "wxyz")
    return [
        Errand(first, "agent"),
        Errand(second, "inline"),
        Errand(third, "agent", (first,)),
        Errand(fourth, "inline", (second, third)),
    ]


def list_expected() -> set[str]:
    """The name of every effect."""

    def number(names: Iterator[str], steps: int) -> set[str]:
        return {f"{name}.{step}" for name in names for step in range(steps)}

    errands = (errand.name for goal in GOALS for errand in plan(goal))
    return number(iter((*TURNS, *DELEGATED)), STEPS) | number(errands, GOAL_STEPS)


# The model


def reply(request: Request, answer_s: float = ANSWER_S) -> Reply:
    return slow(answer_s, choose_reply(request))


def choose_reply(request: Request) -> Reply:
    match request.tools:
        case ["submit_plan"]:
            (goal,) = set(ERRANDS_OF.findall(request.last))
            return calls(("submit_plan", {"sub_goals": [errand.as_json() for errand in plan(goal)]}))
        case ["submit_evaluation"]:
            return calls(("submit_evaluation", {"divergence": "none", "reason": "As expected."}))
        case ["submit_verdict"]:
            return calls(("submit_verdict", {"met": True}))
        case ["submit_resumption"]:
            return calls(("submit_resumption", {"sub_goals": []}))
    if delegated := {name for message in request.texts for name in DELEGATION.findall(message)}:
        (name,) = delegated
        task = {"agent": "researcher", "task": f"Note {name}."}
        return text(f"Delegated {name}.") if request.tool_results else calls(("delegate", task))
    (name,) = {name for message in request.texts for name in ERRAND.findall(message)}
    step = len(request.tool_results)
    steps = GOAL_STEPS if "_" in name else STEPS
    return text(f"Noted {name}.") if step >= steps else calls(("note", {"name": f"{name}.{step}"}))


# The home folder and the rows


def make_home(home: Path) -> None:
    for name, content in (("tools/own.py", NOTE_TOOL), ("agents/index.toml", MAIN_ROLE), ("agents/researcher.toml", WORKER_ROLE)):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)


def start_turn(tx: Transaction, tenant_id: int, content: str) -> None:
    conversation = conversations.add_conversation(tx, tenant_id)
    turns.start_turn(tx, tenant_id, conversation.id, turns.TurnRequest(content, limit=3 * STEPS))


def enqueue(url: str) -> None:
    """Store all the work in one tenant."""
    with DirectDatabase(url) as database:
        desk = TenantHarness(database)
        for name in TURNS:
            desk.write(partial(start_turn, content=f"Note {name}."))
        for name in DELEGATED:
            desk.write(partial(start_turn, content=f"Delegate {name}."))
        for name in GOALS:
            desk.write(goals.add_goal, NewGoal(f"Run the errands of {name}.", "Everything is noted."))


def enqueue_extra(url: str) -> None:
    """Store one more turn, whose effects are not expected but must not be doubled either."""
    with DirectDatabase(url) as database:
        TenantHarness(database, "extra").write(partial(start_turn, content=f"Note {EXTRA.partition('.')[0]}."))


class Note(NamedTuple):
    name: str
    effect_key: str


def read_notes(home: Path) -> list[Note]:
    path = home / "notes.txt"
    return [Note(*line.split()) for line in path.read_text().splitlines()] if path.exists() else []


def count_notes(home: Path) -> Counter[str]:
    return Counter(note.name for note in read_notes(home))


def count_same_keys(home: Path) -> int:
    """The number of effects that were repeated with the same key."""
    return sum(times > 1 for times in Counter(read_notes(home)).values())


def parse_name(arguments: str) -> str:
    return str(json.loads(arguments).get("name", ""))
