"""Turns in the terminal: the plan while it is worked on, notes and changes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

import click

from headway.ledger.text import to_lines, to_one_line
from headway.surfaces.cli.render import build_console, close_live, format_wait, is_terminal, print_above
from headway.surfaces.cli.tables import cut_at_word

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text


def describe_changes(changes: dict[str, Any]) -> str:
    """Summarize the changes in one line: `headway/goal-3: 2 files, +10 −1 (git merge headway/goal-3)`."""
    branch, files = changes["branch"], changes["files"]
    count = len(files) + changes["omitted_files"]
    if not count:
        return f"{branch}: no changes"
    added, deleted = (sum(file[name] or 0 for file in files) for name in ("added", "deleted"))
    how = "merged into its parent's branch" if changes["merged"] else f"git merge {branch}"
    return f"{branch}: {count} file{'s' if count != 1 else ''}, +{added} −{deleted} ({how})"


def list_changed_files(changes: dict[str, Any]) -> list[str]:
    lines = [format_file(file) for file in changes["files"]]
    return [*lines, f"… and {changes['omitted_files']} more"] if changes["omitted_files"] else lines


def format_file(file: dict[str, Any]) -> str:
    size = "binary" if file["added"] is None else f"+{file['added']} −{file['deleted']}"
    origin = f" (renamed from {to_one_line(file['renamed_from'])})" if file.get("renamed_from") else ""
    return f"{to_one_line(file['path'])}  {size}{origin}"


def list_diff_lines(changes: dict[str, Any]) -> list[str]:
    """List the lines of the diff, safe to print to a terminal. Tabs stay."""
    return ["\t".join(map(to_one_line, line.split("\t"))) for line in changes["diff"].split("\n")]


# Lines beside an agent's answers: retries, and the usage of a turn.


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


# Shows a turn in the terminal while it runs: the agent's text, its tool calls, and the todo list below them.


THINKING = "thinking"
WAITING = "waiting for you"
MAX_ITEMS = 8
MAX_SUMMARY_WIDTH = 60
DRAFT_CONTEXT = 500  # characters of the answer that are shown while a person types
ANSWER_EVENTS = {"text_delta", "message", "tool_call", "refused"}  # the model answers again after a failed attempt
LIST_TOOLS = {"create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos"}
FILE_TOOLS = {"write_file", "edit_file"}
MARKS = {"done": "✔", "current": "▶", "pending": "○"}
STYLES = {"done": "dim", "current": "bold cyan", "pending": ""}


class TurnView(Protocol):
    def show(self, kind: str, data: dict[str, Any]) -> None: ...

    def note(self, text: str) -> None: ...

    def show_resume_hint(self, conversation_id: int) -> None: ...


@contextmanager
def open_turn_view(workspace: str, *, quiet: bool) -> Iterator[TurnView]:
    """Open the view that fits the output: live on a terminal, plain text elsewhere. With `quiet`, it prints nothing. `workspace` is
    where the agents' files are."""
    if quiet or not is_terminal():
        yield PlainTurnView(quiet=quiet)
        return
    with LiveTurnView(workspace) as view:
        yield view


class PlainTurnView:
    """Prints the agent's answers as text, for pipes."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def show(self, kind: str, data: dict[str, Any]) -> None:
        if kind in ("turn_failed", "turn_paused"):
            self.note(data.get("error") or data.get("reason") or kind)
        elif kind == "turn_delayed":
            self.note(format_wait(data["retry_at"], describe_failed_attempt(data)))
        elif kind == "message" and data["role"] == "assistant" and not self.quiet:
            lines = "\n".join(to_lines(data["content"]))
            is_closing = data.get("kind") == "closing"  # the runtime's words are no answer
            click.echo(f"headway: {lines}" if is_closing else lines, err=is_closing)

    def note(self, text: str) -> None:
        click.echo(f"headway: {to_one_line(text)}", err=True)

    def show_resume_hint(self, conversation_id: int) -> None:
        """Do nothing: a pipe has no reader for a hint."""


class LiveTurnView:
    """For terminals: finished output scrolls up, the current text and the todo list stay at the bottom."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.console = build_console()
        self.live: Live | None = None
        self.streamed_text = ""
        self.draft = ""  # what a person is typing to the agent
        self.hint = ""  # how to answer what the turn waits for
        self.activity: RenderableType | str = THINKING
        self.items: list[dict[str, Any]] = []

    def __enter__(self) -> "LiveTurnView":
        from rich.live import Live  # noqa: PLC0415  not needed for pipes

        self.live = Live(console=self.console, transient=True, refresh_per_second=12)
        self.live.start()
        self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            close_live(self.live)

    def show(self, kind: str, data: dict[str, Any]) -> None:
        handler = getattr(self, f"on_{kind}", None)
        if kind in ANSWER_EVENTS:
            self.activity = THINKING
        if handler:
            handler(data)
            self.refresh()

    def on_text_delta(self, data: dict[str, Any]) -> None:
        self.streamed_text = "" if data.get("restart") else self.streamed_text + data["text"]

    def on_refused(self, data: dict[str, Any]) -> None:
        self.streamed_text = ""
        self.note(f"not done yet: {data['reason']}")

    def on_message(self, data: dict[str, Any]) -> None:
        self.streamed_text = ""
        if data.get("kind") == "closing":
            self.print_lines(data["content"])
        elif data["role"] == "assistant":
            self.print(self.render_markdown(data["content"]))
        else:
            self.note(f"you: {data['content']}", "bold")

    def on_tool_call(self, data: dict[str, Any]) -> None:
        if data["tool"] not in LIST_TOOLS:
            self.note(f"{data['tool']} {format_summary(data['arguments'])}")

    def on_tool_result(self, data: dict[str, Any]) -> None:
        if data["is_error"]:
            self.note(f"{data['tool']} failed: {format_summary(data['result'])}", "red")
        elif data["tool"] in FILE_TOOLS:
            self.show_written(data["result"])

    def show_written(self, result: Any) -> None:
        """Name a file that an agent wrote, unless it is elsewhere: in a repository, agents work in worktrees."""
        path = result.get("path") if isinstance(result, dict) else None
        if isinstance(path, str) and os.path.isfile(whole := os.path.join(self.workspace, path)):
            self.note(f"wrote {shorten_path(whole)}")

    def on_todos_updated(self, data: dict[str, Any]) -> None:
        self.items = data["items"]

    def on_todos_assessed(self, data: dict[str, Any]) -> None:
        if data["ok"]:  # a rejected answer is also reported as refused, with the same reason
            self.note(f"Accepted: {data['reason']}" if data["reason"] else "Accepted", "green")

    def on_todos_resubmitting(self, data: dict[str, Any]) -> None:
        self.note(f"Continuing: {data['next']}", "cyan")

    def on_todos_limit(self, data: dict[str, Any]) -> None:
        self.note(data["message"], "yellow")

    def on_turn_failed(self, data: dict[str, Any]) -> None:
        self.note(data["error"], "red")
        self.note(format_usage(data))

    def on_turn_delayed(self, data: dict[str, Any]) -> None:
        self.activity = RetryCountdown(data)

    def on_approval_decided(self, data: dict[str, Any]) -> None:
        approval = data["approval"]
        by = f" by {approval['decided_by']}" if approval["decided_by"] else ""
        self.note(f"{approval['tool']} {approval['state']}{by}")

    def on_question_answered(self, data: dict[str, Any]) -> None:
        question = data["question"]
        self.note(f"answered: {question['answer']}" if question["answer"] else f"the question is {question['state']}")

    def on_compacted(self, data: dict[str, Any]) -> None:
        self.note(f"older messages shortened: from {data['tokens_before']:,} to {data['tokens_after']:,} tokens")

    def on_turn_paused(self, data: dict[str, Any]) -> None:
        self.note(data["reason"], "yellow")

    def on_turn_canceled(self, data: dict[str, Any]) -> None:
        self.note("Stopped.", "yellow")
        self.on_turn_finished(data)

    def on_turn_finished(self, data: dict[str, Any]) -> None:
        if data["incomplete"]:
            self.note(describe_open(len(data["incomplete"])), "yellow")
        if data.get("changes"):
            self.note(describe_changes(data["changes"]))
        if "usage" in data:
            self.note(format_usage(data))

    def note(self, text: str, style: str = "dim") -> None:
        from rich.text import Text  # noqa: PLC0415

        self.print(Text(f"· {to_one_line(text)}", style))

    def show_draft(self, draft: str) -> None:
        self.draft = draft
        self.refresh()

    def ask(self, lines: list[str], hint: str) -> None:
        """Print what a person must decide, and show how to answer below it."""
        self.hint = hint
        self.print_lines("\n".join(lines))
        self.refresh()

    def print_lines(self, text: str) -> None:
        """Print words of the runtime, which are not the agent's."""
        from rich.text import Text  # noqa: PLC0415

        self.print(Text("\n".join(to_lines(text)), "yellow"))

    def hide_question(self) -> None:
        self.hint = ""
        self.refresh()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to another program."""
        assert self.live is not None
        close_live(self.live)
        try:
            yield
        finally:
            self.live.start()
            self.refresh()

    def show_resume_hint(self, conversation_id: int) -> None:
        self.note(f"conversation {conversation_id}: continue with `headway chat --conversation {conversation_id}`")

    def print(self, content: "RenderableType") -> None:
        self.refresh(at_once=True)  # the printed text replaces the live text below, which is drawn again as it was last shown
        print_above(self.live, self.console, content)

    def render_markdown(self, text: str) -> "RenderableType":
        from rich.markdown import Markdown  # noqa: PLC0415

        return Markdown("\n".join(to_lines(text)), hyperlinks=False)

    def refresh(self, *, at_once: bool = False) -> None:
        if self.live:
            from rich.console import Group  # noqa: PLC0415

            self.live.update(Group(*self.parts()), refresh=at_once)

    def parts(self) -> "list[RenderableType]":
        from rich.panel import Panel  # noqa: PLC0415
        from rich.spinner import Spinner  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        shown = self.streamed_text[-DRAFT_CONTEXT:] if self.draft else self.streamed_text  # so that the draft stays on the screen
        activity = WAITING if self.hint else self.activity
        status = Text(activity, "dim") if isinstance(activity, str) else activity
        parts: list[RenderableType] = [self.render_markdown(shown) if shown else Spinner("dots", status)]
        if self.items:
            open_count = sum(item["status"] != "done" for item in self.items)
            title = f"{len(self.items) - open_count} of {len(self.items)} done"
            parts.append(Panel(self.render_todos(), title=title, title_align="left", border_style="dim"))
        if self.hint:
            parts.append(Text(self.hint, "bold yellow"))
        if self.draft or self.hint:
            parts.append(Text(f"you › {self.draft}"))
        return parts

    def render_todos(self) -> "RenderableType":
        """Render as many todos as fit, around the current one."""
        from rich.text import Text  # noqa: PLC0415

        current = next((n for n, item in enumerate(self.items) if item["status"] == "current"), len(self.items))
        first = max(0, min(current - 2, len(self.items) - MAX_ITEMS))
        text = Text(no_wrap=True, overflow="ellipsis")
        for item in self.items[first : first + MAX_ITEMS]:
            text.append(f"{MARKS[item['status']]} {to_one_line(item['description'])}\n", STYLES[item["status"]])
        if more := len(self.items) - MAX_ITEMS:
            text.append(f"+{more} more\n" if more > 0 else "", "dim")
        text.rstrip()
        return text


def shorten_path(path: str) -> str:
    """Return a path relative to the current folder, if it is below it."""
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return path
    return os.path.relpath(path, folder) if path.startswith(f"{folder}{os.sep}") else path


def format_summary(value: Any) -> str:
    """Summarise a tool call's arguments or result in half a line."""
    if isinstance(value, dict):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    return cut_at_word(to_one_line(str(value)), MAX_SUMMARY_WIDTH)
