"""`headway tenant`, `headway token` and `headway conversation`: manage access and conversations."""

from functools import partial
from shutil import rmtree

import click

from headway.actions import conversations, tenants, views
from headway.ledger.tenancy import Conversation, Token
from headway.ledger.text import to_one_line
from headway.storage import task_files
from headway.surfaces.cli.arguments import TOKEN_ID
from headway.surfaces.cli.context import (
    INSTALLATION_WIDE,
    TENANT_WIDE,
    CommandGroup,
    Invocation,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.render import format_time


@click.group(cls=CommandGroup, unused=INSTALLATION_WIDE)
def tenant() -> None:
    """Manage tenants: isolated customers. All data belongs to exactly one tenant."""


@tenant.command("add")
@click.argument("name")
@pass_invocation
def add_tenant(call: Invocation, name: str) -> None:
    """Create a tenant."""
    with call.database() as database:
        made = database.write(partial(tenants.add, name=name))
    call.answer({"tenant": made.as_json()}, partial(click.echo, f"tenant {to_one_line(made.name)} ({made.id})"))


@tenant.command("list")
@pass_invocation
def list_tenants(call: Invocation) -> None:
    """List all tenants."""
    with call.database() as database:
        found = database.read(tenants.list_all)
    call.answer(
        {"tenants": [one.as_json() for one in found]},
        lambda: click.echo("\n".join(f"{one.id}\t{to_one_line(one.name)}" for one in found) or "no tenants yet"),
    )


@tenant.command("rm")
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def remove_tenant(call: Invocation, name: str, *, yes: bool) -> None:
    """Delete a tenant and everything it owns, for good."""
    with call.database() as database:
        found = database.read(partial(tenants.get_by_name, name=name))
        require_confirmation(f"Delete tenant {name!r} with all its conversations, todos and tokens for good?", yes=yes)
        settings = call.settings()
        task_files.delete_task_files(settings.task_folder, database.write(partial(tenants.remove, name=name)))
        rmtree(settings.get_workspace(found.id), ignore_errors=True)
    call.answer({"deleted": True}, partial(click.echo, f"deleted tenant {to_one_line(name)}"))


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def token() -> None:
    """Manage bearer tokens for the API. A token is shown once and stored hashed."""


@token.command("new")
@click.option("--label", default="", help="What the token is for.")
@click.option("--operator", is_flag=True, help="Allow it to halt the installation and change cost limits.")
@pass_invocation
def new_token(call: Invocation, label: str, *, operator: bool) -> None:
    """Create a token for --tenant and print it. It cannot be shown again."""
    with call.desk() as desk:
        made = desk.write(tenants.create_token, label, operator=operator)
    call.answer({"token": made.secret, **made.token.as_json()}, partial(click.echo, made.secret))


@token.command("list")
@pass_invocation
def list_tokens(call: Invocation) -> None:
    """List the tokens of --tenant, without their secrets."""
    with call.desk() as desk:
        found = desk.read(tenants.list_tokens)
    call.answer(
        {"tokens": [one.as_json() for one in found]},
        lambda: click.echo("\n".join(format_token(one) for one in found) or "no tokens yet"),
    )


@token.command("revoke")
@click.argument("token_id", metavar="ID", type=TOKEN_ID)
@pass_invocation
def revoke_token(call: Invocation, token_id: int) -> None:
    """Revoke a token. It stops working at once."""
    with call.desk() as desk:
        revoked = desk.write(tenants.revoke_token, token_id)
    call.answer(revoked.as_json(), partial(click.echo, f"revoked token {revoked.id}"))


def format_token(one: Token) -> str:
    used = f"last used {format_time(one.last_used_at)}" if one.last_used_at else "never used"
    state = f"revoked {format_time(one.revoked_at)}" if one.revoked_at else used
    grant = "\toperator" if one.operator else ""
    return f"{one.id}\t{to_one_line(one.label) or '-'}{grant}\tcreated {format_time(one.created_at)}\t{state}"


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def conversation() -> None:
    """Manage conversations. Each has its own todo list."""


@conversation.command("new")
@click.argument("title", default="")
@click.option("--key", help="A unique name for it (default: a UUID).")
@pass_invocation
def new_conversation(call: Invocation, title: str, key: str | None) -> None:
    """Create a conversation."""
    with call.desk() as desk:
        made = desk.write(conversations.add, title, key)
    call.answer({"conversation": made.as_json()}, partial(click.echo, format_conversation(made)))


@conversation.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 500))
@pass_invocation
def list_conversations(call: Invocation, limit: int) -> None:
    """List conversations, newest first."""
    with call.desk() as desk:
        found = desk.read(views.list_conversations, limit)
    call.answer(
        {"conversations": [one.as_json() for one in found]},
        lambda: click.echo("\n".join(format_conversation(one) for one in found) or "no conversations yet"),
    )


def format_conversation(one: Conversation) -> str:
    return f"{one.id}\t{to_one_line(one.key)}\t{to_one_line(one.title)}"
