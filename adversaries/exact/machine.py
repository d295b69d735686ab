"""A deterministic policy as a finite-state machine: hashable states, one step per request.

The machine plays classical requests (hard hits, e_t = q_t) and starts where a real policy is after the
requests 0, 1, ..., K-1 from the empty cache: full, with items 0..K-1.

Machines that treat items alike may say so (``symmetric = True``), and the exact methods then visit one
state of each class of relabelled states. Their states are pairs ``(shared, labels)``: ``labels[i]`` is all
the machine knows about item i, ``shared`` all the rest, and a step must commute with every permutation of
the items. So a queue is not a list of items but, for each item, its place in the queue.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["FiniteStatePolicy", "Step"]


class Step(NamedTuple):
    """What one request did.

    Attributes
    ----------
    state : hashable
        The state after it.
    hit : bool
        Whether the requested item was held.
    replaced : int
        The item that left for the requested one; -1 if nothing changed.
    """

    state: Hashable
    hit: bool
    replaced: int


@runtime_checkable
class FiniteStatePolicy(Protocol):
    """A deterministic policy with finitely many reachable states.

    Attributes
    ----------
    name : str
    symmetric : bool
        States are ``(shared, labels)`` and steps commute with permutations of the items (module docstring).

    Examples
    --------
    The policy that holds what it has:

    >>> class Never:
    ...     name, symmetric = "never", True
    ...     def initial(self, capacity, n_items):
    ...         return (), tuple(int(i < capacity) for i in range(n_items))
    ...     def step(self, state, request):
    ...         return Step(state, hit=state[1][request] == 1, replaced=-1)
    >>> isinstance(Never(), FiniteStatePolicy)
    True
    """

    @property
    def name(self) -> str:
        """For tables and errors."""
        ...

    @property
    def symmetric(self) -> bool:
        """Whether states are labels of items and items are treated alike."""
        ...

    def initial(self, capacity: int, n_items: int) -> Hashable:
        """Return the state after the requests 0..capacity-1 from the empty cache."""
        ...

    def step(self, state: Hashable, request: int) -> Step:
        """Return what the request does; the state itself must not change."""
        ...
