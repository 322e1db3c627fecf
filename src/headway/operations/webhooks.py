"""Operations on webhooks: /webhooks"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from headway.actions.engine import webhooks
from headway.actions.engine.webhooks import DEFAULT_OVERLAP_S, MAX_OVERLAP_S
from headway.ledger import webhook as ledger
from headway.ledger.events import EVENT_KINDS
from headway.ledger.parsing.addresses import URL_LIMIT
from headway.ledger.text import MAX_INTEGER, TEXT_PATTERN
from headway.ledger.webhook import DESCRIPTION_LIMIT, KINDS_LIMIT
from headway.operations.fields import CursorQuery, StrictModel, to_whole_number
from headway.operations.operation import Document, OperationCall, OperationTable, many, one, page
from headway.operations.todos import Deleted
from headway.values import operators as values_operators

Url = Annotated[str, Field(min_length=1, max_length=URL_LIMIT, description="Begins with https://")]
Kinds = Annotated[
    list[Annotated[str, WithJsonSchema({"type": "string", "enum": [*EVENT_KINDS]})]],
    Field(max_length=KINDS_LIMIT, description="Kinds of events, such as turn_finished. Empty: all"),
]
Number = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(to_whole_number)]
Description = Annotated[str, Field(max_length=DESCRIPTION_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]


class NewWebhook(StrictModel):
    url: Url
    kinds: Kinds = []
    conversation_id: Annotated[Number, Field(description="Only events of this conversation. 0: of all")] = 0
    goal_id: Annotated[Number, Field(description="Only events of this goal. 0: of all")] = 0
    description: Description = ""

    def to_new(self) -> ledger.NewWebhook:
        return ledger.NewWebhook(self.url, tuple(self.kinds), self.conversation_id, self.goal_id, self.description)


class WebhookChange(StrictModel):
    url: Url | None = None
    kinds: Kinds | None = None
    conversation_id: Number | None = None
    goal_id: Number | None = None
    description: Description | None = None
    paused: Annotated[bool | None, Field(description="False also resumes a webhook that has failed")] = None

    def to_change(self) -> ledger.WebhookChange:
        kinds = None if self.kinds is None else tuple(self.kinds)
        return ledger.WebhookChange(self.url, kinds, self.conversation_id, self.goal_id, self.description, self.paused)


class SecretRotation(StrictModel):
    overlap_s: Annotated[
        float,
        Field(ge=0, le=MAX_OVERLAP_S, allow_inf_nan=False, description="How long messages are also signed with the old secret"),
    ] = DEFAULT_OVERLAP_S


class ReplayStart(StrictModel):
    after: Annotated[Number, Field(description="Events after this number are delivered, again or for the first time")]


class OneDelivery(BaseModel):
    delivery: values_operators.WebhookDelivery


# Operations on webhooks: /webhooks. They need an administrator's token, because addresses of receivers may contain
# secrets.


table = OperationTable("webhooks")

ONE_WEBHOOK = one("webhook", values_operators.Webhook)


@table.add(
    "GET /webhooks",
    "List the webhooks of the tenant, newest first",
    page("webhooks", values_operators.Webhook),
    right="manage_webhooks",
)
def list_webhooks(call: OperationCall, query: CursorQuery) -> Document:
    return webhooks.list_webhooks(call.tx, call.tenant_id, query.limit, query.cursor)


@table.add(
    "POST /webhooks",
    "Subscribe an address to the events from now on",
    {201: values_operators.WebhookWithSecret},
    errors=(404,),
    right="manage_webhooks",
    has_secret=True,
)
def create_webhook(call: OperationCall, body: NewWebhook) -> Document:
    """The answer has the secret that messages are signed with. A repeated Idempotency-Key gets the same answer without it."""
    view = webhooks.create_webhook(call.tx, call.tenant_id, body.to_new(), call.host.settings.webhook_hosts)
    return {"webhook": view.as_json(), "secret": view.secret}


@table.add("GET /webhooks/{webhook_id}", "Get a webhook", ONE_WEBHOOK, errors=(404,), right="manage_webhooks")
def get_webhook(call: OperationCall, webhook_id: str) -> Document:
    return {"webhook": webhooks.get_webhook(call.tx, call.tenant_id, webhook_id).as_json()}


@table.add(
    "PATCH /webhooks/{webhook_id}",
    "Change, pause or resume a webhook",
    ONE_WEBHOOK,
    errors=(404,),
    right="manage_webhooks",
)
def change_webhook(call: OperationCall, webhook_id: str, body: WebhookChange) -> Document:
    hosts = call.host.settings.webhook_hosts
    view = webhooks.change_webhook(call.tx, call.tenant_id, webhook_id, body.to_change(), hosts)
    call.nudge()
    return {"webhook": view.as_json()}


@table.add("DELETE /webhooks/{webhook_id}", "Delete a webhook", Deleted, errors=(404, 507), right="manage_webhooks")
def delete_webhook(call: OperationCall, webhook_id: str) -> Document:
    webhooks.remove_webhook(call.tx, call.tenant_id, webhook_id)
    return {"deleted": True}


@table.add(
    "POST /webhooks/{webhook_id}/rotate",
    "Create a new secret. Messages are also signed with the old one for a while",
    {201: values_operators.WebhookWithSecret},
    errors=(404,),
    right="manage_webhooks",
    has_secret=True,
)
def rotate_webhook(call: OperationCall, webhook_id: str, body: SecretRotation) -> Document:
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
def replay_webhook(call: OperationCall, webhook_id: str, body: ReplayStart) -> Document:
    view = webhooks.replay(call.tx, call.tenant_id, webhook_id, body.after)
    call.nudge()
    return {"webhook": view.as_json()}


@table.add(
    "GET /webhooks/{webhook_id}/deliveries",
    "List the last attempts to deliver, newest first",
    many("deliveries", values_operators.WebhookDelivery),
    errors=(404,),
    right="manage_webhooks",
)
def list_webhook_deliveries(call: OperationCall, webhook_id: str) -> Document:
    return {"deliveries": webhooks.list_deliveries(call.tx, call.tenant_id, webhook_id)}
