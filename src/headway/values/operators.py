"""What operators control: webhooks, tokens and the halt."""

from dataclasses import dataclass
from datetime import datetime

from headway.ledger.tenancy import TokenScope
from headway.ledger.webhook import WebhookState
from headway.values.value import Value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Webhook(Value):
    """A subscription of another system to the event log. `after` is the number of the last event that is done with."""

    id: str
    url: str
    kinds: tuple[str, ...] = ()
    conversation_id: int | None = None
    goal_id: int | None = None
    description: str = ""
    state: WebhookState
    paused: bool = False
    after: int = 0
    error: str | None = None
    failures: int = 0
    retry_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookDelivery(Value):
    """One attempt to deliver an event. `error` is None if the receiver accepted it, `seq` is None for a test."""

    message_id: str
    seq: int | None = None
    type: str
    at: datetime
    ms: int = 0
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AccessToken(Value):
    """A token of the tenant, without its secret. `expires_at` is None if it never does."""

    id: int
    label: str = ""
    scopes: tuple[TokenScope, ...] = ()
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    replaced_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewAccessToken(Value):
    """A token that was just created, with its secret, which is shown once and not printed with the value."""

    token: AccessToken
    secret: str | None

    def __repr__(self) -> str:
        return f"NewAccessToken(token={self.token!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewWebhook(Value):
    """A webhook with a new secret, with which its messages are signed. The secret is shown once and not printed with the value."""

    webhook: Webhook
    secret: str | None

    def __repr__(self) -> str:
        return f"NewWebhook(webhook={self.webhook!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HaltState(Value):
    """Whether all work is halted, since when, by whom and why."""

    halted: bool
    why: str = ""
    since: datetime | None = None
    by: str = ""
