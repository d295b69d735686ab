"""L1 against OPT: policies for the context window over a certified bracket of the token-weighted optimum.

A miss costs the tokens of what is missing, an insertion lambda a token, and the capacity is a budget of
tokens: caching with sizes, whose optimum is NP-hard. So it is bracketed: by a lower bound that is proved in
exact arithmetic, and the cost of the best schedule found. Each ratio is an interval, cost / upper .. cost /
lower.

Workloads: the questions of LoCoMo conversations, each of which needs the five turns nearest to it (``data``);
and the adversarial families, whose items get the token counts of passages of Python's language reference. On
LoCoMo the real allocator runs too, and its log becomes a schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.families import make_trace
from offline_opt import solve
from softhit import Trace, cost, from_requests, simulate
from softhit.exact import Cost
from softhit.hierarchy.allocator import ContextAllocator, Start
from softhit.hierarchy.as_trace import as_trace
from softhit.hierarchy.reports import merge_reports
from softhit.hierarchy.segment import Segment, digest_of
from softhit.hierarchy.texts import Texts
from softhit.hierarchy.tokens import make_counter
from softhit.io.locomo import Conversation, read_locomo
from softhit.io.text import Embedder, make_embedder
from softhit.io.topics import passages
from softhit.policies import policy_info
from softhit_lab.figures import SETTINGS, Drawing, log_axis, panels, save
from softhit_lab.tables import Sheet

__all__ = ["Case", "draw_study", "family_cases", "locomo_cases", "measure", "run_study", "study_sheets"]

GUIDES = ("priority_lru", "lru", "fifo", "solar")
POLICIES = (*GUIDES, *(f"context_l1:{guide}" for guide in GUIDES), "never")
LAMBDAS = (Fraction(1, 10), Fraction(1))
BUDGETS = (1000, 2000, 4000)
ALLOCATOR_BUDGET = 2000
FAMILIES: dict[str, dict[str, Any]] = {
    "cycling": {"w": "K+1"},
    "piecewise": {"w": "1.5K"},
    "uniform_blocks": {},
    "scan_loop": {},
    "working_set_sweep": {},
    "frequency_pollution": {"repeats": 2, "fresh": "K/2"},
}
CAPACITY, STEPS, TRACES, SEEDS, TOP_K = 12, 1200, 3, 5, 5
ITERATIONS = 60
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One instance: a trace with sizes, its capacity in tokens, and where it belongs.

    Attributes
    ----------
    group : str
        ``LoCoMo``, ``LoCoMo, allocator``, or ``families``.
    name : str
        The conversation or the family.
    capacity : int
    trace : Trace
    """

    group: str
    name: str
    capacity: int
    trace: Trace


class _Passages:
    """L2 over fixed texts: search by cosine, everything else is noted by nobody."""

    def __init__(self, texts: Sequence[str], tokens: Sequence[int], embedder: Embedder) -> None:
        self.texts = list(texts)
        self.segments = [
            Segment(f"{i:05d}", digest_of(text), n)
            for i, (text, n) in enumerate(zip(texts, tokens, strict=True))
        ]
        self._embedder = embedder
        self._vectors = embedder.embed(self.texts)

    def nearest(self, queries: Sequence[str], limit: int) -> NDArray[np.int64]:
        """Return int64[len(queries), limit]: the nearest texts, best first, ties by number."""
        score = np.asarray(self._embedder.embed(list(queries))) @ np.asarray(self._vectors).T
        return np.argsort(-score, axis=1, kind="stable")[:, :limit]

    def search(
        self, query: str, limit: int = 5, least: float = 0.0, exclude: Collection[str] = ()
    ) -> list[_Found]:
        return [
            _Found(self.segments[i], self.texts[i], 1.0) for i in self.nearest([query], limit)[0].tolist()
        ]

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment:
        return replace(segment, dirty=False)

    def touch(self, ids: Iterable[str], times: int = 1) -> None:
        pass

    def get(self, ids: Collection[str]) -> dict[str, _Found]:
        return {id: _Found(self.segments[int(id)], self.texts[int(id)], 1.0) for id in ids}


@dataclass(frozen=True)
class _Found:
    segment: Segment
    text: str
    score: float


class _Log:
    """The decision log of a run, in memory."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.events.extend(dict(event) for event in events)


def _sized(requests: Any, sizes: NDArray[np.int64]) -> Trace:
    """Return requests in which a miss costs the size of the item asked for."""
    asked = np.asarray(requests, np.int64)
    return replace(from_requests(asked, n_items=len(sizes), weight=sizes[asked]), sizes=sizes)


def _library(talk: Conversation) -> _Passages:
    texts = [f"{turn.speaker}: {turn.text}" for turn in talk.turns]
    counter = make_counter()
    return _Passages(texts, [counter.count(text) for text in texts], make_embedder("hashed_tfidf"))


def _questions(talk: Conversation) -> list[str]:
    return [question.text for question in talk.questions]


def locomo_cases(data: Path, budgets: Sequence[int] = BUDGETS, limit: int | None = None) -> Iterator[Case]:
    """Yield the questions of each conversation as requests for the five turns nearest to each.

    Turns are in L2 before the first question; at a miss the turn may enter. Token counts are o200k_base's.
    """
    for talk in read_locomo(data)[:limit]:
        library = _library(talk)
        sizes = np.array([s.tokens for s in library.segments], np.int64)
        trace = _sized(library.nearest(_questions(talk), TOP_K).ravel(), sizes)
        for budget in budgets:
            yield Case("LoCoMo", talk.id, budget, trace)


def _allocator_log(
    talk: Conversation, policy: str, budget: int, switch_cost: Fraction
) -> list[dict[str, Any]]:
    """Run the allocator over the questions of a conversation: a node a question, which reads all it needs."""
    library = _library(talk)
    log = _Log()
    allocator = ContextAllocator(
        library,
        Texts(":memory:"),
        budget=budget,
        policy=policy,
        top_k=TOP_K,
        least_score=-1.0,
        switch_cost=switch_cost,
    )
    allocator.log = log  # type: ignore[assignment]
    context: dict[str, Any] = allocator.empty()
    reports: dict[str, Any] = {}
    for question, needed in zip(
        _questions(talk), library.nearest(_questions(talk), TOP_K).tolist(), strict=True
    ):
        context, reports = allocator.boundary(context, reports, [Start("answer", question)])
        view = allocator.view({"context": context, "context_reports": reports}, "answer")
        inside = {segment.id for segment in view.segments()}
        for i in needed:
            if library.segments[i].id in inside:
                view.touch(library.segments[i].id)
        reports = merge_reports(reports, view.update()["context_reports"])
    allocator.boundary(context, reports, [], ending=True)
    return log.events


@cache
def _passage_tokens() -> NDArray[np.int64]:
    counter = make_counter()
    return np.array([counter.count(passage.text) for passage in passages()], np.int64)


def family_cases(traces: int = TRACES, capacity: int = CAPACITY, steps: int = STEPS) -> Iterator[Case]:
    """Yield the families; an item has the token count of a passage drawn for it, K items of mean size fit."""
    counts = _passage_tokens()
    for name, settings in FAMILIES.items():
        for seed in range(traces):
            plain = make_trace(name, capacity, steps, 1, seed=seed, **settings)
            rng = np.random.default_rng([seed, 6])
            sizes = rng.choice(counts, plain.n_items)
            used = np.unique(plain.requests)
            budget = int(capacity * sizes[used].sum() // len(used))
            if name == "frequency_pollution":
                budget = int(sizes[:capacity].sum())  # what was popular fits, and nothing beside it
            yield Case("families", name, budget, _sized(plain.requests, sizes))


def _seeds(policy: str) -> range:
    name = policy.rpartition(":")[2]
    return range(1 if policy_info(name).deterministic else SEEDS)


def _bracket(trace: Trace, capacity: int, switch_cost: Fraction) -> tuple[Fraction, Fraction]:
    """Return a proved lower bound and a schedule's cost: the LP relaxation, and ascent where that is wide."""
    best = solve(trace, capacity, switch_cost, method="relaxation")
    assert best.cost is not None
    lower, upper = best.lower_bound, best.cost.fraction
    if upper - lower > lower / 100:
        more = solve(trace, capacity, switch_cost, method="lagrangian", iterations=ITERATIONS)
        assert more.cost is not None
        lower, upper = max(lower, more.lower_bound), min(upper, more.cost.fraction)
    return lower, upper


def measure(case: Case, switch_cost: Fraction, policies: Sequence[str] = POLICIES) -> list[Row]:
    """Return one row a policy: its exact cost (the mean over seeds), and the bracket of the optimum."""
    trace, capacity = case.trace, case.capacity
    lower, upper = _bracket(trace, capacity, switch_cost)
    priced: dict[str, list[Cost]] = {}
    for policy in policies:
        runs = [simulate(policy, trace, capacity, switch_cost, seed=seed) for seed in _seeds(policy)]
        priced[policy] = [cost(run, trace, capacity, switch_cost) for run in runs]
        # a policy's own schedule may be better than the best one that the method found
        upper = min(upper, *(c.fraction for c in priced[policy]))
    return [
        _row(
            case,
            switch_cost,
            policy,
            sum((c.fraction for c in costs), Fraction(0)) / len(costs),
            lower,
            upper,
        )
        for policy, costs in priced.items()
    ]


def _row(
    case: Case, switch_cost: Fraction, policy: str, paid: Fraction, lower: Fraction, upper: Fraction
) -> Row:
    return {
        "group": case.group,
        "name": case.name,
        "capacity": case.capacity,
        "lambda": switch_cost,
        "policy": policy,
        "requests": int(np.count_nonzero(case.trace.weight)),
        "cost": paid,
        "lower": lower,
        "upper": upper,
    }


def _measure_allocator(talk: Conversation, policy: str, switch_cost: Fraction) -> Row:
    """The real allocator, against the optimum of the very requests that its log has, in their order."""
    made = as_trace(_allocator_log(talk, policy, ALLOCATOR_BUDGET, switch_cost))
    paid = cost(made.schedule, made.trace, made.capacity, switch_cost).fraction
    lower, upper = _bracket(made.trace, made.capacity, switch_cost)
    case = Case("LoCoMo, allocator", talk.id, made.capacity, made.trace)
    return _row(case, switch_cost, f"allocator:{policy}", paid, lower, min(upper, paid))


def _summary(rows: Sequence[Row]) -> list[Row]:
    """Sum over conversations, and over the traces of a family; ratios of sums, as intervals."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        place = "all" if row["group"].startswith("LoCoMo") else row["name"]
        # the budget of a family's trace follows from its sizes
        capacity = row["capacity"] if row["group"].startswith("LoCoMo") else f"{CAPACITY} items"
        groups.setdefault((row["group"], place, capacity, row["lambda"], row["policy"]), []).append(row)
    out = []
    for (group, place, capacity, lam, policy), members in groups.items():
        total = {
            key: sum((Fraction(r[key]) for r in members), Fraction(0)) for key in ("cost", "lower", "upper")
        }
        out.append(
            {
                "group": group,
                "workload": place,
                "budget": capacity,
                "lambda": str(lam),
                "policy": policy,
                "instances": len(members),
                "requests": sum(r["requests"] for r in members),
                "cost": round(float(total["cost"]), 1),
                "opt_lower": round(float(total["lower"]), 1),
                "opt_upper": round(float(total["upper"]), 1),
                "ratio_low": round(float(total["cost"] / total["upper"]), 4),
                "ratio_high": round(float(total["cost"] / total["lower"]), 4),
            }
        )
    return out


def _band(row: Row) -> str:
    low, high = f"{row['ratio_low']:.2f}", f"{row['ratio_high']:.2f}"
    return low if low == high else f"{low}..{high}"


def study_sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Return one table a group and lambda: a line a workload, a column a policy."""
    sheets = []
    for group, lam in dict.fromkeys((row["group"], row["lambda"]) for row in rows):
        here = [row for row in rows if (row["group"], row["lambda"]) == (group, lam)]
        policies = list(dict.fromkeys(row["policy"] for row in here))
        lines = []
        for place, budget in dict.fromkeys((row["workload"], row["budget"]) for row in here):
            mine = {r["policy"]: r for r in here if (r["workload"], r["budget"]) == (place, budget)}
            gap = max((r["opt_upper"] - r["opt_lower"]) / r["opt_lower"] for r in mine.values())
            name = f"{budget} tokens" if place == "all" else str(place)
            lines.append((name, f"{100 * gap:.2f} %", *(_band(mine[p]) for p in policies)))
        sheets.append(
            Sheet(
                f"{group}, lambda = {lam}: cost / OPT",
                ("workload", "gap", *policies),
                lines,
                "gap: between the two bounds of OPT; a..b: the ratio lies between",
            )
        )
    return sheets


_COLOURS = {
    "priority_lru": "#CC79A7",
    "lru": "#009E73",
    "fifo": "#0072B2",
    "solar": "#D55E00",
    "never": "#000000",
}
_MARKS = {"priority_lru": "D", "lru": "^", "fifo": "s", "solar": "o", "never": "X"}


def draw_study(rows: Sequence[Row]) -> Drawing:
    """Draw ratios against the budget on LoCoMo, one panel a lambda, and on the families at lambda = 1."""
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        parts = [(g, lam) for g, lam in (("LoCoMo", "1/10"), ("LoCoMo", "1"), ("families", "1"))]
        parts = [part for part in parts if any((r["group"], r["lambda"]) == part for r in rows)]
        canvas, places = panels(len(parts), height=4.2, share_y=False)
        for axes, (group, lam) in zip(places, parts, strict=True):
            _panel(axes, [r for r in rows if (r["group"], r["lambda"]) == (group, lam)], group, lam)
        places[0].set_ylabel("cost / OPT")
        handles, labels = places[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=5)
    return Drawing("l1-vs-opt", canvas, list(rows), list(rows[0]))


def _panel(axes: Any, rows: Sequence[Row], group: str, lam: str) -> None:
    families = group == "families"
    ticks = list(dict.fromkeys(r["workload"] if families else r["budget"] for r in rows))
    for number, policy in enumerate(dict.fromkeys(r["policy"] for r in rows)):
        mine = [r for r in rows if r["policy"] == policy]
        base, guided = policy.rpartition(":")[2], ":" in policy
        x = [
            float(ticks.index(r["workload"])) + 0.08 * (number - 4) if families else r["budget"] for r in mine
        ]
        middle = [(r["ratio_low"] + r["ratio_high"]) / 2 for r in mine]
        wide = [[m - r["ratio_low"] for m, r in zip(middle, mine, strict=True)]]
        wide.append([r["ratio_high"] - m for m, r in zip(middle, mine, strict=True)])
        axes.errorbar(
            x,
            middle,
            yerr=wide,
            label=policy,
            color=_COLOURS[base],
            marker=_MARKS[base],
            fillstyle="none" if guided else "full",
            linestyle="none" if families else "--" if guided else "-",
        )
    axes.set_yscale("log")
    axes.set_title(f"{group}, $\\lambda$ = {lam}")
    if families:
        names = [str(tick).replace("_", " ") for tick in ticks]
        axes.set_xticks(
            range(len(ticks)), names, fontsize=7.5, rotation=35, ha="right", rotation_mode="anchor"
        )
    else:
        axes.set_xscale("log")
        log_axis(axes.xaxis, ticks)
        axes.set_xlabel("budget, tokens")
    log_axis(axes.yaxis)


def run_study(
    output: Path, data: Path | None = None, limit: int | None = None, families: int = TRACES
) -> list[Sheet]:
    """Measure everything, write ``l1-vs-opt.{png,csv,txt}`` into a folder and return the tables.

    Parameters
    ----------
    output : path
    data : path, optional
        ``locomo10.json``; without it the families only.
    limit : int, optional
        Conversations at most.
    families : int
        Traces of each family.

    Raises
    ------
    InvalidInput
        The data cannot be read; nothing has been measured then.
    """
    talks = [] if data is None else read_locomo(data)[:limit]
    rows = [row for case in family_cases(families) for row in measure(case, Fraction(1))]
    if data is not None:
        rows = [
            *(
                row
                for case in locomo_cases(data, limit=limit)
                for lam in LAMBDAS
                for row in measure(case, lam)
            ),
            *(_measure_allocator(talk, policy, Fraction(1)) for talk in talks for policy in GUIDES),
            *rows,
        ]
    table = _summary(rows)
    command = f"softhit hierarchy study -o FOLDER --traces {families}"
    command += " --data locomo10.json" if data is not None else ""
    command += f" --conversations {limit}" if limit is not None else ""
    save(draw_study(table), output, command, formats=("png",))
    return study_sheets(table)
