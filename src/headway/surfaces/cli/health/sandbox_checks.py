"""What `headway doctor` says about the sandbox: whether programs run in one, and which of them it does not show."""

from headway.ledger.errors import Invalid
from headway.settings import Settings
from headway.surfaces.cli.health.findings import Finding


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
