"""What `headway doctor` says about the external engine that dispatches jobs."""

from headway.extras import describe_missing, is_installed
from headway.settings import Settings
from headway.surfaces.cli.health.findings import Finding


def inspect_dispatch(settings: Settings) -> list[Finding]:
    if not settings.dispatch:
        return []
    from headway.dispatch.restate.admin import is_registered, list_unreachable  # noqa: PLC0415
    from headway.ledger.parsing.restate_address import parse_address  # noqa: PLC0415  most installations do not need these

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
