"""The home folder of the turn scenario: the user's tools, prices and files, and a conversation."""

from pathlib import Path
from uuid import uuid4

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.turn_model import CHEAP, STRONG

TOOLS = Path(__file__).parent / "turn_tools.py"
# Only the tools the scenario needs: every request carries them all.
ROLE = 'tools = ["create_todo", "complete_todo", "read_file", "own"]\n'
PRICES = f"""
["openai-chat:{STRONG}"]
input = 3.0
output = 15.0

["openai-chat:{CHEAP}"]
input = 0.5
output = 1.0
"""


def make_home(home: Path) -> None:
    for folder, name, content in (("tools", TOOLS.name, TOOLS.read_text()), ("agents", "index.toml", ROLE)):
        (home / folder).mkdir(parents=True)
        (home / folder / name).write_text(content)
    (home / "prices.toml").write_text(PRICES)


def fill_workspace(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    (workspace / "guests.txt").write_text("Ada\n")
    (workspace / "orders.txt").write_text("")


def build_scenario(home: Path, database_url: str) -> ProcessPlan:
    """A fresh home folder, and a tenant with a conversation."""
    make_home(home)
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        plan = ProcessPlan(str(home), database_url, desk.tenant.id, desk.conversation().id)
    fill_workspace(plan.workspace)
    return plan
