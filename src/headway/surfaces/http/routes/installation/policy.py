"""/v1/policy: the rules that decide which tool calls need approval, and what they would decide about a call."""

from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import rights, tenants, tokens
from headway.ledger.permission import FILE_NAME, Rule
from headway.ledger.tenancy import Token
from headway.operations.schemas import people as shapes
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes("/v1", "people")

CALL = TypeAdapter(shapes.CallToTry)


@routes.get(
    "/policy",
    summary="Get the rules that decide which tool calls need approval",
    **document_route({200: shapes.PolicyShape}),
)
async def get_policy(request: Request) -> Response:
    """Rules for other tenants are left out. Needs the admin scope. Only the operator sees the patterns for arguments in rules that
    were written by hand."""
    call = RequestContext(request)
    headway = call.headway

    def load(tx: Transaction, tenant_id: int) -> list[dict[str, Any]]:
        token, tenant = tokens.authenticate_for("read_policy")(tx, call.digest), tenants.get(tx, tenant_id)
        rules = headway.policy.current.list_for_tenant(tenant.name)
        return [describe_rule(tx, token, rule, tenant.name) for rule in rules]

    return to_json_response(
        {
            "rules": await call.read(load),
            "defaults": headway.toolbox.list_asking_tools(),
            "tools": list(headway.toolbox.tools),
            "roles": list(headway.roles.by_name),
            "file": FILE_NAME,
            "problem": headway.policy.problem,
        }
    )


def describe_rule(tx: Transaction, token: Token, rule: Rule, tenant: str) -> dict[str, Any]:
    """Return a rule as the token may see it."""
    return (rule if rights.has_right(tx, token, "read_policy_patterns") else rule.show_to(tenant)).as_json()


@routes.post(
    "/policy/test",
    summary="Get what the policy would decide about a tool call, without making it",
    **document_route({200: shapes.TriedCallShape}, also=(404,), body=shapes.CallToTry, idempotent=True),
)
async def test_policy(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(CALL)
    tool = await call.known(call.headway.toolbox.find, body.tool)
    role = await call.known(call.headway.roles.find, body.role)

    def ask(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        tried = call.headway.permission.try_call(tx, tenant_id, tool, role.name, body.arguments)
        token, tenant = tokens.authenticate(tx, call.digest), tenants.get(tx, tenant_id)
        rule = describe_rule(tx, token, tried.rule, tenant.name) if tried.rule else None
        return {**tried.ruling._asdict(), "rule": rule, "problem": tried.problem}

    return await call.post(ask, 200)


@routes.delete(
    "/policy/always/{approval_id}",
    summary="Remove the rule that an approval with `always` has added",
    **document_route({200: shapes.RemovedRules}, also=(404, 409, 507), path={"approval_id": int}),
)
async def forget_always_rule(request: Request) -> Response:
    """Such calls need approval again. Rules that were written by hand stay. Needs the admin scope."""
    call = RequestContext(request)
    approval_id = await call.parse_path_id("approval_id")

    def forget(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"rules": [rule.as_json() for rule in call.headway.permission.forget_always(tx, tenant_id, approval_id)]}

    return to_json_response(await call.write(forget, tokens.authenticate_for("forget_rules")))
