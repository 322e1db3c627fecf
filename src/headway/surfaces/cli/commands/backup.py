"""`headway backup` and `headway restore`: the whole installation in one file."""

import os
import time
from functools import partial

import click

from headway import __version__, trust
from headway.ledger.text import to_one_line
from headway.process import backups
from headway.settings import Settings
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, pass_invocation, require_confirmation
from headway.surfaces.cli.render import format_file_count, format_time


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.argument("path", metavar="[FILE.tar.gz]", default="")
@pass_invocation
def backup(invocation: Invocation, path: str) -> None:
    """Write everything into one archive, while Headway is at work: the database, the files of the home and the workspace.

    Without FILE.tar.gz, its name is headway-backup- and the time. It contains secrets, so only you can read it. On Postgres this
    needs pg_dump.
    """
    path = path or time.strftime("headway-backup-%Y%m%d-%H%M%S.tar.gz")
    manifest = backups.write_backup(invocation.settings(), path, __version__)
    files = format_file_count(manifest["files"])
    done = f"backed up to {to_one_line(path)}: {manifest['database']}, schema {manifest['schema']}, {files}"
    invocation.answer({"path": path, "manifest": manifest}, partial(click.echo, done))


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.argument("path", metavar="FILE.tar.gz")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def restore(invocation: Invocation, path: str, *, yes: bool) -> None:
    """Replace everything with a backup. Stop all processes first.

    The replaced files stay in a folder of the home whose name begins with before-restore-. On Postgres, the database must be
    empty, and this needs pg_restore.
    """
    settings = invocation.settings()
    require_confirmation(f"Replace everything in {to_one_line(settings.home)} with {to_one_line(path)}?", yes=yes)
    restored = backups.restore_backup(settings, path)
    trust_restored(settings)

    def render() -> None:
        written_at = format_time(restored.manifest["written_at"] * 1000)
        click.echo(f"restored the backup of {written_at}: {restored.database}, {format_file_count(restored.manifest['files'])}")
        for path in restored.replaced:
            click.echo(f"The files from before are in {to_one_line(path)}.")
        click.echo("Turns and goals that ran then continue when a process starts. To look first, run `headway halt` now.")

    invocation.answer({"manifest": restored.manifest, "replaced": restored.replaced}, render)


def trust_restored(settings: Settings) -> None:
    """Who restores a backup agrees to use what is in it, as by naming a home. A .env that was not trusted stays so."""
    folder, name = os.path.split(os.path.abspath(settings.home))
    found = trust.inspect(folder)
    if name == trust.HOME and (trust.ENV_FILE not in found.files or found.is_env_trusted):
        trust.record_trust(found)
