"""/login and /logout: from the link that `serve` prints to a cookie that only our own page can use."""

import hmac
from functools import partial
from html import escape

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headway import __version__
from headway.actions import tenants
from headway.actions.tenants import NewToken
from headway.assembly import Headway
from headway.ledger.errors import HeadwayError
from headway.storage.transaction import Transaction
from headway.surfaces.http.calls import SESSION_COOKIE, Call, check_same_site

routes = APIRouter(include_in_schema=False)

SESSION_S = 30 * 24 * 3600
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


class LoginLink:
    """The secret in the link that `serve` prints. It opens the door once."""

    def __init__(self, secret: str | None) -> None:
        self.secret = secret

    def redeem(self, given: str) -> bool:
        if self.secret is None or not hmac.compare_digest(self.secret.encode(), given.encode(errors="replace")):
            return False
        self.secret = None
        return True


def page(title: str, text: str, status: int = 200) -> HTMLResponse:
    html = f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><h1>{escape(title)}</h1><p>{escape(text)}</p>"
    return HTMLResponse(html, status, {"Content-Security-Policy": PAGE_POLICY})


@routes.get("/")
async def index(request: Request) -> Response:
    try:
        await Call(request).read(lambda _tx, _tenant_id: None)
    except HeadwayError:
        return page("Headway", "You are not signed in. Open the link that `headway serve` printed when it started.", 401)
    return page(f"Headway {__version__}", "You are signed in. The API is at /v1, its description at /openapi.json.")


@routes.get("/login")
async def login(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    link: LoginLink = request.app.state.login_link
    check_same_site(request)
    if not link.redeem(request.query_params.get("token", "")):
        return page("This link no longer works", "A login link works once. Restart `headway serve` to get a new one.", 401)
    session = await headway.database.write(open_session)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(SESSION_COOKIE, session.secret, max_age=SESSION_S, httponly=True, samesite="strict", path="/")
    return answer


def open_session(tx: Transaction) -> NewToken:
    """A session is a token that lives in a cookie: hashed, revocable, and it ends by itself."""
    return tenants.new_token(tx, tenants.ensure_local(tx).id, "browser session", SESSION_S, operator=True)


@routes.post("/logout")
async def logout(request: Request) -> Response:
    call = Call(request)
    await call.headway.database.write(partial(tenants.sign_out, secret_digest=call.digest))
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    return answer
