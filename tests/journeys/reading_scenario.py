"""A turn that reads more than its model's context holds: the model and the home folder. The model's reply depends on the request
alone, so a request repeated after a crash gets the same reply."""

import re
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.turn_home import PRICES
from tests.journeys.turn_model import CHEAP
from tests.model_server import Reply, Request, call, calls, text

REQUEST = "Read all chapters, then tell me how the first one ends."
CHAPTERS = 14
ENDING = "The butler did it."
FINAL = f"It ends like this: {ENDING}"
# Only the tools the scenario needs, and more steps than a turn without a plan has.
ROLE = 'tools = ["read_file"]\nsteps = 30\n'
MODELS = "[strong]\ncontext_tokens = 3500\nmax_output_tokens = 400\n"
CHAPTER = re.compile(r"chapter (\d+)\.txt")
FIRST_HANDLE = re.compile(r"chapter 1\.txt.*?: ([0-9a-f]{8}\.\d+\.\d+)")


def reply(request: Request) -> Reply:
    if request.model == CHEAP:
        return text(f"Files: {', '.join(f'chapter {n}.txt' for n in list_read(request.last))}", usage=(500, 50))
    said = "\n".join([*request.texts[1:], *(made.arguments for made in request.calls)])
    return replace(decide(said), usage=(600 + len(said) // 4, 20))  # about what the request takes


def decide(said: str) -> Reply:
    """Read the next chapter; after the last one, look up the first one, which has left the context."""
    number = len(list_read(said)) + 1
    if number <= CHAPTERS:
        return calls(call("read_file", {"path": f"chapter {number}.txt"}, id=f"read-{number}"))
    if ENDING in said:
        return text(FINAL)
    (handle, *_) = FIRST_HANDLE.findall(said)
    return calls(call("read_result", {"handle": handle}, id="look-up"))


def list_read(said: str) -> list[int]:
    return sorted({int(number) for number in CHAPTER.findall(said)})


def write_chapters(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    for number in range(1, CHAPTERS + 1):
        ending = ENDING if number == 1 else "To be continued."
        (workspace / f"chapter {number}.txt").write_text(f"Chapter {number}. {'It was a dark and stormy night. ' * 38}{ending}")


def build_scenario(home: Path, database_url: str) -> ProcessPlan:
    """A fresh home folder, and a tenant with a conversation."""
    for name, content in (("agents/index.toml", ROLE), ("models.toml", MODELS), ("prices.toml", PRICES)):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        plan = ProcessPlan(str(home), database_url, desk.tenant.id, desk.conversation().id, request=REQUEST)
    write_chapters(plan.workspace)
    return plan
