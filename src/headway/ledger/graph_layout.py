"""Where the cards and edges of a dependency graph are drawn: top to bottom, on a grid of limited width."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

CARD_WIDTH: Final = 176
CARD_HEIGHT: Final = 46
CARD_GAP: Final = 16  # between neighbours in a row
ROW_GAP: Final = 32
ROW_HEIGHT: Final = CARD_HEIGHT + ROW_GAP
LANE_WIDTH: Final = 6

Edges = Sequence[tuple[int, int]]
Links = list[list[int]]


class CardPosition(NamedTuple):
    """The top left corner of a node's card."""

    id: int
    x: int
    y: int


class EdgePath(NamedTuple):
    """An edge as an SVG path, from the bottom of one card to the top of another."""

    source: int
    target: int
    path: str


class Layout(NamedTuple):
    width: int
    height: int
    positions: tuple[CardPosition, ...]
    paths: tuple[EdgePath, ...]


class Lane(NamedTuple):
    """The part of a gap between columns that the edges of a card run through, from one row to another."""

    gap: int  # 0: left of the first column
    track: int  # its number among the lanes in that gap


class Grid(NamedTuple):
    rows: list[int]
    columns: list[int]
    width: int  # in columns


def compute_layout(nodes: Sequence[int], edges: Edges, columns: int) -> Layout:
    """Lay out the graph with at most `columns` cards in a row. Edges point down, from each node to the ones that depend on it.

    Edges to unknown nodes are ignored, and edges that close a cycle are reversed.
    """
    if not nodes:
        return Layout(0, 0, (), ())
    ids = list(dict.fromkeys(nodes))
    index_of = {node: index for index, node in enumerate(ids)}
    links = sorted({(index_of[a], index_of[b]) for a, b in edges if a in index_of and b in index_of and a != b})
    downward = reverse_cycles(len(ids), links)
    rows = pack_rows(len(ids), downward, columns)
    grid = place_columns(rows, downward, max(Counter(rows).values()))
    return draw_grid(ids, grid, links, downward)


def reverse_cycles(count: int, edges: Edges) -> list[tuple[int, int]]:
    """Return the edges, reversing each one that would close a cycle."""
    after = build_links(count, edges)
    open_, seen, reversed_edges = set[int](), set[int](), set[tuple[int, int]]()
    for root in range(count):
        if root in seen:
            continue
        seen.add(root)
        open_.add(root)
        trail = [(root, iter(after[root]))]
        while trail:
            vertex, rest = trail[-1]
            following = next(rest, None)
            if following is None:
                open_.discard(vertex)
                trail.pop()
            elif following in open_:
                reversed_edges.add((vertex, following))
            elif following not in seen:
                seen.add(following)
                open_.add(following)
                trail.append((following, iter(after[following])))
    return [(b, a) if (a, b) in reversed_edges else (a, b) for a, b in edges]


def build_links(count: int, edges: Edges) -> Links:
    """List, for each vertex, the targets of its edges."""
    links: Links = [[] for _ in range(count)]
    for a, b in edges:
        links[a].append(b)
    return links


def pack_rows(count: int, edges: Edges, columns: int) -> list[int]:
    """Return the row of each vertex, with at most `columns` vertices in a row. `edges` must not contain a cycle.

    Every edge points down. Among the vertices that could be next, the ones whose dependencies were placed last come first: a chain
    continues right below its beginning, which keeps edges short.
    """
    below = build_links(count, edges)
    missing = Counter(target for _, target in edges)
    rows = [0] * count
    latest = [-1] * count  # the row of the dependency that was placed last
    ready = [vertex for vertex in range(count) if not missing[vertex]]
    row = 0
    while ready:
        ready.sort(key=lambda vertex: (-latest[vertex], vertex))
        placed, ready = ready[:columns], ready[columns:]
        for vertex in placed:
            rows[vertex] = row
            for target in below[vertex]:
                latest[target] = row
                missing[target] -= 1
                if not missing[target]:
                    ready.append(target)
        row += 1
    return rows


def place_columns(rows: list[int], edges: Edges, columns: int) -> Grid:
    """Sort each row by the columns of its cards' dependencies, and centre it."""
    above = build_links(len(rows), [(b, a) for a, b in edges])
    members: list[list[int]] = [[] for _ in range(max(rows) + 1)]
    for vertex, row in enumerate(rows):
        members[row].append(vertex)
    column_of = [0] * len(rows)
    for cards in members:
        middles = {vertex: mean([column_of[other] for other in above[vertex]], columns / 2) for vertex in cards}
        for column, vertex in enumerate(sorted(cards, key=middles.__getitem__), (columns - len(cards)) // 2):
            column_of[vertex] = column
    return Grid(rows, column_of, columns)


def mean(numbers: Sequence[int], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def assign_lanes(grid: Grid, edges: Edges) -> dict[tuple[int, int], Lane]:
    """Give a lane to each edge that passes a row. Edges share that of the card which has more edges."""
    outgoing, incoming = (Counter(edge[end] for edge in edges) for end in (0, 1))
    owners = {edge: (0, edge[0]) if outgoing[edge[0]] >= incoming[edge[1]] else (1, edge[1]) for edge in edges}
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for edge, owner in owners.items():
        first, last = grid.rows[edge[0]] + 1, grid.rows[edge[1]] - 1
        if first <= last:
            known = spans.get(owner, (first, last))
            spans[owner] = min(known[0], first), max(known[1], last)
    ends: list[list[int]] = [[] for _ in range(grid.width + 1)]  # by gap and track: the last row that is taken
    lanes: dict[tuple[int, int], Lane] = {}
    for owner, (first, last) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        column = grid.columns[owner[1]]
        gap = min((column, column + 1), key=lambda one: (len(ends[one]), one))
        tracks = ends[gap]
        track = next((number for number, end in enumerate(tracks) if end < first), len(tracks))
        tracks[track : track + 1] = [last]
        lanes[owner] = Lane(gap, track)
    return {edge: lanes[owner] for edge, owner in owners.items() if grid.rows[edge[1]] - grid.rows[edge[0]] > 1}


def draw_grid(ids: Sequence[int], grid: Grid, links: Edges, downward: Edges) -> Layout:
    lanes = assign_lanes(grid, downward)
    tracks = [0] * (grid.width + 1)
    for lane in lanes.values():
        tracks[lane.gap] = max(tracks[lane.gap], lane.track + 1)
    used = [column for column in range(grid.width + 1) if tracks[column] or column in range(1, grid.width)]
    gap_widths = [(CARD_GAP if gap in used else 0) + LANE_WIDTH * tracks[gap] for gap in range(grid.width + 1)]
    gap_lefts = [sum(gap_widths[:gap]) + gap * CARD_WIDTH for gap in range(grid.width + 1)]
    lefts = [gap_lefts[column] + gap_widths[column] for column in range(grid.width)]

    def draw(edge: tuple[int, int]) -> str:
        (a, b), lane = edge, lanes.get(edge)
        x, y = lefts[grid.columns[a]] + CARD_WIDTH // 2, grid.rows[a] * ROW_HEIGHT + CARD_HEIGHT
        to_x, to_y = lefts[grid.columns[b]] + CARD_WIDTH // 2, grid.rows[b] * ROW_HEIGHT
        if lane is None:
            return f"M{x} {y}{curve(x, y, to_x, to_y)}"
        through = gap_lefts[lane.gap] + CARD_GAP // 2 + LANE_WIDTH * lane.track + LANE_WIDTH // 2
        enters, leaves = (grid.rows[a] + 1) * ROW_HEIGHT, to_y - ROW_GAP
        return f"M{x} {y}{curve(x, y, through, enters)}L{through} {leaves}{curve(through, leaves, to_x, to_y)}"

    return Layout(
        width=gap_lefts[-1] + gap_widths[-1],
        height=(max(grid.rows) + 1) * ROW_HEIGHT - ROW_GAP,
        positions=tuple(
            CardPosition(node, lefts[grid.columns[index]], grid.rows[index] * ROW_HEIGHT) for index, node in enumerate(ids)
        ),
        paths=tuple(EdgePath(ids[a], ids[b], draw(edge)) for (a, b), edge in zip(links, downward, strict=True)),
    )


def curve(x: int, y: int, to_x: int, to_y: int) -> str:
    half = (y + to_y) // 2
    return f"C{x} {half} {to_x} {half} {to_x} {to_y}"
