"""What `headway doctor` says about the policy: its file, the rules in order, and the tools that need approval without a rule."""

import os

from headway.ledger.errors import HeadwayError
from headway.ledger.permission import FILE_NAME, GLOBS, Rule
from headway.settings import Settings
from headway.surfaces.cli.health.findings import Finding

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
