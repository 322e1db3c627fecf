"""Providers of models: their clients, context windows, and the settings of a request."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, SystemPromptPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.rehearsal.model import build_rehearsal_model
from headway.extras import describe_remedy
from headway.ledger.errors import MissingExtra, SettingsError
from headway.ledger.text import to_one_line
from headway.ledger.tiers import REHEARSAL_MODEL, TierParameters

MESSAGE_LIMIT: Final = 500
OWN_EXTRAS: Final = {"anthropic": "anthropic", "google": "google", "openai": "openai", "tiktoken": "openai"}  # by module
MISSING_VARIABLE: Final = re.compile(r"Set the `(\w+)` environment variable")
OLLAMA_URL: Final = "http://localhost:11434/v1"
ADAPTED_LIMIT: Final = 1_000
OPENAI_HOSTS: Final = re.compile(r"(^|\.)(openai|azure)\.com$")


def get_provider(name: str) -> str:
    return name.partition(":")[0]


def build_model(name: str) -> Model:
    """Build the model with this name. Its API key and base URL come from the provider's usual environment variables."""
    if name == REHEARSAL_MODEL:
        return build_rehearsal_model()
    provider, _, model_name = name.partition(":")
    try:
        if not model_name.strip():
            raise ValueError("write it as provider:name")
        return adapt_model(infer_model(name))
    except (UserError, ValueError) as error:
        missing = MISSING_VARIABLE.search(str(error))
        if missing and provider == "ollama":
            return adapt_model(build_local_ollama(name))
        reason = f"set {missing[1]}" if missing else to_one_line(str(error))[:MESSAGE_LIMIT].rstrip(".")
        raise SettingsError(f"The model {name[:120]!r} cannot be used: {reason}. `headway doctor` checks it.") from None
    except ImportError as error:
        raise MissingExtra(
            f"The model {name[:120]!r} needs a library that is not installed: {find_remedy(error, provider)}."
        ) from None


def find_remedy(error: ImportError, provider: str) -> str:
    """Return the command that installs the library that an import did not find. pydantic-ai reports it with another error."""
    missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    extra = OWN_EXTRAS.get((missing.name or "").partition(".")[0])
    return describe_remedy(extra) if extra else f"pip install 'pydantic-ai-slim[{provider}]'"


def build_local_ollama(name: str) -> Model:
    """Build an Ollama model at Ollama's default address."""
    from pydantic_ai.models.ollama import OllamaModel  # noqa: PLC0415  only Ollama users need it
    from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415

    return OllamaModel(name.partition(":")[2], provider=OllamaProvider(base_url=OLLAMA_URL))


def adapt_model(model: Model) -> Model:
    client = getattr(model, "client", None)
    if type(client).__module__.partition(".")[0] == "openai":
        from headway.agents.models.openai_client import send_plain_requests  # noqa: PLC0415  the model has loaded the library

        send_plain_requests(client)
    adapt_tools_once(model)
    return limit_with_max_tokens(model)


def adapt_tools_once(model: Model) -> None:
    """Adapt the schema of each tool to the provider's dialect once. The library does so in every request, although the tools of a
    turn stay the same. For forty tools that takes 3 ms, in which the event loop does nothing else."""
    adapt = model.customize_request_parameters
    adapted: dict[int, tuple[ToolDefinition, ToolDefinition]] = {}  # with the original, whose id stays in use as long

    def adapt_tool(tool: ToolDefinition) -> ToolDefinition:
        known = adapted.get(id(tool))
        if known is None:
            if len(adapted) >= ADAPTED_LIMIT:
                adapted.clear()
            (result,) = adapt(ModelRequestParameters(function_tools=[tool])).function_tools
            known = adapted[id(tool)] = (tool, result)
        return known[1]

    def adapt_request(parameters: ModelRequestParameters) -> ModelRequestParameters:
        tools = [adapt_tool(tool) for tool in parameters.function_tools]
        return replace(adapt(replace(parameters, function_tools=[])), function_tools=tools)

    model.customize_request_parameters = adapt_request  # type: ignore[method-assign, assignment]


def limit_with_max_tokens(model: Model) -> Model:
    """Send the limit of an answer as `max_tokens` to servers that only imitate OpenAI's chat API.

    OpenAI calls it `max_completion_tokens` now. Ollama and others accept that field and ignore it. OpenAI's own reasoning models
    refuse the older name, also behind a proxy.
    """
    is_imitation = model.system == "ollama" or (model.system == "openai" and not is_at_openai(model))
    if is_imitation and not model.profile.get("openai_supports_reasoning"):
        model.profile = merge_profile(model.profile, OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False))
    return model


def is_at_openai(model: Model) -> bool:
    return bool(OPENAI_HOSTS.search(urlsplit(get_address(model)).hostname or ""))


def is_near(model: Model) -> bool:
    """Whether a model's server is on this machine or in its network."""
    host = urlsplit(get_address(model)).hostname or ""
    try:
        return bool(host) and ip_address(host).is_private
    except ValueError:  # a name; one without a dot is known in the own network only
        return bool(host) and ("." not in host or host.endswith((".local", ".internal", ".localhost")))


def get_address(model: Model) -> str:
    """Return the base URL of the model's provider without user and password; empty for a model in this process."""
    try:
        parts = urlsplit(model.base_url or "")
    except (AttributeError, UserError, ValueError):  # some providers have no address
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


# The context window of a model: what is known about it, or a size that is safe to assume.


REHEARSAL_WINDOW: Final = 1_000_000
DEFAULT_WINDOW: Final = 16_384
OLLAMA_WINDOW: Final = 4_096  # what a server loads a model with by default; longer requests lose their beginning without an error
OUTPUT_SHARE: Final = 4  # an answer takes at most a quarter of the window


def find_window(name: str, model: Model | None) -> int:
    """Return the model's context window in tokens. `model` is None if it could not be built."""
    if name == REHEARSAL_MODEL:
        return REHEARSAL_WINDOW
    if get_provider(name) == "ollama":  # the server's setting decides, whatever the model was trained for
        return OLLAMA_WINDOW
    return (model.context_window if model else None) or DEFAULT_WINDOW


def limit_output(max_output_tokens: int, context_tokens: int) -> int:
    return min(max_output_tokens, context_tokens // OUTPUT_SHARE)


# The rest of a request, besides its messages and tools: limits, parameters and instructions for the provider's cache.


KEY_LENGTH: Final = 32
MIN_THINKING_TOKENS: Final = 1_024  # Anthropic accepts no smaller budget


def build_settings(
    model: Model, parameters: TierParameters, max_tokens: int, messages: Sequence[ModelMessage], *, use_tools: bool
) -> ModelSettings:
    """Build the settings of one request. Parameters that are not set are not sent."""
    settings = ModelSettings(max_tokens=max_tokens, cache=True)
    if getattr(getattr(model, "client", None), "max_retries", None) != 0:
        # We retry ourselves. The providers' own retries would be invisible and would multiply ours.
        settings["max_retries"] = 0
    if parameters.temperature is not None:
        settings["temperature"] = parameters.temperature
    if parameters.thinking is not None:
        settings["thinking"] = parameters.thinking
    if not use_tools:
        settings["tool_choice"] = "none"
    return settings | build_thinking_budget(model, parameters, max_tokens) | build_cache_key(model, messages)


def build_thinking_budget(model: Model, parameters: TierParameters, max_tokens: int) -> ModelSettings:
    """Limit the thinking of Anthropic's older models to half of the answer: they reject a budget that exceeds it."""
    is_budgeted = model.system == "anthropic" and not model.profile.get("anthropic_supports_adaptive_thinking")
    if not (is_budgeted and parameters.thinking and model.profile.get("supports_thinking")):
        return ModelSettings()
    from pydantic_ai.models.anthropic import AnthropicModelSettings  # noqa: PLC0415  the model has loaded it
    from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP  # noqa: PLC0415

    budget = min(ANTHROPIC_THINKING_BUDGET_MAP[parameters.thinking], max_tokens // 2)
    if budget < MIN_THINKING_TOKENS:
        return AnthropicModelSettings(anthropic_thinking={"type": "disabled"})
    return AnthropicModelSettings(anthropic_thinking={"type": "enabled", "budget_tokens": budget})


def build_cache_key(model: Model, messages: Sequence[ModelMessage]) -> ModelSettings:
    """Give all requests of a run one key, so that OpenAI routes them to the machine that has their prefix in its cache.

    Requests of a run begin with the same message. Other servers with this API may reject the field.
    """
    if model.system != "openai" or not is_at_openai(model) or not messages:
        return ModelSettings()
    from pydantic_ai.models.openai import OpenAIChatModelSettings  # noqa: PLC0415  the model has loaded it

    parts = [part for part in messages[0].parts if isinstance(part, SystemPromptPart | UserPromptPart)]
    digest = hashlib.sha256("\n".join(str(part.content) for part in parts).encode())
    return OpenAIChatModelSettings(openai_prompt_cache_key=digest.hexdigest()[:KEY_LENGTH])
