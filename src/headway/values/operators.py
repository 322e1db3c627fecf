"""Webhooks, tokens and the halt."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from headway.ledger.tenancy import TokenScope
from headway.ledger.webhook import WebhookState
from headway.values.value import Meaning, Value

Secret = Annotated[
    str | None, Meaning("Shown once. Null in the answer to a repeated Idempotency-Key, because secrets are not stored")
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Webhook(Value):
    """A subscription of another system to the event log. `after` is the number of the last event that is done with."""

    id: str
    url: str
    kinds: tuple[str, ...] = ()
    conversation_id: int | None = None
    goal_id: int | None = None
    description: str = ""
    state: Annotated[WebhookState, Meaning("`failed`: every attempt failed, and nothing is delivered until it is resumed")]
    paused: bool = False
    after: Annotated[int, Meaning("Events up to this number were delivered or did not match")] = 0
    error: Annotated[str | None, Meaning("Why the last attempt failed, until one succeeds")] = None
    failures: Annotated[int, Meaning("Failed attempts in a row")] = 0
    retry_at: Annotated[datetime | None, Meaning("When the next attempt is made, in epoch seconds; 0: it waits for no retry")] = (
        None
    )
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookDelivery(Value):
    """One attempt to deliver an event. `error` is None if the receiver accepted it, `seq` is None for a test."""

    message_id: Annotated[str, Meaning("The header webhook-id")]
    seq: Annotated[int | None, Meaning("The number of the event; null: a test")] = None
    type: str
    at: datetime
    ms: Annotated[int, Meaning("How long it took, in milliseconds")] = 0
    status: Annotated[int | None, Meaning("Of the receiver's answer; null: there was none")] = None
    error: Annotated[str | None, Meaning("Null: it was accepted")] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AccessToken(Value):
    """A token of the tenant, without its secret. `expires_at` is None if it never does."""

    id: int
    tenant_id: int
    label: str = ""
    scopes: tuple[TokenScope, ...] = ()
    operator: bool = False
    session: Annotated[bool, Meaning("Whether it is a browser session")] = False
    session_of: Annotated[int | None, Meaning("The token that the session was opened with, and ends with")] = None
    current: Annotated[
        bool, Meaning("In lists: the caller's own token, or the one that its session was opened with", is_omitted=True)
    ] = False
    created_at: datetime
    expires_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: never")] = None
    last_used_at: Annotated[datetime | None, Meaning("Also through its sessions; to the minute")] = None
    revoked_at: datetime | None = None
    replaced_by: Annotated[int | None, Meaning("The token that replaced it in a rotation")] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CreatedAccessToken(Value):
    """A token that was just created, with its secret, which is shown once and not printed with the value."""

    token: AccessToken
    secret: Secret = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RotatedAccessToken(CreatedAccessToken):
    """The token that replaces another one, which keeps working for a while."""

    replaced: AccessToken


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookWithSecret(Value):
    """A webhook with a new secret, with which its messages are signed. The secret is shown once and not printed with the value."""

    webhook: Webhook
    secret: Annotated[str | None, Meaning("Begins with whsec_. Shown once; null in the answer to a repeated Idempotency-Key")] = (
        field(repr=False)
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HaltState(Value):
    """Whether all work is halted, since when, by whom and why."""

    halted: bool
    why: str = ""
    since: datetime | None = None
    by: Annotated[str, Meaning("Who halted: the label of a token, or `cli`")] = ""
