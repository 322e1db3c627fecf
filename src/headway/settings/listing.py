"""Lists the settings in force for people: `headway settings`, GET /v1/settings and the page."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headway.settings.declarations import GROUPS, PREFIX
from headway.settings.loading import Settings
from headway.settings.parsing import hide
from headway.settings.redaction import SECRET_NAME_PATTERN

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
    for group, declared in GROUPS.items():
        for name, setting in declared.items():
            spelling, source = settings.in_force[name]
            value = setting.show(getattr(settings, name)) if setting.show else spelling
            yield encode(PREFIX + name.upper(), value, source, group, setting.sentence, is_secret=setting.show is hide)


def list_others(variables: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, description in PROVIDER_VARIABLES.items():
        given, is_secret = variables.get(name, ""), bool(SECRET_NAME_PATTERN.search(name))
        value = hide(given) if is_secret else remove_credentials(given)
        yield encode(name, value, "environment" if given else "default", "Providers", description, is_secret=is_secret)


def encode(name: str, value: str, source: str, group: str, description: str, *, is_secret: bool) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source, "group": group, "description": description, "secret": is_secret}


def remove_credentials(url: str) -> str:
    """Return the address alone: scheme, host, port and path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "set"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
