"""Reads all settings. Flags take precedence over HEADWAY_* variables, and those over a .env file in the current folder.

The .env file is read only if the folder is trusted."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headway import trust
from headway.ledger.errors import SettingsError, UntrustedFolder
from headway.ledger.goal import GoalLimits
from headway.ledger.redaction import MIN_SECRET_LENGTH, Redactor, encode_credentials, list_spellings
from headway.ledger.retention import Retention, parse_retention
from headway.ledger.run import MEBIBYTE, NANOS_PER_DOLLAR, REHEARSAL_MODEL, SANDBOX_MODES, Limits, Sandbox
from headway.ledger.tenancy import TASK_FOLDER, Quotas, parse_quotas
from headway.ledger.tiers import (
    DRIVES,
    MAX_TOKENS,
    MIN_CONTEXT_TOKENS,
    MIN_OUTPUT_TOKENS,
    Tier,
    TierParameters,
    build_parameters,
    check_tables,
)
from headway.settings_parsing import (
    check_channels,
    parse_bootstrap_token,
    parse_direct_url,
    parse_directory_url,
    parse_discovery,
    parse_dispatch,
    parse_integer,
    parse_list,
    parse_port,
)
from headway.settings_sources import PREFIX, SettingInForce, SettingReader, redact_database_url

SECRET_NAME_PATTERN = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|OTLP_\w{0,40}HEADERS")
USERINFO_PATTERN = re.compile(r"://([^/?#\s:]*:[^/?#\s]*)@")
PASSWORD_PATTERN = re.compile(r"(?<=password=)[^&\s]+")
MIN_URL_PART_LENGTH = 8
WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  recognized here, not bound to
OTEL_VARIABLES = (
    "SDK_DISABLED",
    "TRACES_EXPORTER",
    "EXPORTER_OTLP_ENDPOINT",
    "EXPORTER_OTLP_TRACES_ENDPOINT",
    "EXPORTER_OTLP_PROTOCOL",
    "EXPORTER_OTLP_TRACES_PROTOCOL",
)
# Opts in to message content on spans. The words are those that instrumentation libraries accept beside `true`.
TRACE_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRACE_CONTENT_VALUES = ("true", "1", "span_only", "span_and_event")


class TraceSettings(NamedTuple):
    exporter: str  # of OpenTelemetry spans; empty: no spans
    captures_content: bool  # whether spans contain messages, arguments and results


class Settings(NamedTuple):
    home: str
    database_url: str
    database_direct_url: str  # for the session with Postgres, if the other leads to a pooler; empty: the other one
    directory_url: str  # of the database that knows all cells; empty: the database itself
    dispatch: str  # the external engine that dispatches jobs; empty: Headway does it
    model: str
    model_mid: str
    model_cheap: str
    model_parameters: Mapping[Tier, TierParameters]
    model_timeout_s: float
    rehearsal_pace_s: float  # how long the rehearsal model waits before each answer, for demonstrations
    limits: Limits
    goals: GoalLimits
    restart_stagger_s: float
    retention: Retention  # after how many days rows are deleted
    http_allow: tuple[str, ...]  # hosts that http_get may request; empty: no such tool
    webhook_hosts: tuple[str, ...]  # hosts that webhooks may be sent to
    commands: tuple[str, ...]  # programs that agents may run; empty: no such tools
    sandbox: Sandbox  # for the programs that agents run
    workspace: str  # holds one folder per tenant, for its agents' files
    host: str
    port: int
    bootstrap_token: str  # an operator's token that `serve` creates when it starts; empty: none
    max_connections: int  # of the HTTP server
    anonymous_rate: int  # requests per second of one address without a valid token
    url: str  # the public address of this Headway, for links
    quotas: Quotas  # of each tenant
    notify: tuple[str, ...]  # the operator's notification channels; these URLs are secrets
    traces: TraceSettings
    in_force: Mapping[str, SettingInForce] = {}  # each setting by its name in lower case, as it was given

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
    flag_values = {name: value for name, value in (flags or {}).items() if value is not None}
    inspection = inspect_current_folder(flag_values.get("home"))
    dotenv = read_dotenv(inspection)

    reader = SettingReader(flag_values, os.environ, dotenv, {})
    get, count, amount = reader.get, reader.read_count, reader.read_amount
    home = resolve_path("HEADWAY_HOME", get("home", ".headway"))
    workspace = resolve_path("HEADWAY_WORKSPACE", get("workspace", os.path.join(home, "workspace")))
    tables = load_tier_tables(os.path.join(home, "models.toml"))
    names = choose_models(get, tables)
    host, port = get("host", "127.0.0.1"), parse_port(get("port", "8484"))
    settings = Settings(
        home=home,
        database_url=get("database_url", f"sqlite:///{os.path.join(home, 'headway.db')}"),
        database_direct_url=parse_direct_url(get("database_direct_url", "")),
        directory_url=parse_directory_url(get("directory_url", "")),
        dispatch=parse_dispatch(get("dispatch", "")),
        model=names["strong"],
        model_mid=names["mid"],
        model_cheap=names["cheap"],
        model_parameters=combine_parameters(get, names, tables),
        model_timeout_s=amount("model_timeout_s", 120, minimum=0.1),
        rehearsal_pace_s=amount("rehearsal_pace_s", 0),
        limits=build_limits(count, amount),
        goals=build_goal_limits(get, count, amount),
        restart_stagger_s=amount("restart_stagger_s", 2),
        retention=parse_retention("HEADWAY_RETENTION", get("retention", "")),
        http_allow=parse_list(get("http_allow", "")),
        webhook_hosts=parse_list(get("webhook_hosts", "*")),
        commands=parse_list(get("commands", "")),
        sandbox=build_sandbox(get, (home, workspace)),
        workspace=workspace,
        host=host,
        port=port,
        anonymous_rate=parse_integer("HEADWAY_ANONYMOUS_RATE", get("anonymous_rate", "20"), 1, 1_000_000),
        bootstrap_token=parse_bootstrap_token(get("bootstrap_token", "")),
        max_connections=parse_integer("HEADWAY_MAX_CONNECTIONS", get("max_connections", "10000"), 10, 1_000_000),
        url=parse_url(get("url", build_local_url(host, port))),
        quotas=parse_quotas("HEADWAY_QUOTAS", get("quotas", "")),
        notify=check_channels(parse_list(get("notify", ""))),
        traces=TraceSettings(resolve_exporter(), is_trace_content_requested()),
        in_force=reader.in_force,
    )
    check_known(flag_values, set(reader.in_force))
    trust.record_new_home(inspection, home)
    return settings


def check_known(names: Iterable[str], known: set[str]) -> None:
    if unknown := sorted(set(names) - known):
        raise SettingsError(f"Unknown setting {unknown[0][:80]!r}. Known settings: {', '.join(sorted(known))}.")


def inspect_current_folder(home_flag: str | None) -> trust.Inspection:
    """Examine the current folder. If the home was named in a flag or in the environment, only `.env` needs trust."""
    if home_flag or os.environ.get("HEADWAY_HOME"):
        return trust.inspect_env(".")
    return trust.inspect(resolve_path("HEADWAY_HOME", "."))


def read_dotenv(inspection: trust.Inspection) -> Mapping[str, str | None]:
    """Return the variables of `.env`, and export those that are not Headway's own.

    Raises UntrustedFolder if the home is in a folder that is not trusted. If the home is elsewhere, an untrusted `.env` is ignored.
    """
    if inspection.home and not inspection.may_be_used:
        raise UntrustedFolder(inspection.explain_refusal())
    dotenv = trust.use_env(inspection) if inspection.home or inspection.is_env_trusted else trust.ignore_env(inspection)
    for variable, value in dotenv.items():
        if value is not None and not variable.startswith(PREFIX):
            os.environ.setdefault(variable, value)  # providers' libraries read their keys from the environment
    return dotenv


def build_sandbox(get: Callable[[str, str], str], hidden: tuple[str, ...]) -> Sandbox:
    """Read the settings of the sandbox. It hides the home and the workspaces, apart from the one that a program works in."""
    mode, shown = get("sandbox", Sandbox().mode), parse_list(get("sandbox_read", ""))
    if mode not in SANDBOX_MODES:
        raise SettingsError(f"HEADWAY_SANDBOX must be {', '.join(SANDBOX_MODES[:-1])} or {SANDBOX_MODES[-1]}, not {mode[:40]!r}.")
    if wrong := [path for path in shown if not os.path.isabs(path)]:
        raise SettingsError(f"HEADWAY_SANDBOX_READ must be a comma-separated list of absolute paths; {wrong[0][:80]!r} is not one.")

    def size(name: str, default: int, minimum: int) -> int:
        return parse_integer(PREFIX + name.upper(), get(name, str(default)), minimum, 10_000_000)

    readable = tuple(map(os.path.normpath, shown))
    memory = size("sandbox_memory_mib", Sandbox().memory // MEBIBYTE, 16) * MEBIBYTE
    return Sandbox(mode, readable, (), hidden, memory=memory, processes=size("sandbox_processes", Sandbox().processes, 1))


def build_limits(count: Callable[..., int], amount: Callable[..., float]) -> Limits:
    iterations = count("max_iterations", Limits().iterations)
    # 0 means that the variable is not set. A limit that is set is kept, and not extended.
    with_plan, sub_agent = count("max_iterations_with_plan", 0), count("subagent_max_iterations", 0)
    return Limits(
        iterations=iterations,
        iterations_with_plan=max(iterations, with_plan or Limits().iterations_with_plan),
        iterations_per_item=0 if with_plan else Limits().iterations_per_item,
        sub_agent_iterations=sub_agent or Limits().sub_agent_iterations,
        sub_agent_iterations_max=sub_agent or Limits().sub_agent_iterations_max,
        resubmissions=count("max_resubmissions", Limits().resubmissions, minimum=0),
        attempts=max(1, count("model_retries", Limits().attempts, minimum=0)),
        retry_delay_ms=int(amount("retry_delay_s", 1) * 1000),
        retry_after_max_ms=int(amount("retry_after_max_s", Limits().retry_after_max_ms / 1000) * 1000),
        approval_ms=int(amount("approval_timeout_s", Limits().approval_ms / 1000, minimum=1) * 1000),
        per_parent=count("subagents_per_parent", Limits().per_parent),
        depth=count("agent_depth", Limits().depth, minimum=0),
        budget=int(amount("budget_usd", 5.00) * NANOS_PER_DOLLAR),
    )


def build_goal_limits(get: Callable[[str, str], str], count: Callable[..., int], amount: Callable[..., float]) -> GoalLimits:
    return GoalLimits(
        replans=count("replan_limit", GoalLimits().replans, minimum=0),
        discovery=parse_discovery(get("goal_discovery", GoalLimits().discovery)),
        check_in_ms=int(amount("check_in_s", GoalLimits().check_in_ms / 1000, minimum=0.1) * 1000),
        stuck_after_ms=int(amount("stuck_after_s", GoalLimits().stuck_after_ms / 1000) * 1000),
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


def choose_models(get: Callable[..., str], tables: Mapping[str, Mapping[str, Any]]) -> dict[Tier, str]:
    """Return the model of each tier: the variable, or models.toml, or the strong tier's."""

    def choose(setting: str, tier: Tier, default: str) -> str:
        named = tables.get(tier, {}).get("model")
        return get(setting, named, "models.toml") if named else get(setting, default)

    strong = choose("model", "strong", REHEARSAL_MODEL)
    return {"strong": strong, "mid": choose("model_mid", "mid", strong), "cheap": choose("model_cheap", "cheap", strong)}


def combine_parameters(
    get: Callable[[str, str], str], names: Mapping[Tier, str], tables: Mapping[str, Mapping[str, Any]]
) -> dict[Tier, TierParameters]:
    """Return the parameters of each tier. A tier with the strong tier's model also has its parameters, except those it sets."""
    sizes = {"context_tokens": MIN_CONTEXT_TOKENS, "max_output_tokens": MIN_OUTPUT_TOKENS}
    spellings = {name: get(name, "") for name in sizes}
    chosen: dict[str, Any] = {
        name: parse_integer(PREFIX + name.upper(), spelling, sizes[name], MAX_TOKENS)
        for name, spelling in spellings.items()
        if spelling
    }
    if drive := get("drive", ""):
        if drive not in DRIVES:
            raise SettingsError(f"HEADWAY_DRIVE must be {' or '.join(DRIVES)}, not {drive[:40]!r}.")
        chosen["drive"] = drive
    shared = {tier: tables.get("strong", {}) if name == names["strong"] else {} for tier, name in names.items()}
    return {tier: build_parameters({**shared[tier], **tables.get(tier, {}), **chosen}) for tier in names}


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


def resolve_path(variable: str, name: str) -> str:
    """Resolve a path without pathlib, which takes longer to load than a short command takes to run."""
    path = os.path.expanduser(name)
    try:
        if path.startswith("~"):
            raise OSError("there is no such user")
        return os.path.abspath(path)
    except OSError as error:  # also raised if the current folder was deleted
        raise SettingsError(f"{variable}={name[:200]!r} cannot be resolved: {error}") from None


def build_local_url(host: str, port: int) -> str:
    """Return the URL for a browser on this machine. Wildcard hosts, which browsers cannot open, become the loopback address."""
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def parse_url(url: str) -> str:
    """Check the public URL and strip trailing slashes, because links are built by appending a path."""
    if not re.match(r"https?://[^/?#\s]", url):
        quoted = USERINFO_PATTERN.sub("://…@", url)[:80]
        raise SettingsError(f"HEADWAY_URL must be a URL like https://headway.example.org, not {quoted!r}.")
    return url.rstrip("/")


def build_redactor(settings: Settings, *more_secrets: str) -> Redactor:
    """Collect the secrets to redact: passwords in URLs, channels, and environment variables whose names look like secrets."""
    secret_values = [*more_secrets, *(value for name, value in os.environ.items() if SECRET_NAME_PATTERN.search(name))]
    headers = [part.partition("=")[2].strip() for value in secret_values for part in value.split(",") if "=" in part]
    database_urls = (settings.database_url, settings.database_direct_url, settings.directory_url)
    credentials = [
        credential
        for value in (*database_urls, *settings.notify, *os.environ.values())
        for credential in USERINFO_PATTERN.findall(value)
    ]
    passwords = [credential.partition(":")[2] for credential in credentials] + PASSWORD_PATTERN.findall(" ".join(database_urls))
    # Services put tokens anywhere in a URL. Its short parts are treated as ordinary words.
    parts = [part for url in settings.notify for part in re.split("[/:@?&=]", url) if len(part) >= MIN_URL_PART_LENGTH]
    secrets = {
        *secret_values,
        *headers,
        *(header.split()[-1] for header in headers if header),
        *passwords,
        *settings.notify,
        *parts,
    }
    spellings = {spelling for secret in secrets for spelling in list_spellings(secret)} | {
        encode_credentials(credential) for credential in credentials
    }
    return Redactor(
        tuple(sorted((spelling for spelling in spellings if len(spelling) >= MIN_SECRET_LENGTH), key=len, reverse=True))
    )


def get_environment() -> Mapping[str, str]:
    """Return the variables that configuration files may refer to."""
    return os.environ
