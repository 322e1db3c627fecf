"""What each setting means, in the order and the groups in which people read them. docs/settings.md says more."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headway.settings import SECRET_NAME_PATTERN, Settings
from headway.settings_sources import PREFIX, SettingInForce, hide_secrets

LOCATIONS: Final = {
    "home": "The folder of the database, the task files, and your own tools, roles, skills and models",
    "database_url": "The database: a SQLite file or a Postgres server",
    "database_direct_url": "The Postgres server itself, if the other URL leads to a pooler",
    "dispatch": "The external engine that dispatches the jobs; not set: Headway does it",
    "directory_url": "The database that knows all cells; not set: the database itself",
    "workspace": "The files of agents, in one folder per tenant",
    "host": "The address that the server listens on",
    "port": "The port that the server listens on",
    "bootstrap_token": "An operator's token that the server creates when it starts",
    "anonymous_rate": "Requests per second of one address without a valid token",
    "max_connections": "Connections of the server",
    "url": "The public address, for links in notices",
}
MODELS: Final = {
    "model": "The model of the strong tier, which answers people and plans",
    "model_mid": "The model of the mid tier, for workers",
    "model_cheap": "The model of the cheap tier, for the assessor, the evaluator and summaries",
    "context_tokens": "Tokens that a request and its answer may have together; not set: the model's window",
    "max_output_tokens": "Tokens that an answer may have; not set: 8192, and at most a quarter of the window",
    "drive": "plan: an agent works through its whole plan in one context; item: the runtime takes up what is left, item by item",
    "model_timeout_s": "Seconds without data before a call fails",
    "model_retries": "Attempts at a call in all, for failures that may pass",
    "retry_delay_s": "Seconds before the second attempt; doubled each time",
    "retry_after_max_s": "The longest delay asked for by a provider that is obeyed, in seconds",
    "rehearsal_pace_s": "Seconds that the rehearsal model takes for each answer",
}
LIMITS: Final = {
    "budget_usd": "Dollars that the agents of a tenant may spend in 24 hours, unless it has its own limit",
    "quotas": "What one tenant may use of what all tenants share",
    "max_iterations": "Model calls of a turn",
    "max_iterations_with_plan": "Model calls of a turn whose plan has open items; not set: 50, or three per item and ten more",
    "subagent_max_iterations": "Model calls of a sub-agent; not set: 20, up to 50 while it makes progress",
    "max_resubmissions": "Further items of a queue in one turn",
    "subagents_per_parent": "Sub-agents of one parent that work at the same time",
    "agent_depth": "How deep sub-agents may nest",
    "approval_timeout_s": "Seconds after which a call that was not approved expires",
    "http_allow": "Hosts that agents may fetch from; not set: there is no such tool",
    "webhook_hosts": "Hosts that webhooks may be sent to",
    "commands": "Programs that agents may run; not set: there are no such tools",
    "sandbox": "Whether these programs run in a sandbox",
    "sandbox_read": "Paths that the sandbox shows read-only, besides the system's",
    "sandbox_memory_mib": "Memory of a program and everything that it starts, in MiB",
    "sandbox_processes": "Processes of a program",
}
GOALS: Final = {
    "replan_limit": "New plans that a goal may make before a person decides",
    "goal_discovery": "Whether a goal that an agent proposes waits for approval or starts immediately",
    "check_in_s": "Seconds until the main agent first checks on a sub-agent; doubled each time",
    "stuck_after_s": "Seconds without progress after which a sub-agent counts as stuck",
    "restart_stagger_s": "Seconds over which jobs restart after a takeover",
    "retention": "After how many days rows are deleted; what is not named is kept",
    "notify": "Notification channels of the operator. Their addresses are secrets",
}
GROUPS: Final = {
    "Locations": LOCATIONS,
    "Models": MODELS,
    "Limits of agents": LIMITS,
    "Goals and the operator": GOALS,
}
# The variables of model providers and of OpenTelemetry. They are not Headway's, but decide where its requests go.
PROVIDER_VARIABLES: Final = {
    "OPENAI_API_KEY": "The key for OpenAI, and for servers that imitate it",
    "OPENAI_BASE_URL": "The address of such a server",
    "ANTHROPIC_API_KEY": "The key for Anthropic",
    "GOOGLE_API_KEY": "The key for Google",
    "GEMINI_API_KEY": "The key for Google, by its other name",
    "OPENROUTER_API_KEY": "The key for OpenRouter",
    "OLLAMA_BASE_URL": "The address of Ollama",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "Where traces are sent",
}


def list_settings(settings: Settings) -> list[dict[str, Any]]:
    """List the settings in force with their sources, and whether the variables of providers are set. Secrets are never included."""
    return [*list_own(settings), *list_others(os.environ)]


def list_own(settings: Settings) -> Iterator[dict[str, Any]]:
    # What `serve` finds out only when it listens.
    found = {"port": str(settings.port), "url": hide_secrets("url", settings.url)} | {
        "home": settings.home,
        "workspace": settings.workspace,
        "quotas": settings.quotas.spelling,
    }
    for group, descriptions in GROUPS.items():
        for name, description in descriptions.items():
            given = settings.in_force.get(name, SettingInForce("", "default"))
            value = found.get(name, given.value)
            yield encode(f"{PREFIX}{name.upper()}", value, given.source, group, description)


def list_others(variables: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, description in PROVIDER_VARIABLES.items():
        given = variables.get(name, "")
        value = given and ("set" if SECRET_NAME_PATTERN.search(name) else remove_credentials(given))
        yield encode(name, value, "environment" if given else "default", "Providers", description)


def encode(name: str, value: str, source: str, group: str, description: str) -> dict[str, Any]:
    is_secret = bool(SECRET_NAME_PATTERN.search(name)) and not name.endswith("_TOKENS")
    return {"name": name, "value": value, "source": source, "group": group, "description": description, "secret": is_secret}


def remove_credentials(url: str) -> str:
    """Return the address alone: scheme, host, port and path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "set"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
