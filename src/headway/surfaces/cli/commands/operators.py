"""`headway halt`, `headway unhalt` and `headway audit`: the kill switch of the whole installation, and who changed what."""

import json
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from headway.actions import halts
from headway.actions.access import audit as audit_actions
from headway.ledger.errors import NotFound
from headway.ledger.tenancy import AuditFilter
from headway.ledger.text import escape_line, to_one_line
from headway.storage.direct import DirectDatabase
from headway.surfaces.cli.arguments import SECONDS
from headway.surfaces.cli.context import INSTALLATION_WIDE, TENANT_WIDE, Command, Invocation, act_as_sender, pass_invocation
from headway.surfaces.cli.render import format_time, print_more_hint

Entry = dict[str, Any]
INTERVAL_S: Final = 1.0
OVERLAP: Final = 200  # numbers that --follow reads again: on Postgres, a lower one can be committed later
PAGE_SIZE: Final = 1_000
VALUE_LENGTH: Final = 120  # characters of a value in a line


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--why", default="", metavar="TEXT", help="The reason, shown while everything is halted.")
@pass_invocation
def halt(invocation: Invocation, why: str) -> None:
    """Stop all agents until `headway unhalt`. No model is called, no tool runs and nothing starts. With cells, in all of them."""

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
    """Lift the halt, so that everything resumes where it stopped. With cells, in all of them."""

    def lift(_: Cell | None, database: DirectDatabase) -> str:
        return "The halt is lifted." if database.write(act_as_sender(halts.unhalt)) else "Nothing was halted."

    answers = ask_every_cell(invocation, lift)
    answer_for_cells(invocation, answers, lambda _: {"halt": halts.as_json(None)}, lambda sentence: [sentence])


@click.command(cls=Command, unused=TENANT_WIDE)
@click.option("--since", type=SECONDS, metavar="DURATION", help="Only entries of the last 30m, 2h or 7d.")
@click.option("--action", default="", metavar="NAME", help="Only this action, such as token.revoke, or all of a kind: token.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="The newest N entries.")
@click.option("--follow", "-f", is_flag=True, help="Print them oldest first, and then each new one as it is written.")
@click.option("--json-lines", is_flag=True, help="Print each as one line of JSON, oldest first.")
@pass_invocation
def audit(invocation: Invocation, since: float | None, action: str, limit: int, *, follow: bool, json_lines: bool) -> None:
    """Show who changed access, limits or rules, with the old and the new value, newest first.

    Shows the entries of all tenants and of the installation; with --tenant, those of one tenant and of the installation.
    """
    if invocation.as_json and (follow or json_lines):
        raise click.UsageError("--json prints one document, which --follow and --json-lines do not; omit it")
    start = 0 if since is None else int((time.time() - since) * 1000)
    with invocation.database() as database:
        tenant = database.read(invocation.find_tenant) if invocation.tenant is not None else None
        if invocation.tenant is not None and tenant is None:
            raise NotFound("The local tenant does not exist yet.")
        log = AuditLog(database, tenant.id if tenant else None, AuditFilter(action, max(0, start)))
        page = log.read_newest(max(limit, OVERLAP) if follow else limit)
        if follow or json_lines:
            print_entry = print_json_line if json_lines else print_line
            for entry in reversed(page["entries"][:limit]):
                print_entry(entry)
            for entry in log.follow(page["entries"]) if follow else ():
                print_entry(entry)
        else:
            invocation.answer(page, lambda: print_page(page))


class AuditLog(NamedTuple):
    """The entries that the flags chose."""

    database: DirectDatabase
    tenant_id: int | None
    chosen: AuditFilter

    def read_newest(self, limit: int) -> dict[str, Any]:
        return self.database.read(lambda tx: audit_actions.list_page(tx, self.tenant_id, self.chosen, limit))

    def read_after(self, seq: int) -> list[Entry]:
        return self.database.read(lambda tx: audit_actions.list_after(tx, self.tenant_id, self.chosen, seq, PAGE_SIZE))

    def follow(self, newest: list[Entry]) -> Iterator[Entry]:
        """Yield each entry that is written from now on. `newest` are those that are known, at least OVERLAP."""
        known = {entry["seq"] for entry in newest}
        while True:
            last = max(known, default=0)
            entries = self.read_after(last - OVERLAP)
            yield from (entry for entry in entries if entry["seq"] not in known)
            known = {seq for seq in known if seq > last - OVERLAP} | {entry["seq"] for entry in entries}
            if len(entries) < PAGE_SIZE:
                time.sleep(INTERVAL_S)


def print_page(page: dict[str, Any]) -> None:
    for entry in page["entries"]:
        print_line(entry)
    if not page["entries"]:
        click.echo("no entries")
    if page["next_cursor"]:
        print_more_hint(len(page["entries"]))


def print_json_line(entry: Entry) -> None:
    click.echo(escape_line(json.dumps(entry, ensure_ascii=False)))


def print_line(entry: Entry) -> None:
    """Print an entry: `12  2026-11-16 21:40:00  ci (token 3)  acme  limit.set costs  {"limit_usd": 5.0} → {"limit_usd": 50.0}`."""
    values = " → ".join(format_value(entry[name]) for name in ("old", "new"))
    subject = f"{entry['action']} {entry['target']}"
    fields = (str(entry["seq"]), format_time(entry["at"] * 1000), entry["who"], entry["tenant"] or "installation", subject, values)
    click.echo("  ".join(map(to_one_line, fields)))


def format_value(value: Any) -> str:
    encoded = "–" if value is None else json.dumps(value, ensure_ascii=False)
    return encoded if len(encoded) <= VALUE_LENGTH else f"{encoded[:VALUE_LENGTH]}…"
