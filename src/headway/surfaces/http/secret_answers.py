"""Answers that show a secret once."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from headway.actions.access.tokens import Authenticate
from headway.ledger.tenancy import Token
from headway.storage.transaction import Transaction
from headway.surfaces.http.request_context import Action, RequestContext, to_json_response


async def post_secret(
    call: RequestContext, act: Action[Mapping[str, Any] | None], authenticate: Authenticate, status: int = 201
) -> Response:
    """Run an action whose answer has a `secret`. What is stored for an Idempotency-Key is the answer without it."""
    secrets: list[str] = []

    def admit(tx: Transaction, secret_digest: str) -> Token:
        secrets.clear()  # the transaction may run again, and then find that another request with the same key was faster
        return authenticate(tx, secret_digest)

    def act_without_secret(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        document = dict(act(tx, tenant_id) or {})
        secrets.append(document["secret"])
        return {**document, "secret": None}

    answer = await call.post(act_without_secret, status, authenticate=admit)
    if not secrets:
        return answer
    return to_json_response({**json.loads(bytes(answer.body)), "secret": secrets[0]}, answer.status_code)
