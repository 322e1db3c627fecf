"""Layout of a plan's graph: rows of limited length from top to bottom, no overlaps, few crossings, and the same again."""

import re
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.ledger.graph_layout import CARD_GAP, CARD_HEIGHT, CARD_WIDTH, CardPosition, Layout, compute_layout
from tests.tables import each_row

COLUMNS = 6
Edges = list[tuple[int, int]]
Point = tuple[int, int]
graphs = st.integers(1, 40).flatmap(
    lambda count: st.tuples(
        st.just(list(range(1, count + 1))), st.lists(st.tuples(st.integers(1, count), st.integers(1, count)), max_size=80)
    )
)


def draw(nodes: list[int], edges: Edges) -> Layout:
    return compute_layout(nodes, edges, COLUMNS)


def by_id(layout: Layout) -> dict[int, CardPosition]:
    return {spot.id: spot for spot in layout.positions}


def endpoints(path: str) -> tuple[Point, Point]:
    points = [(int(x), int(y)) for x, y in re.findall(r"(-?\d+) (-?\d+)", path)]
    return points[0], points[-1]


def vertical_lines(path: str) -> list[tuple[int, int, int]]:
    """The straight parts of a path: x, from y, to y."""
    return [(int(x), int(top), int(end)) for x, top, end in re.findall(r"(-?\d+) (-?\d+)L-?\d+ (-?\d+)", path)]


def fan_out(count: int) -> tuple[list[int], Edges]:
    """One card, `count` that depend on it, and one that depends on all of these."""
    last = count + 2
    return list(range(1, last + 1)), [(1, n) for n in range(2, last)] + [(n, last) for n in range(2, last)]


def test_nothing_is_drawn_as_nothing() -> None:
    assert draw([], []) == Layout(0, 0, (), ())


def test_one_card_fills_the_drawing() -> None:
    assert draw([7], []) == Layout(CARD_WIDTH, CARD_HEIGHT, (CardPosition(7, 0, 0),), ())


def test_a_drawing_is_as_wide_as_its_longest_row() -> None:
    layout = draw([1, 2, 3, 4], [(1, 2), (1, 3), (2, 4), (3, 4)])
    cards = by_id(layout)

    assert layout.width == 2 * CARD_WIDTH + CARD_GAP
    assert cards[2].y == cards[3].y


def test_dependants_are_below_their_dependencies() -> None:
    cards = by_id(draw([1, 2, 3], [(1, 2), (2, 3)]))

    assert cards[1].y < cards[2].y < cards[3].y
    assert cards[1].x == cards[2].x == cards[3].x


def test_an_edge_runs_from_the_foot_of_one_card_to_the_head_of_the_other() -> None:
    layout = draw([1, 2, 3, 4], [(1, 2), (2, 3), (1, 3), (3, 4), (1, 4)])
    cards = by_id(layout)

    for curve in layout.paths:
        start, end = endpoints(curve.path)
        assert start == (cards[curve.source].x + CARD_WIDTH // 2, cards[curve.source].y + CARD_HEIGHT)
        assert end == (cards[curve.target].x + CARD_WIDTH // 2, cards[curve.target].y)


def test_edges_that_need_not_cross_do_not() -> None:
    """In numeric order, these edges would cross."""
    cards = by_id(draw([1, 2, 3, 4, 5, 6], [(1, 6), (2, 5), (3, 4)]))

    upper = sorted((1, 2, 3), key=lambda node: cards[node].x)
    lower = sorted((4, 5, 6), key=lambda node: cards[node].x)
    assert [7 - node for node in upper] == lower


def test_a_cycle_is_drawn_as_well() -> None:
    layout = draw([1, 2, 3], [(1, 2), (2, 3), (3, 1)])

    assert {(curve.source, curve.target) for curve in layout.paths} == {(1, 2), (2, 3), (3, 1)}
    assert len({spot.y for spot in layout.positions}) == 3


def test_edges_to_unknown_nodes_and_self_loops_are_left_out() -> None:
    assert draw([1, 2], [(1, 1), (1, 9), (9, 2), (1, 2), (1, 2)]) == draw([1, 2], [(1, 2)])


@each_row("count", [57, 498])
def test_a_long_row_is_wrapped(count: int) -> None:
    layout = draw(*fan_out(count))
    cards = by_id(layout)
    rows = [spot.y for spot in layout.positions]

    assert max(rows.count(y) for y in rows) == COLUMNS
    assert len(set(rows)) == 2 + -(-count // COLUMNS)
    assert layout.width < (COLUMNS + 1) * (CARD_WIDTH + CARD_GAP)
    assert cards[1].y == 0
    assert cards[count + 2].y == max(rows)


def test_a_chain_continues_below_its_beginning() -> None:
    """Twelve chains of three: the second card of a chain is right below the first, not below all first cards."""
    nodes = list(range(36))
    cards = by_id(draw(nodes, [(n, n + 12) for n in range(24)]))

    below = [(cards[n].x, cards[n + 12].x, cards[n + 12].y - cards[n].y) for n in range(24)]
    assert {(start == end, height) for start, end, height in below} == {(True, cards[12].y - cards[0].y)}


@given(graphs, st.integers(1, COLUMNS))
@settings(deadline=None)
def test_no_card_covers_another_card_or_an_edge_that_passes_it(graph: tuple[list[int], Edges], columns: int) -> None:
    nodes, edges = graph
    layout = compute_layout(nodes, edges, columns)

    assert sorted(by_id(layout)) == nodes
    for spot in layout.positions:
        assert 0 <= spot.x <= layout.width - CARD_WIDTH
        assert 0 <= spot.y <= layout.height - CARD_HEIGHT
    for one, other in combinations(layout.positions, 2):
        assert abs(one.x - other.x) >= CARD_WIDTH or abs(one.y - other.y) >= CARD_HEIGHT
    for edge in layout.paths:
        for x, top, end in vertical_lines(edge.path):
            passed = [spot for spot in layout.positions if spot.y < end and spot.y + CARD_HEIGHT > top]
            assert all(not spot.x <= x <= spot.x + CARD_WIDTH for spot in passed)


@given(graphs, st.integers(1, COLUMNS))
@settings(deadline=None)
def test_every_dependency_is_drawn_and_points_down(graph: tuple[list[int], Edges], columns: int) -> None:
    nodes, edges = graph
    forward = [(a, b) for a, b in edges if a < b]
    layout = compute_layout(nodes, forward, columns)
    cards = by_id(layout)

    assert {(edge.source, edge.target) for edge in layout.paths} == set(forward)
    assert all(cards[a].y < cards[b].y for a, b in forward)


@given(graphs)
@settings(deadline=None)
def test_the_same_plan_is_drawn_the_same(graph: tuple[list[int], Edges]) -> None:
    nodes, edges = graph
    assert draw(nodes, edges) == draw(nodes, list(reversed(edges)))
