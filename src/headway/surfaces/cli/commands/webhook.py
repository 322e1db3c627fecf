"""`headway webhook`: send events to other systems."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from headway.actions.engine import webhooks
from headway.actions.engine.webhooks import DEFAULT_OVERLAP_S, WebhookView
from headway.ledger.parsing.addresses import parse_url
from headway.ledger.text import MAX_INTEGER, to_one_line
from headway.ledger.webhook import NewWebhook, WebhookChange
from headway.surfaces.cli.arguments import GOAL_ID, SECONDS, RowIdOrNone, limit_option
from headway.surfaces.cli.context import TENANT_WIDE, CommandGroup, Invocation, pass_invocation, require_confirmation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_fields, print_row, print_table

WEBHOOK_HEADINGS = ("id", "state", "url", "events", "error")


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway webhook add https://example.com/hook --kind turn_finished", "headway webhook test ID"),
)
def webhook() -> None:
    """Send the events of a tenant to other systems."""


webhook_argument = click.argument("webhook_id", metavar="ID")
kind_option = click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only events of this kind (repeatable).")


@webhook.command()
@click.argument("url")
@kind_option
@click.option(
    "--from-conversation", type=RowIdOrNone("conversation"), default=0, metavar="ID", help="Only events of this conversation."
)
@click.option("--from-goal", type=GOAL_ID, default=0, metavar="ID", help="Only events of this goal.")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@pass_invocation
def add(invocation: Invocation, url: str, kinds: tuple[str, ...], from_conversation: int, from_goal: int, description: str) -> None:
    """Send all new events to URL, and print the secret that signs them. It is not shown again."""
    new = NewWebhook(url, kinds, from_conversation, from_goal, description)
    with invocation.open_ledger() as ledger:
        view = ledger.write(webhooks.create_webhook, new, invocation.settings().webhook_hosts)
    answer_with_secret(invocation, view, f"webhook {view.webhook.id}")


@webhook.command("list")
@limit_option
@pass_invocation
def list_webhooks(invocation: Invocation, limit: int) -> None:
    """List webhooks, newest first."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(webhooks.list_webhooks, limit)
    rows = [build_webhook_row(row) for row in page["webhooks"]]
    more = bool(page["next_cursor"])
    invocation.answer(page, lambda: print_table(WEBHOOK_HEADINGS, rows, "no webhooks", more=more))


@webhook.command()
@webhook_argument
@pass_invocation
def show(invocation: Invocation, webhook_id: str) -> None:
    """Show a webhook and its last deliveries."""
    with invocation.open_ledger() as ledger:
        fields = ledger.read(webhooks.get_webhook, webhook_id).as_json()
        deliveries = ledger.read(webhooks.list_deliveries, webhook_id)

    def draw() -> None:
        print_fields({name: value for name, value in fields.items() if value not in (0, False)})
        for delivery in deliveries:
            click.echo(f"  {format_delivery(delivery)}")

    invocation.answer({"webhook": fields, "deliveries": deliveries}, draw)


@webhook.command()
@webhook_argument
@click.option("--url", metavar="URL", help="The new address.")
@kind_option
@click.option("--all-kinds", is_flag=True, help="Events of every kind.")
@click.option(
    "--from-conversation", type=RowIdOrNone("conversation"), metavar="ID", help='Only events of this conversation; "" means all.'
)
@click.option("--from-goal", type=RowIdOrNone("goal"), metavar="ID", help='Only events of this goal; "" means all.')
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--pause/--resume", "paused", default=None, help="Pause deliveries, or resume them, even after a failure.")
@pass_invocation
def edit(
    invocation: Invocation,
    webhook_id: str,
    url: str | None,
    kinds: tuple[str, ...],
    from_conversation: int | None,
    from_goal: int | None,
    description: str | None,
    *,
    all_kinds: bool,
    paused: bool | None,
) -> None:
    """Change, pause or resume a webhook. Events that it missed while it was paused are delivered when it resumes."""
    if all_kinds and kinds:
        raise click.UsageError("Give --kind or --all-kinds, not both.")
    new_kinds = kinds or (() if all_kinds else None)
    wanted = WebhookChange(url, new_kinds, from_conversation, from_goal, description, paused)
    if wanted == WebhookChange():
        raise click.UsageError("Nothing to change. Give at least one option.")
    with invocation.open_ledger() as ledger:
        view = ledger.write(webhooks.change_webhook, webhook_id, wanted, invocation.settings().webhook_hosts)
    answer_with_webhook(invocation, view)


@webhook.command()
@webhook_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def rm(invocation: Invocation, webhook_id: str, *, yes: bool) -> None:
    """Delete a webhook. Events that were not delivered yet are never sent."""
    with invocation.open_ledger() as ledger:
        host = parse_url(ledger.read(webhooks.get_webhook, webhook_id).webhook.url).host
        require_confirmation(f"Delete the webhook to {host}?", yes=yes)
        ledger.write(webhooks.remove_webhook, webhook_id)
    invocation.answer({"deleted": True}, lambda: click.echo(f"deleted {webhook_id}"))


@webhook.command()
@webhook_argument
@click.option(
    "--overlap",
    type=SECONDS,
    default=f"{DEFAULT_OVERLAP_S}s",
    help="How long events are also signed with the old secret (default: 1d).",
)
@pass_invocation
def rotate(invocation: Invocation, webhook_id: str, overlap: float) -> None:
    """Create a new secret and print it. It is not shown again."""
    with invocation.open_ledger() as ledger:
        view = ledger.write(webhooks.rotate, webhook_id, overlap)
    answer_with_secret(invocation, view, f"new secret of webhook {view.webhook.id}")


@webhook.command()
@webhook_argument
@pass_invocation
def test(invocation: Invocation, webhook_id: str) -> None:
    """Send a test message once, and print what the receiver answered. Exits with 1 if it did not accept the message."""
    from headway.webhooks import Sender, prepare_test, send_test  # noqa: PLC0415  loads OpenSSL

    with invocation.open_ledger() as ledger:
        outbox = ledger.read(prepare_test, webhook_id)
        attempt = asyncio.run(send_test(Sender(invocation.settings().webhook_hosts), outbox))
        ledger.write(webhooks.record_test, webhook_id, attempt)
    delivery = attempt.as_json()
    invocation.answer({"delivery": delivery}, lambda: click.echo(format_delivery(delivery)))
    if attempt.error:
        raise click.exceptions.Exit(1)


@webhook.command()
@webhook_argument
@click.option(
    "--after",
    required=True,
    metavar="NUMBER",
    type=click.IntRange(0, MAX_INTEGER),
    help="The number of an event; 0: from the start.",
)
@pass_invocation
def replay(invocation: Invocation, webhook_id: str, after: int) -> None:
    """Deliver the events after a number, again or for the first time. A later number skips events."""
    with invocation.open_ledger() as ledger:
        view = ledger.write(webhooks.replay, webhook_id, after)
    answer_with_webhook(invocation, view)


def answer_with_webhook(invocation: Invocation, view: WebhookView) -> None:
    fields = view.as_json()
    invocation.answer({"webhook": fields}, lambda: print_row(build_webhook_row(fields)))


def answer_with_secret(invocation: Invocation, view: WebhookView, what: str) -> None:
    def draw() -> None:
        click.echo(view.secret)
        click.echo(what, err=True)

    invocation.answer({"webhook": view.as_json(), "secret": view.secret}, draw)


def build_webhook_row(fields: dict[str, Any]) -> Sequence[str]:
    filters = [
        ", ".join(fields["kinds"]) or "all events",
        f"conversation {fields['conversation_id']}" if fields["conversation_id"] else "",
        f"goal #{fields['goal_id']}" if fields["goal_id"] else "",
        f"after event {fields['after']}",
    ]
    return fields["id"], fields["state"], fields["url"], ", ".join(filter(None, filters)), fields["error"] or ""


def format_delivery(delivery: dict[str, Any]) -> str:
    event = f"event {delivery['seq']} {delivery['type']}" if delivery["seq"] else delivery["type"]
    result = delivery["error"] or f"accepted with status {delivery['status']}"
    return to_one_line(f"{format_time(delivery['at'] * 1000)}  {event}: {result} ({delivery['ms']} ms)")
