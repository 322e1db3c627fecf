"""What is sent with a request besides its messages and tools: limits, parameters and instructions for the provider's cache."""

import hashlib
from collections.abc import Sequence
from typing import Final

from pydantic_ai.messages import ModelMessage, SystemPromptPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from headway.agents.models.providers import is_at_openai
from headway.ledger.tiers import TierParameters

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
