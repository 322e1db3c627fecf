"""Routes for operators: settings, the policy, tenants and workers."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import rights, spending, tokens
from headway.actions.access.tokens import Authenticate
from headway.actions.engine import dead_letters
from headway.actions.installation import halts, tenants
from headway.agents.models.text_calls import collect_broken_calls
from headway.ledger.errors import Conflict, HeadwayError, NotFound
from headway.ledger.money import to_dollars
from headway.ledger.permission import FILE_NAME, Rule
from headway.ledger.tenancy import Token
from headway.ledger.tiers import TIERS, Tier
from headway.operations import jobs, operators
from headway.operations import people as shapes
from headway.operations.fields import CursorQuery
from headway.settings import listing
from headway.storage.transaction import Transaction
from headway.surfaces.http.mounting import post_secret
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

if TYPE_CHECKING:
    from headway.agents.models.client import Models
    from headway.agents.models.trial import TierTrial

routes = HttpRoutes("/v1", "operator")

TRIAL = TypeAdapter(operators.NewTrial)
TRY_MODELS = tokens.authenticate_for("try_models")
SEE_SERVERS = tokens.authenticate_for("see_mcp_servers")
TRIAL_TIMEOUT_S = 60
RESTART_ALLOWANCE_S = 30  # beyond the time that a server may take to start


async def admit(call: RequestContext, authenticate: Authenticate) -> int:
    """Return the tenant of a caller who may ask, or raise an error."""
    return await call.read(lambda tx, _tenant_id: authenticate(tx, call.digest).tenant_id)


@routes.get(
    "/settings", summary="List the settings in force and where each comes from", **document_route({200: operators.ManySettings})
)
async def list_settings(request: Request) -> Response:
    """Secrets appear only as `set`, and URLs without passwords. Needs the operator scope."""
    call = RequestContext(request)
    await admit(call, tokens.authenticate_for("see_settings"))
    return to_json_response({"settings": listing.list_settings(call.headway.settings)})


@routes.get("/tiers", summary="List the tiers with their models", **document_route({200: operators.ManyTiers}))
async def list_tiers(request: Request) -> Response:
    """Needs the admin scope."""
    call = RequestContext(request)
    await admit(call, TRY_MODELS)
    # Right after the start, the model layer and the price list have yet to be loaded.
    return to_json_response({"tiers": await asyncio.to_thread(describe_tiers, call)})


def describe_tiers(call: RequestContext) -> list[dict[str, Any]]:
    from headway.agents.models.trial import describe_tier  # noqa: PLC0415  the model layer loads slowly

    models = call.headway.runtime.models
    return [describe_tier(models, tier) for tier in TIERS]


@routes.post(
    "/tiers/{tier}/try",
    summary="Ask the model of a tier for a short answer",
    **document_route({200: operators.OneTrial}, also=(404, 409), body=operators.NewTrial, path={"tier": str}, idempotent=True),
)
async def try_tier(request: Request) -> Response:
    """The tenant's pool pays for the call. One at a time per tenant. A model that does not answer is not an error of this request:
    `ok` is false, and `error` says why. Needs the admin scope."""
    call = RequestContext(request)
    body = await call.body(TRIAL)
    tier = await call.known(find_tier, request.path_params["tier"])
    if replay := await call.find_replay():
        return replay
    models, budget = await asyncio.to_thread(lambda: call.headway.runtime.models), call.headway.settings.limits.budget
    is_priced = await asyncio.to_thread(models.is_priced, tier)

    def check(tx: Transaction, tenant_id: int) -> int:
        TRY_MODELS(tx, call.digest)
        halts.check(tx)
        if is_priced and not spending.has_room(tx, tenant_id, budget):
            raise Conflict("The budget of the last 24 hours is spent, so the model was not asked. Raise the limit, or try later.")
        return tenant_id

    tenant_id = await call.read(check)
    request.scope["headway.deadline"].reschedule(asyncio.get_running_loop().time() + 2 * TRIAL_TIMEOUT_S)
    with enter_trial(request.app.state.trials, tenant_id), collect_broken_calls() as broken_calls:
        trial, error = await ask(models, tier, body.message)

    def store(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        for broken in broken_calls:
            spending.record_trial(tx, tenant_id, broken, budget)
        if trial is None:
            return {"trial": {"ok": False, "tier": tier, "error": error, **operators.NO_ANSWER}}
        spending.record_trial(tx, tenant_id, trial.call, budget)
        return {
            "trial": {
                "ok": True,
                "tier": tier,
                "error": "",
                "answer": trial.answer,
                "model": trial.call.model,
                "input_tokens": trial.call.input_tokens,
                "output_tokens": trial.call.output_tokens,
                "cost_usd": to_dollars(trial.call.cost),
                "seconds": round(trial.seconds, 3),
            }
        }

    return await call.post(store, 200, authenticate=TRY_MODELS)


@contextmanager
def enter_trial(trials: set[int], tenant_id: int) -> Iterator[None]:
    """Let a tenant try one model at a time, so that the calls it can make beyond its budget are few."""
    if tenant_id in trials:
        raise Conflict("Another model is being tried for this tenant. Wait for its answer.")
    trials.add(tenant_id)
    try:
        yield
    finally:
        trials.discard(tenant_id)


async def ask(models: "Models", tier: Tier, message: str) -> "tuple[TierTrial | None, str]":
    """Return what the model answered, or why it did not."""
    from headway.agents.models.trial import try_tier as try_model  # noqa: PLC0415  the model layer loads slowly

    try:
        async with asyncio.timeout(TRIAL_TIMEOUT_S):
            return await try_model(models, tier, message), ""
    except TimeoutError:
        return None, f"The model did not finish its answer within {TRIAL_TIMEOUT_S} s."
    except HeadwayError as error:
        return None, str(error)


def find_tier(name: str) -> Tier:
    if name not in TIERS:
        raise NotFound(f"No tier named {name[:80]!r}. The tiers are {', '.join(TIERS)}.")
    return name


@routes.get(
    "/mcp-servers", summary="List the MCP servers with their state and tools", **document_route({200: operators.ManyMcpServers})
)
async def list_mcp_servers(request: Request) -> Response:
    """As the process that answers sees them: each process has its own connections. Needs the operator scope."""
    call = RequestContext(request)
    await admit(call, SEE_SERVERS)
    return to_json_response({"servers": call.headway.describe_mcp_servers()})


@routes.post(
    "/mcp-servers/{name}/reconnect",
    summary="Close the connection to an MCP server and make a new one",
    **document_route({200: operators.OneMcpServer}, also=(404,), path={"name": str}, idempotent=True),
)
async def reconnect_mcp_server(request: Request) -> Response:
    """Calls in progress are cut off. A server that does not start is not an error of this request: its `status` is `down`, and
    `error` says why. Needs the operator scope."""
    call, name = RequestContext(request), request.path_params["name"]
    await admit(call, SEE_SERVERS)
    if replay := await call.find_replay():
        return replay
    timeout_s = next((config.start_timeout_s for config in call.headway.mcp_configs if config.name == name), 0)
    request.scope["headway.deadline"].reschedule(asyncio.get_running_loop().time() + timeout_s + RESTART_ALLOWANCE_S)
    server = await call.headway.mcp.restart(name)
    return await call.post(lambda _tx, _tenant_id: {"server": server}, 200, authenticate=SEE_SERVERS)


# /v1/policy: the rules that decide which tool calls need approval, and what they would decide about a call.


policy_routes = HttpRoutes("/v1", "people")

CALL = TypeAdapter(shapes.CallToTry)


@policy_routes.get(
    "/policy",
    summary="Get the rules that decide which tool calls need approval",
    **document_route({200: shapes.Policy}),
)
async def get_policy(request: Request) -> Response:
    """Rules for other tenants are left out. Needs the admin scope. Only the operator sees the patterns for arguments in rules that
    were written by hand."""
    call = RequestContext(request)
    headway = call.headway

    def load(tx: Transaction, tenant_id: int) -> list[dict[str, Any]]:
        token, tenant = tokens.authenticate_for("read_policy")(tx, call.digest), tenants.get_tenant(tx, tenant_id)
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


@policy_routes.post(
    "/policy/test",
    summary="Get what the policy would decide about a tool call, without making it",
    **document_route({200: shapes.TriedCall}, also=(404,), body=shapes.CallToTry, idempotent=True),
)
async def test_policy(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(CALL)
    tool = await call.known(call.headway.toolbox.find, body.tool)
    role = await call.known(call.headway.roles.find, body.role)

    def ask(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        tried = call.headway.permission.try_call(tx, tenant_id, tool, role.name, body.arguments)
        token, tenant = tokens.authenticate(tx, call.digest), tenants.get_tenant(tx, tenant_id)
        rule = describe_rule(tx, token, tried.rule, tenant.name) if tried.rule else None
        return {**tried.ruling._asdict(), "rule": rule, "problem": tried.problem}

    return await call.post(ask, 200)


@policy_routes.delete(
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


# /v1/tenants: those who run the installation see all tenants and create new ones.


NEW_TENANT = TypeAdapter(operators.NewTenant)


@routes.get(
    "/tenants",
    summary="List all tenants with what each uses, oldest first",
    **document_route({200: operators.ManyTenants}, query=CursorQuery),
)
async def list_tenants(request: Request) -> Response:
    """Needs the operator scope."""
    call = RequestContext(request)
    query, budget = await call.query(CursorQuery), call.headway.settings.limits.budget

    def view(tx: Transaction, _tenant_id: int) -> dict[str, Any]:
        tokens.authenticate_for("see_tenants")(tx, call.digest)
        return tenants.list_tenants(tx, budget, query.limit, query.cursor)

    return to_json_response(await call.read(view))


@routes.post(
    "/tenants",
    summary="Create a tenant with a token for its administrator",
    **document_route({201: operators.CreatedTenant}, body=operators.NewTenant, idempotent=True),
)
async def create_tenant(request: Request) -> Response:
    """Needs the operator scope. The new token cannot outlive that one. A repeated Idempotency-Key gets the
    same answer without the secret."""
    call = RequestContext(request)
    body = await call.body(NEW_TENANT)

    def create(tx: Transaction, _tenant_id: int) -> dict[str, Any]:
        tenant, created = tenants.add_with_token(tx, tokens.authenticate(tx, call.digest), body.name)
        return {"tenant": tenant.as_json(), "token": created.token.as_json(), "secret": created.secret}

    return await post_secret(call, create, tokens.authenticate_for("add_tenants"))


# /v1/workers: the processes that run jobs.


worker_routes = HttpRoutes("/v1", "engine")


@worker_routes.get(
    "/workers", summary="List the processes that run jobs, with their load", **document_route({200: jobs.ManyWorkers})
)
async def list_workers(request: Request) -> Response:
    """The processes of the installation, for all tenants; also processes that stopped answering within a day. Needs the operator
    scope. Only the tenant's own jobs are named; the others are counted."""
    call = RequestContext(request)

    def read_own(tx: Transaction, tenant_id: int) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        tokens.authenticate_for("see_workers")(tx, call.digest)
        return tx.now, dead_letters.group_running_jobs(tx, tenant_id)

    now_ms, own_jobs = await call.read(read_own)
    workers = await call.headway.database.unrestricted.read(dead_letters.list_workers)
    return to_json_response({"workers": [dead_letters.encode_worker(worker, now_ms, own_jobs) for worker in workers]})
