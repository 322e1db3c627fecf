"""`headway mcp`."""

import asyncio

import click

from headway.surfaces.cli.calling import Call, Command, pass_call
from headway.surfaces.log_lines import log_in_words


@click.command(cls=Command)
@click.option("--turn", metavar="UUID", help="The turn whose plan the session works on (default: one of its own).")
@click.option("--agent", default="mcp", show_default=True, metavar="NAME", help="Who writes.")
@pass_call
def mcp(call: Call, turn: str | None, agent: str) -> None:
    """Run an MCP server on standard input and output, for an assistant on this machine."""
    from headway.agents.execution import find_place  # noqa: PLC0415
    from headway.surfaces.mcp.stdio_door import run  # noqa: PLC0415  the protocol's library, for this command alone

    with call.desk() as desk:
        scope = desk.scope._replace(turn_id=turn, agent_id=agent)
        desk.database.read(lambda tx: find_place(tx, scope))
    settings = call.settings()
    log_in_words(settings)
    asyncio.run(run(settings, scope))
