"""Serves the operations as routes. An answer with a secret is not stored for repeated requests."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import rights, tokens
from headway.actions.access.rights import Right
from headway.actions.access.tokens import Authenticate
from headway.ledger.tenancy import Token
from headway.operations.operation import Document, Operation, OperationCall, OperationTable
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import Action, RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes


async def post_secret(
    call: RequestContext, act: Action[Mapping[str, Any] | None], authenticate: Authenticate, status: int = 201
) -> Response:
    """Run an action whose answer has a `secret`. The answer is stored for an Idempotency-Key without it."""
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


# Serves the operations over HTTP.


CONVERTORS: Final = {"/todos/{todo_id}": "/todos/{todo_id:todo_id}"}


class TodoIdConvertor(Convertor[str]):
    """Matches any path segment except the names of sibling routes: DELETE /todos/ready is a wrong method, not a wrong id."""

    regex = "(?!(?:ready|claim|counts)(?:/|$))[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("todo_id", TodoIdConvertor())


class TokenCaller:
    """The owner of the token of a request."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def find_token(self, tx: Transaction) -> Token:
        return tokens.authenticate(tx, self.digest)

    def get_name(self, tx: Transaction) -> str:
        return tokens.name_person(tx, self.find_token(tx))

    def has_right(self, tx: Transaction, right: Right) -> bool:
        return rights.has_right(tx, self.find_token(tx), right)


def mount(table: OperationTable) -> HttpRoutes:
    routes = HttpRoutes("/v1", table.tag)
    for operation in table.operations:
        if operation.is_served_apart:
            continue
        described_as = document_route(
            dict(operation.answers),
            also=operation.errors,
            body=operation.body,
            query=operation.query,
            path=dict(operation.path_types),
            idempotent=operation.is_idempotent,
        )
        path = choose_convertors(operation.path)
        routes.add(operation.method, path, build_handler(operation), operation.summary, **described_as)
    return routes


def build_handler(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return await serve(operation, request)

    handle.__name__, handle.__doc__ = operation.name, operation.function.__doc__  # for the OpenAPI document
    return handle


def choose_convertors(path: str) -> str:
    for prefix, replaced in CONVERTORS.items():
        if path.startswith(prefix):
            return replaced + path.removeprefix(prefix)
    return path


async def serve(operation: Operation, request: Request) -> Response:
    """Answer a request with an operation: parse, call it in one transaction, and render its answer."""
    context = RequestContext(request)
    arguments: dict[str, Any] = {}
    for name, kind in operation.path_types.items():
        arguments[name] = await context.parse_path_id(name) if kind is int else request.path_params[name]
    if operation.query is not None:
        arguments["query"] = await context.query(operation.query)
    if operation.body is not None:
        arguments["body"] = await context.body(operation.body_adapter)
    if operation.prepare is not None:
        await asyncio.to_thread(operation.prepare, context.headway)
    caller, host = TokenCaller(context.digest), context.headway
    after_commit: list[Callable[[], object]] = []

    def act(tx: Transaction, tenant_id: int) -> Document | None:
        after_commit.clear()  # a repeated transaction begins again
        return operation.function(OperationCall(host, caller, tx, tenant_id, after_commit), **arguments)

    authenticate = tokens.authenticate_for(operation.right) if operation.right else None
    if operation.check is not None:
        await context.read(partial(check, operation.check, context, arguments), authenticate)
    response = await answer(operation, context, act, authenticate)
    for follow_up in after_commit:
        follow_up()
    return response


def check(
    function: Callable[..., None], context: RequestContext, arguments: Mapping[str, Any], tx: Transaction, tenant_id: int
) -> None:
    function(build_call(context, tx, tenant_id), **arguments)


async def answer(
    operation: Operation, context: RequestContext, act: Action[Document | None], authenticate: Authenticate | None
) -> Response:
    if operation.method == "GET":
        return to_json_response(await context.read(act, authenticate))
    if operation.has_secret and authenticate is not None:
        return await post_secret(context, act, authenticate, operation.status)
    if operation.is_idempotent:
        return await context.post(act, operation.status, authenticate=authenticate)
    return to_json_response(await context.write(act, authenticate), operation.status)


def build_call(context: RequestContext, tx: Transaction, tenant_id: int) -> OperationCall:
    """Return a call without follow-ups after the commit, for handlers that call operations themselves."""
    return OperationCall(context.headway, TokenCaller(context.digest), tx, tenant_id, [])
