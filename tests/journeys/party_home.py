"""The house in which the party is prepared: a home folder with the user's tools, prices and files, and a conversation."""

from pathlib import Path
from uuid import uuid4

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.lives import Life
from tests.journeys.party_model import CHEAP, STRONG

TOOLS = Path(__file__).parent / "party_tools.py"
# No more tools than the story needs: every request carries them all.
ROLE = 'tools = ["create_todo", "complete_todo", "read_file", "own"]\n'
PRICES = f"""
["openai-chat:{STRONG}"]
input = 3.0
output = 15.0

["openai-chat:{CHEAP}"]
input = 0.5
output = 1.0
"""


def furnish(home: Path) -> None:
    for folder, name, content in (("tools", TOOLS.name, TOOLS.read_text()), ("agents", "index.toml", ROLE)):
        (home / folder).mkdir(parents=True)
        (home / folder / name).write_text(content)
    (home / "prices.toml").write_text(PRICES)


def stock(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    (workspace / "guests.txt").write_text("Ada\n")
    (workspace / "orders.txt").write_text("")


def build(home: Path, database_url: str) -> Life:
    """A house nobody has lived in."""
    furnish(home)
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        life = Life(str(home), database_url, desk.tenant.id, desk.conversation().id)
    stock(life.workspace)
    return life
