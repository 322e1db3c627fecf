"""Recognise two refusals in the words of each provider: the request is too long, and the model cannot call tools.

Each has its remedy, so it must be distinguished from other rejected requests. Few providers have a code for them.
"""

import re
from typing import Final

from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError

TEXT_LIMIT: Final = 4_000  # characters
TOO_LONG: Final = re.compile(
    r"""
    context_length_exceeded                                         # OpenAI, Groq, Cerebras, llama-cpp-python
    | (exceeds|exceeded)\ the\ context\ window                      # OpenAI (Responses)
    | request\ too\ large\ for                                      # OpenAI, Groq: larger than the limit per minute
    | (prompt|input)\ (is\ )?too\ long                              # Anthropic, Bedrock, Fireworks, Ollama
    | exceed\ context\ limit                                        # Anthropic: with the room for the answer
    | request_too_large                                             # Anthropic: bytes
    | input\ token\ count.{0,60}exceeds                             # Google
    | exceeds\ the\ maximum\ number\ of\ tokens\ allowed            # Google
    | exceed_context_size_error | available\ context\ size          # llama-server
    | maximum\ context\ length | max(imum)?\ model\ length          # vLLM, OpenRouter, Mistral, DeepSeek
    | too\ long\ to\ fit\ into\ the\ model                          # vLLM
    | input\ length\ exceeds\ the\ (maximum\ )?context\ length      # Ollama
    | exceeded\ max\ context\ length                                # Ollama
    | reduce\ the\ length\ of\ the\ (messages|input|prompt)         # Groq, OpenAI
    | too\ large\ for\ model\ with                                  # Mistral
    | input\ tokens\ exceeded                                       # Bedrock
    | maximum\ prompt\ length                                       # xAI
    | prompt\ exceeds\ max\ length                                  # Z.AI
    | too\ many\ tokens:                                            # Cohere; without the colon it is a rate limit of Bedrock
    | tokens?`?\ \+\ `?max_new_tokens`?\ must\ be                   # Text Generation Inference, Together
    | loaded\ with\ context\ length\ of\ only | reached\ context\ length  # LM Studio
    """,
    re.IGNORECASE | re.VERBOSE,
)
LACKS_TOOLS: Final = re.compile(
    r"""
    (does\ not|doesn't|do\ not)\ support\ (native\ )?(tools?|function[\ -]calling)\b  # Ollama, Bedrock, DeepSeek
    | tools\ param\ requires\ --jinja | unsupported\ param:\ tools                        # llama-server
    | tool\ choice\ requires\ --enable-auto-tool-choice                                   # vLLM
    | no\ endpoints\ found\ that\ support\ tool\ use                                      # OpenRouter
    | (tool|function)\ calling`?\ is\ not\ (supported|enabled)                            # Groq, Google, Mistral
    | '?tools'?\ is\ not\ supported\ (with|in|by)\ this\ model                            # OpenAI
    | tool\ use\ (has\ not\ been\ enabled|is\ not\ (supported|enabled))                   # NVIDIA
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_too_long(error: Exception) -> bool:
    """Return whether the provider rejected the request because it has more tokens or bytes than the model takes."""
    return isinstance(error, ModelContextWindowExceededError) or bool(TOO_LONG.search(get_text(error)))


def lacks_tools(error: Exception) -> bool:
    """Return whether the provider rejected the request because its model or server has no function calling."""
    return bool(LACKS_TOOLS.search(get_text(error)))


def get_text(error: Exception) -> str:
    """Return the beginnings of the error's message and of its body, which may be long."""
    return f"{str(error)[:TEXT_LIMIT]} {str(error.body)[:TEXT_LIMIT]}" if isinstance(error, ModelAPIError) else ""
