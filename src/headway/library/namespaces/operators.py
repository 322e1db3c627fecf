"""Webhooks, tokens and the halt. On a server, these methods need a token with the operator scope."""

from collections.abc import Sequence
from typing import Literal

from headway.ledger.events import EventKind
from headway.ledger.tenancy import TokenScope
from headway.library.transport import RequestTransport, drop_none
from headway.values.operators import (
    AccessToken,
    CreatedAccessToken,
    HaltState,
    RotatedAccessToken,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)
from headway.values.value import Page, decode, decode_all, decode_page


class Webhooks:
    """Subscribes other systems to the event log."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def add(
        self,
        url: str,
        *,
        kinds: Sequence[EventKind] = (),
        conversation_id: int | None = None,
        goal_id: int | None = None,
        description: str = "",
    ) -> WebhookWithSecret:
        """Subscribe an address to the events from now on: to all, or to some kinds, a conversation or a goal.

        Messages are signed with the `secret`, which is shown once. It is None if a server's answer was lost on the way and the
        request was sent again: then call `rotate_secret`.
        """
        body = drop_none(
            url=url, kinds=list(kinds), conversation_id=conversation_id, goal_id=goal_id, description=description or None
        )
        return decode(WebhookWithSecret, await self._transport.send("POST /webhooks", body=body))

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Webhook]:
        """List webhooks, newest first."""
        return decode_page(
            Webhook, await self._transport.send("GET /webhooks", query=drop_none(limit=limit, cursor=cursor)), "webhooks"
        )

    async def get(self, webhook_id: str) -> Webhook:
        """Return a webhook, or raise NotFound."""
        return decode(Webhook, (await self._transport.send("GET /webhooks/{}", webhook_id))["webhook"])

    async def update(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        kinds: Sequence[EventKind] | None = None,
        conversation_id: int | None = None,
        goal_id: int | None = None,
        description: str | None = None,
    ) -> Webhook:
        """Change the given fields. A conversation_id or goal_id of 0 means all of them."""
        body = drop_none(
            url=url,
            kinds=None if kinds is None else list(kinds),
            conversation_id=conversation_id,
            goal_id=goal_id,
            description=description,
        )
        return decode(Webhook, (await self._transport.send("PATCH /webhooks/{}", webhook_id, body=body))["webhook"])

    async def pause(self, webhook_id: str) -> Webhook:
        """Deliver nothing until the webhook is resumed. Events wait."""
        return decode(Webhook, (await self._transport.send("PATCH /webhooks/{}", webhook_id, body={"paused": True}))["webhook"])

    async def resume(self, webhook_id: str) -> Webhook:
        """Deliver again, also after deliveries had failed for good."""
        return decode(Webhook, (await self._transport.send("PATCH /webhooks/{}", webhook_id, body={"paused": False}))["webhook"])

    async def rotate_secret(self, webhook_id: str, *, overlap_s: float | None = None) -> WebhookWithSecret:
        """Replace the secret. For `overlap_s` seconds (a day by default), messages are also signed with the old one."""
        body = drop_none(overlap_s=overlap_s)
        return decode(WebhookWithSecret, await self._transport.send("POST /webhooks/{}/rotate", webhook_id, body=body))

    async def replay(self, webhook_id: str, after: int) -> Webhook:
        """Deliver the events after a number, again or for the first time."""
        body = {"after": after}
        return decode(Webhook, (await self._transport.send("POST /webhooks/{}/replay", webhook_id, body=body))["webhook"])

    async def deliveries(self, webhook_id: str) -> tuple[WebhookDelivery, ...]:
        """List the last attempts to deliver, newest first."""
        return decode_all(WebhookDelivery, (await self._transport.send("GET /webhooks/{}/deliveries", webhook_id))["deliveries"])

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook."""
        await self._transport.send("DELETE /webhooks/{}", webhook_id)


class Tokens:
    """Issues and revokes the tokens of the tenant."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def add(self, label: str = "", *, scope: TokenScope = "write", expires_s: float | None = None) -> CreatedAccessToken:
        """Create a token. Each scope includes the ones before it: `read`, `write`, `admin`, `operator`.

        The `secret` is shown once. It is None if a server's answer was lost on the way and the request was sent again: then revoke
        the token and create another.
        """
        body = drop_none(label=label, scopes=[scope], expires_s=expires_s)
        return decode(CreatedAccessToken, await self._transport.send("POST /tokens", body=body))

    async def list(
        self,
        *,
        kind: Literal["token", "session", "all"] = "token",
        state: Literal["active", "all"] = "active",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AccessToken]:
        """List the active tokens, newest first. `kind` adds browser sessions, `state` revoked and expired tokens."""
        query = drop_none(kind=kind, state=state, limit=limit, cursor=cursor)
        return decode_page(AccessToken, await self._transport.send("GET /tokens", query=query), "tokens")

    async def rotate(self, token_id: int, *, overlap_s: float | None = None) -> RotatedAccessToken:
        """Create a token that replaces another one, which keeps working for `overlap_s` seconds (a day by default)."""
        body = drop_none(overlap_s=overlap_s)
        return decode(RotatedAccessToken, await self._transport.send("POST /tokens/{}/rotate", token_id, body=body))

    async def revoke(self, token_id: int) -> AccessToken:
        """Revoke a token with its sessions, or end a session."""
        return decode(AccessToken, (await self._transport.send("DELETE /tokens/{}", token_id))["token"])


class HaltSwitch:
    """Stops all work of the installation, and lets it continue."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def get(self) -> HaltState:
        """Return whether all work is halted."""
        return decode(HaltState, (await self._transport.send("GET /halt"))["halt"])

    async def start(self, why: str = "") -> HaltState:
        """Halt the whole installation: no model is called, no tool runs and nothing starts, for any tenant."""
        return decode(HaltState, (await self._transport.send("PUT /halt", body=drop_none(why=why or None)))["halt"])

    async def end(self) -> HaltState:
        """Let all work continue where it stopped."""
        return decode(HaltState, (await self._transport.send("DELETE /halt"))["halt"])
