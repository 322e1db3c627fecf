"""Goals in the terminal: a goal with its sub-goals, plans and journal, once or as it changes."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from headway.actions.inspection.sentences import describe_entry
from headway.actions.runs import waiting
from headway.ledger.text import to_one_line
from headway.surfaces.cli.render import (
    PROOF_MARKS,
    build_console,
    close_live,
    format_age,
    format_check,
    format_time,
    is_terminal,
    print_above,
)
from headway.surfaces.cli.tables import cut_at_word
from headway.surfaces.cli.turn_view import describe_changes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text

# Each status has its own symbol, so that no meaning depends on colour alone.
GOAL_MARKS = {"active": "▶", "paused": "‖", "completed": "✔", "abandoned": "✕"}
GOAL_STYLES = {"active": "bold cyan", "paused": "bold yellow", "completed": "bold green", "abandoned": "dim"}
SUB_GOAL_MARKS = {"pending": "○", "in-progress": "▶", "completed": "✔", "failed": "✕", "skipped": "⤼"}
SUB_GOAL_STYLES = {"pending": "", "in-progress": "bold cyan", "completed": "green", "failed": "red", "skipped": "dim"}
DIVERGENCE_LABELS = {"minor": "minor divergence", "major": "major divergence"}
BAR_WIDTH = 20
LAST_ENTRIES = 5
MAX_NAMED_DEPENDENCIES = 4
MIN_DESCRIPTION_WIDTH = 24  # columns
MAX_BRANCH_WIDTH = 24  # columns


class StyledLine(NamedTuple):
    """A line of styled parts, with optional text aligned to its right end."""

    parts: tuple[tuple[str, str], ...]
    right: str = ""
    may_wrap: bool = False

    def plain(self) -> str:
        text = "".join(text for text, _ in self.parts)
        return f"{text}  {self.right}".rstrip()

    def styled(self, width: int) -> "Text":
        """Render the line, truncated to `width` columns unless it may wrap. The text on the right is never truncated."""
        from rich.text import Text  # noqa: PLC0415  only needed on a terminal

        line = Text.assemble(*self.parts, overflow="ellipsis")
        if self.right:
            cut_line_at_word(line, max(width - len(self.right) - 2, MIN_DESCRIPTION_WIDTH))
            line.append(f"  {self.right}", "dim")
        return line


def cut_line_at_word(line: "Text", width: int) -> None:
    """Fit a styled line into a number of columns: cut it after the last word that fits, or fill it up with spaces."""
    if line.cell_len > width:
        kept = cut_at_word(line.plain, width).removesuffix("…")
        line.right_crop(len(line.plain) - len(kept))
        line.append("…")
    line.pad_right(width - line.cell_len)


def print_goal(goal: dict[str, Any], entries: Sequence[dict[str, Any]]) -> None:
    """Print a goal's header, its plan and its latest journal entries."""
    print_lines([*render_header(goal), *render_plan(goal), *render_journal(entries)])


def print_goal_end(goal: dict[str, Any]) -> None:
    """Print the final state of a goal after its live view has closed."""
    if is_terminal():
        print_lines([*render_header(goal), *render_plan(goal)])
    else:
        print_lines([render_goal_line(goal), *(render_pause(goal) if goal["status"] == "paused" else ())])


def print_goals(goals: Sequence[dict[str, Any]], *, more: bool) -> None:
    print_lines([render_goal_line(goal) for goal in goals])
    if not goals:
        click.echo("no goals")
    elif more and is_terminal():
        build_console().print("… more: use --limit N", style="dim")


def print_lines(lines: Sequence[StyledLine]) -> None:
    if not is_terminal():
        for line in lines:
            click.echo(line.plain())
        return
    screen = build_console()
    for line in lines:
        screen.print(line.styled(screen.width), no_wrap=not line.may_wrap)


# A goal


def render_goal_line(goal: dict[str, Any]) -> StyledLine:
    status = goal["status"]
    style = GOAL_STYLES[status]
    tag = f"#{goal['id']} [{status}{format_wait_for_person(goal)}] "
    parts = ((f"{GOAL_MARKS[status]} ", style), (tag, "dim"), (to_one_line(goal["description"]), style))
    return StyledLine(parts, f"{format_done(goal)}  {format_money(goal['cost_usd'])}")


def format_wait_for_person(goal: dict[str, Any]) -> str:
    """Name what the goal waits for a person for: `, waits for approval #3`. Empty if it does not."""
    wait = goal.get("waiting_for")
    return f", waits for {wait['kind']} #{wait['id']}" if wait else ""


def format_done(goal: dict[str, Any]) -> str:
    progress = goal["progress"]
    return f"{progress['done']}/{progress['in_plan']}" if progress["in_plan"] else "no plan"


def render_header(goal: dict[str, Any]) -> Iterator[StyledLine]:
    status = goal["status"]
    style = GOAL_STYLES[status]
    yield StyledLine(
        ((f"{GOAL_MARKS[status]} goal #{goal['id']} ", style), (to_one_line(goal["description"]), "bold")), may_wrap=True
    )
    yield StyledLine(
        (
            ("  ", ""),
            (status, style),
            (format_wait_for_person(goal), "yellow"),
            (f"  {format_progress_bar(goal)}", ""),
            (f"  {format_spending(goal)}  {format_replans(goal)}", "dim"),
        ),
        may_wrap=True,
    )
    facts = [
        ("done when", goal["success_criteria"]),
        ("proof", PROOF_MARKS[goal["proof"]]),
        *(("check", format_check(check)) for check in goal["checks"]),
        ("evidence", goal["evidence"]),
        ("priority", str(goal["priority"])),
        ("deadline", format_time(goal["deadline"] * 1000)),
        ("set", format_time(goal["created_at"] * 1000)),
        ("ended", format_time(goal["ended_at"] * 1000)),
        ("branch", describe_changes(goal["changes"]) if goal.get("changes") else ""),
    ]
    yield from (StyledLine(((f"  {name:<9} ", "dim"), (to_one_line(value), "")), may_wrap=True) for name, value in facts if value)
    if status == "abandoned" and goal["pause_reason"]:
        yield StyledLine((("  because   ", "dim"), (to_one_line(goal["pause_reason"]), "")), may_wrap=True)
    if status == "paused":
        yield from render_pause(goal)
    if goal.get("waiting_for"):
        yield StyledLine((("  next      ", "dim"), (f"{waiting.advise(**goal['waiting_for'])}.", "")), may_wrap=True)


def render_pause(goal: dict[str, Any]) -> Iterator[StyledLine]:
    """Show why the goal is paused and what the operator can do next."""
    yield StyledLine((("  because   ", "dim"), (to_one_line(goal["pause_reason"] or ""), "yellow")), may_wrap=True)
    yield StyledLine((("  next      ", "dim"), (describe_next_action(goal["id"], goal["pause_kind"]), "")), may_wrap=True)


def describe_next_action(goal_id: int, kind: str | None) -> str:
    """Name the commands with which a paused goal continues."""
    decide = f"`headway goal decide {goal_id} continue`, `replan --note …` or `abandon`."
    match kind:
        case "budget":
            return "To resume it now, raise the limit with `PUT /v1/costs`."
        case "operator" | "fault":
            return f"Resume it with `headway goal resume {goal_id}`."
        case "goal_budget":
            return f"Raise its budget with `headway goal edit {goal_id} --budget USD`, or decide: {decide}"
        case "deadline":
            return f"Set another deadline with `headway goal edit {goal_id} --deadline 6h`, or decide: {decide}"
    return f"It needs a decision: {decide}"


def format_progress_bar(goal: dict[str, Any]) -> str:
    progress = goal["progress"]
    total, done = progress["in_plan"], progress["done"]
    if not total:
        return "no plan yet"
    full = BAR_WIDTH * done // total
    failed = f", {progress['failed']} failed" if progress["failed"] else ""
    return f"{'█' * full}{'░' * (BAR_WIDTH - full)} {done} of {total} done{failed}"


def format_spending(goal: dict[str, Any]) -> str:
    return format_money(goal["cost_usd"]) + (f" of ${goal['budget_usd']:.2f}" if goal["budget_usd"] else "")


def format_replans(goal: dict[str, Any]) -> str:
    return f"replans {goal['replan_count']}/{goal['replan_limit']}"


def format_money(dollars: float) -> str:
    return f"${dollars:.4f}"


# Its sub-goals


class TreeRow(NamedTuple):
    sub_goal: dict[str, Any]
    prefix: str  # the branches that lead to the sub-goal
    below: str  # the branches that continue past it to the rows below


def render_plan(goal: dict[str, Any]) -> Iterator[StyledLine]:
    current = [sub_goal for sub_goal in goal["sub_goals"] if not sub_goal["superseded_by"]]
    earlier = [sub_goal for sub_goal in goal["sub_goals"] if sub_goal["superseded_by"]]
    yield from render_tree(f"plan {goal['plan_no']}", current)
    yield from render_tree("replaced by a later plan", earlier)


def render_tree(heading: str, sub_goals: Sequence[dict[str, Any]]) -> Iterator[StyledLine]:
    if sub_goals:
        yield StyledLine(())
        yield StyledLine(((heading, "dim"),))
    for sub_goal, branches, below in build_tree(sub_goals):
        yield render_sub_goal(sub_goal, branches)
        remark = describe_deviation(sub_goal)
        if remark:
            yield StyledLine(((f"{below}  ", "dim"), (to_one_line(remark), "dim")))


def render_sub_goal(sub_goal: dict[str, Any], branches: str) -> StyledLine:
    style = SUB_GOAL_STYLES[sub_goal["status"]]
    parts = (
        (branches, "dim"),
        (f"{SUB_GOAL_MARKS[sub_goal['status']]} #{sub_goal['id']} ", style),
        (to_one_line(sub_goal["title"]), style),
    )
    return StyledLine(
        parts,
        "  ".join(
            filter(
                None,
                (format_other_dependencies(sub_goal), format_working_time(sub_goal), format_agent(sub_goal), format_cost(sub_goal)),
            )
        ),
    )


def format_other_dependencies(sub_goal: dict[str, Any]) -> str:
    """Name the dependencies of a sub-goal other than its parent in the tree."""
    other_ids = sorted(sub_goal["depends_on"])[:-1]
    more = f" and {len(other_ids) - MAX_NAMED_DEPENDENCIES} more" if len(other_ids) > MAX_NAMED_DEPENDENCIES else ""
    return f"also after {', '.join(f'#{number}' for number in other_ids[:MAX_NAMED_DEPENDENCIES])}{more}" if other_ids else ""


def build_tree(sub_goals: Sequence[dict[str, Any]]) -> list[TreeRow]:
    """Arrange sub-goals as a tree, each below the newest of its dependencies. The other dependencies are named on its line."""
    known = {sub_goal["id"] for sub_goal in sub_goals}
    children_of: dict[int, list[dict[str, Any]]] = {}
    for sub_goal in sub_goals:
        children_of.setdefault(max((number for number in sub_goal["depends_on"] if number in known), default=0), []).append(
            sub_goal
        )
    rows: list[TreeRow] = []
    stack = [(node, "", "") for node in reversed(children_of.get(0, []))]
    while stack:
        node, branches, past = stack.pop()
        children = children_of.pop(node["id"], [])
        rows.append(TreeRow(node, clip_prefix(branches), clip_prefix(f"{past}{'│ ' if children else '  '}")))
        last = children[-1:]
        stack += [
            (child, f"{past}{'└' if [child] == last else '├'}─", f"{past}{'  ' if [child] == last else '│ '}")
            for child in reversed(children)
        ]
    return rows


def clip_prefix(branches: str) -> str:
    """Shorten the branches of a deep tree, so that they do not push the descriptions off the screen."""
    return branches if len(branches) <= MAX_BRANCH_WIDTH else f"…{branches[1 - MAX_BRANCH_WIDTH :]}"


def describe_deviation(sub_goal: dict[str, Any]) -> str:
    """Say why a sub-goal failed or diverged from the plan. Empty if it did neither."""
    if sub_goal["status"] == "failed":
        return f"failed: {sub_goal['reason']}"
    if sub_goal["divergence"] in DIVERGENCE_LABELS:
        return f"{DIVERGENCE_LABELS[sub_goal['divergence']]}: {sub_goal['divergence_reason']}"
    return ""


def format_agent(sub_goal: dict[str, Any]) -> str:
    return "main agent" if sub_goal["mode"] == "inline" else to_one_line(sub_goal["role"])


def format_cost(sub_goal: dict[str, Any]) -> str:
    return format_money(sub_goal["cost_usd"]) if sub_goal["ended_at"] and sub_goal["status"] != "skipped" else ""


def format_working_time(sub_goal: dict[str, Any]) -> str:
    return format_age(time.time() - sub_goal["started_at"]) if sub_goal["status"] == "in-progress" else ""


# Its plans


def print_plans(plans: Sequence[dict[str, Any]]) -> None:
    print_lines([line for plan in plans for line in render_plan_changes(plan)])
    if not plans:
        click.echo("no plan yet")


def render_plan_changes(plan: dict[str, Any]) -> Iterator[StyledLine]:
    style = "bold" if plan["in_force"] else "dim"
    state = ", in force" if plan["in_force"] else ""
    head = f"plan {plan['plan']}{state}  {plan['done']} of {plan['total']} done"
    yield StyledLine(((head, style),), format_time(plan["created_at"] * 1000))
    if plan["reason"]:
        yield StyledLine((("  because   ", "dim"), (to_one_line(plan["reason"]), "")), may_wrap=True)
    for sign, name in (("+", "added"), ("−", "removed"), ("~", "changed")):
        for member in plan[name]:
            yield StyledLine(((f"  {sign} ", "dim"), (f"#{member['id']} {to_one_line(member['title'])}", "")))


# Its journal


def render_journal(entries: Sequence[dict[str, Any]]) -> Iterator[StyledLine]:
    if entries:
        yield StyledLine(())
    for entry in entries[-LAST_ENTRIES:]:
        yield render_entry(entry)


def render_entry(entry: dict[str, Any]) -> StyledLine:
    return StyledLine(((f"{format_time(entry['at'] * 1000)[11:]} ", "dim"), (describe_entry(entry), "")), may_wrap=True)


# Shows the pursuit of a goal live: journal entries as they are written and, on a terminal, the plan below them.


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
        self.say(render_goal_line(goal))
        for entry in entries:
            self.entry(entry)

    def entry(self, entry: dict[str, Any]) -> None:
        self.say(render_entry(entry))

    def update(self, goal: dict[str, Any]) -> None:
        """Do nothing: the journal entries already report every change."""

    def note(self, text: str) -> None:
        click.echo(f"headway: {to_one_line(text)}", err=True)

    def say(self, line: StyledLine) -> None:
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
        self.say(render_entry(entry))

    def update(self, goal: dict[str, Any]) -> None:
        from rich.console import Group  # noqa: PLC0415

        self.goal = goal
        if self.live:
            self.live.update(Group(*self.parts(goal)))

    def note(self, text: str) -> None:
        self.say(StyledLine(((f"· {to_one_line(text)}", "yellow"),)))

    def say(self, line: StyledLine) -> None:
        print_above(self.live, self.console, line.styled(self.console.width))

    def parts(self, goal: dict[str, Any]) -> "list[RenderableType]":
        """Render as much of the plan as fits on the screen. The top rows, which are finished first, are left out."""
        from rich.spinner import Spinner  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        width = self.console.width
        title, state, *_ = render_header(goal)
        rows = list(render_plan(goal))
        room = max(min(self.console.height - ROWS_ABOVE_PLAN, MAX_PLAN_ROWS), 1)
        left_out = max(0, len(rows) - room)
        parts: list[RenderableType] = [Text(), to_single_row(title, width), to_single_row(state, width)]
        if left_out:
            parts.append(Text(f"… {left_out} lines above: `headway goal show {goal['id']}` shows them", "dim"))
        parts += [to_single_row(row, width) for row in rows[left_out:]]
        return [*parts, Spinner("dots", Text("Press Ctrl-C to leave", "dim"))]


def to_single_row(line: StyledLine, width: int) -> "RenderableType":
    """Truncate a line to a single row."""
    row = line.styled(width)
    row.no_wrap = True
    return row
