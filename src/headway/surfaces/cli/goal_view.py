"""Shows the pursuit of a goal live: journal entries as they are written and, on a terminal, the plan below them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from headway.ledger.text import to_one_line
from headway.surfaces.cli import goal_drawing as drawing
from headway.surfaces.cli.render import build_console, close_live, is_terminal, print_above

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

MAX_PLAN_ROWS = 24
ROWS_ABOVE_PLAN = 4


class GoalView(Protocol):
    def begin(self, goal: dict[str, Any], entries: Sequence[dict[str, Any]]) -> None: ...

    def entry(self, entry: dict[str, Any]) -> None: ...

    def update(self, goal: dict[str, Any]) -> None: ...

    def note(self, text: str) -> None: ...


@contextmanager
def open_goal_view(*, quiet: bool) -> Iterator[GoalView]:
    """Open the view that fits the output: live on a terminal, plain lines elsewhere. With `quiet`, it prints nothing."""
    if quiet or not is_terminal():
        yield PlainGoalView(quiet=quiet)
        return
    with LiveGoalView() as view:
        yield view


class PlainGoalView:
    """Prints one line per journal entry, for pipes."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def begin(self, goal: dict[str, Any], entries: Sequence[dict[str, Any]]) -> None:
        self.say(drawing.render_goal_line(goal))
        for entry in entries:
            self.entry(entry)

    def entry(self, entry: dict[str, Any]) -> None:
        self.say(drawing.render_entry(entry))

    def update(self, goal: dict[str, Any]) -> None:
        """Do nothing: the journal entries already report every change."""

    def note(self, text: str) -> None:
        click.echo(f"headway: {to_one_line(text)}", err=True)

    def say(self, line: drawing.StyledLine) -> None:
        if not self.quiet:
            click.echo(line.plain())


class LiveGoalView:
    """For terminals: journal entries scroll up, the plan stays at the bottom."""

    def __init__(self) -> None:
        self.console = build_console()
        self.live: Live | None = None
        self.goal: dict[str, Any] | None = None

    def __enter__(self) -> "LiveGoalView":
        from rich.live import Live  # noqa: PLC0415  not needed for pipes

        self.live = Live(console=self.console, transient=True, refresh_per_second=8)
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            close_live(self.live)

    def begin(self, goal: dict[str, Any], entries: Sequence[dict[str, Any]]) -> None:
        for entry in entries:
            self.entry(entry)
        self.update(goal)

    def entry(self, entry: dict[str, Any]) -> None:
        self.say(drawing.render_entry(entry))

    def update(self, goal: dict[str, Any]) -> None:
        from rich.console import Group  # noqa: PLC0415

        self.goal = goal
        if self.live:
            self.live.update(Group(*self.parts(goal)))

    def note(self, text: str) -> None:
        self.say(drawing.StyledLine(((f"· {to_one_line(text)}", "yellow"),)))

    def say(self, line: drawing.StyledLine) -> None:
        print_above(self.live, self.console, line.styled(self.console.width))

    def parts(self, goal: dict[str, Any]) -> "list[RenderableType]":
        """Render as much of the plan as fits on the screen. The top rows, which are finished first, are left out."""
        from rich.spinner import Spinner  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        width = self.console.width
        title, state, *_ = drawing.render_header(goal)
        rows = list(drawing.render_plan(goal))
        room = max(min(self.console.height - ROWS_ABOVE_PLAN, MAX_PLAN_ROWS), 1)
        left_out = max(0, len(rows) - room)
        parts: list[RenderableType] = [Text(), to_single_row(title, width), to_single_row(state, width)]
        if left_out:
            parts.append(Text(f"… {left_out} lines above: `headway goal show {goal['id']}` shows them", "dim"))
        parts += [to_single_row(row, width) for row in rows[left_out:]]
        return [*parts, Spinner("dots", Text("Press Ctrl-C to leave", "dim"))]


def to_single_row(line: drawing.StyledLine, width: int) -> "RenderableType":
    """Truncate a line to a single row."""
    row = line.styled(width)
    row.no_wrap = True
    return row
