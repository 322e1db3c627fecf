"""Dependency graphs: cycle detection."""

from collections.abc import Mapping, Sequence

from headway.ledger.errors import DependencyCycle


def find_cycle(edges: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the ids along a cycle, or an empty list. Searches depth first without recursion, because graphs can be deep."""
    unseen = dict.fromkeys(edges)
    finished: set[int] = set()
    while unseen:
        path: list[int] = []
        on_path: dict[int, int] = {}
        stack: list[tuple[int, int]] = [(next(iter(unseen)), 0)]
        while stack:
            node, child = stack.pop()
            if child == 0:
                on_path[node] = len(path)
                path.append(node)
                unseen.pop(node, None)
            children = edges.get(node, ())
            if child < len(children):
                stack.append((node, child + 1))
                below = children[child]
                if below in on_path:
                    return path[on_path[below] :]
                if below not in finished:
                    stack.append((below, 0))
            else:
                path.pop()
                del on_path[node]
                finished.add(node)
    return []


def check_acyclic(edges: Mapping[int, Sequence[int]]) -> None:
    cycle = find_cycle(edges)
    if cycle:
        shown = " → ".join(f"#{node}" for node in [*cycle[:20], cycle[0]])
        raise DependencyCycle(f"These todos wait for each other, so none could ever start: {shown}.")
