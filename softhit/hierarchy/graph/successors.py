"""Which nodes may follow a node within two boundaries, and how likely."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

__all__ = ["Successors", "chances_ahead", "successors_of"]

START = "__start__"
END = "__end__"


@dataclass(frozen=True, slots=True)
class Successors:
    """What may follow one node.

    Attributes
    ----------
    always : frozenset of str
        By plain edges and joins.
    maybe : frozenset of str
        By branches, and by the destinations of its commands.
    end : bool
        Whether one of those may end the graph instead.
    """

    always: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    end: bool = False

    @property
    def choices(self) -> int:
        """Between how many targets it chooses."""
        return len(self.maybe) + self.end


def successors_of(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, Successors]:
    """Return what may follow each node (and the start), read from a builder that is not attached yet.

    A branch that does not say where it leads may lead anywhere.
    """
    nodes = [name for name, spec in builder.nodes.items() if not getattr(spec, "is_error_handler", False)]
    found: dict[str, Successors] = {}
    for node in (START, *nodes):
        always = {v for u, v in builder.edges if u == node}
        always |= {v for starts, v in builder.waiting_edges if node in starts}
        maybe: set[str] = set()
        for branch in builder.branches.get(node, {}).values():
            maybe |= set(branch.ends.values()) if branch.ends is not None else {*nodes, END}
        if node in builder.nodes:
            maybe |= set(builder.nodes[node].ends or ())
        found[node] = Successors(frozenset(always - {END}), frozenset(maybe - always - {END}), END in maybe)
    return found


def chances_ahead(
    starting: Iterable[str],
    successors: Mapping[str, Successors],
    chance: Callable[[str, str, int], Fraction],
    depth: int = 2,
    known: Collection[str] | None = None,
) -> dict[str, Fraction]:
    """Return for each node ahead an upper bound on the chance that it starts within ``depth`` boundaries.

    Chances along a path are multiplied, those of several paths added, up to 1. It is exact where the paths
    exclude each other and one node starts.

    Parameters
    ----------
    starting : iterable of str
        The nodes that start now.
    successors : mapping
        As from :func:`successors_of`.
    chance : callable
        Of a source, a target and the number of the source's possible targets: the probability of a move that
        is not certain.
    known : collection of str, optional
        Which nodes are of interest; all by default.

    Examples
    --------
    >>> graph = {"a": Successors(maybe=frozenset("bc")), "b": Successors(always=frozenset("d"))}
    >>> ahead = chances_ahead(["a"], graph, lambda source, target, targets: Fraction(1, targets))
    >>> {node: str(p) for node, p in ahead.items()}
    {'b': '1/2', 'c': '1/2', 'd': '1/2'}
    """
    total: dict[str, Fraction] = {}
    front: dict[str, Fraction] = {node: Fraction(1) for node in starting}
    for _ in range(depth):
        after: dict[str, Fraction] = {}
        for node, p in front.items():
            following = successors.get(node)
            if following is None:
                continue
            for target in following.always:
                after[target] = min(Fraction(1), after.get(target, Fraction(0)) + p)
            for target in following.maybe:
                q = p * chance(node, target, following.choices)
                after[target] = min(Fraction(1), after.get(target, Fraction(0)) + q)
        for target, p in after.items():
            total[target] = min(Fraction(1), total.get(target, Fraction(0)) + p)
        front = after
    ordered = sorted(total.items(), key=lambda entry: (-entry[1], entry[0]))
    return {node: p for node, p in ordered if p > 0 and (known is None or node in known)}
