"""Where the nodes and edges of dependency graphs are drawn, in layers or on a grid."""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

# Layered layout of a dependency graph, top to bottom, after Sugiyama.


CARD_WIDTH: Final = 176
CARD_HEIGHT: Final = 46
CARD_GAP: Final = 16  # between neighbours in a layer
LAYER_GAP: Final = 32  # between layers
BEND_WIDTH: Final = 6  # width reserved for an edge where it crosses a layer
SWEEPS: Final = 12
PASSES: Final = 16

Edges = Sequence[tuple[int, int]]
Links = list[list[int]]
Rows = list[list[int]]


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


class LayeredGraph(NamedTuple):
    """The graph split into layers. `chains` holds, for each edge, its two cards and the bends between them."""

    cards: int
    rows: Rows
    above: Links
    below: Links
    chains: list[list[int]]

    def is_bend(self, vertex: int) -> bool:
        return vertex >= self.cards

    def width(self, vertex: int) -> int:
        return BEND_WIDTH if self.is_bend(vertex) else CARD_WIDTH

    def distance(self, left: int, right: int) -> float:
        """Return the minimum distance between the centres of two neighbours."""
        gap = CARD_GAP * 0.75 if self.is_bend(left) or self.is_bend(right) else CARD_GAP
        return (self.width(left) + self.width(right)) / 2 + gap


def compute_layout(nodes: Sequence[int], edges: Edges) -> Layout:
    """Lay out the graph with edges pointing down, from each node to those that depend on it.

    Edges to unknown nodes are ignored, and edges that close a cycle are reversed.
    """
    if not nodes:
        return Layout(0, 0, (), ())
    ids = list(dict.fromkeys(nodes))
    index_of = {node: index for index, node in enumerate(ids)}
    links = sorted({(index_of[a], index_of[b]) for a, b in edges if a in index_of and b in index_of and a != b})
    order, downward = break_cycles(len(ids), links)
    web = build_layered_graph(order, assign_layers(order, downward), downward)
    web = web._replace(rows=reduce_crossings(web))
    centres = straighten_edges(web, compute_centres(web))
    left = min(centre - web.width(vertex) / 2 for vertex, centre in centres.items())
    right = max(centre + web.width(vertex) / 2 for vertex, centre in centres.items())
    tops = {vertex: layer * (CARD_HEIGHT + LAYER_GAP) for layer, row in enumerate(web.rows) for vertex in row}
    shifted_centres = {vertex: centre - left for vertex, centre in centres.items()}
    return Layout(
        width=round(right - left),
        height=len(web.rows) * (CARD_HEIGHT + LAYER_GAP) - LAYER_GAP,
        positions=tuple(
            CardPosition(node, round(shifted_centres[index] - CARD_WIDTH / 2), tops[index]) for node, index in index_of.items()
        ),
        paths=tuple(
            EdgePath(ids[a], ids[b], format_edge_path(web, chain, shifted_centres, tops))
            for (a, b), chain in zip(links, web.chains, strict=True)
        ),
    )


def break_cycles(count: int, edges: Edges) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the vertices in topological order and the edges, reversing each edge that would close a cycle."""
    after = build_links(count, edges)
    order: list[int] = []
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
                order.append(vertex)
                trail.pop()
            elif following in open_:
                reversed_edges.add((vertex, following))
            elif following not in seen:
                seen.add(following)
                open_.add(following)
                trail.append((following, iter(after[following])))
    return order[::-1], [(b, a) if (a, b) in reversed_edges else (a, b) for a, b in edges]


def build_links(count: int, edges: Edges) -> Links:
    """List, for each vertex, the targets of its edges."""
    links: Links = [[] for _ in range(count)]
    for a, b in edges:
        links[a].append(b)
    return links


def assign_layers(order: Sequence[int], edges: Edges) -> list[int]:
    """Assign each vertex a layer below its dependencies. Vertices with more dependents than dependencies move down next to their
    dependents, which shortens the edges."""
    below = build_links(len(order), edges)
    above = build_links(len(order), [(b, a) for a, b in edges])
    rank = [0] * len(order)
    for vertex in order:
        rank[vertex] = max((rank[neighbour] + 1 for neighbour in above[vertex]), default=0)
    for vertex in reversed(order):
        if len(below[vertex]) > len(above[vertex]):
            rank[vertex] = min(rank[neighbour] for neighbour in below[vertex]) - 1
    lowest = min(rank)
    return [layer - lowest for layer in rank]


def build_layered_graph(order: Sequence[int], rank: list[int], edges: Edges) -> LayeredGraph:
    rows: Rows = [[] for _ in range(max(rank) + 1)]
    for vertex in order:
        rows[rank[vertex]].append(vertex)
    chains: list[list[int]] = []
    vertices = len(rank)
    for a, b in edges:
        bends = range(vertices, vertices + rank[b] - rank[a] - 1)
        for layer, bend in enumerate(bends, rank[a] + 1):
            rows[layer].append(bend)
        vertices += len(bends)
        chains.append([a, *bends, b])
    steps = [step for chain in chains for step in pairwise(chain)]
    return LayeredGraph(len(rank), rows, build_links(vertices, [(b, a) for a, b in steps]), build_links(vertices, steps), chains)


# Order within the layers


def reduce_crossings(web: LayeredGraph) -> Rows:
    """Sweep down and up, moving each vertex to the mean position of its neighbours. Keep the order with the fewest crossings."""
    rows = [list(row) for row in web.rows]
    best, fewest = rows, count_crossings(rows, web.below)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        rows = [list(row) for row in rows]
        downwards = sweep % 2 == 0
        layers = range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1)
        for layer in layers:
            sort_by_middle(rows[layer], rows[layer - 1 if downwards else layer + 1], web.above if downwards else web.below)
        for layer in range(len(rows)):
            swap_neighbours(rows, layer, web)
        crossings = count_crossings(rows, web.below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def count_crossings(rows: Rows, below: Links) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        index_of = index_row(lower)
        ends_so_far: list[int] = []
        for vertex in upper:
            ends = sorted(index_of[target] for target in below[vertex])
            total += sum(len(ends_so_far) - bisect_right(ends_so_far, end) for end in ends)
            for end in ends:
                insort(ends_so_far, end)
    return total


def index_row(row: list[int]) -> dict[int, int]:
    return {vertex: index for index, vertex in enumerate(row)}


def sort_by_middle(row: list[int], fixed: list[int], links: Links) -> None:
    fixed_index, row_index = index_row(fixed), index_row(row)

    def middle(vertex: int) -> float:
        """Return the mean index of the neighbours. A vertex without neighbours keeps its place."""
        neighbours = links[vertex]
        return sum(fixed_index[neighbour] for neighbour in neighbours) / len(neighbours) if neighbours else row_index[vertex]

    row.sort(key=middle)


def swap_neighbours(rows: Rows, layer: int, web: LayeredGraph) -> None:
    row = rows[layer]
    adjacent_rows = [
        (links, index_row(rows[other]))
        for links, other in ((web.above, layer - 1), (web.below, layer + 1))
        if 0 <= other < len(rows)
    ]
    for k in range(len(row) - 1):
        a, b = row[k], row[k + 1]
        gain = sum(
            (index_of[x] > index_of[y]) - (index_of[x] < index_of[y])
            for links, index_of in adjacent_rows
            for x in links[a]
            for y in links[b]
        )
        if gain > 0:
            row[k], row[k + 1] = b, a


# Horizontal positions


def compute_centres(web: LayeredGraph) -> dict[int, float]:
    """Compute the centre of each vertex by pulling it towards its neighbours above and below in turn, finally towards both."""
    centres: dict[int, float] = {}
    for row in web.rows:
        centres |= place_row(row, [0.0] * len(row), [1.0] * len(row), web.distance)
    for turn in range(PASSES):
        downwards = turn % 2 == 0
        last = turn >= PASSES - 2
        for row in web.rows if downwards else reversed(web.rows):
            neighbours_by_vertex = [
                web.above[vertex] + web.below[vertex] if last else (web.above if downwards else web.below)[vertex] for vertex in row
            ]
            targets = [
                sum(centres[neighbour] for neighbour in neighbours) / len(neighbours) if neighbours else centres[vertex]
                for vertex, neighbours in zip(row, neighbours_by_vertex, strict=True)
            ]
            weights = [
                8.0 if web.is_bend(vertex) and any(map(web.is_bend, neighbours)) else 1.0 + len(neighbours)
                for vertex, neighbours in zip(row, neighbours_by_vertex, strict=True)
            ]
            centres |= place_row(row, targets, weights, web.distance)
    return centres


def place_row(
    row: list[int], targets: list[float], weights: list[float], distance: Callable[[int, int], float]
) -> dict[int, float]:
    """Find the positions closest to the wanted ones that keep the order and the distances (pool adjacent violators)."""
    offsets: list[float] = []
    blocks: list[tuple[float, float, int]] = []  # (mean, weight, number of vertices)
    for index, vertex in enumerate(row):
        offsets.append(offsets[-1] + distance(row[index - 1], vertex) if index else 0.0)
        mean, weight, count = targets[index] - offsets[index], weights[index], 1
        while blocks and blocks[-1][0] > mean:
            mean_left, weight_left, count_left = blocks.pop()
            mean = (mean * weight + mean_left * weight_left) / (weight + weight_left)
            weight, count = weight + weight_left, count + count_left
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return {vertex: mean + offset for vertex, mean, offset in zip(row, means, offsets, strict=True)}


def straighten_edges(web: LayeredGraph, centres: dict[int, float]) -> dict[int, float]:
    """Make each long edge run straight down for as many layers as the free space allows."""
    centres = dict(centres)
    neighbours = {
        vertex: (row[index - 1] if index else None, row[index + 1] if index + 1 < len(row) else None)
        for row in web.rows
        for index, vertex in enumerate(row)
        if web.is_bend(vertex)
    }

    def room(bend: int) -> tuple[float, float]:
        left, right = neighbours[bend]
        lowest = -inf if left is None else centres[left] + web.distance(left, bend)
        highest = inf if right is None else centres[right] - web.distance(bend, right)
        return lowest, highest

    for chain in sorted(web.chains, key=len, reverse=True):
        run: list[int] = []
        low, high = -inf, inf
        for bend in chain[1:-1]:
            lowest, highest = room(bend)
            if run and max(low, lowest) > min(high, highest):
                align_bends(run, low, high, centres)
                run, low, high = [], -inf, inf
                lowest, highest = room(bend)
            run.append(bend)
            low, high = max(low, lowest), min(high, highest)
        align_bends(run, low, high, centres)
    return centres


def align_bends(run: list[int], low: float, high: float, centres: dict[int, float]) -> None:
    """Move the bends of a straight run to their mean position, as far as the space allows."""
    if run:
        mean = sum(centres[bend] for bend in run) / len(run)
        centres.update(dict.fromkeys(run, min(max(mean, low), high)))


def format_edge_path(web: LayeredGraph, chain: list[int], centres: Mapping[int, float], tops: Mapping[int, int]) -> str:
    x, y = centres[chain[0]], tops[chain[0]] + CARD_HEIGHT
    path = f"M{round(x)} {y}"
    for vertex in chain[1:]:
        to_x, to_y = centres[vertex], tops[vertex]
        half = (y + to_y) // 2
        path += f"C{round(x)} {half} {round(to_x)} {half} {round(to_x)} {to_y}"
        x, y = to_x, to_y + CARD_HEIGHT
        if web.is_bend(vertex):
            path += f"L{round(x)} {y}"
    return path


# Layout of a dependency graph on a grid of limited width, for graphs whose layers are too wide to be read.


LANE_WIDTH: Final = 6
ROW_HEIGHT: Final = CARD_HEIGHT + LAYER_GAP
LAYERED_LIMIT: Final = 150  # cards; computing the layers' order takes too long for more


class Lane(NamedTuple):
    """The part of a gap between columns that the edges of a card run through, from one row to another."""

    gap: int  # 0: left of the first column
    track: int  # the place among the lanes in that gap


class Grid(NamedTuple):
    rows: list[int]
    columns: list[int]
    width: int  # in columns


def compute_legible_layout(nodes: Sequence[int], edges: Edges, columns: int) -> Layout:
    """Lay out the graph so that it is about `columns` cards wide: in layers if that is narrow enough, else on a grid."""
    ids = list(dict.fromkeys(nodes))
    index_of = {node: index for index, node in enumerate(ids)}
    links = sorted({(index_of[a], index_of[b]) for a, b in edges if a in index_of and b in index_of and a != b})
    order, downward = break_cycles(len(ids), links)
    if not ids:
        return Layout(0, 0, (), ())
    widest = max(Counter(assign_layers(order, downward)).values())
    if widest <= columns and len(ids) <= LAYERED_LIMIT:
        layout = compute_layout(ids, edges)
        if layout.width <= (columns + 1) * (CARD_WIDTH + CARD_GAP):
            return layout
    grid = place_columns(pack_rows(len(ids), downward, columns), downward, columns)
    return draw_grid(ids, grid, links, downward)


def pack_rows(count: int, edges: Edges, columns: int) -> list[int]:
    """Return the row of each vertex, with at most `columns` vertices in a row. `edges` must not contain a cycle.

    Every edge points down. Among the vertices that could be next, those whose dependencies were placed last come first: a chain
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
        track = next((place for place, end in enumerate(tracks) if end < first), len(tracks))
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
        enters, leaves = (grid.rows[a] + 1) * ROW_HEIGHT, to_y - LAYER_GAP
        return f"M{x} {y}{curve(x, y, through, enters)}L{through} {leaves}{curve(through, leaves, to_x, to_y)}"

    return Layout(
        width=gap_lefts[-1] + gap_widths[-1],
        height=(max(grid.rows) + 1) * ROW_HEIGHT - LAYER_GAP,
        positions=tuple(
            CardPosition(node, lefts[grid.columns[index]], grid.rows[index] * ROW_HEIGHT) for index, node in enumerate(ids)
        ),
        paths=tuple(EdgePath(ids[a], ids[b], draw(edge)) for (a, b), edge in zip(links, downward, strict=True)),
    )


def curve(x: int, y: int, to_x: int, to_y: int) -> str:
    half = (y + to_y) // 2
    return f"C{x} {half} {to_x} {half} {to_x} {to_y}"
