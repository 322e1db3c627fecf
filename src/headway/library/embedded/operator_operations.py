"""Requests about webhooks, tokens and the halt. The program runs the installation, so it may do what operators may."""

from typing import Any, Final

from headway.actions import halts, webhooks
from headway.actions.access import tokens
from headway.actions.views import check_limit
from headway.ledger.errors import Invalid
from headway.ledger.tenancy import TOKEN_SCOPES, TokenFilter
from headway.ledger.webhook import NewWebhook, WebhookChange
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation
from headway.storage.transaction import Transaction


def add_webhook(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    fields = dict(request.body)
    new = NewWebhook(**{**fields, "kinds": tuple(fields.get("kinds", ()))})
    view = webhooks.create(tx, tenant_id, new, request.headway.settings.webhook_hosts)
    return {"webhook": view.as_json(), "secret": view.secret}


def list_webhooks(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return webhooks.list_page(tx, tenant_id, check_limit(request.limit), request.cursor)


def get_webhook(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"webhook": webhooks.get(tx, tenant_id, request.get_name()).as_json()}


def change_webhook(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    fields: dict[str, Any] = dict(request.body)
    if "kinds" in fields:
        fields["kinds"] = tuple(fields["kinds"])
    wanted, hosts = WebhookChange(**fields), request.headway.settings.webhook_hosts
    request.nudge()
    return {"webhook": webhooks.change(tx, tenant_id, request.get_name(), wanted, hosts).as_json()}


def rotate_webhook(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    view = webhooks.rotate(tx, tenant_id, request.get_name(), request.body.get("overlap_s", webhooks.DEFAULT_OVERLAP_S))
    return {"webhook": view.as_json(), "secret": view.secret}


def replay_webhook(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    request.nudge()
    return {"webhook": webhooks.replay(tx, tenant_id, request.get_name(), request.body["after"]).as_json()}


def list_deliveries(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"deliveries": webhooks.list_deliveries(tx, tenant_id, request.get_name())}


def delete_webhook(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    webhooks.remove(tx, tenant_id, request.get_name())
    return {"deleted": True}


def add_token(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    (scope,) = request.body["scopes"]
    if scope not in TOKEN_SCOPES:
        raise Invalid(f"scope must be one of {', '.join(TOKEN_SCOPES)}.")
    created = tokens.create(tx, tenant_id, request.body["label"], request.body.get("expires_s"), scope)
    return {"token": created.token.as_json(), "secret": created.secret}


def list_tokens(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    chosen = TokenFilter(request.query["kind"], request.query["state"])
    return tokens.list_page(tx, tenant_id, chosen, check_limit(request.limit), request.cursor)


def rotate_token(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    overlap_s = request.body.get("overlap_s", tokens.DEFAULT_OVERLAP_S)
    created, replaced = tokens.rotate(tx, tenant_id, request.get_id(), overlap_s)
    return {"token": created.token.as_json(), "secret": created.secret, "replaced": replaced.as_json()}


def revoke_token(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"token": tokens.revoke(tx, tenant_id, request.get_id()).as_json()}


def get_halt(tx: Transaction, _tenant_id: int, _request: LocalRequest) -> Document:
    return {"halt": halts.as_json(halts.find_active(tx))}


def start_halt(tx: Transaction, _tenant_id: int, request: LocalRequest) -> Document:
    return {"halt": halts.as_json(halts.halt(tx, request.body.get("why", "")))}


def end_halt(tx: Transaction, _tenant_id: int, request: LocalRequest) -> Document:
    halts.unhalt(tx)
    request.nudge()
    return {"halt": halts.as_json(None)}


OPERATIONS: Final[dict[str, Operation]] = {
    "POST /webhooks": add_webhook,
    "GET /webhooks": list_webhooks,
    "GET /webhooks/{}": get_webhook,
    "PATCH /webhooks/{}": change_webhook,
    "DELETE /webhooks/{}": delete_webhook,
    "POST /webhooks/{}/rotate": rotate_webhook,
    "POST /webhooks/{}/replay": replay_webhook,
    "GET /webhooks/{}/deliveries": list_deliveries,
    "POST /tokens": add_token,
    "GET /tokens": list_tokens,
    "POST /tokens/{}/rotate": rotate_token,
    "DELETE /tokens/{}": revoke_token,
    "GET /halt": get_halt,
    "PUT /halt": start_halt,
    "DELETE /halt": end_halt,
}
