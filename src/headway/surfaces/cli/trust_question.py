"""The question whether to trust a folder."""

import sys

import click

from headway import trust
from headway.ledger.errors import UntrustedFolder
from headway.ledger.text import to_one_line

LINES_LIMIT = 20


def ask_to_trust() -> None:
    """Ask whether to trust the current folder, on a terminal. Raises UntrustedFolder elsewhere, and if the answer is no."""
    inspection = trust.inspect(".")
    if not is_person_present():
        raise UntrustedFolder(inspection.explain_refusal())
    confirm_trust(inspection)
    trust.record_trust(inspection)


def is_person_present() -> bool:
    """Return whether a question can be shown and answered."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def confirm_trust(inspection: trust.Inspection) -> None:
    """Show what is in the folder and ask. The question goes to standard error, apart from the output."""
    changes = inspection.list_changes()
    folder = to_one_line(inspection.folder)
    heading = f"{folder} has changed since you trusted it:" if changes else f"{folder} contains:"
    entries = changes or inspection.list_contents()
    hidden = len(entries) - LINES_LIMIT
    lines = [heading, *(f"  {entry}" for entry in entries[:LINES_LIMIT]), *([f"  … and {hidden:,} more"] if hidden > 0 else [])]
    click.echo("\n".join(lines), err=True)
    click.echo("Files like these can run programs, spend money and send your keys elsewhere.", err=True)
    try:
        agreed = click.confirm("Trust this folder?", err=True)
    except click.Abort:
        click.echo(err=True)  # the cursor is still on the line of the question
        raise
    if not agreed:
        raise UntrustedFolder(f"Nothing in {inspection.folder} was used.")
