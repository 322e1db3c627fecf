"""Schemas of webhooks."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from headway.actions.webhooks import DEFAULT_OVERLAP_S, MAX_OVERLAP_S
from headway.ledger.parsing.web_address import URL_LIMIT
from headway.ledger.text import MAX_INTEGER, TEXT_PATTERN
from headway.ledger.webhook import DESCRIPTION_LIMIT, KIND_LENGTH, KINDS_LIMIT, MAX_RECENT, NewWebhook, WebhookChange
from headway.operations.schemas.strict_model import StrictModel, to_whole_number
from headway.values import operators as values_operators

Url = Annotated[str, Field(min_length=1, max_length=URL_LIMIT, description="Begins with https://")]
Kinds = Annotated[
    list[Annotated[str, Field(pattern=rf"^[a-z][a-z_]{{0,{KIND_LENGTH - 1}}}$")]],
    Field(max_length=KINDS_LIMIT, description="Kinds of events, such as turn_finished. Empty: all"),
]
Number = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(to_whole_number)]
Description = Annotated[str, Field(max_length=DESCRIPTION_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]


class NewWebhookBody(StrictModel):
    url: Url
    kinds: Kinds = []
    conversation_id: Annotated[Number, Field(description="Only events of this conversation. 0: of all")] = 0
    goal_id: Annotated[Number, Field(description="Only events of this goal. 0: of all")] = 0
    description: Description = ""

    def to_new(self) -> NewWebhook:
        return NewWebhook(self.url, tuple(self.kinds), self.conversation_id, self.goal_id, self.description)


class WebhookChangeBody(StrictModel):
    url: Url | None = None
    kinds: Kinds | None = None
    conversation_id: Number | None = None
    goal_id: Number | None = None
    description: Description | None = None
    paused: Annotated[bool | None, Field(description="False also resumes a webhook that has failed")] = None

    def to_change(self) -> WebhookChange:
        kinds = None if self.kinds is None else tuple(self.kinds)
        return WebhookChange(self.url, kinds, self.conversation_id, self.goal_id, self.description, self.paused)


class SecretRotation(StrictModel):
    overlap_s: Annotated[
        float,
        Field(ge=0, le=MAX_OVERLAP_S, allow_inf_nan=False, description="How long messages are also signed with the old secret"),
    ] = DEFAULT_OVERLAP_S


class ReplayStart(StrictModel):
    after: Annotated[Number, Field(description="Events after this number are delivered, again or for the first time")]


class WebhookWithSecret(BaseModel):
    webhook: values_operators.Webhook
    secret: Annotated[
        str | None, Field(description="Begins with whsec_. Shown once; null in the answer to a repeated Idempotency-Key")
    ]


class OneDelivery(BaseModel):
    delivery: values_operators.WebhookDelivery


class ManyDeliveries(BaseModel):
    deliveries: Annotated[list[values_operators.WebhookDelivery], Field(max_length=MAX_RECENT)]
