"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/operators.py."""

from collections.abc import Sequence
from typing import Literal

from headway.ledger.tenancy import TokenScope
from headway.library.namespaces import operators
from headway.library.portal import Portal
from headway.values.operators import AccessToken, HaltState, NewAccessToken, NewWebhook, Webhook, WebhookDelivery
from headway.values.value import Page


class SyncWebhooks:
    """Subscribes other systems to the event log."""

    def __init__(self, portal: Portal, source: operators.Webhooks) -> None:
        self._portal = portal
        self._source = source

    def add(
        self,
        url: str,
        *,
        kinds: Sequence[str] = (),
        conversation_id: int | None = None,
        goal_id: int | None = None,
        description: str = "",
    ) -> NewWebhook:
        """Subscribe an address to the events from now on: to all, or to some kinds, a conversation or a goal.

        Messages are signed with the `secret`, which is shown once. It is None if a server's answer was lost on the way and the
        request was sent again: then call `rotate_secret`.
        """
        return self._portal.run(
            self._source.add(url, kinds=kinds, conversation_id=conversation_id, goal_id=goal_id, description=description)
        )

    def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Webhook]:
        """List webhooks, newest first."""
        return self._portal.run(self._source.list(limit=limit, cursor=cursor))

    def get(self, webhook_id: str) -> Webhook:
        """Return a webhook, or raise NotFound."""
        return self._portal.run(self._source.get(webhook_id))

    def update(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        conversation_id: int | None = None,
        goal_id: int | None = None,
        description: str | None = None,
    ) -> Webhook:
        """Change the given fields. A conversation_id or goal_id of 0 means all of them."""
        return self._portal.run(
            self._source.update(
                webhook_id, url=url, kinds=kinds, conversation_id=conversation_id, goal_id=goal_id, description=description
            )
        )

    def pause(self, webhook_id: str) -> Webhook:
        """Deliver nothing until the webhook is resumed. Events wait."""
        return self._portal.run(self._source.pause(webhook_id))

    def resume(self, webhook_id: str) -> Webhook:
        """Deliver again, also after deliveries had failed for good."""
        return self._portal.run(self._source.resume(webhook_id))

    def rotate_secret(self, webhook_id: str, *, overlap_s: float | None = None) -> NewWebhook:
        """Replace the secret. For `overlap_s` seconds (a day by default), messages are also signed with the old one."""
        return self._portal.run(self._source.rotate_secret(webhook_id, overlap_s=overlap_s))

    def replay(self, webhook_id: str, after: int) -> Webhook:
        """Deliver the events after a number, again or for the first time."""
        return self._portal.run(self._source.replay(webhook_id, after))

    def deliveries(self, webhook_id: str) -> tuple[WebhookDelivery, ...]:
        """List the last attempts to deliver, newest first."""
        return self._portal.run(self._source.deliveries(webhook_id))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook."""
        return self._portal.run(self._source.delete(webhook_id))


class SyncTokens:
    """Issues and revokes the tokens of the tenant."""

    def __init__(self, portal: Portal, source: operators.Tokens) -> None:
        self._portal = portal
        self._source = source

    def add(self, label: str = "", *, scope: TokenScope = "write", expires_s: float | None = None) -> NewAccessToken:
        """Create a token. A scope includes those below it: `read`, `write`, `operator`.

        The `secret` is shown once. It is None if a server's answer was lost on the way and the request was sent again: then revoke
        the token and create another.
        """
        return self._portal.run(self._source.add(label, scope=scope, expires_s=expires_s))

    def list(
        self,
        *,
        kind: Literal["token", "session", "all"] = "token",
        state: Literal["active", "all"] = "active",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AccessToken]:
        """List the active tokens, newest first. `kind` adds browser sessions, `state` those that were revoked or have expired."""
        return self._portal.run(self._source.list(kind=kind, state=state, limit=limit, cursor=cursor))

    def rotate(self, token_id: int, *, overlap_s: float | None = None) -> NewAccessToken:
        """Create a token that replaces another one, which keeps working for `overlap_s` seconds (a day by default)."""
        return self._portal.run(self._source.rotate(token_id, overlap_s=overlap_s))

    def revoke(self, token_id: int) -> AccessToken:
        """Revoke a token with its sessions, or end a session."""
        return self._portal.run(self._source.revoke(token_id))


class SyncHaltSwitch:
    """Stops all work of the installation, and lets it continue."""

    def __init__(self, portal: Portal, source: operators.HaltSwitch) -> None:
        self._portal = portal
        self._source = source

    def get(self) -> HaltState:
        """Return whether all work is halted."""
        return self._portal.run(self._source.get())

    def start(self, why: str = "") -> HaltState:
        """Halt the whole installation: no model is called, no tool runs and nothing starts, for any tenant."""
        return self._portal.run(self._source.start(why))

    def end(self) -> HaltState:
        """Let all work continue where it stopped."""
        return self._portal.run(self._source.end())
