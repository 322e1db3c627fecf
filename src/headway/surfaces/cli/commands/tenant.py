"""`headway admin tenant`: add, move, export and delete tenants."""

from functools import partial
from typing import Any

import click

from headway.actions.access import quotas
from headway.cells import redirects
from headway.extras import requiring_extra
from headway.ledger.errors import NotFound, StorageError
from headway.ledger.tenancy import Tenant, format_size
from headway.ledger.text import to_one_line
from headway.surfaces.cli.context import (
    INSTALLATION_WIDE,
    CommandGroup,
    Invocation,
    act_as_sender,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.render import format_file_count
from headway.surfaces.cli.tables import print_table


@click.group(
    cls=CommandGroup,
    unused=INSTALLATION_WIDE,
    examples=("headway admin tenant add acme", "headway token add --tenant acme"),
)
def tenant() -> None:
    """Manage tenants. A tenant is an isolated customer, with its own data, tokens and limits."""


@tenant.command("add")
@click.argument("name")
@click.option("--cell", metavar="CELL", help="The cell to create it in (default: the cell of this database).")
@pass_invocation
def add_tenant(invocation: Invocation, name: str, cell: str | None) -> None:
    """Create a tenant."""
    from headway.cells import registry  # noqa: PLC0415  other commands of the group do not need it

    row, cell_name = registry.add_tenant(invocation.settings(), name, cell, act_as_sender)
    document = encode_tenant(row, cell_name)
    invocation.answer({"tenant": document}, partial(click.echo, f"tenant {format_tenant(row, cell_name)}"))


@tenant.command("list")
@pass_invocation
def list_tenants(invocation: Invocation) -> None:
    """List all tenants, of all cells. Exits with 1 if a cell cannot be reached."""
    from headway.cells import registry  # noqa: PLC0415  other commands of the group do not need it

    rows, errors = registry.list_tenants(invocation.settings())
    cells = [(str(row.tenant.id) if row.tenant else "?", row.name, row.cell) for row in rows]
    document = {"tenants": [row.as_json() for row in rows], **({"errors": [str(error) for error in errors]} if errors else {})}
    invocation.answer(document, lambda: print_table(("id", "name", "cell"), cells, "no tenants yet"))
    if errors:
        for error in errors:
            report_progress(f"headway: {to_one_line(str(error))}")
        raise click.exceptions.Exit(1)


@tenant.command("show")
@click.argument("name")
@pass_invocation
def show_tenant(invocation: Invocation, name: str) -> None:
    """Show what a tenant uses, and its quotas."""
    with invocation.open_named_tenant(name) as (database, row):
        numbers = database.read(partial(quotas.describe_usage, tenant_id=row.id))
        cell = database.read(redirects.get_own_name)

    def render() -> None:
        click.echo(f"tenant {format_tenant(row, cell)}")
        for quota, limit in numbers["quotas"].items():
            used = numbers["usage"].get(quota)
            amounts = [format_amount(quota, used)] if used is not None else []
            click.echo(f"{quota}\t{' of '.join([*amounts, format_amount(quota, limit)])}")

    invocation.answer({"tenant": encode_tenant(row, cell), **numbers}, render)


def encode_tenant(tenant: Tenant, cell: str) -> dict[str, Any]:
    return tenant.as_json() | ({"cell": cell} if cell else {})


def format_tenant(tenant: Tenant, cell: str) -> str:
    return f"{to_one_line(tenant.name)} ({tenant.id})" + (f" in the cell {cell}" if cell else "")


def format_amount(quota: str, amount: int | None) -> str:
    if amount is None:
        return "no limit"
    return format_size(amount) if quota == "storage" else f"{amount:,}"


@tenant.command("export")
@click.argument("name")
@click.option("--out", "path", required=True, metavar="FILE.tar.gz", help="The file to write. It must not exist.")
@pass_invocation
def export_tenant(invocation: Invocation, name: str, path: str) -> None:
    """Write everything of a tenant into one archive: the rows of all tables as JSON lines, and its files.

    All rows come from one snapshot, and others can work meanwhile. Hashes of tokens are left out.
    """
    from headway.process import housekeeping  # noqa: PLC0415  loads modules that other commands of the group do not need

    with invocation.open_named_tenant(name) as (database, row):
        manifest = housekeeping.export_tenant(database, invocation.settings(), row, path, report_progress)
    rows = sum(manifest["tables"].values())
    done = f"exported tenant {to_one_line(name)} to {to_one_line(path)}: {rows:,} rows, {format_file_count(manifest['files'])}"
    invocation.answer({"path": path, "manifest": manifest}, partial(click.echo, done))


def report_progress(line: str) -> None:
    click.echo(line, err=True)


@tenant.command("move")
@click.argument("name")
@click.option("--to", "target", metavar="CELL", help="The cell to move it to.")
@click.option("--undo", is_flag=True, help="Let it stay where it is. This works until it has arrived in the other cell.")
@pass_invocation
def move_tenant(invocation: Invocation, name: str, target: str | None, *, undo: bool) -> None:
    """Move a tenant with everything it owns to another cell.

    Its changes are refused for a few seconds, and its agents continue in the other cell. Other tenants are not affected. If the
    command is interrupted, run it again to continue, or with --undo. Run it where both databases can be reached, and both homes,
    if the cells have different ones. Rules of policy.toml are not moved from one home to another: copy them first.
    """
    if (target is None) is not undo:
        raise click.UsageError("Name a cell with --to, or use --undo.")
    with requiring_extra("postgres", "Moving a tenant to another cell"):
        from headway.cells import moving  # noqa: PLC0415  loads modules that other commands of the group do not need

    if target is None:
        move = moving.undo_move_by_name(invocation.settings(), name, report_progress, act_as_sender)
        done = f"tenant {to_one_line(name)} stays in the cell {move.source}"
    else:
        move = moving.move_tenant_by_name(invocation.settings(), name, target, report_progress, act_as_sender)
        done = f"tenant {to_one_line(name)} is in the cell {move.target}"
    invocation.answer({"move": move.as_json()}, partial(click.echo, done))


@tenant.command("rm")
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def remove_tenant(invocation: Invocation, name: str, *, yes: bool) -> None:
    """Delete a tenant and everything it owns, for good: rows, files, worktrees, skills and policy rules.

    Its tokens and sessions stop working first, and its agents are stopped. If the command is interrupted, run it again. A SQLite
    file is rewritten at the end, so that no deleted bytes remain in it. Other processes cannot write meanwhile.
    """
    from headway.cells import registry  # noqa: PLC0415  loads modules that other commands of the group do not need

    try:
        delete_tenant(invocation, name, yes=yes)
    except NotFound:
        if not registry.forget_tenant(invocation.settings(), name):  # its creation was interrupted: only the name was reserved
            raise
    else:
        registry.forget_tenant(invocation.settings(), name)
    invocation.answer({"deleted": True}, partial(click.echo, f"deleted tenant {to_one_line(name)}"))


def delete_tenant(invocation: Invocation, name: str, *, yes: bool) -> None:
    from headway.cells.registry import check_removable  # noqa: PLC0415
    from headway.process import housekeeping  # noqa: PLC0415  loads modules that other commands of the group do not need

    with invocation.open_named_tenant(name) as (database, row):
        check_removable(invocation.settings())
        require_confirmation(f"Delete tenant {name!r} with all its conversations, todos, files and tokens for good?", yes=yes)
        housekeeping.remove_tenant(database, invocation.settings(), row, report_progress, act_as_sender)
        try:
            database.erase_deleted()
        except StorageError as error:
            report_progress(f"The tenant is deleted, but its bytes are still in the free space of the database file. {error}")
            report_progress('Remove them later with `python -m apsw FILE "VACUUM"`.')
