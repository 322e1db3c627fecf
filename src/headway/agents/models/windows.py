"""The context window of a model: what is known about it, or a size that is safe to assume."""

from typing import Final

from pydantic_ai.models import Model

from headway.agents.models.providers import get_provider
from headway.ledger.run import REHEARSAL_MODEL

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
