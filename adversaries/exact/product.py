"""The product of a policy's states with normalised work functions, explored breadth first.

A vertex is (policy state, work function); an edge is an action, priced twice: what the policy pays and what
the offline optimum rises by. Along any walk the difference of the two sums to ALG - OPT up to a constant,
so the competitive ratio is the largest ratio of the two over all cycles that can be reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.exact.arena import Arena, Permutation
from adversaries.exact.work import Rules, advance
from softhit.errors import InvalidInput
from softhit.jit import jit

__all__ = ["Product", "explore"]


@dataclass(frozen=True, eq=False)
class Product:
    """The reachable product graph; vertex 0 is the start.

    Attributes
    ----------
    state : int32[n]
        Policy state of each vertex.
    work : int16[n, C]
        Its work function, minimum 0.
    to : int32[n, A]
        Successor under each action, -1 where there is none.
    alg, opt : int64[n, A]
        What the policy pays and what OPT rises by, in units of 1/``rules.denominator``.
    """

    arena: Arena
    rules: Rules
    state: NDArray[np.int32]
    work: NDArray[np.int16]
    to: NDArray[np.int32]
    alg: NDArray[np.int64]
    opt: NDArray[np.int64]

    @property
    def n_vertices(self) -> int:
        """Number of reachable vertices."""
        return len(self.state)

    def held(self, vertex: int) -> frozenset[int]:
        """Return the policy's cache at a vertex, in the names there."""
        return self.arena.caches[int(self.state[vertex])]

    def renaming(self, vertex: int, action: int) -> Permutation:
        """Return the permutation (name here -> name there) of an edge."""
        rules, arena = self.rules, self.arena
        n = self.work.shape[1]
        new, spare = np.empty(n, np.int64), np.empty(n, np.int64)
        q, weight = int(arena.request[action]), int(arena.weight[action])
        advance(self.work[vertex].astype(np.int64), q, weight, rules.tables, spare, new)
        target = self.work[self.to[vertex, action]]
        for permutation in arena.renaming[int(self.state[vertex])][action]:
            if np.array_equal(new[rules.moved(permutation)], target):
                return permutation
        raise AssertionError("an edge of the product leads to its own target under no renaming")

    def unroll(
        self, start: int, actions: list[int], names: Permutation
    ) -> tuple[list[int], int, Permutation]:
        """Follow actions; ``names[i]`` is the real name of item i here.

        Returns the real requests, the last vertex and the names there.
        """
        requests, v = [], start
        for a in actions:
            requests.append(names[int(self.arena.request[a])])
            new = [0] * len(names)
            for old, i in enumerate(self.renaming(v, a)):
                new[i] = names[old]
            names, v = tuple(new), int(self.to[v, a])
        return requests, v, names


@jit
def _digest(p: Any, w: Any) -> Any:
    h = np.uint64(1469598103934665603) ^ np.uint64(p)
    for c in range(len(w)):
        h = (h ^ np.uint64(w[c])) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    return h


@jit
def _grown(array: Any, size: Any) -> Any:
    bigger = np.empty((size, array.shape[1]), array.dtype)
    bigger[: len(array)] = array
    return bigger


@jit
def _explore(
    start: Any,
    first: Any,
    step: Any,
    request: Any,
    weight: Any,
    begin: Any,
    candidates: Any,
    moved: Any,
    tables: Any,
    most: Any,
) -> Any:
    n_config = len(first)
    n_actions = len(request)
    room = 1024
    state = np.empty((room, 1), np.int32)
    work = np.empty((room, n_config), np.int16)
    to = np.empty((room, n_actions), np.int32)
    rise = np.empty((room, n_actions), np.int32)
    slots = np.full(4 * room, -1, np.int32)
    here = np.empty(n_config, np.int64)
    spare = np.empty(n_config, np.int64)
    new = np.empty(n_config, np.int64)
    best = np.empty(n_config, np.int64)
    state[0, 0] = start
    for c in range(n_config):
        work[0, c] = first[c]
    slots[_digest(start, work[0]) & np.uint64(len(slots) - 1)] = 0
    count = 1
    done = 0
    while done < count:
        for c in range(n_config):
            here[c] = work[done, c]
        p = state[done, 0]
        for a in range(n_actions):
            if step[p, a] < 0:
                to[done, a] = -1
                rise[done, a] = 0
                continue
            rise[done, a] = advance(here, request[a], weight[a], tables, spare, new)
            for x in range(begin[p, a], begin[p, a + 1]):
                m = moved[candidates[x]]
                smaller = x == begin[p, a]
                if not smaller:
                    for c in range(n_config):
                        if new[m[c]] != best[c]:
                            smaller = new[m[c]] < best[c]
                            break
                if smaller:
                    for c in range(n_config):
                        best[c] = new[m[c]]
            place = _digest(step[p, a], best) & np.uint64(len(slots) - 1)
            while True:
                v = slots[place]
                if v < 0:
                    break
                if state[v, 0] == step[p, a]:
                    same = True
                    for c in range(n_config):
                        if work[v, c] != best[c]:
                            same = False
                            break
                    if same:
                        break
                place = (place + np.uint64(1)) & np.uint64(len(slots) - 1)
            if v < 0:
                if count == most:
                    return -1, state, work, to, rise
                v = count
                count += 1
                if count > room:
                    room *= 2
                    state = _grown(state, room)
                    work = _grown(work, room)
                    to = _grown(to, room)
                    rise = _grown(rise, room)
                state[v, 0] = step[p, a]
                for c in range(n_config):
                    work[v, c] = best[c]
                slots[place] = v
                if 2 * count > len(slots):
                    slots = np.full(2 * len(slots), -1, np.int32)
                    for u in range(count):
                        place = _digest(state[u, 0], work[u]) & np.uint64(len(slots) - 1)
                        while slots[place] >= 0:
                            place = (place + np.uint64(1)) & np.uint64(len(slots) - 1)
                        slots[place] = u
            to[done, a] = v
        done += 1
    return count, state[:count], work[:count], to[:count], rise[:count]


def explore(arena: Arena, rules: Rules, max_states: int) -> Product:
    """Explore the product from the start.

    Raises
    ------
    InvalidInput
        More than ``max_states`` vertices, or costs too large for the 16 bits that a work function gets.
    """
    widest = min(rules.capacity, rules.n_items - rules.capacity) * rules.reach
    heaviest = int(arena.weight.max())
    if max(widest, rules.capacity * rules.switch + heaviest * rules.miss) > np.iinfo(np.int16).max:
        raise InvalidInput(
            f"switch_cost must have a smaller numerator and denominator: differences of {widest} units "
            f"do not fit 16 bits"
        )
    ids: dict[Permutation, int] = {}
    begin = np.zeros((arena.n_states, len(arena.request) + 1), np.int64)
    candidates: list[int] = []
    for p, row in enumerate(arena.renaming):
        for a, renamings in enumerate(row):
            begin[p, a] = len(candidates)
            candidates += [ids.setdefault(r, len(ids)) for r in renamings]
        begin[p, -1] = len(candidates)
    moved = np.array([rules.moved(r) for r in ids], np.int64)
    count, state, work, to, rise = _explore(
        arena.start,
        rules.start(arena.caches[arena.start]),
        arena.to,
        arena.request,
        arena.weight,
        begin,
        np.array(candidates, np.int64),
        moved,
        rules.tables,
        max_states,
    )
    if count < 0:
        raise InvalidInput(
            f"the product of policy and work functions must have at most {max_states} vertices: "
            "raise max_states, or take smaller K, N or a rounder switch_cost"
        )
    policy = state[:, 0]
    pays = arena.misses.astype(np.int64) * rules.miss + arena.loads.astype(np.int64) * rules.switch
    return Product(arena, rules, policy, work, to, pays[policy], rise.astype(np.int64))
