"""The home of one attempt: a folder with an empty database, the operator's configuration and the case's files."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headway.agents.instructions import role_files
from headway.agents.instructions.roles import INDEX, SUPERVISOR, Role, Roles
from headway.agents.models.prices import Prices, load_prices
from headway.agents.models.providers import build_model
from headway.agents.policy_file import format_rule, read_text
from headway.agents.tools import catalogue
from headway.agents.tools.programs.tools import RUN_COMMAND, RUN_PYTHON
from headway.evals.matrix import Attempt, MatrixCell
from headway.evals.suite import Case, Suite
from headway.ledger.errors import Invalid
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.ledger.run import to_nanos
from headway.ledger.tiers import TierParameters
from headway.outbound.addresses import is_host_allowed
from headway.settings import Settings

CONFIGURATION: Final = ("agents", "tools", "skills", "prices.toml")  # what agents are, without what they have done
MCP_FILE_NAME: Final = "mcp.json"
UNUSED_HOST: Final = "recorded.invalid"  # makes http_get available in a replay, where no request is made
TENANT_ID: Final = 1  # the local tenant of a new database


def check_access(settings: Settings, case: Case) -> None:
    """Raise Invalid if a case wants programs or hosts that the operator's settings do not allow."""
    place = f"Case {case.name!r}"
    if missing := [name for name in case.commands if name not in settings.commands]:
        raise Invalid(f"{place}: commands: {missing[0][:80]!r} is not allowed here. The operator allows it with HEADWAY_COMMANDS.")
    hosts = [host for host in case.http_allow if host not in settings.http_allow and "*" not in settings.http_allow]
    if refused := [host for host in hosts if host.startswith("*") or not is_host_allowed(host, settings.http_allow)]:
        raise Invalid(
            f"{place}: http_allow: {refused[0][:80]!r} is not allowed here. The operator allows it with HEADWAY_HTTP_ALLOW."
        )


def check_cells(settings: Settings, suite: Suite, cells: Sequence[MatrixCell], given_models: Sequence[str] = ()) -> None:
    """Raise an error for a model that cannot be used or a role that does not exist, before anything runs."""
    for name in {cell.model for cell in cells} - set(given_models):
        build_model(name)
    tools = catalogue.build_toolbox(folder=Path(settings.home, "tools")).tools
    roles = Roles(role_files.load(Path(settings.home, "agents"), tools))
    for role in {*(cell.role for cell in cells), *(case.role for case in suite.cases)} - {""}:
        roles.find(role)


def list_unpriced(settings: Settings, cells: Sequence[MatrixCell]) -> list[str]:
    """List the models whose calls count as $0, so that no budget stops them."""
    prices = Prices(load_prices(Path(settings.home, "prices.toml")))
    return prices.list_unpriced(cell.model for cell in cells)


def choose_role(attempt: Attempt) -> str:
    role = attempt.cell.role or attempt.case.role or INDEX
    return INDEX if role == SUPERVISOR else role


def extend_prompt(roles: Roles, name: str, addition: str) -> Roles:
    """Append a text to the prompt of a role."""
    role: Role = roles.find(name)
    changed = role._replace(prompt=f"{role.prompt}\n{addition}".strip())
    return Roles([*roles.by_name.values(), changed]) if addition else roles


def build_settings(settings: Settings, attempt: Attempt, home: Path, budget_usd: float, calls: Sequence[Any] | None) -> Settings:
    """Derive the settings of an attempt. `calls` are those of a recording, in a replay."""
    case, workspace = attempt.case, str(home / "workspace")
    settings = choose_model(settings, attempt.cell.model)._replace(
        home=str(home),
        database_url=f"sqlite:///{home / 'headway.db'}",
        dispatch="",  # an external one would deliver the jobs to workers of another database
        workspace=workspace,
        limits=settings.limits._replace(budget=to_nanos(budget_usd)),
        http_allow=case.http_allow,
        commands=case.commands,
        sandbox=settings.sandbox._replace(hidden=(*settings.sandbox.hidden, str(home), workspace)),
        notify=(),
    )
    if calls is None:
        return settings
    programs = {call["arguments"]["command"][0] for call in calls if call["tool"] == RUN_COMMAND}
    interpreters = {"python3" for call in calls if call["tool"] == RUN_PYTHON}
    return settings._replace(http_allow=(UNUSED_HOST,), commands=tuple(sorted({"true", *programs, *interpreters, *case.commands})))


def choose_model(settings: Settings, name: str) -> Settings:
    """Use a model for every tier. A cheap tier that the operator has chosen separately stays, because it judges."""
    if name == settings.model:
        return settings
    cheap = name if settings.model_cheap == settings.model else settings.model_cheap
    names = {"strong": name, "mid": name, "cheap": cheap}
    parameters = {
        tier: known if names[tier] == cheap != name else TierParameters(max_output_tokens=known.max_output_tokens)
        for tier, known in settings.model_parameters.items()
    }
    return settings._replace(model=name, model_mid=name, model_cheap=cheap, model_parameters=parameters)


def name_folder(attempt: Attempt) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', attempt.case.name)[:40].strip('-')}-{attempt.repetition}-{attempt.key[:8]}"


def prepare_home(home: Path, settings: Settings, suite: Suite, case: Case) -> int:
    """Create the home of an attempt. Returns the number of lines of the operator's policy: later rules are the case's."""
    shutil.rmtree(home, ignore_errors=True)  # what a killed run has left
    home.mkdir(parents=True)
    for name in (*CONFIGURATION, *((MCP_FILE_NAME,) if case.mcp else ())):
        source = Path(settings.home, name)
        if source.is_dir():
            shutil.copytree(source, home / name, symlinks=True)
        elif source.is_file():
            shutil.copy(source, home / name)
    write_files(home / "workspace" / str(TENANT_ID), suite, case)
    policy = read_text(os.path.join(settings.home, POLICY_FILE_NAME)).rstrip("\n")
    rules = [line for rule in case.policy for line in format_rule(rule)]
    if policy or rules:
        (home / POLICY_FILE_NAME).write_text("\n".join([policy, *rules]) + "\n", encoding="utf-8")
    return len(policy.split("\n"))


def write_files(workspace: Path, suite: Suite, case: Case) -> None:
    if isinstance(case.files, str):
        shutil.copytree(suite.find_file(case.files), workspace, symlinks=True)
        return
    workspace.mkdir(parents=True)
    for name, content in case.files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="")
