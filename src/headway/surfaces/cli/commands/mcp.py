"""`headway mcp`: run an MCP server on standard input and output."""

import asyncio

import click

from headway.surfaces.cli.context import Command, Invocation, pass_invocation
from headway.surfaces.log_lines import configure_plain_logging


@click.command(cls=Command)
@click.option("--turn", metavar="UUID", help="The turn whose plan the session works on (default: a new turn).")
@click.option("--agent", default="mcp", show_default=True, metavar="NAME", help="Agent name to record.")
@pass_invocation
def mcp(call: Invocation, turn: str | None, agent: str) -> None:
    """Run an MCP server on standard input and output, for an assistant on this machine."""
    from headway.agents.tools.execution import resolve_scope  # noqa: PLC0415
    from headway.surfaces.mcp.stdio_transport import serve_stdio  # noqa: PLC0415  loads the MCP library

    with call.desk() as desk:
        scope = desk.scope._replace(turn_id=turn, agent_id=agent)
        desk.database.read(lambda tx: resolve_scope(tx, scope))
    settings = call.settings()
    configure_plain_logging(settings)
    asyncio.run(serve_stdio(settings, scope))
