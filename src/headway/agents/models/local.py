"""A model backed by a Python function. The function returns the whole answer, which is streamed word by word."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

AnswerFunction = Callable[[list[ModelMessage], ModelRequestParameters], ModelResponse]
WORDS = re.compile(r"\S+\s*|\s+")


class LocalModel(Model):
    def __init__(self, name: str, answer: AnswerFunction, pace_s: float = 0, profile: ModelProfile | None = None) -> None:
        super().__init__(profile=profile)
        self.name = name
        self.answer = answer
        self.pace_s = pace_s  # delay before each answer

    @property
    def model_name(self) -> str:
        return self.name

    @property
    def system(self) -> str:
        return "headway"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        await asyncio.sleep(self.pace_s)
        return self.answer(messages, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        await asyncio.sleep(self.pace_s)
        yield LocalStream(model_request_parameters, self.name, self.answer(messages, model_request_parameters))


@dataclass
class LocalStream(StreamedResponse):
    _name: str
    _response: ModelResponse

    def __post_init__(self) -> None:
        self._usage = self._response.usage
        self.finish_reason = self._response.finish_reason

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        for index, part in enumerate(self._response.parts):
            if isinstance(part, TextPart):
                for word in WORDS.findall(part.content):
                    for event in self._parts_manager.handle_text_delta(vendor_part_id=index, content=word):
                        yield event
            elif isinstance(part, ToolCallPart):
                yield self._parts_manager.handle_tool_call_part(
                    vendor_part_id=index, tool_name=part.tool_name, args=part.args_as_json_str(), tool_call_id=part.tool_call_id
                )

    async def close_stream(self) -> None:
        """Do nothing: there is no connection to close."""

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def provider_name(self) -> str:
        return "headway"

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._response.timestamp
