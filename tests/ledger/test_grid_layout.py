"""Layout of wide plans: rows of limited length, edges that pass between the columns, and the usual layers where they are narrow."""

import re
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.ledger.graph_layout import (
    CARD_GAP,
    CARD_HEIGHT,
    CARD_WIDTH,
    CardPosition,
    Layout,
    compute_layout,
    compute_legible_layout,
)
from tests.tables import each_row

COLUMNS = 6
graphs = st.integers(1, 40).flatmap(
    lambda count: st.tuples(
        st.just(list(range(1, count + 1))), st.lists(st.tuples(st.integers(1, count), st.integers(1, count)), max_size=80)
    )
)


def fan_out(count: int) -> tuple[list[int], list[tuple[int, int]]]:
    """One card, `count` that depend on it, and one that depends on all of these."""
    last = count + 2
    return list(range(1, last + 1)), [(1, n) for n in range(2, last)] + [(n, last) for n in range(2, last)]


def by_id(layout: Layout) -> dict[int, CardPosition]:
    return {spot.id: spot for spot in layout.positions}


def vertical_lines(path: str) -> list[tuple[int, int, int]]:
    """The straight parts of a path: x, from y, to y."""
    return [(int(x), int(top), int(end)) for x, top, end in re.findall(r"(-?\d+) (-?\d+)L-?\d+ (-?\d+)", path)]


def test_narrow_plans_are_drawn_in_layers_as_before() -> None:
    nodes, edges = fan_out(COLUMNS)
    assert compute_legible_layout(nodes, edges, COLUMNS) == compute_layout(nodes, edges)
    assert compute_legible_layout([], [], COLUMNS) == Layout(0, 0, (), ())


@each_row("count", [57, 498])
def test_a_wide_layer_is_wrapped_into_rows(count: int) -> None:
    layout = compute_legible_layout(*fan_out(count), COLUMNS)
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
    cards = by_id(compute_legible_layout(nodes, [(n, n + 12) for n in range(24)], COLUMNS))

    below = [(cards[n].x, cards[n + 12].x, cards[n + 12].y - cards[n].y) for n in range(24)]
    assert {(start == end, height) for start, end, height in below} == {(True, cards[12].y - cards[0].y)}


@given(graphs)
@settings(deadline=None)
def test_no_card_covers_another_card_or_an_edge_that_passes_it(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    layout = compute_legible_layout(nodes, edges, 3)

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


@given(graphs)
@settings(deadline=None)
def test_every_dependency_is_drawn_and_points_down(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    forward = [(a, b) for a, b in edges if a < b]
    layout = compute_legible_layout(nodes, forward, 3)
    cards = by_id(layout)

    assert {(edge.source, edge.target) for edge in layout.paths} == set(forward)
    assert all(cards[a].y < cards[b].y for a, b in forward)
    assert layout == compute_legible_layout(nodes, list(reversed(forward)), 3)
