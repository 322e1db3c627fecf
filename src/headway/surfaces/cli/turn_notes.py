"""What the terminal says beside an agent's answers: retries, and what a turn used."""

import time
from math import ceil
from typing import TYPE_CHECKING, Any

from headway.ledger.text import to_one_line

if TYPE_CHECKING:
    from rich.text import Text

CONTINUE_COMMAND = "/continue"  # as a message: go on with the open todos of the last turn


class RetryCountdown:
    """Says which attempt comes next, and in how many seconds. Rich renders it again and again."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.attempt = f"retrying: attempt {data['attempt']} of {data['attempts']}"
        self.until = time.monotonic() + data.get("delay_s", 0)
        self.reason = to_one_line(data["reason"])

    def __rich__(self) -> "Text":
        from rich.text import Text  # noqa: PLC0415  not needed for pipes

        rest = ceil(self.until - time.monotonic())
        return Text(f"{self.attempt}{f' in {rest} s' if rest > 0 else ''} · {self.reason}", "yellow")


def describe_failed_attempt(data: dict[str, Any]) -> str:
    attempt = f"Attempt {data['attempt'] - 1} of {data['attempts']} failed"
    return f"{attempt}, next in {data.get('delay_s', 0)} s: {data['reason']}"


def describe_open(count: int) -> str:
    """Say how to go on with the todos that a turn has left open."""
    todos = "1 todo is left open" if count == 1 else f"{count} todos are left open"
    return f"{todos}. Send {CONTINUE_COMMAND} to go on with {'it' if count == 1 else 'them'}."


def format_usage(data: dict[str, Any]) -> str:
    """Format what a turn used, from the event of its end: model · time · tokens · cost."""
    usage = data["usage"]
    tokens = usage["input_tokens"] + usage["output_tokens"]
    cached = f" ({format_count(usage['cached_tokens'])} cached)" if usage["cached_tokens"] else ""
    parts = (
        ", ".join(data["models"]),
        format_time(data["duration_s"]),
        f"{format_count(tokens)} tokens{cached}" if tokens else "",
        format_cost(usage["cost_usd"]) if usage["cost_usd"] else "",
    )
    return " · ".join(filter(None, parts))


def format_time(seconds: float) -> str:
    whole = round(seconds)
    if seconds < 10:
        return f"{max(0.1, seconds):.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def format_count(count: int) -> str:
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}".removesuffix(".0") + "k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def format_cost(dollars: float) -> str:
    digits = 4 if dollars < 0.01 else 3 if dollars < 1 else 2
    return f"${dollars:.{digits}f}"
