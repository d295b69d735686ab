"""Posterior draws a second of the eviction game: decided by Thompson sampling, and made one by one."""

from __future__ import annotations

import math

from adversaries.bandit import one_good, play
from benchmarks.measure import Report, paired, rate

__all__ = ["run"]


def run(report: Report, rounds: int = 200_000) -> None:
    """Compare ``thompson`` with the definition, K draws a round; one thread; gap 2 sqrt(K/T).

    A round decides K draws: which of them is the lowest. How many of them are made is in the note.
    """
    table = f"Thompson sampling, T = {rounds:,}, posterior draws decided a second, one thread"
    for k in (2, 8, 16, 64, 256):
        means = one_good(k, min(0.4, 2 * math.sqrt(k / rounds)))
        short = min(rounds, 4_000_000 // k)
        times = paired(
            {
                "ours": lambda k=k, means=means: play("thompson", means, rounds),
                "plain": lambda k=k, means=means, short=short: play("thompson_plain", means, short),
            },
            rounds=3,
        )
        made = play("thompson", means, rounds).work.sum() / rounds
        report.add(table, f"K = {k}", rate(times["ours"], k * rounds), f"{made:.1f} of {k} draws made")
        report.add(table, f"K = {k}, all draws made", rate(times["plain"], k * short))
