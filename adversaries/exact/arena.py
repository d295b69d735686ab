"""What the policy's side can do: the states of a machine (or of a free player), up to renaming of items.

States that are renamings of each other are one state. Every edge therefore carries the permutations that lead
from the names of the source to those of the target; there are several where the target looks the same after
exchanging items, and the product construction takes whichever makes the work function smallest.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adversaries.exact.machine import FiniteStatePolicy
from softhit.errors import InvalidInput, PolicyError
from softhit.variant import Variant

__all__ = ["Arena", "Permutation", "free_arena", "machine_arena", "merged"]

Permutation: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Arena:
    """Moves of the policy's side, before work functions enter.

    Attributes
    ----------
    start : int
        Initial state.
    caches : list of frozenset
        What each state holds, in its own names.
    names : Permutation
        Real name of each item in the initial state.
    to : int32[P, A]
        Where action a leads; -1 if it does not exist.
    misses, loads : int32[P, A]
        Cost of the action: weighted misses and insertions.
    request, weight : int32[A]
    group : int32[A]
        The adversary chooses a group, the policy's side an action in it. A machine has one action per group.
    renaming : list of list of list of Permutation
        ``renaming[p][a]``: the permutations (old name -> new name) of that edge.
    """

    start: int
    caches: list[frozenset[int]]
    names: Permutation
    to: NDArray[np.int32]
    misses: NDArray[np.int32]
    loads: NDArray[np.int32]
    request: NDArray[np.int32]
    weight: NDArray[np.int32]
    group: NDArray[np.int32]
    renaming: list[list[list[Permutation]]]

    @property
    def n_states(self) -> int:
        """P, the number of policy states."""
        return len(self.to)


def _after(first: Permutation, second: Permutation) -> Permutation:
    """Return the permutation that applies ``first``, then ``second``."""
    return tuple(second[i] for i in first)


def _inverse(permutation: Permutation) -> Permutation:
    result = [0] * len(permutation)
    for old, new in enumerate(permutation):
        result[new] = old
    return tuple(result)


def _symmetries(labels: tuple[Any, ...]) -> list[Permutation]:
    """Permutations that exchange only items with equal labels; ``labels`` are sorted."""
    blocks = [list(g) for _, g in itertools.groupby(range(len(labels)), key=lambda i: labels[i])]
    choices = itertools.product(*(itertools.permutations(block) for block in blocks))
    return [tuple(itertools.chain.from_iterable(choice)) for choice in choices]


def _canonical(state: Any) -> tuple[Any, Permutation]:
    shared, labels = state
    order = tuple(sorted(range(len(labels)), key=lambda i: labels[i]))
    return (shared, tuple(labels[i] for i in order)), _inverse(order)


def _step(
    policy: FiniteStatePolicy, state: Hashable, held: frozenset[int], q: int
) -> tuple[Hashable, frozenset[int], bool, bool]:
    """One step of the machine, held to the rules of the model."""
    after, hit, replaced = policy.step(state, q)
    where = f"machine {policy.name} in state {state!r} at request {q}"
    if hit != (q in held):
        raise PolicyError(f"{where}: reports hit={hit}, but holds {sorted(held)}")
    if replaced >= 0:
        if hit or replaced not in held:
            raise PolicyError(f"{where}: replaces item {replaced}, but holds {sorted(held)}")
        held = (held - {replaced}) | {q}
    return after, held, hit, replaced >= 0


def _check_symmetry(policy: FiniteStatePolicy, state: Any, q: int) -> None:
    """Compare the step with the steps after exchanging two neighbouring items."""
    shared, labels = state
    step = policy.step(state, q)
    for i in range(len(labels) - 1):
        swap = list(range(len(labels)))
        swap[i], swap[i + 1] = i + 1, i
        other = policy.step((shared, tuple(labels[j] for j in swap)), swap[q])
        after = step.state
        assert isinstance(after, tuple)
        wanted = (after[0], tuple(after[1][j] for j in swap))
        replaced = swap[step.replaced] if step.replaced >= 0 else step.replaced
        if (other.state, other.hit, other.replaced) != (wanted, step.hit, replaced):
            raise PolicyError(
                f"machine {policy.name} claims to be symmetric, but items {i}, {i + 1} are not treated alike "
                f"in state {state!r} at request {q}"
            )


def machine_arena(
    policy: FiniteStatePolicy, capacity: int, n_items: int, variant: Variant, symmetric: bool, max_states: int
) -> Arena:
    """Enumerate the reachable states of a machine.

    Raises
    ------
    PolicyError
        The machine contradicts itself about what it holds, or treats items differently though ``symmetric``.
    InvalidInput
        It has more than ``max_states`` states.
    """
    identity = tuple(range(n_items))

    def name(state: Hashable) -> tuple[Hashable, Permutation, list[Permutation]]:
        if not symmetric:
            return state, identity, [identity]
        plain, renaming = _canonical(state)
        return plain, renaming, _symmetries(plain[1])

    first, renaming0, _ = name(policy.initial(capacity, n_items))
    held = frozenset(renaming0[i] for i in range(capacity))
    ids: dict[Hashable, int] = {first: 0}
    states, caches = [first], [held]
    edges: list[list[tuple[int, int, int, list[Permutation]]]] = []
    while len(edges) < len(states):
        p, row = len(edges), []
        for q in range(n_items):
            if symmetric:
                _check_symmetry(policy, states[p], q)
            after, cache, hit, loaded = _step(policy, states[p], caches[p], q)
            after, renaming, same = name(after)
            cache = frozenset(renaming[i] for i in cache)
            v = ids.setdefault(after, len(ids))
            if v == len(caches):
                if v >= max_states:
                    raise InvalidInput(
                        f"machine {policy.name} must have at most {max_states} states for K={capacity}, "
                        f"N={n_items}: raise max_states, or it is not finite"
                    )
                states.append(after)
                caches.append(cache)
            elif caches[v] != cache:
                raise PolicyError(
                    f"machine {policy.name}: state {after!r} is reached holding {sorted(caches[v])} "
                    f"and holding {sorted(cache)}"
                )
            missed = not hit and (variant.serves_first or not loaded)
            row.append((v, int(missed), int(loaded), [_after(renaming, s) for s in same]))
        edges.append(row)
    actions = np.arange(n_items, dtype=np.int32)
    return Arena(
        start=0,
        caches=caches,
        names=_inverse(renaming0),
        to=np.array([[e[0] for e in row] for row in edges], np.int32),
        misses=np.array([[e[1] for e in row] for row in edges], np.int32),
        loads=np.array([[e[2] for e in row] for row in edges], np.int32),
        request=actions,
        weight=np.ones(n_items, np.int32),
        group=actions,
        renaming=[[e[3] for e in row] for row in edges],
    )


def merged(arena: Arena) -> Arena:
    """Merge states of a machine without renamings that hold and do the same for ever (Moore's refinement)."""
    held = {c: i for i, c in enumerate(dict.fromkeys(arena.caches))}
    part = np.array([held[c] for c in arena.caches], np.int64)
    part = np.unique(np.hstack([part[:, None], arena.loads]), axis=0, return_inverse=True)[1].reshape(-1)
    while True:
        rows = np.hstack([part[:, None], part[arena.to]])
        finer = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        if finer.max() == part.max():
            break
        part = finer
    chosen = np.unique(part, return_index=True)[1]
    return replace(
        arena,
        start=int(part[arena.start]),
        caches=[arena.caches[p] for p in chosen.tolist()],
        to=part[arena.to[chosen]].astype(np.int32),
        misses=arena.misses[chosen],
        loads=arena.loads[chosen],
        renaming=[arena.renaming[p] for p in chosen.tolist()],
    )


def free_arena(
    capacity: int, n_items: int, variant: Variant, weights: tuple[int, ...], symmetric: bool
) -> Arena:
    """Return the moves of a player who may do whatever the model allows.

    A state is a cache (with ``symmetric`` the only one is {0..K-1}). After a request the player moves to
    another cache: by one replacement that brings in the item that was missed (stream), or to any (pool). To
    drop an item without replacing it, or to load nothing useful, never helps.
    """
    sets = [frozenset(c) for c in itertools.combinations(range(n_items), capacity)]
    states = sets[:1] if symmetric else sets
    labels = tuple(int(i >= capacity) for i in range(n_items))
    same = _symmetries(labels) if symmetric else [tuple(range(n_items))]
    moves = [(u, q, x) for u in weights for q in range(n_items) for x in sets]
    to = np.full((len(states), len(moves)), -1, np.int32)
    misses, loads = np.zeros_like(to), np.zeros_like(to)
    renaming: list[list[list[Permutation]]] = []
    for p, held in enumerate(states):
        row: list[list[Permutation]] = []
        for a, (u, q, target) in enumerate(moves):
            row.append([])
            entering = target - held
            if entering and variant.stream and entering != {q}:
                continue
            served = held if variant.serves_first else target
            misses[p, a] = 0 if q in served else u
            loads[p, a] = len(entering)
            if symmetric:
                _, new = _canonical(((), tuple(int(i not in target) for i in range(n_items))))
                to[p, a], row[a] = 0, [_after(new, s) for s in same]
            else:
                to[p, a], row[a] = sets.index(target), same
        renaming.append(row)
    groups = {key: g for g, key in enumerate(dict.fromkeys((u, q) for u, q, _ in moves))}
    return Arena(
        start=0,
        caches=states,
        names=tuple(range(n_items)),
        to=to,
        misses=misses,
        loads=loads,
        request=np.array([q for _, q, _ in moves], np.int32),
        weight=np.array([u for u, _, _ in moves], np.int32),
        group=np.array([groups[u, q] for u, q, _ in moves], np.int32),
        renaming=renaming,
    )
