"""Draws goals in a terminal: progress, sub-goals as a tree, and the journal as sentences."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.actions import goal_views
from headway.ledger.text import to_one_line
from headway.surfaces.cli.goal_sentences import describe_entry
from headway.surfaces.cli.render import build_console, format_age, format_time, is_terminal

if TYPE_CHECKING:
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
        words = "".join(words for words, _ in self.parts)
        return f"{words}  {self.right}".rstrip()

    def styled(self, width: int) -> "Text":
        """Render the line, truncated to `width` columns unless it may wrap. The text on the right is never truncated."""
        from rich.text import Text  # noqa: PLC0415  only needed on a terminal

        line = Text.assemble(*self.parts, overflow="ellipsis")
        if self.right:
            line.truncate(max(width - len(self.right) - 2, MIN_DESCRIPTION_WIDTH), overflow="ellipsis", pad=True)
            line.append(f"  {self.right}", "dim")
        return line


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
    parts = ((f"{GOAL_MARKS[status]} ", style), (f"#{goal['id']} [{status}] ", "dim"), (to_one_line(goal["description"]), style))
    return StyledLine(parts, f"{format_done(goal)}  {format_money(goal['cost_usd'])}")


def format_done(goal: dict[str, Any]) -> str:
    progress = goal["progress"]
    return f"{progress['completed']}/{progress['total'] - progress['skipped']}" if progress["total"] else "no plan"


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
            (f"  {format_progress_bar(goal)}", ""),
            (f"  {format_spending(goal)}  {format_replans(goal)}", "dim"),
        ),
        may_wrap=True,
    )
    facts = [
        ("done when", goal["success_criteria"]),
        ("evidence", goal["evidence"]),
        ("priority", str(goal["priority"])),
        ("deadline", format_time(goal["deadline"] * 1000)),
        ("set", format_time(goal["created_at"] * 1000)),
        ("ended", format_time(goal["ended_at"] * 1000)),
    ]
    yield from (StyledLine(((f"  {name:<9} ", "dim"), (to_one_line(value), "")), may_wrap=True) for name, value in facts if value)
    if status == "abandoned" and goal["pause_reason"]:
        yield StyledLine((("  because   ", "dim"), (to_one_line(goal["pause_reason"]), "")), may_wrap=True)
    if status == "paused":
        yield from render_pause(goal)


def render_pause(goal: dict[str, Any]) -> Iterator[StyledLine]:
    """Show why the goal is paused and what the operator can do next."""
    yield StyledLine((("  because   ", "dim"), (to_one_line(goal["pause_reason"] or ""), "yellow")), may_wrap=True)
    yield StyledLine(
        (("  next      ", "dim"), (goal_views.describe_next_action(goal["id"], goal["pause_kind"]), "")), may_wrap=True
    )


def format_progress_bar(goal: dict[str, Any]) -> str:
    progress = goal["progress"]
    total = progress["total"] - progress["skipped"]
    if not total:
        return "no plan yet"
    full = BAR_WIDTH * progress["completed"] // total
    failed = f", {progress['failed']} failed" if progress["failed"] else ""
    return f"{'█' * full}{'░' * (BAR_WIDTH - full)} {progress['completed']} of {total} done{failed}"


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
    sub_goals = goal["sub_goals"]
    if sub_goals:
        yield StyledLine(())
        yield StyledLine(((f"plan {goal['plan_no']}", "dim"),))
    for one, branches, below in build_tree(sub_goals):
        yield render_sub_goal(one, branches)
        remark = describe_deviation(one)
        if remark:
            yield StyledLine(((f"{below}  ", "dim"), (to_one_line(remark), "dim")))


def render_sub_goal(one: dict[str, Any], branches: str) -> StyledLine:
    style = SUB_GOAL_STYLES[one["status"]]
    parts = ((branches, "dim"), (f"{SUB_GOAL_MARKS[one['status']]} #{one['id']} ", style), (to_one_line(one["description"]), style))
    return StyledLine(
        parts,
        "  ".join(filter(None, (format_other_dependencies(one), format_working_time(one), format_agent(one), format_cost(one)))),
    )


def format_other_dependencies(one: dict[str, Any]) -> str:
    """Name the dependencies of a sub-goal other than its parent in the tree."""
    others = sorted(one["depends_on"])[:-1]
    more = f" and {len(others) - MAX_NAMED_DEPENDENCIES} more" if len(others) > MAX_NAMED_DEPENDENCIES else ""
    return f"also after {', '.join(f'#{number}' for number in others[:MAX_NAMED_DEPENDENCIES])}{more}" if others else ""


def build_tree(sub_goals: Sequence[dict[str, Any]]) -> list[TreeRow]:
    """Arrange sub-goals as a tree, each below the newest of its dependencies. The other dependencies are named on its line."""
    known = {one["id"] for one in sub_goals}
    below: dict[int, list[dict[str, Any]]] = {}
    for one in sub_goals:
        below.setdefault(max((number for number in one["depends_on"] if number in known), default=0), []).append(one)
    drawn: list[TreeRow] = []
    waiting = [(one, "", "") for one in reversed(below.get(0, []))]
    while waiting:
        one, branches, past = waiting.pop()
        children = below.pop(one["id"], [])
        drawn.append(TreeRow(one, clip_prefix(branches), clip_prefix(f"{past}{'│ ' if children else '  '}")))
        last = children[-1:]
        waiting += [
            (child, f"{past}{'└' if [child] == last else '├'}─", f"{past}{'  ' if [child] == last else '│ '}")
            for child in reversed(children)
        ]
    return drawn


def clip_prefix(branches: str) -> str:
    """Shorten the branches of a deep tree, so that they do not push the descriptions off the screen."""
    return branches if len(branches) <= MAX_BRANCH_WIDTH else f"…{branches[1 - MAX_BRANCH_WIDTH :]}"


def describe_deviation(one: dict[str, Any]) -> str:
    """Say why a sub-goal failed or diverged from the plan. Empty if it did neither."""
    if one["status"] == "failed":
        return f"failed: {one['reason']}"
    if one["divergence"] in DIVERGENCE_LABELS:
        return f"{DIVERGENCE_LABELS[one['divergence']]}: {one['divergence_reason']}"
    return ""


def format_agent(one: dict[str, Any]) -> str:
    return "main agent" if one["mode"] == "inline" else to_one_line(one["role"])


def format_cost(one: dict[str, Any]) -> str:
    return format_money(one["cost_usd"]) if one["ended_at"] and one["status"] != "skipped" else ""


def format_working_time(one: dict[str, Any]) -> str:
    return format_age(time.time() - one["started_at"]) if one["status"] == "in-progress" else ""


# Its journal


def render_journal(entries: Sequence[dict[str, Any]]) -> Iterator[StyledLine]:
    if entries:
        yield StyledLine(())
    for entry in entries[-LAST_ENTRIES:]:
        yield render_entry(entry)


def render_entry(entry: dict[str, Any]) -> StyledLine:
    return StyledLine(((f"{format_time(entry['at'] * 1000)[11:]} ", "dim"), (describe_entry(entry), "")), may_wrap=True)
