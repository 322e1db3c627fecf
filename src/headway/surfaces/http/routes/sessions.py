"""/login and /logout exchange a link or a token for a cookie that only our own page can use. /v1/session says what it may do."""

import hmac
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headway.actions.access import local_tenant, rights, tokens
from headway.actions.access.tokens import NewToken
from headway.actions.installation import tenants
from headway.ledger.tenancy import find_issuer
from headway.ledger.text import NAME_LIMIT
from headway.operations import operators as shapes
from headway.operations.fields import StrictModel
from headway.process.assembly import Headway
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import to_validation_problem
from headway.surfaces.http.request_context import (
    SECURE_COOKIE,
    SESSION_COOKIE,
    RequestContext,
    check_same_site,
    is_behind_tls,
    read_body,
    to_json_response,
)
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.web.page_routes import build_shell_response, load_site

routes = HttpRoutes()
permission_routes = HttpRoutes("/v1", "operator")

LINK_LIFETIME_S = 3600
LOGIN_BODY_LIMIT = 4_096  # bytes that anybody may send


class TokenLogin(StrictModel):
    token: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]


TOKEN = TypeAdapter(TokenLogin)


class LoginLink:
    """The secret in the login link that `serve` prints. It works once and expires soon, because terminal output is often kept. The
    links of `headway login` are in the database."""

    def __init__(self, secret: str | None, now: Callable[[], float] = time.monotonic) -> None:
        self.secret = secret
        self.now = now
        self.until = now() + LINK_LIFETIME_S

    def redeem(self, secret: str) -> bool:
        if self.now() > self.until:
            self.secret = None
        if self.secret is None or not hmac.compare_digest(self.secret.encode(), secret.encode(errors="replace")):
            return False
        self.secret = None
        return True


@routes.get("/login")
async def login(request: Request) -> Response:
    """Serve the login form. With the token from a link that `serve` or `login` printed, open a session and redirect to the page.
    With the digest of one, answer whether this server knows the link."""
    check_same_site(request)
    if digest := request.query_params.get("digest"):
        return Response(status_code=204 if await find_link_tenant(request.app.state.headway, digest[:NAME_LIMIT]) else 404)
    secret = request.query_params.get("token")
    if secret is None:
        return build_shell_response(request)
    link: LoginLink = request.app.state.login_link
    headway: Headway = request.app.state.headway
    session: NewToken | None
    if link.redeem(secret):
        session = await headway.database.write(lambda tx: tokens.open_link_session(tx, local_tenant.ensure_local(tx).id))
    else:
        session = await redeem_stored_link(headway, tokens.hash_secret(secret[:NAME_LIMIT]))
    if session is None:
        return build_shell_response(request, 401)
    return set_session_cookie(request, RedirectResponse("/", 303), session)


async def redeem_stored_link(headway: Headway, digest: str) -> NewToken | None:
    """Open a session for a link of `headway login`. Strangers may send anything here, so it is looked up before anything is
    written."""
    tenant_id = await find_link_tenant(headway, digest)
    if tenant_id is None:
        return None
    return await headway.database.of(tenant_id).write(partial(tokens.redeem_login_link, tenant_id=tenant_id, secret_digest=digest))


async def find_link_tenant(headway: Headway, digest: str) -> int | None:
    tenant = await headway.database.read(local_tenant.find_local)
    if tenant is None or not await headway.database.of(tenant.id).read(
        partial(tokens.has_login_link, tenant_id=tenant.id, secret_digest=digest)
    ):
        return None
    return tenant.id


@routes.post("/login")
async def login_with_token(request: Request) -> Response:
    """Open a session for a token. The session has the token's scopes and ends with it."""
    check_same_site(request)
    try:
        secret = TOKEN.validate_json(await read_body(request, LOGIN_BODY_LIMIT)).token.strip()
    except ValidationError as error:
        raise to_validation_problem(error) from None
    headway: Headway = request.app.state.headway
    digest, issuer = tokens.hash_secret(secret), find_issuer(secret)
    session = await headway.database.write(partial(tokens.open_session, secret_digest=digest, issuer=issuer))
    return set_session_cookie(request, Response(status_code=204), session)


def set_session_cookie(request: Request, answer: Response, session: NewToken) -> Response:
    """Set the session cookie. Behind TLS it is marked Secure and bound to the host by its name."""
    secure = is_behind_tls(request)
    name = SECURE_COOKIE if secure else SESSION_COOKIE
    lifetime_s = (session.token.expires_at - session.token.created_at) // 1000
    answer.set_cookie(name, session.secret, lifetime_s, path="/", secure=secure, httponly=True, samesite="strict")
    return answer


@routes.post("/logout")
async def logout(request: Request) -> Response:
    call = RequestContext(request)
    await call.headway.database.write(partial(tokens.sign_out, secret_digest=call.digest))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    if is_behind_tls(request):
        answer.delete_cookie(SECURE_COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return answer


@permission_routes.get(
    "/session", summary="Get the tenant and the permissions of the token", **document_route({200: shapes.OneSession})
)
async def get_session(request: Request) -> Response:
    call = RequestContext(request)

    def load(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        token = tokens.authenticate(tx, call.digest)
        tenant = tenants.get_tenant(tx, tenant_id)
        scope = rights.get_scope(tx, token)
        is_operator = scope == "operator"
        may = {"admin": scope in ("admin", "operator"), "operator": is_operator, "host": is_operator}
        workspace = settings.get_workspace(tenant_id) if rights.has_right(tx, token, "see_host_paths") else None
        return {
            "tenant": tenant.name,
            **may,
            "scopes": tokens.list_scopes(scope).split(","),
            "expires_at": token.expires_at // 1000,
            "workspace": workspace,
        }

    settings = call.headway.settings
    return to_json_response({"session": {**await call.read(load), "model": settings.model, "page": load_site().build}})
