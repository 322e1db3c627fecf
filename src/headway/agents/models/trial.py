"""Models as `doctor` and the page show them: the tiers, and one short call to try a model."""

import time
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.client import ModelFailed, Models
from headway.agents.models.prices import Prices
from headway.agents.models.providers import get_address
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.errors import SettingsError
from headway.ledger.text import Redactor
from headway.ledger.tiers import REHEARSAL_MODEL, Tier, TierParameters
from headway.storage.stores.spending import ModelCall

MAX_OUTPUT_TOKENS: Final = 512  # reasoning models think before they call a tool
TOOL: Final = ToolDefinition(
    name="ping", description="Answer that you are there.", parameters_json_schema={"type": "object", "properties": {}}
)
INSTRUCTIONS: Final = "This is a connection test."
REQUEST: Final = "Call the tool ping once."
REQUEST_WITHOUT_TOOLS: Final = "Answer with the word pong."


class Trial(NamedTuple):
    call: ModelCall
    seconds: float
    called_tool: bool
    lacks_tools: bool  # the provider refused the tool, or models.toml says that the model has none


async def try_model(name: str, parameters: TierParameters, timeout_s: float, prices: Prices, redact: Redactor) -> Trial:
    """Ask the model once, or twice if it refuses the tool. Raise ModelFailed or SettingsError if it does not answer."""
    limit = min(MAX_OUTPUT_TOKENS, parameters.max_output_tokens)
    own = parameters._replace(fallback=(), max_output_tokens=limit)
    models = Models({"cheap": name}, timeout_s, prices, redact=redact, parameters={"cheap": own})
    try:
        return await ask_once(models, offers_tool=models.describe("cheap").supports_tools)
    except ModelFailed as failed:
        if not failed.lacks_tools:
            raise
        return await ask_once(models, offers_tool=False)
    finally:
        await models.close()


async def ask_once(models: Models, *, offers_tool: bool) -> Trial:
    parameters = ModelRequestParameters(
        function_tools=[TOOL] if offers_tool else [], instruction_parts=[InstructionPart(content=INSTRUCTIONS)]
    )
    began = time.monotonic()
    reply = await models.ask("cheap", [build_user_message(REQUEST if offers_tool else REQUEST_WITHOUT_TOOLS)], parameters)
    called = any(call.tool_name == TOOL.name for call in reply.response.tool_calls)
    return Trial(reply.call, time.monotonic() - began, called, not offers_tool)


class TierTrial(NamedTuple):
    """The answer of a tier's model to a message of a person."""

    answer: str
    call: ModelCall
    seconds: float


async def try_tier(models: Models, tier: Tier, message: str) -> TierTrial:
    """Ask the model of a tier, without fallbacks and tools, for a short answer. Raise ModelFailed or SettingsError if there is
    none."""
    own = models.get_parameters(tier)
    limit = min(MAX_OUTPUT_TOKENS, own.max_output_tokens)
    models = models.with_parameters(tier, own._replace(fallback=(), max_output_tokens=limit))
    parameters = ModelRequestParameters(instruction_parts=[InstructionPart(content=INSTRUCTIONS)])
    began = time.monotonic()
    reply = await models.ask(tier, [build_user_message(message)], parameters)
    return TierTrial(reply.response.text or "", reply.call, time.monotonic() - began)


# Tiers as people see them: which model each has, where it is and what is known about it.


def describe_tier(models: Models, tier: Tier) -> dict[str, Any]:
    """Describe a tier, also if its model cannot be built. The address has neither a password nor a path."""
    name, host, error = models.names[tier], "", ""
    try:
        host = urlsplit(get_address(models.find(tier))).netloc
    except SettingsError as failure:
        error = str(failure)
    info = models.describe(tier)
    return {
        "tier": tier,
        "model": name,
        "host": host,
        "context_tokens": info.context_tokens,
        "context_source": "set" if info.is_context_set else "known",
        "max_output_tokens": info.max_output_tokens,
        "supports_tools": info.supports_tools,
        "fallback": models.list_names(tier)[1:],
        "priced": name == REHEARSAL_MODEL or not models.prices.is_free(name),
        "error": error,
    }
