"""The user's tools in the turn scenario: copied into the home folder, and loaded from there."""

import json
import os
from pathlib import Path

from headway.agents.tools.custom import tool
from headway.agents.tools.execution import Execution
from tests.journeys.kill_points import pass_point


@tool(idempotent=True)
def invite(guest: str, execution: Execution) -> str:
    """Put a guest on the list. Inviting a guest twice has no further effect."""
    log(execution, "invite", guest)
    (Path(execution.workspace) / f"invited {guest}").touch()
    pass_point("invited")
    return f"{guest} is invited."


@tool
def order(what: str, execution: Execution) -> str:
    """Order something. Every order is delivered and has to be paid for: twice if ordered twice."""
    pass_point("about to order")
    log(execution, "order", what)
    with (Path(execution.workspace) / "orders.txt").open("a") as orders:
        orders.write(f"{what}\n")
    pass_point("ordered")
    return f"{what} is ordered."


def log(execution: Execution, tool: str, argument: str) -> None:
    with (Path(execution.workspace) / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps([f"{tool}-{argument}", os.getpid()]) + "\n")
