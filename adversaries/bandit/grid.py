"""Thompson sampling over a grid of instances: one cell a time, so that a long table can be made in pieces.

A cell is one good slot among K - 1 that lose with 1/2. At the hard scale its gap is ``scale * sqrt(K/T)``:
about what T rounds can tell apart; a fixed gap is read at several T of the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adversaries.bandit.game import one_good, play

__all__ = ["FULL", "Cell", "full_grid", "run_cell"]

LARGEST_GAP = 0.4
SCALES = (2.0, 1.0, 4.0)
SLOTS = (2, 4, 8, 16, 32, 64, 128, 256)
HALF_DECADES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FIXED_GAP = 0.1


@dataclass(frozen=True)
class Cell:
    """K slots, the horizons T that are read, and the gap: ``scale * sqrt(K/T)``, or fixed.

    >>> Cell("hard", 4, (10_000,), 2.0).gap
    0.04
    """

    kind: str
    k: int
    marks: tuple[int, ...]
    scale: float

    @property
    def gap(self) -> float:
        """Distance of the good slot's mean from 1/2."""
        return self.scale * math.sqrt(self.k / self.marks[-1]) if self.kind == "hard" else self.scale


def full_grid(cap: int = 3 * 10**9, runs: int = 200) -> Iterator[Cell]:
    """Yield the cells of the full grid, those within runs * K * T <= cap first, then the others."""
    cells = [
        Cell("hard", k, (horizon,), scale)
        for horizon in HALF_DECADES
        for scale in SCALES
        for k in SLOTS
        if scale * math.sqrt(k / horizon) <= LARGEST_GAP
    ]
    cells += [Cell("hard", 256, (50_000,), scale) for scale in SCALES]
    cells += [Cell("fixed", k, HALF_DECADES[:5], FIXED_GAP) for k in (2, 8, 32)]

    def turn(cell: Cell) -> tuple[bool, bool, int]:
        horizon = cell.marks[-1]
        # T = 10^6 with K = 16 is meant to be inside
        outside = runs * cell.k * horizon > 1.1 * cap
        return outside, horizon > 100_000 and cell.scale != SCALES[0], horizon

    yield from sorted(cells, key=turn)


FULL = "full"


def run_cell(cell: Cell, runs: int, seed: int = 0, policy: str = "thompson") -> NDArray[np.int64]:
    """Return how often the good slot was evicted: int64[runs, marks]."""
    found = np.empty((runs, len(cell.marks)), np.int64)
    where = [seed, cell.k, cell.marks[-1], round(1000 * cell.scale), ("hard", "fixed").index(cell.kind)]
    for run in range(runs):
        found[run] = play(policy, one_good(cell.k, cell.gap), cell.marks, [*where, run]).pulls[:, 0]
    return found
