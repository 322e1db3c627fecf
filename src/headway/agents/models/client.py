"""Call models by tier, stream their answers, and classify failures as transient or permanent."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from headway.agents import tracing
from headway.agents.models.capture import ReceivedBody, capture_body
from headway.agents.models.connections import (
    AnswerMeter,
    build_unread_answer,
    fill_in_usage,
    find_endpoint,
    is_too_long,
    lacks_tools,
    limit_calls,
)
from headway.agents.models.failures import (
    check_answer,
    describe_failure,
    find_requested_delay,
    is_plausible,
    is_request_at_fault,
    is_transient,
)
from headway.agents.models.prices import Prices, count_cached
from headway.agents.models.providers import build_model, build_settings, find_window, is_near, limit_output
from headway.agents.models.text_calls import StreamedText, TextListener, extract_text_calls, may_contain_call, report_broken_call
from headway.agents.tracing import NullTracer, Tracer, to_answer_attributes, trace_model_call
from headway.agents.transcripts.transcript import clean_response
from headway.ledger.errors import HeadwayError, Invalid, SettingsError
from headway.ledger.parsing.read_calls import CallJudge, is_always_own
from headway.ledger.text import Redactor
from headway.ledger.tiers import Tier, TierParameters
from headway.storage.stores.spending import ModelCall, SpendingTotal

log = logging.getLogger("headway.models")

DEFAULT_PARAMETERS: Final = TierParameters()
RENEWAL_SHARE: Final = 0.02  # of the time limit: how much earlier than that an answer without data may be given up


class ModelFailed(HeadwayError):
    """The model could not be called."""

    def __init__(
        self,
        message: str | None = None,
        *,
        is_transient: bool = False,
        retry_after_s: float | None = None,
        is_too_long: bool = False,
        lacks_tools: bool = False,
        is_request_at_fault: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_transient = is_transient
        self.retry_after_s = retry_after_s
        self.is_too_long = is_too_long  # the request exceeds the model's context window
        self.lacks_tools = lacks_tools  # the model or its server has no function calling
        self.is_request_at_fault = is_request_at_fault  # another model must not be asked the same


class ModelInfo(NamedTuple):
    """Limits on the requests to a tier."""

    name: str
    context_tokens: int  # of a request and its answer together
    max_output_tokens: int  # sent with every call
    supports_tools: bool
    is_context_set: bool = False  # by the installation, instead of being known or assumed


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
        parameters: Mapping[Tier, TierParameters] | None = None,
    ) -> None:
        self.names = names
        self.parameters = parameters or {}
        self.timeout_s = timeout_s
        self.prices = prices or Prices()
        self.tracer = tracer or NullTracer()
        self.redact = redact or Redactor()
        self.by_name: dict[str, Model] = dict(known or {})
        self.totals: dict[str, SpendingTotal] = {}  # of the calls that this process made
        self.without_tools: set[str] = set()  # models that refused tools in this process
        self.sizes: dict[Tier, tuple[int, int]] = {}

    def list_names(self, tier: Tier) -> list[str]:
        """Return the names of the tier's model and of its fallbacks."""
        return list(dict.fromkeys((self.names[tier], *self.get_parameters(tier).fallback)))

    def get_parameters(self, tier: Tier) -> TierParameters:
        return self.parameters.get(tier, DEFAULT_PARAMETERS)

    def using(self, tier: Tier, name: str) -> "Models":
        """Return these models with another one for a tier. It has no fallbacks, so that it is the one that answers."""
        own = self.get_parameters(tier)._replace(fallback=(), context_tokens=None, tools=True)
        models = self.with_parameters(tier, own)
        models.names = {**self.names, tier: name}
        return models

    def with_parameters(self, tier: Tier, parameters: TierParameters) -> "Models":
        """Return these models with other parameters for a tier."""
        models = copy(self)
        models.parameters = {**self.parameters, tier: parameters}
        models.sizes = {}
        return models

    def check(self, name: str) -> None:
        """Raise Invalid if a model cannot be chosen: it cannot be built, or its calls would not count against the budget."""
        if name in self.by_name or any(name in self.list_names(tier) for tier in self.names):
            return
        if ":" in name and self.prices.is_free(name):
            raise Invalid(f"The model {name[:120]!r} has no price here. Add it to prices.toml or to models.toml first.")
        try:
            build_model(name)
        except SettingsError as error:
            raise Invalid(str(error)) from None

    def find(self, tier: Tier) -> Model:
        return self.load(self.names[tier])

    def load(self, name: str) -> Model:
        if name not in self.by_name:
            self.by_name[name] = build_model(name)
        return self.by_name[name]

    def preload(self) -> None:
        """Build all models now, because importing a provider's library blocks for about a second.

        A model that cannot be built is skipped here; using it raises the error.
        """
        for name in {name for tier in self.names for name in self.list_names(tier)}:
            self.try_load(name)

    def try_load(self, name: str) -> Model | None:
        with suppress(SettingsError):
            return self.load(name)
        return None

    async def close(self) -> None:
        """Close the connections that providers' libraries keep open."""
        for model in self.by_name.values():
            async with model:  # leaving the context closes them
                pass

    def describe(self, tier: Tier) -> ModelInfo:
        name = self.names[tier]
        context_tokens, max_output_tokens = self.find_sizes(tier)
        supports_tools = self.get_parameters(tier).tools and self.supports_tools(name)
        is_set = self.get_parameters(tier).context_tokens is not None
        return ModelInfo(name, context_tokens, max_output_tokens, supports_tools, is_set)

    def find_sizes(self, tier: Tier) -> tuple[int, int]:
        """Return the context window and the longest answer, in tokens. They suit every model of the tier."""
        if tier not in self.sizes:
            parameters = self.get_parameters(tier)
            known = min(find_window(name, self.try_load(name)) for name in self.list_names(tier))
            context_tokens = parameters.context_tokens or known
            self.sizes[tier] = context_tokens, limit_output(parameters.max_output_tokens, context_tokens)
        return self.sizes[tier]

    def drives_items(self, tier: Tier) -> bool:
        """Whether the runtime keeps the books for a tier's agents. A model on an own server is usually a small one."""
        drive = self.get_parameters(tier).drive
        if drive is None:
            model = self.try_load(self.names[tier])
            return model is not None and is_near(model)
        return drive == "item"

    def supports_tools(self, name: str) -> bool:
        model = self.by_name.get(name) or self.try_load(name)
        return name not in self.without_tools and (model is None or model.profile.get("supports_tools", True))

    def estimate(self, tier: Tier, count_tokens: Callable[[], int]) -> int:
        """Return the most that a call can cost, in nanos. Tokens are counted only for models that have a price."""
        if not self.is_priced(tier):
            return 0
        input_tokens, output_tokens = count_tokens(), self.find_sizes(tier)[1]
        return max(self.prices.estimate(name, input_tokens, output_tokens) for name in self.list_names(tier))

    def is_priced(self, tier: Tier) -> bool:
        """Whether a call of the tier can cost anything."""
        return any(map(self.prices.costs_money, self.list_names(tier)))

    async def ask(
        self,
        tier: Tier,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        listener: TextListener | None = None,
        *,
        use_tools: bool = True,
        judge: CallJudge = is_always_own,
    ) -> ModelReply:
        """Ask for one answer, or raise ModelFailed with what to do and whether the failure is transient.

        A fallback is asked at once when a model is out of service, but not when the request is at fault. Retrying is up to the
        caller, which can wait without holding a slot and across restarts. With `use_tools=False` the tools are sent, so that the
        prefix of the request stays the same for the provider's cache, but the model may not call them.
        """
        failures: list[ModelFailed | SettingsError] = []
        for name in self.list_candidates(tier, parameters):
            try:
                model, max_tokens = self.load(name), self.find_sizes(tier)[1]
                settings = build_settings(model, self.get_parameters(tier), max_tokens, messages, use_tools=use_tools)
                settings["timeout"] = self.timeout_s
                with trace_model_call(self.tracer, name, settings) as note:
                    if self.tracer.captures_content:
                        note(tracing.describe_request(messages, parameters, self.build_redactor(name)))
                    begun: list[ModelResponse] = []
                    try:
                        reply = await self.answer(name, messages, parameters, settings, listener, judge, begun)
                    except BaseException:  # a canceled call is billed as well
                        self.report_broken(tier, name, begun, messages, parameters)
                        raise
                    call = self.to_model_call(tier, name, reply, messages, parameters)
                    note(to_answer_attributes(reply, call))
                    if self.tracer.captures_content:
                        note(tracing.describe_answer(reply, self.build_redactor(name)))
                self.totals[name] = self.totals.get(name, SpendingTotal(name)).add(call)
                return ModelReply(reply, call)
            except (ModelFailed, SettingsError) as error:
                failures.append(error)
                if isinstance(error, ModelFailed) and error.is_request_at_fault:
                    break
        raise combine_failures(failures)

    def list_candidates(self, tier: Tier, parameters: ModelRequestParameters) -> list[str]:
        """Return the models to ask, in order. A fallback without function calling cannot replace a model that was offered tools."""
        first, *fallbacks = self.list_names(tier)
        return [first, *(name for name in fallbacks if not parameters.function_tools or self.supports_tools(name))]

    async def answer(
        self,
        name: str,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        settings: ModelSettings,
        listener: TextListener | None,
        judge: CallJudge,
        begun: list[ModelResponse],
    ) -> ModelResponse:
        """Return the answer. `begun` gets what was received of it, whatever happens then."""
        model = self.load(name)
        streamed = StreamedText(listener) if listener else None
        with capture_body(model) as received:
            try:
                offered = {tool.name for tool in parameters.function_tools}
                may_call = settings.get("tool_choice") != "none"
                response = clean_response(await self.stream(model, messages, parameters, settings, streamed, begun), offered)
                check_answer(response, received)
                extract = partial(extract_text_calls, response, parameters.function_tools if may_call else [], judge)
                # On a thread, because an answer may be long, and so may what the model has read.
                accepted = limit_calls(await asyncio.to_thread(extract) if may_contain_call(response.text or "") else response)
                if streamed:
                    streamed.finish(response.text, accepted.text)
            except Exception as error:  # providers' libraries raise arbitrary errors on malformed answers
                if received.line.has_exceeded and not begun:
                    begun.append(build_unread_answer(received.size))
                if listener:
                    listener.on_withdrawn()
                raise self.failure(name, error, received) from error
        return accepted

    def build_redactor(self, name: str) -> Redactor:
        """Build a redactor that also removes the API key of a model."""
        return Redactor((*list_api_keys(self.load(name)), *self.redact.secrets))

    def failure(self, name: str, error: Exception, received: ReceivedBody) -> ModelFailed:
        if not isinstance(error, AgentRunError | UserError | OSError):
            log.warning("the answer of %s could not be read", name, exc_info=error)
        endpoint = find_endpoint(self.load(name), name, self.timeout_s)
        message = describe_failure(endpoint, error, received, self.build_redactor(name))
        too_long, toolless = is_too_long(error), lacks_tools(error)
        if toolless:
            self.without_tools.add(name)
        return ModelFailed(
            message,
            is_transient=is_transient(error, received) and not (too_long or toolless),
            retry_after_s=find_requested_delay(error),
            is_too_long=too_long,
            lacks_tools=toolless,
            is_request_at_fault=too_long or toolless or is_request_at_fault(error),
        )

    async def stream(
        self,
        model: Model,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        settings: ModelSettings,
        streamed: StreamedText | None,
        begun: list[ModelResponse],
    ) -> ModelResponse:
        loop = asyncio.get_running_loop()
        begins_at = loop.time()
        meter = AnswerMeter(self.timeout_s, begins_at)
        renew_at = begins_at + self.timeout_s * RENEWAL_SHARE  # not at every event: an answer may have thousands
        async with (
            asyncio.timeout(self.timeout_s) as deadline,
            model_request_stream(model, messages, model_settings=settings, model_request_parameters=parameters) as stream,
        ):
            try:
                async for event in stream:
                    now = loop.time()
                    if now >= renew_at:
                        deadline.reschedule(now + self.timeout_s)
                        renew_at = now + self.timeout_s * RENEWAL_SHARE
                    if streamed and (text := extract_text(event)):
                        streamed.on_text(text)
                    if meter.must_stop(event, now):
                        return meter.cut_off(stream.get())  # leaving the context closes the connection
            finally:
                if meter.has_begun:
                    begun.append(meter.cut_off(stream.get()))
        return stream.get()

    def report_broken(
        self,
        tier: Tier,
        name: str,
        begun: Sequence[ModelResponse],
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
    ) -> None:
        """Report a call that gave no answer and has to be paid for, because a part of the answer was received."""
        for response in begun:
            known = response if is_plausible(response.usage) else replace(response, usage=RequestUsage())
            call = self.to_model_call(tier, name, known, messages, parameters)
            self.totals[name] = self.totals.get(name, SpendingTotal(name)).add(call)
            report_broken_call(call)

    def to_model_call(
        self,
        tier: Tier,
        name: str,
        response: ModelResponse,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
    ) -> ModelCall:
        """Return what the call cost. An answer of a priced model that reports no usage is billed at an estimate."""
        usage = response.usage if self.prices.is_free(name) else fill_in_usage(response, messages, parameters)
        cached = count_cached(usage)
        cost = self.prices.cost(name, usage)
        return ModelCall(tier, name, usage.input_tokens, usage.output_tokens, cost, cached.read, cached.written)


def combine_failures(failures: Sequence[ModelFailed | SettingsError]) -> ModelFailed | SettingsError:
    """Return one failure for all models that were asked. It is transient if one of theirs is."""
    if len(failures) == 1:
        return failures[0]
    calls = [failure for failure in failures if isinstance(failure, ModelFailed)]
    delays = [call.retry_after_s for call in calls if call.is_transient]
    is_too_long = any(call.is_too_long for call in calls)
    return ModelFailed(
        " ".join(map(str, failures)),
        is_transient=bool(delays) and not is_too_long,
        retry_after_s=None if None in delays else min((delay for delay in delays if delay is not None), default=None),
        is_too_long=is_too_long,
        is_request_at_fault=any(call.is_request_at_fault for call in calls),
    )


def extract_text(event: object) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


def list_api_keys(model: Model) -> tuple[str, ...]:
    """Return the API key that a provider's error may quote, if its library exposes it. A key passed in code is in no setting."""
    key = getattr(getattr(model, "client", None), "api_key", None)
    return (key,) if key and isinstance(key, str) else ()
