"""`headway admin tenant`, `headway token` and `headway conversation`: manage access and conversations."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from headway.actions.access import cells, quotas, tokens
from headway.actions.inspection.forks import ForkRequest
from headway.actions.todos import conversations, finding
from headway.actions.turns import turns, views
from headway.extras import requiring_extra
from headway.ledger.errors import NotFound, StorageError
from headway.ledger.tenancy import LOGIN_LINK, Conversation, Tenant, Token, TokenScope, format_size
from headway.ledger.text import to_one_line
from headway.surfaces.cli.arguments import CONVERSATION_ID, MESSAGE_ID, SECONDS, TOKEN_ID, fork_options
from headway.surfaces.cli.context import (
    INSTALLATION_WIDE,
    SENDER,
    TENANT_WIDE,
    CommandGroup,
    Invocation,
    act_as_sender,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_row, print_table

TOKEN_HEADINGS = ("id", "label", "scope", "created", "expiry", "use")
CONVERSATION_HEADINGS = ("id", "key", "title")


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
        cell = database.read(cells.get_own_name)

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
    done = f"exported tenant {to_one_line(name)} to {to_one_line(path)}: {rows:,} rows, {manifest['files']:,} files"
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
    if the cells have different ones.
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


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    aliases={"new": "add", "revoke": "rm", "revoke-all": "rm --all"},
    examples=("headway token add --label laptop --expires 90d", "headway token rm 2"),
)
def token() -> None:
    """Create, replace and revoke bearer tokens for the HTTP API. A token is shown once and stored hashed."""


@token.command("add")
@click.option("--label", default="", help="What the token is for.")
@click.option("--admin", is_flag=True, help="Allow it to manage the tenant: its tokens, webhooks and cost limit.")
@click.option("--operator", is_flag=True, help="Allow it to manage the installation: only for the tenant `local`.")
@click.option("--read-only", is_flag=True, help="Allow it to read, and nothing else.")
@click.option("--expires", type=SECONDS, metavar="DURATION", help="When it stops working, such as 90d (default: never).")
@pass_invocation
def add_token(invocation: Invocation, label: str, expires: float | None, *, admin: bool, operator: bool, read_only: bool) -> None:
    """Create a token for --tenant and print it. It cannot be shown again."""
    if admin + operator + read_only > 1:
        raise click.UsageError("--admin, --operator and --read-only exclude each other.")
    scope: TokenScope = "operator" if operator else "admin" if admin else "read" if read_only else "write"
    with invocation.open_ledger() as ledger:
        created = ledger.write(tokens.create_token, label, expires, scope)
    invocation.answer({"token": created.secret, **created.token.as_json()}, partial(click.echo, created.secret))


@token.command("list")
@pass_invocation
def list_tokens(invocation: Invocation) -> None:
    """List the tokens and the active browser sessions of --tenant, without their secrets."""
    with invocation.open_ledger() as ledger:
        rows = ledger.read(tokens.list_all_tokens)
    invocation.answer(
        {"tokens": [row.as_json() for row in rows]},
        lambda: print_table(TOKEN_HEADINGS, map(build_token_row, rows), "no tokens yet"),
    )


@token.command("rotate")
@click.argument("token_id", metavar="ID", type=TOKEN_ID)
@click.option(
    "--overlap",
    type=SECONDS,
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long the old token keeps working; 0 revokes it at once.",
)
@pass_invocation
def rotate_token(invocation: Invocation, token_id: int, overlap: float) -> None:
    """Print a new token that replaces another one. It has the same label, scopes and lifetime."""
    with invocation.open_ledger() as ledger:
        created, replaced = ledger.write(tokens.rotate, token_id, overlap)

    def draw() -> None:
        click.echo(created.secret)
        end = "is revoked" if replaced.revoked_at else f"works until {format_time(replaced.expires_at)}"
        click.echo(f"token {created.token.id} replaces token {token_id}, which {end}", err=True)

    invocation.answer({"token": created.secret, **created.token.as_json(), "replaced": replaced.as_json()}, draw)


@token.command("rm")
@click.argument("token_id", metavar="ID", type=TOKEN_ID, required=False)
@click.option("--all", "all_tokens", is_flag=True, help="Revoke all tokens of --tenant and end all its browser sessions.")
@click.option("--yes", "-y", is_flag=True, help="With --all: do not ask for confirmation.")
@pass_invocation
def revoke_tokens(invocation: Invocation, token_id: int | None, *, all_tokens: bool, yes: bool) -> None:
    """Revoke a token with its browser sessions, or end a session. It stops working at once."""
    if (token_id is not None) == all_tokens:
        raise click.UsageError("Give either the ID of a token or --all.")
    if token_id is None:
        revoke_all_tokens(invocation, yes=yes)
        return
    with invocation.open_ledger() as ledger:
        revoked = ledger.write(tokens.revoke, token_id)
    invocation.answer(revoked.as_json(), partial(click.echo, f"revoked token {revoked.id}"))


def revoke_all_tokens(invocation: Invocation, *, yes: bool) -> None:
    with invocation.open_ledger() as ledger:
        require_confirmation("Revoke all tokens of the tenant and end all its browser sessions?", yes=yes)
        revoked = ledger.write(tokens.revoke_all)
    sessions = sum(row.is_session for row in revoked)
    invocation.answer(
        {"revoked": [row.as_json() for row in revoked]},
        partial(click.echo, f"revoked tokens: {len(revoked) - sessions}, ended sessions: {sessions}"),
    )


def build_token_row(token: Token) -> Sequence[str]:
    label = token.label or "-"
    if token.is_session and token.session_of != LOGIN_LINK:
        label += f" of token {token.session_of}" if token.session_of > 0 else " of the login link"
    scope = "read-only" if token.scope == "read" else token.scope
    expiry = f"expires {format_time(token.expires_at)}" if token.expires_at else ""
    replaced = f"replaced by token {token.replaced_by}, " if token.replaced_by else ""
    used = f"last used {format_time(token.last_used_at)}" if token.last_used_at else "never used"
    use = f"{replaced}revoked {format_time(token.revoked_at)}" if token.revoked_at else f"{replaced}{used}"
    return str(token.id), label, scope, format_time(token.created_at), expiry, use


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    aliases={"new": "add"},
    examples=("headway conversation search invoice", "headway conversation fork 4 --at 17 --message 'In French, please'"),
)
def conversation() -> None:
    """Create, search, copy and delete conversations. Each has its own todo list."""


@conversation.command("add")
@click.argument("title", default="")
@click.option("--key", help="A unique name for it (default: a UUID).")
@pass_invocation
def add_conversation(invocation: Invocation, title: str, key: str | None) -> None:
    """Create a conversation."""
    with invocation.open_ledger() as ledger:
        row = ledger.write(conversations.add_conversation, title, key)
    invocation.answer({"conversation": row.as_json()}, lambda: print_row(build_conversation_row(row)))


@conversation.command("list")
@click.option("--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 500), help="List at most this many.")
@pass_invocation
def list_conversations(invocation: Invocation, limit: int) -> None:
    """List conversations, newest first."""
    with invocation.open_ledger() as ledger:
        rows = ledger.read(views.list_conversations, limit)
    invocation.answer(
        {"conversations": [row.as_json() for row in rows]},
        lambda: print_table(CONVERSATION_HEADINGS, map(build_conversation_row, rows), "no conversations yet"),
    )


@conversation.command("show")
@click.argument("conversation_id", metavar="ID", type=CONVERSATION_ID)
@click.option(
    "--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 500), help="Show this many of the last messages."
)
@pass_invocation
def show_conversation(invocation: Invocation, conversation_id: int, limit: int) -> None:
    """Show a conversation and its last messages, with their ids and turns."""
    with invocation.open_ledger() as ledger:
        row = ledger.read(finding.get_conversation, conversation_id)
        messages = ledger.read(turns.list_messages, conversation_id, limit)

    def draw() -> None:
        print_row(build_conversation_row(row))
        rows = [(str(message.id), message.turn_id, message.speaker, message.content) for message in messages]
        print_table(("message", "turn", "who", "content"), rows, "no messages yet")

    invocation.answer({"conversation": row.as_json(), "messages": [message.as_json() for message in messages]}, draw)


@conversation.command("fork")
@click.argument("conversation_id", metavar="ID", type=CONVERSATION_ID)
@click.option("--at", "at", required=True, type=MESSAGE_ID, metavar="MESSAGE", help="The message to send or to write again.")
@click.option("--message", default="", metavar="TEXT", help="Send this instead of the user's message.")
@fork_options
@pass_invocation
def fork_conversation(
    invocation: Invocation, conversation_id: int, at: int, message: str, model: str, role: str, *, live: bool
) -> None:
    """Copy a conversation up to a message, and continue there: a user's message is sent again, an agent's is written again.

    Calls that the original made get its recorded results. At a call without one the fork stops, with exit code 6; with --live the
    call is made. `conversation show` lists the messages.
    """
    from headway.surfaces.cli.commands.chat import run_fork  # noqa: PLC0415  imports asyncio, which few commands need

    request = ForkRequest(at, message, model, role, live, sender=SENDER)
    with invocation.open_ledger() as ledger:
        ledger.read(finding.get_conversation, conversation_id)  # before the model layer is loaded
    run_fork(
        invocation,
        request,
        lambda forks, tx, tenant_id, checked: forks.begin_at_message(tx, tenant_id, conversation_id, checked),
    )


def build_conversation_row(conversation: Conversation) -> Sequence[str]:
    return str(conversation.id), conversation.key, conversation.title
