"""Call models by tier, stream their answers, and classify failures as transient or permanent."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings

from headway.agents.models.answer_limits import AnswerMeter, fill_in_usage, limit_calls
from headway.agents.models.capture import ReceivedBody, capture_body
from headway.agents.models.connections import find_endpoint
from headway.agents.models.failures import check_answer, describe_failure, find_requested_delay, is_transient
from headway.agents.models.prices import Prices
from headway.agents.models.rehearsal.model import build_rehearsal_model
from headway.agents.models.text_calls import extract_text_calls
from headway.agents.roles import Tier
from headway.agents.tracing import NullTracer, Tracer, to_usage_attributes, trace_model_call
from headway.agents.transcript import clean_response
from headway.ledger.errors import HeadwayError, SettingsError
from headway.ledger.redaction import Redactor
from headway.ledger.run import REHEARSAL_MODEL
from headway.ledger.text import to_one_line
from headway.storage.stores.spending import ModelCall

log = logging.getLogger("headway.models")

MESSAGE_LIMIT: Final = 500
PACKAGED_PROVIDERS: Final = ("anthropic", "google")
MISSING_VARIABLE: Final = re.compile(r"Set the `(\w+)` environment variable")


class ModelFailed(HeadwayError):
    """The model could not be called."""

    def __init__(self, message: str | None = None, *, is_transient: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.is_transient = is_transient
        self.retry_after_s = retry_after_s


class TextListener(Protocol):
    """Receives a model's text as it streams. `on_withdrawn` is called when the answer fails partway."""

    def on_text(self, text: str) -> None: ...

    def on_withdrawn(self) -> None: ...


class ModelReply(NamedTuple):
    response: ModelResponse
    call: ModelCall


class Models:
    """The models of an installation, by tier. Each is built on first use, unless `preload` was called."""

    def __init__(
        self,
        names: Mapping[Tier, str],
        timeout_s: float = 120.0,  # without any data received
        prices: Prices | None = None,
        known: Mapping[str, Model] | None = None,
        tracer: Tracer | None = None,
        redact: Redactor | None = None,
    ) -> None:
        self.names = names
        self.timeout_s = timeout_s
        self.prices = prices or Prices()
        self.tracer = tracer or NullTracer()
        self.redact = redact or Redactor()
        self.by_name: dict[str, Model] = dict(known or {})

    def find(self, tier: Tier) -> Model:
        name = self.names[tier]
        if name not in self.by_name:
            self.by_name[name] = build_model(name)
        return self.by_name[name]

    def preload(self) -> None:
        """Build all models now, because importing a provider's library blocks for about a second.

        A model that cannot be built is skipped here; using it raises the error.
        """
        for tier in self.names:
            with suppress(SettingsError):
                self.find(tier)

    async def close(self) -> None:
        """Close the connections that providers' libraries keep open."""
        for model in self.by_name.values():
            async with model:  # leaving the context closes them
                pass

    def estimate(self, tier: Tier, characters: Callable[[], int]) -> int:
        """Estimate a call's maximum cost. The message length is computed only for models that have a price."""
        name = self.names[tier]
        return 0 if self.prices.is_free(name) else self.prices.estimate(name, characters())

    async def ask(
        self,
        tier: Tier,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        listener: TextListener | None = None,
    ) -> ModelReply:
        """Ask for one answer, or raise ModelFailed with what to do and whether the failure is transient.

        Retrying is up to the caller, which can wait without holding a slot and across restarts.
        """
        with trace_model_call(self.tracer, self.names[tier]) as note:
            reply = await self.answer(tier, messages, parameters, listener)
            note(to_usage_attributes(reply.call))
        return reply

    async def answer(
        self, tier: Tier, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, listener: TextListener | None
    ) -> ModelReply:
        model = self.find(tier)
        with capture_body(model) as received:
            try:
                offered = {tool.name for tool in parameters.function_tools}
                response = clean_response(await self.stream(model, messages, parameters, listener), offered)
                check_answer(response, received)
                accepted = limit_calls(extract_text_calls(response, parameters.function_tools))
                if listener and accepted.text != response.text:  # users saw a tool call as text
                    listener.on_withdrawn()
                    listener.on_text(accepted.text or "")
            except Exception as error:  # providers' libraries raise arbitrary errors on malformed answers
                if listener:
                    listener.on_withdrawn()
                raise self.failure(tier, error, received) from error
        return ModelReply(accepted, self.to_model_call(tier, response, messages, parameters))

    def failure(self, tier: Tier, error: Exception, received: ReceivedBody) -> ModelFailed:
        name = self.names[tier]
        if not isinstance(error, AgentRunError | UserError | OSError):
            log.warning("the answer of %s could not be read", name, exc_info=error)
        redact = Redactor((*list_api_keys(self.find(tier)), *self.redact.secrets))
        message = describe_failure(find_endpoint(self.find(tier), name, self.timeout_s), error, received, redact)
        return ModelFailed(message, is_transient=is_transient(error, received), retry_after_s=find_requested_delay(error))

    async def stream(
        self, model: Model, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, listener: TextListener | None
    ) -> ModelResponse:
        loop = asyncio.get_running_loop()
        meter = AnswerMeter(self.timeout_s, loop.time())
        async with (
            asyncio.timeout(self.timeout_s) as deadline,
            model_request_stream(model, messages, model_settings=self.settings, model_request_parameters=parameters) as stream,
        ):
            async for event in stream:
                deadline.reschedule(loop.time() + self.timeout_s)
                if listener and (text := extract_text(event)):
                    listener.on_text(text)
                if meter.must_stop(event, loop.time()):
                    return meter.cut_off(stream.get())  # leaving the context closes the connection
        return stream.get()

    @cached_property
    def settings(self) -> ModelSettings:
        # We retry ourselves. The providers' own retries would be invisible and would multiply ours.
        return ModelSettings(timeout=self.timeout_s, max_retries=0)

    def to_model_call(
        self, tier: Tier, response: ModelResponse, messages: Sequence[ModelMessage], parameters: ModelRequestParameters
    ) -> ModelCall:
        name = self.names[tier]
        usage = response.usage if self.prices.is_free(name) else fill_in_usage(response, messages, parameters)
        return ModelCall(tier, name, usage.input_tokens, usage.output_tokens, self.prices.cost(name, usage))


def build_model(name: str) -> Model:
    """Build the model with this name. Its API key and base URL come from the provider's usual environment variables."""
    if name == REHEARSAL_MODEL:
        return build_rehearsal_model()
    provider, _, model_name = name.partition(":")
    try:
        if not model_name.strip():
            raise ValueError("write it as provider:name")
        return infer_model(name)
    except (UserError, ValueError) as error:
        missing = MISSING_VARIABLE.search(str(error))
        if missing and provider == "ollama":
            return build_local_ollama(name)
        reason = f"set {missing[1]}" if missing else to_one_line(str(error))[:MESSAGE_LIMIT].rstrip(".")
        raise SettingsError(f"The model {name[:120]!r} cannot be used: {reason}. `headway doctor` checks it.") from None
    except ImportError:
        package = "headway" if provider in PACKAGED_PROVIDERS else "pydantic-ai-slim"
        raise SettingsError(f"The model {name[:120]!r} needs a library: pip install '{package}[{provider}]'.") from None


def build_local_ollama(name: str) -> Model:
    """Build an Ollama model at Ollama's default address."""
    from pydantic_ai.models.ollama import OllamaModel  # noqa: PLC0415  only Ollama users need it
    from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415

    return OllamaModel(name.partition(":")[2], provider=OllamaProvider(base_url="http://localhost:11434/v1"))


def extract_text(event: object) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


def list_api_keys(model: Model) -> tuple[str, ...]:
    """Return the API key that a provider's error may quote, if its library exposes it. A key passed in code is in no setting."""
    key = getattr(getattr(model, "client", None), "api_key", None)
    return (key,) if key and isinstance(key, str) else ()
