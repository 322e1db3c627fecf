"""Tools of the story's user: copied into the folder of a Headway, and loaded from there."""

import json
import os
from pathlib import Path

from headway.agents.tools.custom import tool
from headway.agents.tools.execution import Execution
from tests.journeys.mortality import passing


@tool(idempotent=True)
def invite(guest: str, execution: Execution) -> str:
    """Put a guest on the list. Somebody who is on it already stays on it."""
    log(execution, "invite", guest)
    (Path(execution.workspace) / f"invited {guest}").touch()
    passing("invited")
    return f"{guest} is invited."


@tool
def order(what: str, execution: Execution) -> str:
    """Order something. Whatever is ordered is delivered and has to be paid: twice if ordered twice."""
    passing("about to order")
    log(execution, "order", what)
    with (Path(execution.workspace) / "orders.txt").open("a") as orders:
        orders.write(f"{what}\n")
    passing("ordered")
    return f"{what} is ordered."


def log(execution: Execution, tool: str, argument: str) -> None:
    with (Path(execution.workspace) / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps([f"{tool}-{argument}", os.getpid()]) + "\n")
