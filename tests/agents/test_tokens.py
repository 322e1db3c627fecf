"""Estimates of tokens are on the safe side, and a tokenizer counts where one is installed."""

import subprocess
import sys
from pathlib import Path

from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

from headway.agents.transcripts.transcript import estimate_message, estimate_text
from tests.tables import each_row

# Texts with their number of tokens in o200k, the tokenizer of recent OpenAI models.
COUNTED = [
    ("The quick brown fox jumps over the lazy dog.", 10),
    ('{"id": 12, "status": "completed", "remaining": 3}', 18),
    ("def add(a: int, b: int) -> int:\n    return a + b\n", 19),
    ("Die Donaudampfschifffahrtsgesellschaft fährt.", 12),
    ("敏捷的棕色狐狸跳过了懒狗。", 14),
    ("🙂🙃🙂🙃", 6),
]


@each_row(("text", "tokens"), COUNTED)
def test_an_estimate_is_not_below_the_count(text: str, tokens: int) -> None:
    assert tokens <= estimate_text(text) <= 2 * tokens


def test_calls_and_files_count() -> None:
    assert estimate_message(ModelResponse([ToolCallPart("read_file", '{"path": "notes.txt"}', "1")])) > 7
    assert estimate_message(ModelResponse([ToolCallPart("read_file", {"path": "x" * 300}, "1")])) > 100
    image = BinaryContent(b"x" * 100_000, media_type="image/png")
    assert 1_000 < estimate_message(ModelRequest([UserPromptPart(["Look:", image])])) < 3_000
    assert estimate_message(ModelResponse([TextPart("")])) < 20


def test_a_tokenizer_is_used_where_one_is_installed(tmp_path: Path) -> None:
    (tmp_path / "bpe_openai.py").write_text(
        "class Encoding:\n    def encode_ordinary(self, text):\n        return [0] * 1000\n\n"
        "def get_encoding(name):\n    assert name == 'o200k_base'\n    return Encoding()\n"
    )
    program = "from headway.agents.transcripts.transcript import estimate_text; print(estimate_text('Hello'))"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    ).stdout
    assert int(printed) == 1101
