"""Dependency graphs: every cycle is detected, and no acyclic graph is reported as a cycle."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.ledger.cycles import check_acyclic, find_cycle
from headway.ledger.errors import DependencyCycle

NODES = st.integers(0, 7)
GRAPHS = st.dictionaries(NODES, st.lists(NODES, max_size=4), max_size=8)


def has_cycle(edges: Mapping[int, Sequence[int]]) -> bool:
    """Check with the standard library, as a reference."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return True
    return False


@given(GRAPHS)
def test_a_cycle_is_found_exactly_when_there_is_one(edges: dict[int, list[int]]) -> None:
    assert bool(find_cycle(edges)) == has_cycle(edges)


@given(GRAPHS)
def test_the_cycle_that_is_found_can_be_walked(edges: dict[int, list[int]]) -> None:
    cycle = find_cycle(edges)

    for node, following in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
        assert following in edges[node]
    assert len(set(cycle)) == len(cycle)


def test_two_ways_to_the_same_todo_are_no_cycle() -> None:
    assert find_cycle({1: [2, 3], 2: [4], 3: [4]}) == []


def test_a_todo_that_waits_for_itself_is_a_cycle() -> None:
    assert find_cycle({1: [1]}) == [1]


def test_a_chain_of_a_hundred_thousand_is_searched_without_running_out_of_stack() -> None:
    chain = {node: [node + 1] for node in range(100_000)}

    assert find_cycle(chain) == []
    assert len(find_cycle(chain | {100_000: [0]})) == 100_001


def test_a_refused_cycle_is_shown_from_its_start_back_to_it() -> None:
    with pytest.raises(DependencyCycle, match="#1 → #2 → #3 → #1"):
        check_acyclic({1: [2], 2: [3], 3: [1]})


def test_a_very_long_cycle_is_refused_in_a_message_one_can_read() -> None:
    with pytest.raises(DependencyCycle) as refusal:
        check_acyclic({node: [(node + 1) % 1000] for node in range(1000)})

    assert len(str(refusal.value)) < 300
