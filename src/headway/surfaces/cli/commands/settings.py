"""`headway settings`: what is in force, and where it comes from."""

import click

from headway.settings.listing import list_settings
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.cli.tables import print_table


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--changed", is_flag=True, help="Only settings that differ from their defaults.")
@pass_invocation
def settings(invocation: Invocation, *, changed: bool) -> None:
    """Show the settings in force here, with the source of each: a flag, the environment, .env, models.toml or the default.

    Secrets are shown only as `set`, and URLs without passwords. A running server has the settings with which it was started.
    """
    rows = [row for row in list_settings(invocation.settings()) if not changed or row["source"] != "default"]
    cells = [(row["name"], row["source"], row["value"] or "not set") for row in rows]
    invocation.answer({"settings": rows}, lambda: print_table(("setting", "source", "value"), cells, "all settings are defaults"))
