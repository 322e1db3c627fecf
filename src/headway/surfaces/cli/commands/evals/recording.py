"""`headway eval record`: adds a finished turn to a suite."""

from pathlib import Path

import click

from headway.evals.recorder import append_case, build_case, choose_name, load_existing, load_turn
from headway.ledger.errors import Invalid
from headway.settings.redaction import build_redactor
from headway.surfaces.cli.context import Invocation


def record(invocation: Invocation, turn_id: str, suite_path: str, name: str | None) -> None:
    settings = invocation.settings()
    path = Path(suite_path)
    content, suite = load_existing(path)
    with invocation.open_ledger() as ledger:
        record = ledger.read(load_turn, turn_id, settings.limits)
        workspace = settings.get_workspace(ledger.scope.tenant_id)
    redact = build_redactor(settings)
    case = build_case(record, choose_name(redact(record.turn["request"]), suite, name), workspace, redact)
    try:
        append_case(path, content, case)
    except OSError as error:
        raise Invalid(f"{suite_path} cannot be written: {error.strerror}.") from None
    for note in case.notes:
        click.echo(note, err=True)
    invocation.answer({"case": {"name": case.name, "suite": str(path)}}, lambda: click.echo(f"{case.name}\t{path}"))
