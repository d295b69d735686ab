"""Walk all states of a small protocol, breadth first, and return a shortest way to a bad one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from softhit.errors import BudgetExhausted

__all__ = ["Walk", "explore"]

S = TypeVar("S", bound=Hashable)
Moves = Callable[[S], Iterable[tuple[str, S]]]


@dataclass(frozen=True)
class Walk(Generic[S]):
    """What `explore` saw.

    Attributes
    ----------
    states : int
        Distinct states seen: all that can be reached, unless a bad one ended the walk.
    depth : int
        Moves from the start to the farthest of them.
    bad : str or None
        What is wrong with the bad state that was found, None if there is none.
    path : tuple of (str, state)
        A shortest way to it: each move and the state after it; the start comes first, with an empty move.
    """

    states: int
    depth: int
    bad: str | None
    path: tuple[tuple[str, S], ...]

    @property
    def moves(self) -> list[str]:
        """The moves of the path, in order."""
        return [move for move, _ in self.path[1:]]


def explore(start: S, moves: Moves[S], bad: Callable[[S], str | None], most: int = 2_000_000) -> Walk[S]:
    """Return the first bad state in the order of distance from the start, and a shortest way to it.

    Parameters
    ----------
    start
        A hashable value.
    moves
        State -> pairs of what happens and the state after it, in an order that is the same each time.
    bad
        State -> what is wrong with it, or None.
    most
        States to look at before giving up.

    Raises
    ------
    BudgetExhausted
        There are more states than ``most``: nothing is known about those not seen.

    Examples
    --------
    >>> def moves(n):
    ...     return [("double", 2 * n % 7), ("add", (n + 1) % 7)]
    >>> explore(1, moves, lambda n: "six" if n == 6 else None).moves
    ['double', 'add', 'double']
    >>> explore(1, moves, lambda n: None).states
    7
    """
    came: dict[S, tuple[str, S | None]] = {start: ("", None)}
    layer, depth = [start], 0
    if wrong := bad(start):
        return Walk(1, 0, wrong, (("", start),))
    while layer:
        following = []
        for state in layer:
            for move, after in moves(state):
                if after in came:
                    continue
                came[after] = (move, state)
                if wrong := bad(after):
                    return Walk(len(came), depth + 1, wrong, _path(came, after))
                following.append(after)
        if len(came) > most:
            raise BudgetExhausted(f"{len(came)} states at distance {depth + 1}, more than {most}")
        layer, depth = following, depth + 1
    return Walk(len(came), depth - 1, None, ())


def _path(came: dict[S, tuple[str, S | None]], state: S) -> tuple[tuple[str, S], ...]:
    path = []
    at: S | None = state
    while at is not None:
        move, before = came[at]
        path.append((move, at))
        at = before
    return tuple(reversed(path))
