"""Layout of a plan's graph: layers from top to bottom, no overlaps, few crossings, and stable positions when the plan changes."""

import re
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.ledger.graph_layout import CARD_HEIGHT, CARD_WIDTH, CardPosition, Layout, compute_layout

Point = tuple[int, int]
graphs = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.just(list(range(1, count + 1))), st.lists(st.tuples(st.integers(1, count), st.integers(1, count)), max_size=24)
    )
)


def positions_by_id(layout: Layout) -> dict[int, CardPosition]:
    return {spot.id: spot for spot in layout.positions}


def endpoints(path: str) -> tuple[Point, Point]:
    points = [(int(x), int(y)) for x, y in re.findall(r"(-?\d+) (-?\d+)", path)]
    return points[0], points[-1]


def test_nothing_is_drawn_as_nothing() -> None:
    assert compute_layout([], []) == Layout(0, 0, (), ())


def test_one_card_fills_the_drawing() -> None:
    assert compute_layout([7], []) == Layout(CARD_WIDTH, CARD_HEIGHT, (CardPosition(7, 0, 0),), ())


def test_dependants_are_below_their_dependencies() -> None:
    cards = positions_by_id(compute_layout([1, 2, 3], [(1, 2), (2, 3)]))

    assert cards[1].y < cards[2].y < cards[3].y
    assert cards[1].x == cards[2].x == cards[3].x


def test_an_edge_runs_from_the_foot_of_one_card_to_the_head_of_the_other() -> None:
    layout = compute_layout([1, 2, 3, 4], [(1, 2), (2, 3), (1, 3), (3, 4), (1, 4)])
    cards = positions_by_id(layout)

    for curve in layout.paths:
        start, end = endpoints(curve.path)
        assert start == (cards[curve.source].x + CARD_WIDTH // 2, cards[curve.source].y + CARD_HEIGHT)
        assert end == (cards[curve.target].x + CARD_WIDTH // 2, cards[curve.target].y)


def test_a_diamond_is_symmetrical() -> None:
    cards = positions_by_id(compute_layout([1, 2, 3, 4], [(1, 2), (1, 3), (2, 4), (3, 4)]))

    assert cards[1].x == cards[4].x == (cards[2].x + cards[3].x) // 2
    assert cards[2].y == cards[3].y


def test_edges_that_need_not_cross_do_not() -> None:
    """In numeric order, these edges would cross."""
    cards = positions_by_id(compute_layout([1, 2, 3, 4, 5, 6], [(1, 6), (2, 5), (3, 4)]))

    upper = sorted((1, 2, 3), key=lambda node: cards[node].x)
    lower = sorted((4, 5, 6), key=lambda node: cards[node].x)
    assert [7 - node for node in upper] == lower


def test_a_long_edge_passes_beside_the_cards_between() -> None:
    layout = compute_layout([1, 2, 3], [(1, 2), (2, 3), (1, 3)])
    card = positions_by_id(layout)[2]
    (long,) = (curve for curve in layout.paths if (curve.source, curve.target) == (1, 3))
    (straight,) = re.findall(r"(-?\d+) \d+L", long.path)

    assert not card.x <= int(straight) <= card.x + CARD_WIDTH


def test_a_cycle_is_drawn_too() -> None:
    layout = compute_layout([1, 2, 3], [(1, 2), (2, 3), (3, 1)])

    assert {(curve.source, curve.target) for curve in layout.paths} == {(1, 2), (2, 3), (3, 1)}
    assert len({spot.y for spot in layout.positions}) == 3


def test_edges_to_unknown_nodes_and_self_loops_are_left_out() -> None:
    assert compute_layout([1, 2], [(1, 1), (1, 9), (9, 2), (1, 2), (1, 2)]) == compute_layout([1, 2], [(1, 2)])


@given(graphs)
@settings(deadline=None)
def test_no_card_covers_another_or_leaves_the_drawing(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    layout = compute_layout(nodes, edges)

    assert sorted(positions_by_id(layout)) == nodes
    for spot in layout.positions:
        assert 0 <= spot.x <= layout.width - CARD_WIDTH
        assert 0 <= spot.y <= layout.height - CARD_HEIGHT
    for one, other in combinations(layout.positions, 2):
        assert abs(one.x - other.x) >= CARD_WIDTH or abs(one.y - other.y) >= CARD_HEIGHT


@given(graphs)
@settings(deadline=None)
def test_every_dependency_without_a_circle_points_down(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    forward = [(a, b) for a, b in edges if a < b]
    layout = compute_layout(nodes, forward)
    at = positions_by_id(layout)

    assert {(curve.source, curve.target) for curve in layout.paths} == set(forward)
    assert all(at[a].y < at[b].y for a, b in forward)


@given(graphs)
@settings(deadline=None)
def test_the_same_plan_is_drawn_the_same(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    assert compute_layout(nodes, edges) == compute_layout(nodes, list(reversed(edges)))
