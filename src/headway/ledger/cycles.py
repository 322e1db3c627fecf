"""Cycles in graphs of what waits for what."""

from collections.abc import Mapping, Sequence

from headway.ledger.errors import DependencyCycle


def find_cycle(edges: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the ids along a cycle, or an empty list. Searches depth first without recursion, because graphs can be deep."""
    unvisited = dict.fromkeys(edges)
    finished: set[int] = set()
    while unvisited:
        path: list[int] = []
        on_path: dict[int, int] = {}
        stack: list[tuple[int, int]] = [(next(iter(unvisited)), 0)]
        while stack:
            node, child = stack.pop()
            if child == 0:
                on_path[node] = len(path)
                path.append(node)
                unvisited.pop(node, None)
            children = edges.get(node, ())
            if child < len(children):
                stack.append((node, child + 1))
                target = children[child]
                if target in on_path:
                    return path[on_path[target] :]
                if target not in finished:
                    stack.append((target, 0))
            else:
                path.pop()
                del on_path[node]
                finished.add(node)
    return []


def check_acyclic(edges: Mapping[int, Sequence[int]]) -> None:
    cycle = find_cycle(edges)
    if cycle:
        path = " → ".join(f"#{node}" for node in [*cycle[:20], cycle[0]])
        raise DependencyCycle(f"These todos wait for each other, so none could ever start: {path}.")
