"""`headway token`: create, list, rotate and revoke tokens for the HTTP API."""

from collections.abc import Sequence
from functools import partial

import click

from headway.actions.access import tokens
from headway.ledger.tenancy import LOGIN_LINK, Token, TokenScope
from headway.surfaces.cli.arguments import SECONDS, TOKEN_ID
from headway.surfaces.cli.context import TENANT_WIDE, CommandGroup, Invocation, pass_invocation, require_confirmation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_table

TOKEN_HEADINGS = ("id", "label", "scope", "created", "expiry", "use")


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
