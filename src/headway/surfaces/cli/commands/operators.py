"""`headway halt`, `unhalt` and `audit`, and other commands of operators."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import click

from headway.actions.access import audit as audit_access
from headway.actions.access import local_tenant
from headway.actions.installation import halts, tenants
from headway.cells.rules import Cell
from headway.ledger.errors import HeadwayError, NotFound
from headway.ledger.job import Halt
from headway.ledger.tenancy import LOCAL_TENANT, AuditFilter, Tenant
from headway.ledger.text import escape_line, to_one_line
from headway.storage.direct import DirectDatabase
from headway.surfaces.cli.arguments import SECONDS
from headway.surfaces.cli.context import INSTALLATION_WIDE, TENANT_WIDE, Command, Invocation, act_as_sender, pass_invocation
from headway.surfaces.cli.every_cell import CellAnswer, answer_for_cells, ask_every_cell, report_failures
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_row, print_table

Entry = dict[str, Any]
INTERVAL_S: Final = 1.0
OVERLAP: Final = 200  # numbers that are read again: on Postgres, a lower one can be committed later
PAGE_SIZE: Final = 1_000

OpenCell = Callable[[Cell], DirectDatabase]
CellNews = tuple[str, Entry | HeadwayError]  # an entry of a cell, or the reason why its entries cannot be read


class AuditLog(NamedTuple):
    """The entries that the flags of a command chose."""

    tenant: Tenant | None
    chosen: AuditFilter

    def read_page(self, database: DirectDatabase, limit: int) -> dict[str, Any]:
        """Return the newest entries."""
        return database.read(
            lambda tx: audit_access.list_newest_audit_entries(tx, self.tenant.id if self.tenant else None, self.chosen, limit)
        )

    def read_after(self, database: DirectDatabase, seq: int) -> list[Entry]:
        tenant_id = self.tenant.id if self.tenant else None
        return database.read(lambda tx: audit_access.list_after(tx, tenant_id, self.chosen, seq, PAGE_SIZE))

    def follow(self, database: DirectDatabase, known: set[int]) -> Iterator[Entry]:
        """Yield each entry whose number is not known, and then each one that is written. `known` has the newest numbers, at least
        OVERLAP, and is kept up to date. Raises WrongCell if the tenant moves to another cell."""
        while True:
            last = max(known, default=0)
            entries = self.read_after(database, last - OVERLAP)
            for entry in entries:
                if entry["seq"] not in known:
                    known.add(entry["seq"])
                    yield entry
            known.difference_update([seq for seq in known if seq <= last - OVERLAP])
            if self.tenant:
                database.read(partial(tenants.get_by_name, name=self.tenant.name))
            if len(entries) < PAGE_SIZE:
                time.sleep(INTERVAL_S)


def follow_cells(log: AuditLog, cells: Sequence[Cell], open_cell: OpenCell, known: dict[str, set[int]]) -> Iterator[CellNews]:
    """Yield the new entries of all cells as they are found, and once per outage why a cell cannot be read. `known` has the newest
    numbers of each cell that was read before."""
    from queue import SimpleQueue  # noqa: PLC0415  only needed with cells
    from threading import Thread  # noqa: PLC0415

    news: SimpleQueue[CellNews] = SimpleQueue()
    for cell in cells:
        target = (log, cell, open_cell, known.get(cell.name), news.put)
        Thread(target=follow_cell, args=target, daemon=True).start()
    while True:
        yield news.get()


def follow_cell(log: AuditLog, cell: Cell, open_cell: OpenCell, known: set[int] | None, report: Callable[[CellNews], None]) -> None:
    """Report the new entries of one cell, until the process ends. If none is known, entries from now on are new."""
    if known is None:
        since = max(log.chosen.since, int(time.time() * 1000))
        log, known = log._replace(chosen=log.chosen._replace(since=since)), set()
    is_down = False
    while True:
        try:
            with open_cell(cell) as database:
                is_down = False
                for entry in log.follow(database, known):
                    report((cell.name, entry))
        except HeadwayError as error:
            if not is_down:
                report((cell.name, error))
            is_down = True
            time.sleep(INTERVAL_S)


# `headway halt`, `headway unhalt` and `headway admin audit`: the kill switch of the whole installation, and who changed
# what.


HEADINGS: Final = ("entry", "time", "who", "tenant", "change", "values")
VALUE_LENGTH: Final = 120  # characters of a value in a line


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--why", default="", metavar="TEXT", help="The reason, shown while everything is halted.")
@pass_invocation
def halt(invocation: Invocation, why: str) -> None:
    """Stop all agents until `headway unhalt`. No model is called, no tool runs and nothing starts, in any cell."""

    def throw(_: Cell | None, database: DirectDatabase) -> tuple[Halt | None, Halt]:
        return database.write(act_as_sender(lambda tx: (halts.find_active(tx), halts.halt(tx, why))))

    answer_for_cells(
        invocation,
        ask_every_cell(invocation, throw),
        lambda found: {"halt": halts.as_json(found[1])},
        lambda found: [describe_halt(*found, why)],
    )


def describe_halt(before: Halt | None, active_halt: Halt, why: str) -> str:
    sentence = f"Already halted since {format_time(active_halt.since)}" if before else "Halted"
    note = " The earlier reason is kept." if before and why.strip() not in ("", active_halt.why) else ""
    reason = f": {to_one_line(active_halt.why)}" if active_halt.why else ""
    return f"{sentence}{reason}.{note} Resume with `headway unhalt`."


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@pass_invocation
def unhalt(invocation: Invocation) -> None:
    """End the halt. All agents resume where they stopped, in all cells."""

    def lift(_: Cell | None, database: DirectDatabase) -> str:
        return "The halt is lifted." if database.write(act_as_sender(halts.unhalt)) else "Nothing was halted."

    answers = ask_every_cell(invocation, lift)
    answer_for_cells(invocation, answers, lambda _: {"halt": halts.as_json(None)}, lambda sentence: [sentence])


@click.command(cls=Command, unused=TENANT_WIDE)
@click.option("--since", type=SECONDS, metavar="DURATION", help="Only entries of the last 30m, 2h or 7d.")
@click.option("--until", type=SECONDS, metavar="DURATION", help="Only entries from before the last 30m, 2h or 7d.")
@click.option("--action", default="", metavar="NAME", help="Only this action, such as token.revoke, or all of a kind: token.")
@click.option("--who", default="", metavar="TEXT", help="Only entries whose author contains this text.")
@click.option("--target", default="", metavar="NAME", help="Only what was changed, such as token:12, or all of a kind: token.")
@click.option("--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 10_000), help="Show at most this many.")
@click.option("--follow", "-f", is_flag=True, help="Print the entries oldest first, and then each new entry.")
@click.option("--json-lines", is_flag=True, help="Print each entry as one line of JSON, oldest first.")
@pass_invocation
def audit(
    invocation: Invocation,
    since: float | None,
    until: float | None,
    action: str,
    who: str,
    target: str,
    limit: int,
    *,
    follow: bool,
    json_lines: bool,
) -> None:
    """Show who changed access, limits or rules, with the old and the new value, newest first.

    Without --tenant, it shows the entries of all tenants, in all cells. With --tenant, it shows the entries of this tenant and of
    the installation.
    """
    if invocation.as_json and (follow or json_lines):
        raise click.UsageError("--json prints one document, which --follow and --json-lines do not; omit it")
    if until is not None and follow:
        raise click.UsageError("--until and --follow exclude each other")
    output = AuditOutput(limit, follow, json_lines)
    chosen = AuditFilter(action, subtract_from_now(since), who, target, subtract_from_now(until))
    if invocation.tenant is not None:
        show_tenant_log(invocation, chosen, output)
        return
    log = AuditLog(None, chosen)
    answers = ask_every_cell(invocation, lambda _, database: log.read_page(database, output.page_size))
    has_cells = bool(answers[0].cell)
    output.show(invocation, merge_pages(answers, limit) if has_cells else answers[0].value or {})
    if follow and len(answers) > 1:
        follow_every_cell(invocation, log, answers, output)
    elif follow:
        with invocation.database() as database:
            for entry in log.follow(database, collect_numbers((answers[0].value or {})["entries"])):
                output.print_all([{**entry, "cell": answers[0].cell} if has_cells else entry])
    report_failures(answers)


def subtract_from_now(seconds: float | None) -> int:
    """Return the time that many seconds ago, in epoch milliseconds. 0: no number was given."""
    return 0 if seconds is None else max(1, int((time.time() - seconds) * 1000))


class AuditOutput(NamedTuple):
    """The form in which entries are printed."""

    limit: int
    follow: bool
    json_lines: bool

    @property
    def page_size(self) -> int:
        return max(self.limit, OVERLAP) if self.follow else self.limit

    def show(self, invocation: Invocation, page: dict[str, Any]) -> None:
        """Print the newest entries: as a page, or oldest first."""
        if self.follow or self.json_lines:
            self.print_all(reversed(page["entries"][: self.limit]))
        else:
            invocation.answer(page, lambda: print_page(page))

    def print_all(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            print_json_line(entry) if self.json_lines else print_row(build_row(entry))


def show_tenant_log(invocation: Invocation, chosen: AuditFilter, output: AuditOutput) -> None:
    with open_existing_tenant(invocation) as (database, tenant):
        log = AuditLog(tenant, chosen)
        page = log.read_page(database, output.page_size)
        output.show(invocation, {**page, "cell": invocation.cell} if invocation.cell else page)
        if output.follow:
            output.print_all(log.follow(database, collect_numbers(page["entries"])))


@contextmanager
def open_existing_tenant(invocation: Invocation) -> Iterator[tuple[DirectDatabase, Tenant]]:
    """Open the database of the chosen tenant. The local tenant is not created."""
    name = invocation.tenant or LOCAL_TENANT
    if name != LOCAL_TENANT:
        with invocation.open_named_tenant(name) as found:
            yield found
        return
    with invocation.database() as database:
        tenant = database.read(local_tenant.find_local)
        if tenant is None:
            raise NotFound("The local tenant does not exist yet.")
        yield database, tenant


def merge_pages(answers: list[CellAnswer[dict[str, Any]]], limit: int) -> dict[str, Any]:
    """Merge the newest entries of all cells, newest first. The numbers of entries are per cell."""
    entries = [{**entry, "cell": answer.cell} for answer in answers if answer.value for entry in answer.value["entries"]]
    entries.sort(key=lambda entry: -entry["at"])  # stable: within a cell by number
    has_more = len(entries) > limit or any(answer.value and answer.value["next_cursor"] for answer in answers)
    return {"entries": entries[:limit], "has_more": has_more, "cells": [answer.build_document(lambda _: {}) for answer in answers]}


def follow_every_cell(
    invocation: Invocation, log: AuditLog, answers: list[CellAnswer[dict[str, Any]]], output: AuditOutput
) -> None:
    """Print the new entries of all cells. Say when a cell cannot be read, and continue when it can."""
    from headway.cells.directory import Directory  # noqa: PLC0415  only needed with cells

    known = {answer.cell: collect_numbers(answer.value["entries"]) for answer in answers if answer.value}
    with Directory(invocation.settings()) as directory:
        for cell, news in follow_cells(log, directory.cells, directory.open, known):
            if isinstance(news, HeadwayError):
                click.echo(f"✕ {cell}: {to_one_line(str(news))}", err=True)
            else:
                output.print_all([{**news, "cell": cell}])


def collect_numbers(entries: list[Entry]) -> set[int]:
    return {entry["seq"] for entry in entries}


def print_page(page: dict[str, Any]) -> None:
    has_cells = any("cell" in entry for entry in page["entries"])
    headings = (*(["cell"] if has_cells else []), *HEADINGS)
    more = bool(page.get("next_cursor") or page.get("has_more"))
    print_table(headings, map(build_row, page["entries"]), "no entries", more=more)


def print_json_line(entry: Entry) -> None:
    click.echo(escape_line(json.dumps(entry, ensure_ascii=False)))


def build_row(entry: Entry) -> Sequence[str]:
    """Return `12`, `2026-11-16 21:40:00`, `ci (token 3)`, `acme`, `limit.set costs`, `{"limit_usd": 5.0} → {"limit_usd": 50.0}`."""
    values = " → ".join(format_value(entry[name]) for name in ("old", "new"))
    subject = f"{entry['action']} {entry['target']}"
    fields = (str(entry["seq"]), format_time(entry["at"] * 1000), entry["who"], entry["tenant"] or "installation", subject, values)
    return (entry["cell"], *fields) if "cell" in entry else fields


def format_value(value: Any) -> str:
    encoded = "–" if value is None else json.dumps(value, ensure_ascii=False)
    return encoded if len(encoded) <= VALUE_LENGTH else f"{encoded[:VALUE_LENGTH]}…"
