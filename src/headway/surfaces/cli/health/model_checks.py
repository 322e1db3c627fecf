"""The part of `headway doctor` that checks models: whether they can be built, whether a local server runs, and how they answer."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from headway.ledger.errors import HeadwayError, ServerUnreachable, SettingsError
from headway.ledger.run import NANOS_PER_DOLLAR, REHEARSAL_MODEL
from headway.ledger.tiers import TIERS, Tier, TierParameters
from headway.settings import Settings
from headway.settings.redaction import build_redactor
from headway.surfaces.cli.health.findings import Finding

if TYPE_CHECKING:
    from headway.agents.models.trial import Trial

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
