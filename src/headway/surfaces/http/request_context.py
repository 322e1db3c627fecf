"""One request: its body within limits, its scope, and its reads and writes."""

import asyncio
import gc
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from headway.actions.access import idempotency, tokens
from headway.actions.access.idempotency import Answer, IdempotentRequest
from headway.actions.access.tokens import Authenticate
from headway.agents.checks.completion import Prover
from headway.agents.checks.runner import PERSONAL_JUDGEMENT
from headway.agents.instructions.roles import SUPERVISOR, Role
from headway.agents.tools.execution import ResolvedScope
from headway.ledger import attachment
from headway.ledger.errors import (
    ChecksRequired,
    Forbidden,
    HeadwayError,
    Invalid,
    QuotaExceeded,
    StorageError,
    TurnRunning,
    Unauthorized,
    WrongCell,
)
from headway.ledger.events import to_json
from headway.ledger.scope import Scope
from headway.ledger.tenancy import Token
from headway.operations.fields import QueryModel
from headway.operations.requests import BODY_LIMIT, check_body, describe_limit, parse_id
from headway.process.assembly import Headway
from headway.storage.transaction import Transaction, Work
from headway.surfaces.http.problems import (
    Problem,
    encode_problem,
    get_http_status,
    to_problem,
    to_stored_problem_response,
    to_validation_problem,
)

T = TypeVar("T")

ATTACHMENTS_BODY_LIMIT = BODY_LIMIT + attachment.TOTAL_LIMIT * 4 // 3  # where messages carry files, in base64


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise build_too_large_problem(limit)
    request.scope["headway.reading"] = True
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise build_too_large_problem(limit)
            chunks.append(chunk)
    except ClientDisconnect:
        raise Invalid("The connection was closed before the body was complete.") from None
    request.scope["headway.reading"] = False
    return b"".join(chunks)


def build_too_large_problem(limit: int) -> Problem:
    return Problem(413, "too_large", describe_limit(limit))


def parse_body(shape: TypeAdapter[T], raw: bytes) -> T:
    """Parse a JSON body. Raises Invalid if it has too many values to parse them quickly, and ValidationError for other mistakes."""
    check_body(raw)
    with pause_collection():
        return shape.validate_json(raw)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Create many objects without the garbage collector, which would examine all of them several times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# One API request: authentication, parsing, and running an action. Handlers parse, call one action, and render its result.


K = TypeVar("K")
P = ParamSpec("P")
QueryT = TypeVar("QueryT", bound=QueryModel)
Action = Callable[[Transaction, int], T]

SESSION_COOKIE = "headway_session"
SECRET = re.compile(r"[A-Za-z0-9_-]{1,200}")  # another spelling of a token would be another caller for the rate limit
SECURE_COOKIE = "__Host-headway_session"  # behind TLS: browsers accept it only from this host, and never over plain HTTP
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


class AgentCaller(NamedTuple):
    """An agent that Headway does not run, on whose behalf a request acts."""

    name: str
    role: Role
    refusals: dict[int, str]  # why the checks of todos may not run, noted for the action, which runs again


class RequestContext:
    """A request that presents a secret. The caller was admitted, perhaps from a cache, so the secret is checked again in the
    transaction that acts on it: a token that was revoked a moment ago is refused."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.headway: Headway = request.app.state.headway
        self.digest: str = request.scope["headway.request"].digest or tokens.hash_secret(get_secret(request))
        self.needs_write = request.method not in SAFE_METHODS  # whether a token that may only read is refused
        self.raw = b""

    # Parsing

    async def body(self, shape: TypeAdapter[T], limit: int = BODY_LIMIT) -> T:
        """Read and parse the body of a caller who was admitted. More than BODY_LIMIT bytes must be declared."""
        declared = self.request.headers.get("content-length", "0")
        if not (declared.isdigit() and int(declared) > BODY_LIMIT):
            limit = BODY_LIMIT
        try:
            self.raw = await read_body(self.request, limit)
        except Problem as problem:
            await self.refuse(problem)
        kind = self.request.headers.get("content-type", "application/json").partition(";")[0]
        if kind.strip().lower() != "application/json":
            await self.refuse(Problem(415, "not_json", "Send the body as application/json."))
        try:
            return await self.parse(parse_body, shape, self.raw)
        except Invalid as error:
            await self.refuse(to_problem(error))
            raise
        except ValidationError as error:
            await self.refuse(to_validation_problem(error))
            raise

    async def query(self, shape: type[QueryT]) -> QueryT:
        try:
            return shape.parse(parse_qsl(self.request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
        except ValidationError as error:
            await self.refuse(to_validation_problem(error))
            raise

    async def parse_path_id(self, name: str) -> int:
        try:
            return parse_id(name, self.request.path_params[name])
        except HeadwayError as error:
            await self.refuse(to_problem(error))
            raise

    async def known(self, find: Callable[[K], T], key: K) -> T:
        """Look up or parse a part of the request. If that fails, refuse the request, but only after authentication."""
        try:
            return await self.parse(find, key)
        except HeadwayError as error:
            await self.refuse(to_problem(error))
            raise

    async def parse(self, function: Callable[P, T], *parts: P.args, **named: P.kwargs) -> T:
        """Call a function that parses the request: on another thread if the body carries files, because they take longer."""
        if len(self.raw) <= BODY_LIMIT:
            return function(*parts, **named)
        return await asyncio.to_thread(function, *parts, **named)

    async def refuse(self, problem: Problem) -> None:
        """Raise a problem, but authenticate first: a caller without a valid token learns nothing else."""
        await self.read(lambda _tx, _tenant_id: None)
        raise problem

    # Acting

    def authenticate(self, tx: Transaction) -> Token:
        """Return the caller's token, or raise an error if it is not valid or may not make this request."""
        return tokens.authenticate_for("change" if self.needs_write else "read")(tx, self.digest)

    async def read(self, view: Action[T], authenticate: Authenticate | None = None) -> T:
        def work(tx: Transaction) -> tuple[Token | None, T]:
            token = authenticate(tx, self.digest) if authenticate else self.authenticate(tx)
            return token if tokens.is_use_due(tx, token) else None, view(tx, token.tenant_id)

        due_token, value = await self.headway.database.read(work)
        if due_token:
            with suppress(StorageError):  # the read succeeded; the use of the token is recorded next time
                await self.headway.database.of(due_token.tenant_id).write(lambda tx: tokens.record_use(tx, due_token))
        return value

    async def write(
        self,
        action: Action[T],
        authenticate: Authenticate | None = None,
        agent: AgentCaller | None = None,
    ) -> T:
        def work(tx: Transaction) -> T:
            token = authenticate(tx, self.digest) if authenticate else self.authenticate(tx)
            tokens.record_use(tx, token)
            tx.actor = tokens.name_person(tx, token)
            return action(tx, token.tenant_id)

        return await self.commit(work, agent)

    async def commit(self, work: Work[T], agent: AgentCaller | None = None) -> T:
        """Run the work of a person or an agent. If it would complete or verify a todo that has checks, these run first."""
        try:
            return await self.headway.database.write(work)
        except ChecksRequired:
            prover = await self.build_prover(agent)
            return await prover.write(self.headway.database.write, work, agent.refusals if agent else None)

    async def build_prover(self, agent: AgentCaller | None) -> Prover:
        """Return what runs checks for the caller. These can take minutes, so the request has no time limit from then on."""
        headway, deadline = self.headway, self.request.scope["headway.deadline"]
        tenant_id, caller, author = await self.read(lambda tx, id: (id, self.describe_caller(tx), tx.author))
        role = agent.role if agent else headway.roles.find(SUPERVISOR)
        return Prover(
            headway.checks,
            headway.execution(ResolvedScope(Scope(tenant_id), None), role),
            agent.name if agent else caller,
            "" if agent else PERSONAL_JUDGEMENT,
            before_checks=lambda: deadline.reschedule(None),
            is_stopping=lambda: headway.feed.closed,
            is_operator=agent is None and author == "operator",
        )

    async def is_still_admitted(self) -> bool:
        """Return whether the token is still valid here, so that revoking a token also ends its streams."""
        try:
            await self.headway.database.read(partial(tokens.authenticate, secret_digest=self.digest))
        except (Unauthorized, WrongCell):
            return False
        except StorageError:
            pass  # without the database, no token counts as revoked
        return True

    def describe_caller(self, tx: Transaction) -> str:
        """Return the name of the person or program that makes the request."""
        return tokens.name_person(tx, tokens.authenticate(tx, self.digest))

    async def post(
        self,
        action: Action[Mapping[str, Any] | None],
        status: int = 201,
        agent: AgentCaller | None = None,
        authenticate: Authenticate | None = None,
    ) -> Response:
        """Run an action once per Idempotency-Key, and give the same response to every request with that key."""
        idempotent_request = self.parse_idempotency_key()
        if idempotent_request is None:
            return to_json_response(await self.write(action, authenticate, agent), status)

        def work(tx: Transaction) -> Answer:
            token = authenticate(tx, self.digest) if authenticate else self.authenticate(tx)
            tokens.record_use(tx, token)
            tx.actor = tokens.name_person(tx, token)
            return idempotency.run_once(
                tx, token.tenant_id, idempotent_request, lambda tx: capture_answer(tx, token.tenant_id, action, status)
            )

        return to_replay_response(await self.commit(work, agent), self.request.url.path)

    async def find_replay(self) -> Response | None:
        """Return the stored response to a repeated request. For work that cannot be in the transaction that stores its response."""
        repeated = self.parse_idempotency_key()
        if repeated is None:
            return None
        answer = await self.read(lambda tx, tenant_id: idempotency.find_answer(tx, tenant_id, repeated))
        return to_replay_response(answer, self.request.url.path) if answer else None

    def parse_idempotency_key(self) -> IdempotentRequest | None:
        key = self.request.headers.get("idempotency-key")
        return IdempotentRequest(self.request.url.path, key, hashlib.sha256(self.raw).hexdigest()) if key is not None else None


def capture_answer(tx: Transaction, tenant_id: int, action: Action[Mapping[str, Any] | None], status: int) -> Answer:
    """Run an action and return the response to store for its Idempotency-Key. Refusals are stored. Server errors, a turn that
    is still running and a full quota are not, because they may be retried, and neither are checks that have to run first."""
    try:
        document = tx.attempt(lambda tx: action(tx, tenant_id))
    except HeadwayError as error:
        if get_http_status(error) >= 500 or isinstance(error, TurnRunning | ChecksRequired | QuotaExceeded):
            raise
        problem = to_problem(error)
        return Answer(problem.status, encode_problem(problem))
    return Answer(204, "") if document is None else Answer(status, to_json(document))


def to_replay_response(answer: Answer, path: str) -> Response:
    if answer.status == 204:
        return to_json_response(None)
    if answer.status < 400:
        return Response(answer.body, answer.status, media_type="application/json")
    return to_stored_problem_response(answer.body, path)


def to_json_response(document: Mapping[str, Any] | None, status: int = 200) -> Response:
    if document is None:
        return Response(status_code=204)
    return Response(to_json(document), status, media_type="application/json")


# Authentication


def get_secret(request: Request) -> str:
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, secret = header.partition(" ")
        secret = secret.strip(" \t")
        if scheme.lower() != "bearer" or not SECRET.fullmatch(secret):
            raise Unauthorized
        return secret
    cookie = find_session_cookie(request)
    if not SECRET.fullmatch(cookie):
        raise Unauthorized
    check_same_site(request)
    return cookie


def find_cookie(header: str, name: str) -> str:
    """Return one cookie, without parsing the others: there may be thousands."""
    return f";{header.replace('; ', ';')}".partition(f";{name}=")[2].partition(";")[0].strip(" \t")


def find_session_cookie(request: Request) -> str:
    """Return the secret of the session. Behind TLS the plain cookie is ignored: a neighbouring host could have set it."""
    header = request.headers.get("cookie", "")
    secure = find_cookie(header, SECURE_COOKIE)
    return secure if secure or is_behind_tls(request) else find_cookie(header, SESSION_COOKIE)


def is_behind_tls(request: Request) -> bool:
    """Whether the page was served over HTTPS, as far as the browser or the proxy says."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return forwarded == "https" or request.headers.get("origin", "").startswith("https://")


def check_same_site(request: Request) -> None:
    """Refuse a session cookie that another site made the browser send. Only our own page may use it."""
    host = request.headers.get("host", "")
    bound_to = request.app.state.headway.settings.host
    if bound_to in LOOPBACK_NAMES and parse_host_name(host) not in LOOPBACK_NAMES:
        raise Forbidden("Sessions are only accepted under a loopback host name.")  # DNS rebinding
    if request.method in SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    same_origin = request.headers.get("sec-fetch-site") == "same-origin"
    if not (origin in (f"http://{host}", f"https://{host}") if origin else same_origin):
        raise Forbidden("A session can only be used from its own page. Programs must send a bearer token.")


def parse_host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # not a valid host
        return ""
