"""Operations on webhooks: /webhooks. They need an administrator's token, because addresses of receivers may contain secrets."""

from headway.actions import webhooks
from headway.operations.operation import Document, OperationCall, OperationTable, one, page
from headway.operations.schemas import webhooks as schemas
from headway.operations.schemas.todos import CursorQuery, Deleted
from headway.values import operators as values_operators

table = OperationTable("webhooks")

ONE_WEBHOOK = one("webhook", values_operators.Webhook)


@table.add(
    "GET /webhooks",
    "List the webhooks of the tenant, newest first",
    page("webhooks", values_operators.Webhook),
    right="manage_webhooks",
)
def list_webhooks(call: OperationCall, query: CursorQuery) -> Document:
    return webhooks.list_page(call.tx, call.tenant_id, query.limit, query.cursor)


@table.add(
    "POST /webhooks",
    "Subscribe an address to the events from now on",
    {201: schemas.WebhookWithSecret},
    errors=(404,),
    right="manage_webhooks",
    has_secret=True,
)
def create_webhook(call: OperationCall, body: schemas.NewWebhookBody) -> Document:
    """The answer has the secret that messages are signed with. A repeated Idempotency-Key gets the same answer without it."""
    view = webhooks.create(call.tx, call.tenant_id, body.to_new(), call.host.settings.webhook_hosts)
    return {"webhook": view.as_json(), "secret": view.secret}


@table.add("GET /webhooks/{webhook_id}", "Get a webhook", ONE_WEBHOOK, errors=(404,), right="manage_webhooks")
def get_webhook(call: OperationCall, webhook_id: str) -> Document:
    return {"webhook": webhooks.get(call.tx, call.tenant_id, webhook_id).as_json()}


@table.add(
    "PATCH /webhooks/{webhook_id}",
    "Change, pause or resume a webhook",
    ONE_WEBHOOK,
    errors=(404,),
    right="manage_webhooks",
)
def change_webhook(call: OperationCall, webhook_id: str, body: schemas.WebhookChangeBody) -> Document:
    hosts = call.host.settings.webhook_hosts
    view = webhooks.change(call.tx, call.tenant_id, webhook_id, body.to_change(), hosts)
    call.nudge()
    return {"webhook": view.as_json()}


@table.add("DELETE /webhooks/{webhook_id}", "Delete a webhook", Deleted, errors=(404, 507), right="manage_webhooks")
def delete_webhook(call: OperationCall, webhook_id: str) -> Document:
    webhooks.remove(call.tx, call.tenant_id, webhook_id)
    return {"deleted": True}


@table.add(
    "POST /webhooks/{webhook_id}/rotate",
    "Create a new secret. Messages are also signed with the old one for a while",
    {201: schemas.WebhookWithSecret},
    errors=(404,),
    right="manage_webhooks",
    has_secret=True,
)
def rotate_webhook(call: OperationCall, webhook_id: str, body: schemas.SecretRotation) -> Document:
    """A repeated Idempotency-Key gets the same answer without the secret."""
    view = webhooks.rotate(call.tx, call.tenant_id, webhook_id, body.overlap_s)
    return {"webhook": view.as_json(), "secret": view.secret}


@table.add(
    "POST /webhooks/{webhook_id}/replay",
    "Deliver the events after a number, again or for the first time",
    ONE_WEBHOOK,
    errors=(404,),
    right="manage_webhooks",
)
def replay_webhook(call: OperationCall, webhook_id: str, body: schemas.ReplayStart) -> Document:
    view = webhooks.replay(call.tx, call.tenant_id, webhook_id, body.after)
    call.nudge()
    return {"webhook": view.as_json()}


@table.add(
    "GET /webhooks/{webhook_id}/deliveries",
    "List the last attempts to deliver, newest first",
    schemas.ManyDeliveries,
    errors=(404,),
    right="manage_webhooks",
)
def list_webhook_deliveries(call: OperationCall, webhook_id: str) -> Document:
    return {"deliveries": webhooks.list_deliveries(call.tx, call.tenant_id, webhook_id)}
