"""Calling models: three tiers by name, answers as they stream, failures sorted into those that pass and those that stay."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UserError,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings

from headway.agents.prices import Prices
from headway.agents.rehearsal import rehearsal_model
from headway.agents.roles import Tier
from headway.agents.tracing import Silent, Tracer, of_model, usage
from headway.agents.transcript import cleaned
from headway.ledger.errors import HeadwayError, SettingsError
from headway.ledger.hush import Hush
from headway.ledger.run import REHEARSAL
from headway.ledger.text import one_line
from headway.storage.spending_store import ModelCall

PASSING: Final = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelServerError,
    ModelConnectionError,
    ModelRequestTimeout,
    TimeoutError,
)
PASSING_STATUSES: Final = (408, 409, 425, 429)
MESSAGE_LIMIT: Final = 500
OUR_EXTRAS: Final = ("anthropic", "google")
# Whatever could be a key: providers like to quote the one they refused.
SECRET_LIKE: Final = re.compile(r"(?=[A-Za-z_\-+/=.*]*\d)[A-Za-z0-9_\-+/=.*]{20,}")
WANTED_VARIABLE: Final = re.compile(r"Set the `(\w+)` environment variable")


class ModelFailed(HeadwayError):
    """The model could not be called."""

    def __init__(self, message: str | None = None, *, passes: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.passes = passes
        self.retry_after_s = retry_after_s


class Listener(Protocol):
    """Hears a model's text as it comes; what it heard of an answer that broke off is withdrawn."""

    def heard(self, text: str) -> None: ...

    def withdrawn(self) -> None: ...


class Reply(NamedTuple):
    response: ModelResponse
    call: ModelCall


class Models:
    """The models of an installation, by tier. They are made when they are first asked, if not before."""

    def __init__(
        self,
        names: Mapping[Tier, str],
        timeout_s: float = 120.0,  # without a sign of life
        prices: Prices | None = None,
        known: Mapping[str, Model] | None = None,
        tracer: Tracer | None = None,
        hush: Hush | None = None,
    ) -> None:
        self.names = names
        self.timeout_s = timeout_s
        self.prices = prices or Prices()
        self.tracer = tracer or Silent()
        self.hush = hush or Hush()
        self.made: dict[str, Model] = dict(known or {})

    def find(self, tier: Tier) -> Model:
        name = self.names[tier]
        if name not in self.made:
            self.made[name] = make(name)
        return self.made[name]

    def make_all(self) -> None:
        """To load a provider's library takes a second, in which nothing else can be done: not for the first to ask to wait for.
        A model that cannot be made is the business of whoever asks it."""
        for tier in self.names:
            with suppress(SettingsError):
                self.find(tier)

    async def close(self) -> None:
        """Hang up: providers' libraries keep their connections open."""
        for model in self.made.values():
            async with model:  # it is the leaving that closes them
                pass

    def estimate(self, tier: Tier, characters: Callable[[], int]) -> int:
        """What a call will cost at most, roughly; the length of what is sent is only asked for when it matters."""
        name = self.names[tier]
        return 0 if self.prices.is_free(name) else self.prices.estimate(name, characters())

    async def ask(
        self,
        tier: Tier,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        listener: Listener | None = None,
    ) -> Reply:
        """One answer, or a ModelFailed that says what to do and whether it may pass. Trying again is the caller's business:
        only the caller can wait without holding anything up, and survive doing so."""
        with of_model(self.tracer, self.names[tier]) as note:
            reply = await self.answer(tier, messages, parameters, listener)
            note(usage(reply.call))
        return reply

    async def answer(
        self, tier: Tier, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, listener: Listener | None
    ) -> Reply:
        model = self.find(tier)
        try:
            offered = {tool.name for tool in parameters.function_tools}
            response = cleaned(await self.stream(model, messages, parameters, listener), offered)
        except (AgentRunError, UserError, TimeoutError, OSError) as error:
            if listener:
                listener.withdrawn()
            asked = error.retry_after if isinstance(error, ModelAPIError) else None
            said = Hush((*key_of(model), *self.hush.secrets))(provider_words(error))
            raise ModelFailed(explained(self.names[tier], error, said), passes=passes(error), retry_after_s=asked) from error
        return Reply(response, self.bill(tier, response))

    async def stream(
        self, model: Model, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, listener: Listener | None
    ) -> ModelResponse:
        loop = asyncio.get_running_loop()
        async with (
            asyncio.timeout(self.timeout_s) as deadline,
            model_request_stream(model, messages, model_settings=self.settings, model_request_parameters=parameters) as stream,
        ):
            async for event in stream:
                deadline.reschedule(loop.time() + self.timeout_s)
                if listener and (text := text_of(event)):
                    listener.heard(text)
        return stream.get()

    @cached_property
    def settings(self) -> ModelSettings:
        # Retrying is our business: the providers' libraries would do it unseen, and again.
        return ModelSettings(timeout=self.timeout_s, max_retries=0)

    def bill(self, tier: Tier, response: ModelResponse) -> ModelCall:
        name, usage = self.names[tier], response.usage
        return ModelCall(tier, name, usage.input_tokens, usage.output_tokens, self.prices.cost(name, usage))


def make(name: str) -> Model:
    """The model of that name. Its key and address come from its provider's own variables."""
    if name == REHEARSAL:
        return rehearsal_model()
    provider, _, rest = name.partition(":")
    try:
        if not rest.strip():
            raise ValueError("write it as provider:name")
        return infer_model(name)
    except (UserError, ValueError) as error:
        missing = WANTED_VARIABLE.search(str(error))
        if missing and provider == "ollama":
            return local_ollama(name)
        reason = f"set {missing[1]}" if missing else one_line(str(error))[:MESSAGE_LIMIT].rstrip(".")
        raise SettingsError(f"The model {name[:120]!r} cannot be used: {reason}. `headway doctor` checks it.") from None
    except ImportError:
        package = "headway" if provider in OUR_EXTRAS else "pydantic-ai-slim"
        raise SettingsError(f"The model {name[:120]!r} needs a library: pip install '{package}[{provider}]'.") from None


def local_ollama(name: str) -> Model:
    """Where Ollama listens unless told otherwise."""
    from pydantic_ai.models.ollama import OllamaModel  # noqa: PLC0415  for its users alone
    from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415

    return OllamaModel(name.partition(":")[2], provider=OllamaProvider(base_url="http://localhost:11434/v1"))


def text_of(event: object) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


def passes(error: Exception) -> bool:
    """Whether it may well work in a while."""
    if isinstance(error, ModelQuotaExceededError):
        return False
    if isinstance(error, PASSING) or (isinstance(error, OSError) and not isinstance(error, AgentRunError)):
        return True
    return isinstance(error, ModelHTTPError) and (error.status_code in PASSING_STATUSES or error.status_code >= 500)


def explained(name: str, error: Exception, said: str) -> str:
    """What went wrong, for people; without anything that could be a key, also if nobody here knows it."""
    if isinstance(error, TimeoutError):
        return f"The model {name} did not answer in time."
    said = SECRET_LIKE.sub(lambda found: found[0] if found[0] in name else "…", one_line(said))[:MESSAGE_LIMIT].rstrip(".")
    status = f" (HTTP {error.status_code})" if isinstance(error, ModelHTTPError) else ""
    return f"The model {name} failed{status}: {said or type(error).__name__}."


def provider_words(error: Exception) -> str:
    """What the provider itself said, where it said something; else what its library made of it."""
    body = error.body if isinstance(error, ModelAPIError) else None
    if isinstance(body, dict):
        inner = body.get("error", body)
        words = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(words, str) and words.strip():
            return words
    return str(error)


def key_of(model: Model) -> tuple[str, ...]:
    """The key that a provider may quote, as far as its library shows it: one that a program brought along is in no setting."""
    key = getattr(getattr(model, "client", None), "api_key", None)
    return (key,) if key and isinstance(key, str) else ()
