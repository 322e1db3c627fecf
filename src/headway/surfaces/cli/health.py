"""The checks of `doctor`: a database, dispatch, models, the policy and the sandbox."""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.extras import describe_missing, is_installed
from headway.ledger.errors import HeadwayError, Invalid, ServerUnreachable, SettingsError
from headway.ledger.job import Halt
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.permission import FILE_NAME, GLOBS, Rule
from headway.ledger.tiers import REHEARSAL_MODEL, TIERS, Tier, TierParameters
from headway.settings import Settings, redact_database_url
from headway.settings.redaction import build_redactor
from headway.storage.direct import DirectDatabase, is_sqlite
from headway.storage.migrate import check_database
from headway.storage.postgres.fence import find_bypass
from headway.surfaces.cli.render import format_time

if TYPE_CHECKING:
    from headway.agents.models.trial import Trial


class Finding(NamedTuple):
    name: str
    detail: str
    ok: bool = True
    warning: bool = False  # unusual, but not a fault
    call: dict[str, Any] | None = None  # the request that was made to try a model
    cell: str = ""  # the cell that it is about

    def to_document(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if value or key not in ("call", "cell")}


# What `headway doctor` says about a database: its version, the processes that work on it, and a halt.


def inspect_opened(settings: Settings, database: DirectDatabase, name: str) -> list[Finding]:
    """Inspect the database of these settings, which is shown under this name. Raises the error that makes it unusable."""
    detail = database.read(check_database)
    halt = database.read(halts.find_active)
    workers = database.read(jobs.count_live_workers)
    bypass = database.read(find_bypass)
    at_work = f"{workers} running" if workers else "no process is running: start `headway serve` or `headway worker`"
    checked = [Finding("database", f"{name} ({detail})"), Finding("engine", at_work)]
    if bypass:
        checked.append(Finding("database", f"{bypass}, so row-level security does not apply. Use an ordinary role.", warning=True))
    checked += inspect_session(settings)
    return [*checked, build_halt_finding(halt)] if halt else checked


def inspect_session(settings: Settings) -> list[Finding]:
    """Check whether processes can keep a session with the Postgres server, which a pooler may prevent."""
    url, direct_url = settings.database_url, settings.database_direct_url
    if is_sqlite(url):
        ignored = "HEADWAY_DATABASE_DIRECT_URL is ignored, because the database is SQLite"
        return [Finding("database", ignored, warning=True)] if direct_url else []
    from headway.storage.postgres.opening import check_session  # noqa: PLC0415  SQLite users never load psycopg

    consequence = "Until then, events of other processes are found by polling, and a killed process is noticed after 5 seconds."
    try:
        problem = check_session(url, direct_url)
    except HeadwayError as error:
        return [Finding("database", f"{redact_database_url(direct_url or url)} (direct): {error}", ok=False)]
    if problem:
        return [Finding("database", f"{problem}. {consequence}", warning=True)]
    return [Finding("database", f"{redact_database_url(direct_url)} (direct)")] if direct_url else []


def build_halt_finding(halt: Halt) -> Finding:
    """Report an active halt as a warning: it is intended, but it explains why nothing runs."""
    reason = f": {halt.why}" if halt.why else ""
    detail = f"halted since {format_time(halt.since)}{reason}. Lift the halt with `headway unhalt`."
    return Finding("halt", detail, warning=True)


# What `headway doctor` says about the external engine that dispatches jobs.


def inspect_dispatch(settings: Settings) -> list[Finding]:
    if not settings.dispatch:
        return []
    from headway.dispatch.restate_address import parse_address  # noqa: PLC0415  most installations do not need these
    from headway.dispatch.restate_admin import is_registered, list_unreachable  # noqa: PLC0415

    if not is_installed("restate"):
        return [Finding("dispatch", describe_missing("restate", "Restate"), ok=False)]
    address = parse_address(settings.dispatch)
    unreachable = list_unreachable(address.ingress)
    names = ", ".join(map(str, unreachable))
    if len(unreachable) == len(address.ingress):
        return [Finding("dispatch", f"Restate does not answer at {names}. Jobs wait until it does.", ok=False)]
    findings = [
        Finding("dispatch", f"Restate, {len(address.ingress) - len(unreachable)} of {len(address.ingress)} addresses answer")
    ]
    if unreachable:
        findings.append(Finding("dispatch", f"Restate does not answer at {names}. The other addresses are used.", warning=True))
    if address.admin and is_registered(address) is False:
        detail = f"Restate has no service {address.service} yet. The next worker that starts registers it."
        findings.append(Finding("dispatch", detail, warning=True))
    return findings


# The part of `headway doctor` that checks models: whether they can be built, whether a local server runs, and how they
# answer.


CONNECT_TIMEOUT_S: Final = 2
PORTS: Final = {"http": 80, "https": 443}
LABELS: Final[dict[Tier, str]] = {"strong": "model", "mid": "mid", "cheap": "cheap"}


class Candidate(NamedTuple):
    """A model to check, once, with the parameters of the first tier that uses it."""

    label: str
    name: str
    parameters: TierParameters


def inspect_models(settings: Settings, *, may_call: bool) -> list[Finding]:
    """Check each configured model and fallback once. Models are called only if that is allowed, because calls cost money."""
    return [inspect_model(candidate, settings, may_call=may_call) for candidate in list_candidates(settings)]


def list_candidates(settings: Settings) -> Iterator[Candidate]:
    names = {"strong": settings.model, "mid": settings.model_mid, "cheap": settings.model_cheap}
    seen: set[str] = set()
    for tier in TIERS:
        parameters = settings.model_parameters[tier]
        for label, name in [(LABELS[tier], names[tier]), *(("fallback", name) for name in parameters.fallback)]:
            if name not in seen:
                seen.add(name)
                yield Candidate(label, name, parameters)


def inspect_model(candidate: Candidate, settings: Settings, *, may_call: bool) -> Finding:
    label, name, _ = candidate
    if name == REHEARSAL_MODEL:
        detail = "rehearsal: a built-in stand-in that follows rules, not an LLM; set HEADWAY_MODEL to use one."
        return Finding(label, detail)
    try:
        address = find_address(name)
    except HeadwayError as error:
        return Finding(label, str(error).removesuffix(" `headway doctor` checks it."), ok=False)
    if is_local(address) and not accepts_connections(address):
        return Finding(label, explain_stopped_server(name, address), ok=False)
    return call_model(candidate, address, settings) if may_call else Finding(label, name)


def find_address(name: str) -> str:
    from headway.agents.models.providers import build_model, get_address  # noqa: PLC0415  takes a second to import

    return get_address(build_model(name))


def explain_stopped_server(name: str, address: str) -> str:
    return f"{name}: no server is running at {address}. Start it, or change the address."


def check_local_server(settings: Settings) -> None:
    """Raise ServerUnreachable if the strong model is on this machine and its server is not running."""
    if settings.model == REHEARSAL_MODEL or settings.model_parameters["strong"].fallback:
        return
    with suppress(SettingsError):  # the turn reports it
        address = find_address(settings.model)
        if is_local(address) and not accepts_connections(address):
            raise ServerUnreachable(explain_stopped_server(settings.model, address))


def is_local(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def accepts_connections(address: str) -> bool:
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or PORTS.get(parts.scheme, 80)), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError):
        return False
    return True


def call_model(candidate: Candidate, address: str, settings: Settings) -> Finding:
    from headway.agents.models.prices import Prices, load_prices  # noqa: PLC0415
    from headway.agents.models.trial import try_model  # noqa: PLC0415

    label, name, parameters = candidate
    try:
        prices = Prices(load_prices(Path(settings.home, "prices.toml")))
        trial = asyncio.run(try_model(name, parameters, settings.model_timeout_s, prices, build_redactor(settings)))
    except HeadwayError as error:
        where = "" if address in str(error) else f" Its address is {address}."
        return Finding(label, f"{error}{where}", ok=False)
    cost = trial.call.cost / NANOS_PER_DOLLAR
    tokens = f"{trial.call.input_tokens} + {trial.call.output_tokens} tokens"
    price = "no known price" if prices.is_free(name) else f"${cost:.6f}"
    detail = f"{name}: answered in {trial.seconds:.1f} s, {describe_tools(trial)}, {tokens}, {price}"
    call = {
        "model": name,
        "address": address,
        "seconds": round(trial.seconds, 3),
        "tools": trial.called_tool,
        "input_tokens": trial.call.input_tokens,
        "output_tokens": trial.call.output_tokens,
        "cost_usd": cost,
    }
    return Finding(label, detail, warning=not trial.called_tool, call=call)


def describe_tools(trial: "Trial") -> str:
    if trial.called_tool:
        return "calls tools"
    return "has no function calling" if trial.lacks_tools else "did not call the tool that it was offered"


# What `headway doctor` says about the policy: its file, the rules in order, and the tools that need approval without a
# rule.


MAX_RULES = 50  # shown one by one


def inspect_policy(settings: Settings) -> list[Finding]:
    from pathlib import Path  # noqa: PLC0415  this import and the next three take longer than the rest of the command

    from headway.agents.policy_file import load_policy  # noqa: PLC0415
    from headway.agents.tools import catalogue  # noqa: PLC0415
    from headway.agents.tools.builtin import ExternalAccess  # noqa: PLC0415

    path = os.path.join(settings.home, FILE_NAME)
    try:
        rules = load_policy(path).rules
        access = ExternalAccess(settings.http_allow, settings.commands, settings.sandbox)
        asking = catalogue.build_toolbox(access, Path(settings.home, "tools")).list_asking_tools()
    except HeadwayError as error:
        return [Finding("policy", str(error), ok=False)]
    file = f"{path}, {len(rules)} rule{'s' if len(rules) != 1 else ''}" if os.path.exists(path) else f"no {path}"
    defaults = f"approval is needed for {', '.join(asking)}; other tools are allowed" if asking else "all tools are allowed"
    more = [Finding("policy", f"{len(rules) - MAX_RULES} more rules")] if len(rules) > MAX_RULES else []
    return [
        Finding("policy", f"{file}. Without a matching rule, {defaults}."),
        *(Finding("policy", describe_rule(rule)) for rule in rules[:MAX_RULES]),
        *more,
    ]


def describe_rule(rule: Rule) -> str:
    """Describe a rule in one line: `line 1: deny write_file, path = secrets/*, role = worker`."""
    fields = [f"{name} = {pattern}" for name, pattern in rule.arguments]
    fields += [f"{name} = {getattr(rule, name)}" for name in GLOBS if name != "tool" and getattr(rule, name) != "*"]
    return ", ".join([f"line {rule.line}: {rule.decision} {rule.tool}", *fields])


# What `headway doctor` says about the sandbox: whether programs run in one, and which of them it does not show.


def inspect_sandbox(settings: Settings) -> list[Finding]:
    from headway.agents.tools.programs import shell  # noqa: PLC0415  other commands do not need these
    from headway.agents.tools.programs.sandbox import find_fault  # noqa: PLC0415

    sandbox = settings.sandbox
    if fault := find_fault(sandbox):
        consequence = "are refused" if sandbox.mode == "required" else "run as this user, and each call needs approval"
        detail = f"none: {fault}. The programs of agents {consequence}."
        return [Finding("sandbox", detail, ok=sandbox.mode != "required", warning=bool(settings.commands))]
    seen = "programs see the system read-only and their workspace, without other files; limits are counted, without a cgroup"
    findings = [Finding("sandbox", f"bubblewrap: {seen}")]
    for program in settings.commands:
        try:
            shell.resolve_program(program, settings.commands, sandbox)
        except Invalid as error:
            findings.append(Finding("sandbox", str(error), warning=True))
    return findings
