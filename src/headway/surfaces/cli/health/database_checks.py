"""What `headway doctor` says about a database: its version, the processes that work on it, and a halt."""

from headway.actions import halts, jobs
from headway.ledger.cells import Cell
from headway.ledger.errors import HeadwayError
from headway.ledger.job import Halt
from headway.settings import Settings, redact_database_url
from headway.storage.direct import DirectDatabase, is_sqlite
from headway.storage.health import check_database
from headway.storage.postgres.row_security import find_bypass
from headway.surfaces.cli.context import Invocation
from headway.surfaces.cli.every_cell import ask_every_cell
from headway.surfaces.cli.health.findings import Finding
from headway.surfaces.cli.render import format_time


def inspect_databases(invocation: Invocation, settings: Settings) -> list[Finding]:
    """Inspect the database of each cell, or without cells that of the settings. A cell that is down has its finding."""

    def inspect(cell: Cell | None, database: DirectDatabase) -> list[Finding]:
        if cell is None or not cell.url or (cell.is_self and not settings.directory_url):  # the database of the settings
            return inspect_opened(settings, database, redact_database_url(settings.database_url))
        cell_settings = settings._replace(database_url=cell.url, database_direct_url="")
        return inspect_opened(cell_settings, database, "reached")  # its URL is not shown

    try:
        answers = ask_every_cell(invocation, inspect)
    except HeadwayError as error:
        return [Finding("database", str(error), ok=False)]
    failed = [Finding("database", str(answer.error), ok=False, cell=answer.cell) for answer in answers if answer.error]
    return [*(finding._replace(cell=answer.cell) for answer in answers for finding in answer.value or ()), *failed]


def inspect_opened(settings: Settings, database: DirectDatabase, name: str) -> list[Finding]:
    """Inspect the database of these settings, which is shown under this name. Raises the error that makes it unusable."""
    detail = database.read(check_database)
    halt = database.read(halts.find_active)
    workers = database.read(jobs.count_live_workers)
    bypass = database.read(find_bypass)
    at_work = f"{workers} running" if workers else "no process is running: start `headway serve` or `headway worker`"
    checked = [Finding("database", f"{name} ({detail})"), Finding("engine", at_work)]
    if bypass:
        checked.append(Finding("database", f"{bypass}, so row-level security does not apply. Use an ordinary role.", warning=True))
    checked += inspect_session(settings)
    return [*checked, build_halt_finding(halt)] if halt else checked


def inspect_session(settings: Settings) -> list[Finding]:
    """Check whether processes can keep a session with the Postgres server, which a pooler may prevent."""
    url, direct_url = settings.database_url, settings.database_direct_url
    if is_sqlite(url):
        ignored = "HEADWAY_DATABASE_DIRECT_URL is ignored, because the database is SQLite"
        return [Finding("database", ignored, warning=True)] if direct_url else []
    from headway.storage.postgres.pooling import check_session  # noqa: PLC0415  SQLite users never load psycopg

    consequence = "Until then, events of other processes are found by polling, and a killed process is noticed after 5 seconds."
    try:
        problem = check_session(url, direct_url)
    except HeadwayError as error:
        return [Finding("database", f"{redact_database_url(direct_url or url)} (direct): {error}", ok=False)]
    if problem:
        return [Finding("database", f"{problem}. {consequence}", warning=True)]
    return [Finding("database", f"{redact_database_url(direct_url)} (direct)")] if direct_url else []


def build_halt_finding(halt: Halt) -> Finding:
    """Report an active halt as a warning: it is intended, but it explains why nothing runs."""
    reason = f": {halt.why}" if halt.why else ""
    detail = f"halted since {format_time(halt.since)}{reason}. Lift the halt with `headway unhalt`."
    return Finding("halt", detail, warning=True)
