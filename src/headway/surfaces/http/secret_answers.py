"""Answers that show a secret once."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from starlette.responses import Response

from headway.actions.access import tokens
from headway.ledger.tenancy import Token
from headway.storage.transaction import Transaction
from headway.surfaces.http.request_context import Authenticate, RequestContext, to_json_response


class SecretAnswer(NamedTuple):
    """A new secret, and what else the answer says."""

    secret: str
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return "SecretAnswer(…)"


async def answer_with_secret(
    call: RequestContext,
    create: Callable[[Transaction, Token], SecretAnswer],
    status: int = 201,
    authenticate: Authenticate = tokens.authenticate_operator,
) -> Response:
    """Create something for an operator's token, or for one that `authenticate` accepts, and answer with its secret. What is stored
    for an Idempotency-Key is the answer without it."""
    callers: list[Token] = []
    created: list[SecretAnswer] = []

    def admit(tx: Transaction, digest: str) -> Token:
        created.clear()  # the transaction may run again, and then find that another request with the same key was faster
        callers[:] = [authenticate(tx, digest)]
        return callers[0]

    def act(tx: Transaction, _tenant_id: int) -> dict[str, Any]:
        created.append(create(tx, callers[0]))
        return {**created[0].fields, "secret": None}

    answer = await call.post(act, status, authenticate=admit)
    if not created:
        return answer
    return to_json_response({**json.loads(bytes(answer.body)), "secret": created[0].secret}, answer.status_code)
