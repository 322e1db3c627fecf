"""`headway doctor`: looks at everything Headway stands on, and says what to mend."""

from typing import Any, NamedTuple

import click

from headway.ledger.errors import HeadwayError
from headway.ledger.job import LEASE_MS
from headway.ledger.run import REHEARSAL
from headway.ledger.text import one_line
from headway.settings import Settings, shown
from headway.storage import halt_store, job_store
from headway.storage.direct import DirectDatabase
from headway.storage.halt_store import Halt
from headway.storage.health import check_database
from headway.surfaces.cli.calling import INSTALLATION_WIDE, Call, Command, pass_call
from headway.surfaces.cli.drawing import clock_time


class Finding(NamedTuple):
    name: str
    detail: str
    ok: bool = True
    warning: bool = False  # nothing is broken, and yet it is not as it usually is


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@pass_call
def doctor(call: Call) -> None:
    """Check the database, the engine, the models and the operator's channels; say what to fix."""
    settings = call.settings()
    findings = [
        Finding("home", settings.home),
        *database_findings(settings),
        *model_findings(settings),
        *channel_findings(settings),
    ]
    healthy = all(one.ok for one in findings)
    document = {"ok": healthy, "checks": [one._asdict() for one in findings]}
    call.answer(document, lambda: click.echo("\n".join(line(one) for one in findings)))
    if not healthy:
        raise click.exceptions.Exit(1)


def line(one: Finding) -> str:
    return f"{'✕' if not one.ok else '!' if one.warning else '✔'} {one.name:<9} {one_line(one.detail)}"


def database_findings(settings: Settings) -> list[Finding]:
    try:
        with DirectDatabase(settings.database_url) as database:
            detail = database.read(check_database)
            halt = database.read(halt_store.in_force)
            workers = database.read(lambda tx: job_store.workers_alive(tx, LEASE_MS))
    except HeadwayError as error:
        return [Finding("database", str(error), ok=False)]
    at_work = f"{workers} at work" if workers else "nobody is at work: start `headway serve` or `headway worker`"
    checked = [Finding("database", f"{shown(settings.database_url)} ({detail})"), Finding("engine", at_work)]
    return [*checked, halt_finding(halt)] if halt else checked


def halt_finding(halt: Halt) -> Finding:
    """Somebody wants it so; whoever wonders why nothing moves should read it here."""
    reason = f": {halt.why}" if halt.why else ""
    detail = f"everything is halted since {clock_time(halt.since)}{reason}. `headway unhalt` lets it go on."
    return Finding("halt", detail, warning=True)


def channel_findings(settings: Settings) -> list[Finding]:
    """Whether each address can be understood. Nothing is sent, and no address is shown: it may hold a key."""
    if not settings.notify:
        return [Finding("operator", "no channels: notices are in the inbox and in the log; set HEADWAY_NOTIFY to send them")]
    import apprise  # noqa: PLC0415  takes a while to load

    return [
        Finding("operator", f"channel {place}: {kind_of(channel)}", ok=channel is not None)
        for place, channel in enumerate((apprise.Apprise.instantiate(url) for url in settings.notify), 1)
    ]


def kind_of(channel: Any) -> str:
    return str(channel.service_name) if channel else "HEADWAY_NOTIFY has an address here that no service understands"


def model_findings(settings: Settings) -> list[Finding]:
    """One for each model that is used. Whether it can be made is tried; nobody is called, for calls cost money."""
    tiers = {"model": settings.model, "mid": settings.model_mid, "cheap": settings.model_cheap}
    chosen = {name: [tier for tier in tiers if tiers[tier] == name] for name in dict.fromkeys(tiers.values())}
    return [model_finding(name, tiers[0]) for name, tiers in chosen.items()]


def model_finding(name: str, tier: str) -> Finding:
    if name == REHEARSAL:
        detail = "rehearsal: the built-in stand-in that follows rules. It is not an LLM; set HEADWAY_MODEL to use one."
        return Finding(tier, detail)
    from headway.agents.models import make  # noqa: PLC0415  takes a second to load

    try:
        make(name)
    except HeadwayError as error:
        return Finding(tier, str(error).removesuffix(" `headway doctor` checks it."), ok=False)
    return Finding(tier, name)
