"""Cells aggregated over seeds: ratios of sums, with intervals that say what they are.

The ratio over n seeds is ``sum ALG / sum OPT``. Its interval is the 95 % t interval of the ratio estimator
(Cochran, Sampling Techniques, 1977, section 6.4: the residuals ``ALG_i - R OPT_i`` over the seeds); beside it
stand the least and the greatest ratio of a single seed. One seed has no interval. The slope and the ratio
above the floor are treated alike. Seeds with OPT = 0 stay in the sums and are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import stdtrit

from softhit_lab.cells import bracket, is_exact, quotient

__all__ = ["INTERVAL", "MEASURES", "classical", "ratio_interval", "summarise"]

INTERVAL = "95 % t interval over seeds"
MEASURES = ("ratio", "slope", "floor_ratio")

_GROUP = (
    *("family", "parameters", "file", "switch_cost", "capacity", "n_steps", "policy"),
    *("order", "availability", "fill", "aggregator", "top_k"),
)

Number = Fraction | None


def ratio_interval(
    above: Sequence[Fraction], below: Sequence[Fraction], level: float = 0.95
) -> tuple[float, float] | None:
    """Return the t interval of ``sum above / sum below``; None for one pair or a sum that is not positive.

    >>> ratio_interval([Fraction(2), Fraction(4)], [Fraction(1), Fraction(2)])
    (2.0, 2.0)
    """
    n = len(above)
    total = sum(below)
    if n < 2 or total <= 0:
        return None
    ratio = sum(above) / total
    spread = float(sum(((a - ratio * b) ** 2 for a, b in zip(above, below, strict=True)), Fraction(0)))
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * float(np.sqrt(n / (n - 1) * spread)) / float(total)
    return float(ratio) - half, float(ratio) + half


def _parts(cell: Mapping[str, Any], measure: str) -> tuple[Number, Number, Number]:
    """Return the numerator of a measure, and its greatest and least denominator, as fractions."""
    opt, lower = bracket(cell)
    take: tuple[Any, ...] = (0, 0, 0)
    if measure == "slope":
        half, half_lower = bracket(cell, half=True)
        take = (cell["half_cost_units"], half_lower, half)
    elif measure == "floor_ratio":
        take = (cell["floor_units"],) * 3
    pairs = zip((cell["cost_units"], opt, lower), take, strict=True)
    above, most, least = (
        None if a is None or b is None else Fraction(a - b, cell["scale"]) for a, b in pairs
    )
    return above, most, least


def _known(values: Sequence[Number]) -> list[Fraction] | None:
    known = [v for v in values if v is not None]
    return known if len(known) == len(values) else None


def _measure(cells: Sequence[Mapping[str, Any]], measure: str) -> dict[str, Any]:
    columns = zip(*(_parts(cell, measure) for cell in cells), strict=True)
    above, most, least = (_known(values) for values in columns)
    result: dict[str, Any] = {}
    for end, below in (("low", most), ("high", least)):
        sums = None if above is None or below is None else (sum(above), sum(below))
        result[f"{measure}_{end}"] = None if sums is None else quotient(*map(Fraction, sums))
    exact = all(is_exact(c["opt_kind"]) and is_exact(c["half_opt_kind"]) for c in cells)
    interval = ratio_interval(above, most) if exact and above is not None and most is not None else None
    result[f"{measure}_t_low"], result[f"{measure}_t_high"] = interval or (None, None)
    singles = [c[f"{measure}_low"] for c in cells if c[f"{measure}_low"] is not None]
    result[f"{measure}_min"] = min(singles, default=None)
    singles = [c[f"{measure}_high"] for c in cells if c[f"{measure}_high"] is not None]
    result[f"{measure}_max"] = max(singles, default=None)
    return result


def _weakest(kinds: Sequence[str]) -> str:
    """Return ``band`` before ``exact (solver)`` before ``exact``.

    >>> _weakest(["exact", "band", "exact (solver)"])
    'band'
    """
    return sorted(set(kinds), key=lambda kind: (is_exact(kind), kind == "exact"))[0]


def _mean(cells: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = _known([None if c[name] is None else Fraction(c[name], c["scale"]) for c in cells])
    return None if known is None else float(sum(known) / len(known))


def summarise(cells: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per configuration, aggregated over its seeds, in the order of the cells.

    Parameters
    ----------
    cells : derived cells, as :func:`softhit_lab.cells.read_cells` returns them

    Returns
    -------
    list of dict
        The configuration; ``n_seeds``, ``n_traces`` (different ones), ``requests`` (all traces are plain
        requests), ``zero_opt`` (cells with OPT = 0), ``opt_kind`` (the weakest among the cells), mean costs;
        and per measure ``_low`` and ``_high`` (against the upper and the lower bound of OPT), ``_t_low`` and
        ``_t_high`` (the interval, where OPT is exact), ``_min`` and ``_max`` (single seeds).
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell[name] for name in _GROUP), []).append(cell)
    rows = []
    for key, members in groups.items():
        row: dict[str, Any] = dict(zip(_GROUP, key, strict=True))
        row["n_seeds"] = len(members)
        row["n_traces"] = len({c["trace_hash"] for c in members})
        row["n_items"] = max(c["n_items"] for c in members)
        row["requests"] = all(c["requests"] for c in members)
        row["clairvoyant"] = members[0]["clairvoyant"]
        row["zero_opt"] = sum(c["opt_is_zero"] for c in members)
        row["opt_kind"] = _weakest([c["opt_kind"] for c in members])
        for name in ("cost", "opt", "opt_lower", "floor"):
            row[name] = _mean(members, f"{name}_units")
        row["switching_share"] = quotient(*(_sum(members, name) for name in ("switch_units", "cost_units")))
        row["hit_ratio"] = quotient(*(sum(c[name] for c in members) for name in ("hits", "n_queries")))
        for measure in MEASURES:
            row.update(_measure(members, measure))
        rows.append(row)
    return rows


def _sum(cells: Sequence[Mapping[str, Any]], name: str) -> Fraction:
    return sum((Fraction(c[name], c["scale"]) for c in cells), Fraction(0))


def classical(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether H_K and (K+1)(1+lambda) speak about these rows (claims B2, C1).

    They hold for plain requests, served before the update, with the first K insertions free. With
    ``mean_topk`` one item is at most 1/k of an answer, which is another problem.
    """
    variant = {"order": "serve_then_update", "availability": "stream", "fill": "free"}
    return all(
        row["requests"]
        and all(row[name] == value for name, value in variant.items())
        and (row["aggregator"] != "mean_topk" or row["top_k"] == 1)
        for row in rows
    )


def label(row: Mapping[str, Any]) -> str:
    """Name the source of a row: ``cycling(w=1.5K)``, or the file."""
    if row["file"]:
        return str(row["file"])
    inside = ", ".join(f"{k}={v}" for k, v in json.loads(row["parameters"]).items())
    return str(row["family"]) + (f"({inside})" if inside else "")
