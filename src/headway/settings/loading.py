"""Loads the settings. Flags take precedence over HEADWAY_* variables, and variables over a .env file in the current folder.

The .env file is read only if the folder is trusted."""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from headway import trust
from headway.ledger import text
from headway.ledger.errors import SettingsError, UntrustedFolder
from headway.ledger.limits import MEBIBYTE, GoalLimits, Limits, Sandbox
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.tenancy import TASK_FOLDER, Quotas, Retention
from headway.ledger.tiers import Tier, TierParameters, build_parameters, check_tables
from headway.settings.declarations import PREFIX, SETTINGS, SettingArguments
from headway.settings.parsing import parse_path, redact_database_url

Source = Literal["flag", "environment", ".env", "models.toml", "default"]

WILDCARD_HOSTS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  recognized here, not bound to
TIER_SETTINGS: Final[dict[Tier, str]] = {"strong": "model", "mid": "model_mid", "cheap": "model_cheap"}
REFERENCE: Final = r"\$HEADWAY_([A-Z_]{1,40})"  # in a default
OTEL_VARIABLES = (
    "SDK_DISABLED",
    "TRACES_EXPORTER",
    "EXPORTER_OTLP_ENDPOINT",
    "EXPORTER_OTLP_TRACES_ENDPOINT",
    "EXPORTER_OTLP_PROTOCOL",
    "EXPORTER_OTLP_TRACES_PROTOCOL",
)
# Opts in to message content on spans. Instrumentation libraries accept the same words beside `true`.
TRACE_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRACE_CONTENT_VALUES = ("true", "1", "span_only", "span_and_event")


class SettingInForce(NamedTuple):
    """Where a setting comes from, and how it was given. The text is empty if it may contain a secret."""

    spelling: str
    source: Source


class TraceSettings(NamedTuple):
    exporter: str  # of OpenTelemetry spans; empty: no spans
    captures_content: bool  # whether spans contain messages, arguments and results


class Settings(NamedTuple):
    """The settings in force. The fields before `model_parameters` have the value of the declared setting with the same name."""

    home: str
    database_url: str
    database_direct_url: str
    dispatch: str
    directory_url: str
    workspace: str
    host: str
    port: int
    bootstrap_token: str
    anonymous_rate: int
    max_connections: int
    url: str
    model: str
    model_mid: str
    model_cheap: str
    model_timeout_s: float
    rehearsal_pace_s: float
    quotas: Quotas
    http_allow: tuple[str, ...]
    webhook_hosts: tuple[str, ...]
    commands: tuple[str, ...]
    restart_stagger_s: float
    retention: Retention
    notify: tuple[str, ...]
    model_parameters: Mapping[Tier, TierParameters]
    limits: Limits
    goals: GoalLimits
    sandbox: Sandbox
    traces: TraceSettings
    in_force: Mapping[str, SettingInForce] = {}  # each declared setting, by name

    def __repr__(self) -> str:
        """Show the settings without anything that may contain a password, because they end up in logs and tracebacks."""
        urls = {name: redact_database_url(value) for name, value in self._asdict().items() if name.endswith("_url")}
        fields = self._asdict() | urls | {"notify": f"{len(self.notify)} channels", "bootstrap_token": "…"}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in fields.items() if name != 'in_force')})"

    @property
    def model_names(self) -> list[str]:
        """Return the names of all models that may be asked, fallbacks included."""
        fallbacks = [name for parameters in self.model_parameters.values() for name in parameters.fallback]
        return list(dict.fromkeys((self.model, self.model_mid, self.model_cheap, *fallbacks)))

    @property
    def task_folder(self) -> str:
        """Return the folder of the conversations' task lists."""
        return os.path.join(self.home, *TASK_FOLDER.split("/"))

    @property
    def worktrees(self) -> str:
        """The folder that holds the worktrees of agents that work in a repository."""
        return os.path.join(self.home, "worktrees")

    def get_workspace(self, tenant_id: int) -> str:
        """Return the folder of a tenant's agents' files."""
        return os.path.join(self.workspace, str(tenant_id))

    def get_chat_history(self, tenant_id: int) -> str:
        """Return the folder of the messages that were typed in `headway chat` for a tenant."""
        return os.path.join(self.home, "chat_history", str(tenant_id))


def load(flags: Mapping[str, str | None] | None = None) -> Settings:
    """Load the settings. Flags are named without the prefix, e.g. {"home": "/var/lib/headway"}; None means "not given".
    Raises UntrustedFolder if the home is in the current folder, and neither a flag nor the environment names it."""
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    if unknown := sorted(given.keys() - SETTINGS.keys()):
        raise SettingsError(f"Unknown setting {unknown[0][:80]!r}. {suggest_setting(unknown[0])}")
    inspection = inspect_current_folder(given.get("home"))
    reader = SettingReader(given, os.environ, read_dotenv(inspection), {}, {})
    tables = load_tier_tables(os.path.join(reader.read("home"), "models.toml"))
    models = {name: tables[tier]["model"] for tier, name in TIER_SETTINGS.items() if "model" in tables.get(tier, {})}
    for name in SETTINGS:
        reader.read(name, models.get(name))
    settings = build_settings(reader.values, tables, reader.in_force)
    trust.record_new_home(inspection, settings.home)
    return settings


def suggest_setting(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only for a mistake

    similar = get_close_matches(name, SETTINGS, n=2)
    return f"Did you mean {' or '.join(similar)}?" if similar else f"Known settings: {', '.join(sorted(SETTINGS))}."


def list_misspelled(variables: Iterable[str]) -> list[str]:
    """Return a sentence for each variable that looks like a setting and is none. Others may be those of the user's own programs."""
    from difflib import get_close_matches  # noqa: PLC0415  only `doctor` asks

    names = [variable.removeprefix(PREFIX).lower() for variable in sorted(variables) if variable.startswith(PREFIX)]
    similar = {name: get_close_matches(name, SETTINGS, n=1, cutoff=0.7) for name in names if name not in SETTINGS}
    return [
        f"{PREFIX}{name.upper()} is no setting and has no effect. Did you mean {PREFIX}{found[0].upper()}?"
        for name, found in similar.items()
        if found
    ]


def load_arguments(arguments: SettingArguments) -> Settings:
    """Load the settings, with keyword arguments of a program as the flags."""
    return load({name: None if value is None else str(value) for name, value in arguments.items()})


class SettingReader(NamedTuple):
    """Reads settings one by one, in the order of their declarations, and records where they come from."""

    flags: Mapping[str, str]
    environment: Mapping[str, str]
    dotenv: Mapping[str, str | None]
    values: dict[str, Any]
    in_force: dict[str, SettingInForce]

    def read(self, name: str, in_models_file: str | None = None) -> Any:
        setting, variable = SETTINGS[name], PREFIX + name.upper()
        # An empty variable means "not set", as is usual on the command line.
        given: tuple[tuple[Source, str | None], ...] = (
            ("flag", self.flags.get(name)),
            ("environment", self.environment.get(variable)),
            (".env", self.dotenv.get(variable)),
            ("models.toml", in_models_file),
        )
        source, spelling = next(((source, value) for source, value in given if value), ("default", self.spell_default(name)))
        self.in_force[name] = SettingInForce("" if setting.show else spelling, source)
        self.values[name] = setting.parse(variable, text.check_text(spelling, variable))
        return self.values[name]

    def spell_default(self, name: str) -> str:
        default, values = SETTINGS[name].default, self.values
        if name == "url":  # not the host itself, which may be a wildcard
            return build_local_url(values["host"], values["port"])
        if not isinstance(default, str):
            return f"{default:g}"
        return re.sub(REFERENCE, lambda found: values[found[1].lower()], default) if "$" in default else default


def inspect_current_folder(home_flag: str | None) -> trust.Inspection:
    """Examine the current folder. If the home was named in a flag or in the environment, only `.env` needs trust."""
    if home_flag or os.environ.get("HEADWAY_HOME"):
        return trust.inspect_env(".")
    return trust.inspect(parse_path("HEADWAY_HOME", "."))


def read_dotenv(inspection: trust.Inspection) -> Mapping[str, str | None]:
    """Return the variables of `.env`, and export the ones that are not Headway's own.

    Raises UntrustedFolder if the home is in a folder that is not trusted. If the home is elsewhere, an untrusted `.env` is ignored.
    """
    if inspection.home and not inspection.may_be_used:
        raise UntrustedFolder(inspection.explain_refusal())
    dotenv = trust.use_env(inspection) if inspection.home or inspection.is_env_trusted else trust.ignore_env(inspection)
    for variable, value in dotenv.items():
        if value is not None and not variable.startswith(PREFIX):
            os.environ.setdefault(variable, value)  # providers' libraries read their keys from the environment
    return dotenv


def build_settings(
    values: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]], in_force: Mapping[str, SettingInForce]
) -> Settings:
    combined: dict[str, Any] = {
        "model_parameters": combine_parameters(values, tables),
        "limits": build_limits(values),
        "goals": build_goal_limits(values),
        "sandbox": build_sandbox(values),
        "traces": TraceSettings(resolve_exporter(), is_trace_content_requested()),
        "in_force": in_force,
    }
    return Settings(**{name: values[name] for name in Settings._fields if name not in combined}, **combined)


def build_sandbox(values: Mapping[str, Any]) -> Sandbox:
    """Build the sandbox. It hides the home, the database and the workspaces, apart from the one that a program works in."""
    return Sandbox(
        values["sandbox"],
        readable=values["sandbox_read"],
        hidden=(values["home"], values["workspace"], *list_database_files(values["database_url"])),
        memory=values["sandbox_memory_mib"] * MEBIBYTE,
        processes=values["sandbox_processes"],
    )


def list_database_files(url: str) -> list[str]:
    """List the files of an SQLite database. They need not be in the home."""
    path = url.removeprefix("sqlite:///")
    if path == url:
        return []
    folder, name = os.path.split(os.path.abspath(path))
    names = [name + suffix for suffix in ("", "-wal", "-shm", "-journal")]
    with suppress(OSError):  # the folder need not exist yet
        names += [entry for entry in os.listdir(folder) if entry.startswith(f"{name}.before-")]  # copies from before an upgrade
    return [os.path.join(folder, name) for name in names]


def build_limits(values: Mapping[str, Any]) -> Limits:
    limits = Limits()
    iterations = values["max_iterations"]
    # A limit that is set is kept, and not extended.
    with_plan, sub_agent = values["max_iterations_with_plan"], values["subagent_max_iterations"]
    return limits._replace(
        iterations=iterations,
        iterations_with_plan=max(iterations, with_plan or limits.iterations_with_plan),
        iterations_per_item=0 if with_plan else limits.iterations_per_item,
        sub_agent_iterations=sub_agent or limits.sub_agent_iterations,
        sub_agent_iterations_max=sub_agent or limits.sub_agent_iterations_max,
        resubmissions=values["max_resubmissions"],
        guard_refusals=values["guard_refusals"],
        attempts=max(1, values["model_retries"]),
        retry_delay_ms=int(values["retry_delay_s"] * 1000),
        retry_after_max_ms=int(values["retry_after_max_s"] * 1000),
        approval_ms=int(values["approval_timeout_s"] * 1000),
        per_parent=values["subagents_per_parent"],
        depth=values["agent_depth"],
        budget=int(values["budget_usd"] * NANOS_PER_DOLLAR),
    )


def build_goal_limits(values: Mapping[str, Any]) -> GoalLimits:
    return GoalLimits(
        replans=values["replan_limit"],
        discovery=values["goal_discovery"],
        check_in_ms=int(values["check_in_s"] * 1000),
        stuck_after_ms=int(values["stuck_after_s"] * 1000),
    )


def load_tier_tables(path: str) -> dict[str, dict[str, Any]]:
    if not os.path.isfile(path):
        return {}
    import tomllib  # noqa: PLC0415  most installations have no such file, and every command would pay for loading it

    try:
        with open(path, "rb") as file:
            return check_tables(tomllib.load(file), path)
    except (OSError, ValueError) as error:
        raise SettingsError(f'{path} cannot be read: {error}. Write a table per tier, such as [strong] and model = "…".') from None


def combine_parameters(values: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> dict[Tier, TierParameters]:
    """Return the parameters of each tier. A tier with the strong tier's model also has its parameters, except the ones it sets."""
    chosen = {name: values[name] for name in ("context_tokens", "max_output_tokens", "drive") if values[name] is not None}
    parameters: dict[Tier, TierParameters] = {}
    for tier, setting in TIER_SETTINGS.items():
        shared = tables.get("strong", {}) if values[setting] == values["model"] else {}
        parameters[tier] = build_parameters({**shared, **tables.get(tier, {}), **chosen})
    return parameters


def resolve_exporter() -> str:
    """Return the name of the trace exporter, from OpenTelemetry's own variables. An empty name means that tracing is off."""
    variables = {name: os.environ.get(f"OTEL_{name}", "").strip() for name in OTEL_VARIABLES}
    endpoint = variables["EXPORTER_OTLP_ENDPOINT"] or variables["EXPORTER_OTLP_TRACES_ENDPOINT"]
    name = variables["TRACES_EXPORTER"] or ("otlp" if endpoint else "none")
    if name == "none" or variables["SDK_DISABLED"].lower() == "true":
        return ""
    protocol = variables["EXPORTER_OTLP_TRACES_PROTOCOL"] or variables["EXPORTER_OTLP_PROTOCOL"]
    return name if name != "otlp" else "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"


def is_trace_content_requested() -> bool:
    return os.environ.get(TRACE_CONTENT_VARIABLE, "").strip().lower() in TRACE_CONTENT_VALUES


def build_local_url(host: str, port: int) -> str:
    """Return the URL for a browser on this machine. Wildcard hosts, which browsers cannot open, become the loopback address."""
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def get_environment() -> Mapping[str, str]:
    """Return the variables that configuration files may refer to."""
    return os.environ
