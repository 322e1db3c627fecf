"""Draws whole tasks and false "done" of every system, in the style of `bench.draw`."""

from collections.abc import Iterator, Sequence

from bench.draw import ROW, STYLE, WIDTH, line, text
from bench.effect.report import Figure, SystemFigures

NAMES = 270
GAP = 40
BAR = 10


def picture(figures: Sequence[SystemFigures], subtitle: str) -> str:
    height = 80 + ROW * len(figures)
    panel = (WIDTH - NAMES - 2 * GAP) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<title>Whole tasks and false claims of done, by system</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        text(10, 20, subtitle, "title"),
        *(text(NAMES - 10, 70 + ROW * row, figure.title, "", "end") for row, figure in enumerate(figures)),
        *draw_panel("tasks done completely, % (more is better)", "met", [figure.whole for figure in figures], NAMES, panel),
        *draw_panel(
            "“done” that is not true, % (less is better)",
            "missed",
            [figure.false for figure in figures],
            NAMES + panel + GAP,
            panel,
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def draw_panel(title: str, kind: str, figures: Sequence[Figure], left: float, width: float) -> Iterator[str]:
    bottom = 60 + ROW * len(figures)
    yield text(left, 42, title, "faint")
    for share in (0, 0.25, 0.5, 0.75, 1):
        yield line("grid", left + share * width, 50, left + share * width, bottom)
    for row, figure in enumerate(figures):
        y = 66 + ROW * row
        size = f'width="{figure.value * width:.1f}" height="{BAR}"'
        yield f'<rect class="{kind}" x="{left:.1f}" y="{y - BAR / 2:.1f}" {size} opacity="0.6"/>'
        yield line("target", left + figure.low * width, y, left + figure.high * width, y)
        yield text(left + width + 6, y + 4, f"{100 * figure.value:.0f}", "faint")
