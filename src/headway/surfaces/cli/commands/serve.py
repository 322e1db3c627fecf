"""`headway serve` and `headway acp`: the server, and an agent in an editor."""

import asyncio
import json

import click

from headway import __version__
from headway.ledger.text import to_one_line
from headway.ledger.tiers import REHEARSAL_MODEL
from headway.settings import redact_database_url
from headway.surfaces.cli.context import INSTALLATION_WIDE, TENANT_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.log_lines import configure_plain_logging


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", metavar="PORT", help="Port to listen on (default: 8484; 0 picks a free one).")
@click.option(
    "--log-level",
    default="warning",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log level; info logs every request.",
)
@pass_invocation
def serve(invocation: Invocation, host: str | None, port: str | None, log_level: str) -> None:
    """Serve the API, live events and the web page, and run jobs. Stop with Ctrl-C."""
    from headway.surfaces.http.server import serve as run  # noqa: PLC0415  loads the web stack, which only this command needs

    loaded_settings = invocation.settings(host=host, port=port)
    database = redact_database_url(loaded_settings.database_url)
    model = (
        f"{REHEARSAL_MODEL} (a built-in stand-in, not an LLM)"
        if loaded_settings.model == REHEARSAL_MODEL
        else loaded_settings.model
    )

    def announce(address: str, login: str | None) -> None:
        if invocation.as_json:
            document = {
                "url": address,
                "login_url": login,
                "database": database,
                "home": loaded_settings.home,
                "model": loaded_settings.model,
            }
            click.echo(json.dumps(document))
            return
        click.echo(f"Headway {__version__}")
        if login:
            click.echo(f"  open      {login}  (works once)")
        click.echo(f"  API       {address}/v1")
        click.echo(f"  home      {to_one_line(loaded_settings.home)}")
        click.echo(f"  files     {to_one_line(loaded_settings.workspace)}  (of agents, one folder per tenant)")
        click.echo(f"  database  {database}")
        click.echo(f"  model     {model}")
        click.echo("  stop with Ctrl-C")

    run(loaded_settings, log_level, announce)


# `headway acp`: an agent for editors.


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
