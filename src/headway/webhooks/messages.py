"""Messages to receivers, as the Standard Webhooks specification defines them: an id, a time, a body and their signatures."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import uuid4

from headway.ledger.events import encode_json
from headway.ledger.webhook import KEY_PREFIX, OutgoingEvent, Secrets, Webhook

TEST_KIND: Final = "webhook_test"
PRUNED_KIND: Final = "log_pruned"


class WebhookMessage(NamedTuple):
    id: str  # the same whenever the event is sent again, so that receivers can recognize it
    seq: int  # 0: it is not in the log
    kind: str
    body: bytes


def build_message(webhook: Webhook, event: OutgoingEvent) -> WebhookMessage:
    assert event.data is not None
    head = build_head(event.kind, event.at, event.seq)
    place = {"conversation_id": event.conversation_id or None, "turn_id": event.turn_id}
    return WebhookMessage(f"{webhook.id}_{event.seq}", event.seq, event.kind, encode_json(head | place, data=event.data).encode())


def build_pruned_message(webhook: Webhook, pruned: int, now: int) -> WebhookMessage:
    """Tell the receiver that events which it has not seen were deleted because of their age."""
    body = encode_json({**build_head(PRUNED_KIND, now, pruned), "data": {"after": webhook.sent_to, "pruned": pruned}})
    return WebhookMessage(f"{webhook.id}_pruned_{webhook.sent_to}_{pruned}", 0, PRUNED_KIND, body.encode())


def build_test_message(webhook: Webhook, now: int) -> WebhookMessage:
    body = encode_json({**build_head(TEST_KIND, now, None), "data": {"webhook_id": webhook.id}})
    return WebhookMessage(f"{webhook.id}_test_{uuid4().hex}", 0, TEST_KIND, body.encode())


def build_head(kind: str, at: int, seq: int | None) -> dict[str, str | int | None]:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return {"type": kind, "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "seq": seq}


def build_headers(message: WebhookMessage, secrets: Secrets, now_s: int) -> dict[str, str]:
    """Sign a message. While a secret is being replaced, there is a signature with each."""
    signed = b".".join((message.id.encode(), str(now_s).encode(), message.body))
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": " ".join(f"v1,{sign(secret, signed)}" for secret in secrets.values),
    }


def sign(secret: str, signed: bytes) -> str:
    key = b64decode(secret.removeprefix(KEY_PREFIX))
    return b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
