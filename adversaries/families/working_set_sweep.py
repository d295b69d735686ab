"""A working set that grows (or shrinks) through the capacity: the phase transition of FIFO and LRU."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, near, reach
from adversaries.families.ring import hard_rows, ring_rows, soft_units
from softhit.trace import DEFAULT_SCALE

__all__ = ["sweep_phases", "working_set_sweep"]


def sweep_phases(steps: int, first: int, last: int, phases: int) -> tuple[list[int], list[int]]:
    """Return the size of the working set and the length of each phase.

    Sizes go evenly from ``first`` to ``last``, rounded half up; lengths differ by at most one.

    >>> sweep_phases(10, first=2, last=8, phases=4)
    ([2, 4, 6, 8], [2, 3, 2, 3])
    """
    sizes = [
        int((Fraction(first) + Fraction((last - first) * j, max(1, phases - 1)) + Fraction(1, 2)) // 1)
        for j in range(phases)
    ]
    lengths = [steps * (j + 1) // phases - steps * j // phases for j in range(phases)]
    return sizes, lengths


@family(
    "B3: FIFO and LRU hit nothing in a phase with W > K, everything after the first lap with W <= K",
    seedless=True,
    first=count("W in the first phase"),
    last=count("W in the last phase"),
    phases=count("number of phases", high=10_000),
    form=form,
    near=near,
    reach=reach,
)
def working_set_sweep(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    first: Count = "K/2",
    last: Count = "2K",
    phases: Count = 7,
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Cycle over a fresh working set in each phase; its size goes from ``first`` to ``last``.

    Guarantee (claim B3; serve_then_update, stream, free fill, best)
    ----------------------------------------------------------------
    Hard: in a phase of n steps over W fresh items FIFO and LRU hit ``max(0, n-W)`` times if W <= K and not
    once if W > K, whatever came before. A static set holds K/W of the requests in every phase with W >= K.
    So the advantage of admission control vanishes exactly at W = K.

    Soft: each phase's items lie on their own ring (:func:`cycling`), and FIFO pays 1 for the first step of
    a phase, 1 - near for each further step that FIFO misses in the hard form.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on K and T only.
    first, last, phases : count
        Defaults ``K/2``, ``2K``, 7: sizes K/2, 3K/4, K, 5K/4, ... . N is the sum of the sizes.

    Examples
    --------
    >>> from softhit.cost import miss_units_by_step
    >>> from softhit import simulate
    >>> trace = working_set_sweep(capacity=4, steps=120, first=3, last=5, phases=3)
    >>> misses = miss_units_by_step(simulate("fifo", trace, 4), trace) // 10_000
    >>> misses.reshape(3, 40).sum(axis=1).tolist()
    [3, 4, 40]
    """
    sizes, lengths = sweep_phases(steps, first, last, phases)
    bases = np.r_[0, np.cumsum(sizes)]
    shape = list(zip(sizes, lengths, bases[:-1].tolist(), strict=True))
    asked = np.concatenate([(np.arange(n) % w + base).astype(np.int32) for w, n, base in shape])
    gap = Fraction(1)
    if form == "hard":
        rows = hard_rows(asked)
    else:
        units = soft_units(near, reach)
        gap = 1 - Fraction(int(units[1]), DEFAULT_SCALE)
        parts = [
            ring_rows(np.arange(n) % w, np.arange(base, base + w, dtype=np.int32), units)
            for w, n, base in shape
        ]
        counts = np.concatenate([np.diff(indptr) for indptr, _, _ in parts])
        indptr = np.zeros(steps + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        rows = (indptr, np.concatenate([i for _, i, _ in parts]), np.concatenate([q for _, _, q in parts]))
    missed = [n if w > capacity else min(n, w) for w, n in zip(sizes, lengths, strict=True)]
    misses = sum((min(1, m) + max(0, m - 1) * gap for m in missed), Fraction(0))
    total = misses + switch_cost * max(0, sum(missed) - capacity)
    policies = ["fifo", "lru"] if form == "hard" else ["fifo"]
    statement = f"K = {capacity}, W = {', '.join(map(str, sizes[:12]))}{', ...' if phases > 12 else ''}: " + (
        f"{' and '.join(policies)} insert {', '.join(map(str, missed[:12]))}{', ...' if phases > 12 else ''} "
        f"times in the phases, cost {total}"
    )
    forces = Forces("B3", statement, exact=dict.fromkeys(policies, str(total)))
    return Rows(int(bases[-1]), *rows, asked, forces)
