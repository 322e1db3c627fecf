"""How goals look in a terminal: how far one got, its sub-goals as a tree, and its journal in sentences."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.actions import goal_views
from headway.ledger.text import one_line
from headway.surfaces.cli.drawing import ago, clock_time, console, on_a_terminal
from headway.surfaces.cli.goal_sentences import sentence

if TYPE_CHECKING:
    from rich.text import Text

# A status has a shape of its own, never a colour alone.
GOAL_MARKS = {"active": "▶", "paused": "‖", "completed": "✔", "abandoned": "✕"}
GOAL_STYLES = {"active": "bold cyan", "paused": "bold yellow", "completed": "bold green", "abandoned": "dim"}
MARKS = {"pending": "○", "in-progress": "▶", "completed": "✔", "failed": "✕", "skipped": "⤼"}
STYLES = {"pending": "", "in-progress": "bold cyan", "completed": "green", "failed": "red", "skipped": "dim"}
WORTH_SAYING = {"minor": "a little off", "major": "off"}
BAR = 20
LAST_ENTRIES = 5
NAMED = 4
NARROW = 24  # what a description gets at least
DEEPEST = 24  # columns of branches


class Line(NamedTuple):
    """A line of text, its parts with their styles, and what stands at its right end."""

    parts: tuple[tuple[str, str], ...]
    right: str = ""
    wraps: bool = False

    def plain(self) -> str:
        words = "".join(words for words, _ in self.parts)
        return f"{words}  {self.right}".rstrip()

    def styled(self, width: int) -> "Text":
        """Cut to that many columns, unless it may wrap; what stands at the right keeps its place."""
        from rich.text import Text  # noqa: PLC0415  only terminals need it

        line = Text.assemble(*self.parts, overflow="ellipsis")
        if self.right:
            line.truncate(max(width - len(self.right) - 2, NARROW), overflow="ellipsis", pad=True)
            line.append(f"  {self.right}", "dim")
        return line


def show_goal(goal: dict[str, Any], entries: Sequence[dict[str, Any]]) -> None:
    """Everything about a goal that a person wants to see first."""
    print_lines([*header(goal), *plan(goal), *history(entries)])


def show_end(goal: dict[str, Any]) -> None:
    """What is left to say once nobody watches any more."""
    if on_a_terminal():
        print_lines([*header(goal), *plan(goal)])
    else:
        print_lines([goal_line(goal), *(pause_lines(goal) if goal["status"] == "paused" else ())])


def show_goals(goals: Sequence[dict[str, Any]], *, more: bool) -> None:
    print_lines([goal_line(goal) for goal in goals])
    if not goals:
        click.echo("no goals")
    elif more and on_a_terminal():
        console().print("… and more: --limit shows them", style="dim")


def print_lines(lines: Sequence[Line]) -> None:
    if not on_a_terminal():
        for line in lines:
            click.echo(line.plain())
        return
    screen = console()
    for line in lines:
        screen.print(line.styled(screen.width), no_wrap=not line.wraps)


# A goal


def goal_line(goal: dict[str, Any]) -> Line:
    status = goal["status"]
    style = GOAL_STYLES[status]
    parts = ((f"{GOAL_MARKS[status]} ", style), (f"#{goal['id']} [{status}] ", "dim"), (one_line(goal["description"]), style))
    return Line(parts, f"{done_of(goal)}  {money(goal['cost_usd'])}")


def done_of(goal: dict[str, Any]) -> str:
    progress = goal["progress"]
    return f"{progress['completed']}/{progress['total'] - progress['skipped']}" if progress["total"] else "no plan"


def header(goal: dict[str, Any]) -> Iterator[Line]:
    status = goal["status"]
    style = GOAL_STYLES[status]
    yield Line(((f"{GOAL_MARKS[status]} goal #{goal['id']} ", style), (one_line(goal["description"]), "bold")), wraps=True)
    yield Line(
        (("  ", ""), (status, style), (f"  {progress_bar(goal)}", ""), (f"  {spent(goal)}  {replans(goal)}", "dim")), wraps=True
    )
    facts = [
        ("done when", goal["success_criteria"]),
        ("evidence", goal["evidence"]),
        ("priority", str(goal["priority"])),
        ("deadline", clock_time(goal["deadline"] * 1000)),
        ("set", clock_time(goal["created_at"] * 1000)),
        ("ended", clock_time(goal["ended_at"] * 1000)),
    ]
    yield from (Line(((f"  {name:<9} ", "dim"), (one_line(value), "")), wraps=True) for name, value in facts if value)
    if status == "abandoned" and goal["pause_reason"]:
        yield Line((("  because   ", "dim"), (one_line(goal["pause_reason"]), "")), wraps=True)
    if status == "paused":
        yield from pause_lines(goal)


def pause_lines(goal: dict[str, Any]) -> Iterator[Line]:
    """Why, and what can be done about it."""
    yield Line((("  because   ", "dim"), (one_line(goal["pause_reason"] or ""), "yellow")), wraps=True)
    yield Line((("  next      ", "dim"), (goal_views.asked(goal["id"], goal["pause_kind"]), "")), wraps=True)


def progress_bar(goal: dict[str, Any]) -> str:
    progress = goal["progress"]
    total = progress["total"] - progress["skipped"]
    if not total:
        return "no plan yet"
    full = BAR * progress["completed"] // total
    failed = f", {progress['failed']} failed" if progress["failed"] else ""
    return f"{'█' * full}{'░' * (BAR - full)} {progress['completed']} of {total} done{failed}"


def spent(goal: dict[str, Any]) -> str:
    return money(goal["cost_usd"]) + (f" of ${goal['budget_usd']:.2f}" if goal["budget_usd"] else "")


def replans(goal: dict[str, Any]) -> str:
    return f"replans {goal['replan_count']}/{goal['replan_limit']}"


def money(dollars: float) -> str:
    return f"${dollars:.4f}"


# Its sub-goals


class Branch(NamedTuple):
    sub_goal: dict[str, Any]
    branches: str  # what leads to it from above,
    below: str  # and past it to what is below


def plan(goal: dict[str, Any]) -> Iterator[Line]:
    sub_goals = goal["sub_goals"]
    if sub_goals:
        yield Line(())
        yield Line(((f"plan {goal['plan_no']}", "dim"),))
    for one, branches, below in tree(sub_goals):
        yield sub_goal_line(one, branches)
        remark = remark_about(one)
        if remark:
            yield Line(((f"{below}  ", "dim"), (one_line(remark), "dim")))


def sub_goal_line(one: dict[str, Any], branches: str) -> Line:
    style = STYLES[one["status"]]
    parts = ((branches, "dim"), (f"{MARKS[one['status']]} #{one['id']} ", style), (one_line(one["description"]), style))
    return Line(parts, "  ".join(filter(None, (also_after(one), working_time(one), who(one), cost(one)))))


def also_after(one: dict[str, Any]) -> str:
    """What it waits for besides the one that it stands below."""
    others = sorted(one["depends_on"])[:-1]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return f"also after {', '.join(f'#{number}' for number in others[:NAMED])}{more}" if others else ""


def tree(sub_goals: Sequence[dict[str, Any]]) -> list[Branch]:
    """Each below the newest of those that it waits for; the others are named beside it."""
    known = {one["id"] for one in sub_goals}
    below: dict[int, list[dict[str, Any]]] = {}
    for one in sub_goals:
        below.setdefault(max((number for number in one["depends_on"] if number in known), default=0), []).append(one)
    drawn: list[Branch] = []
    waiting = [(one, "", "") for one in reversed(below.get(0, []))]
    while waiting:
        one, branches, past = waiting.pop()
        children = below.pop(one["id"], [])
        drawn.append(Branch(one, clipped(branches), clipped(f"{past}{'│ ' if children else '  '}")))
        last = children[-1:]
        waiting += [
            (child, f"{past}{'└' if [child] == last else '├'}─", f"{past}{'  ' if [child] == last else '│ '}")
            for child in reversed(children)
        ]
    return drawn


def clipped(branches: str) -> str:
    """A chain of many steps must not push what they say out of sight."""
    return branches if len(branches) <= DEEPEST else f"…{branches[1 - DEEPEST :]}"


def remark_about(one: dict[str, Any]) -> str:
    """Whatever did not go as planned."""
    if one["status"] == "failed":
        return f"failed: {one['reason']}"
    if one["divergence"] in WORTH_SAYING:
        return f"{WORTH_SAYING[one['divergence']]}: {one['divergence_reason']}"
    return ""


def who(one: dict[str, Any]) -> str:
    return "main agent" if one["mode"] == "inline" else one_line(one["role"])


def cost(one: dict[str, Any]) -> str:
    return money(one["cost_usd"]) if one["ended_at"] and one["status"] != "skipped" else ""


def working_time(one: dict[str, Any]) -> str:
    return ago(time.time() - one["started_at"]) if one["status"] == "in-progress" else ""


# Its journal


def history(entries: Sequence[dict[str, Any]]) -> Iterator[Line]:
    if entries:
        yield Line(())
    for entry in entries[-LAST_ENTRIES:]:
        yield entry_line(entry)


def entry_line(entry: dict[str, Any]) -> Line:
    return Line(((f"{clock_time(entry['at'] * 1000)[11:]} ", "dim"), (sentence(entry), "")), wraps=True)
