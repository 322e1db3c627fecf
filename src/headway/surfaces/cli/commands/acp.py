"""`headway acp`: an agent for editors."""

import asyncio

import click

from headway.surfaces.cli.context import TENANT_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.log_lines import configure_plain_logging


@click.command(cls=Command, unused=TENANT_WIDE)
@pass_invocation
def acp(invocation: Invocation) -> None:
    """Run an agent for an editor that speaks the Agent Client Protocol, on standard input and output."""
    from headway.surfaces.acp.agent import serve_stdio  # noqa: PLC0415  loads the agent libraries, which `--help` does not need

    with invocation.open_ledger() as ledger:
        tenant_id = ledger.scope.tenant_id
    settings = invocation.settings()
    configure_plain_logging(settings)
    asyncio.run(serve_stdio(settings, tenant_id))
