"""C8: soft hits are harder than hard hits, offline (NP-hard, LP gaps) and online (facility location).

Statement
---------
With hard hits the optimum is a flow (E1). Where several items can serve a query it is not so. Unit sizes,
aggregator ``best``.

* (1) *Maximum coverage embeds.* Given M sets over n elements and K: M steps that nothing serves, step i
  with the arrival of item i; then n steps without arrivals, step j served by the items whose set contains
  element j. In ``stream``, free fill, for every lambda >= 0 and either order, ``OPT = M + n - max
  coverage of K sets``. In ``pool`` the same for lambda >= n. So OPT is NP-hard to compute, already for
  qualities 0 and 1 and for a content that never changes after it was chosen. Both directions: K sets give
  a schedule of that cost, and a schedule gives at most K sets that cover what it saves.
* (2) *LP gap.* Four items; each round asks for all six pairs of them, a pair being served by either of
  its two; K = 2, R rounds, lambda > R. The LP relaxation has value 0 (half of each item), the optimum is
  R. So no bound by prices (E2) exceeds 0 there, and the ratio of optimum and relaxation has no limit.
* (3) *Facility location embeds.* K = N, ``fill="charged"``, ``pool``, s_t(i) = 1 - distance, lambda > 0,
  one step without a query first: OPT is the optimum of uncapacitated facility location with opening cost
  lambda, and in update_then_serve an online policy is an online algorithm for it. With free fill nothing
  is left: all N items enter for nothing.
* (4) *The ratio of (3) grows.* On demands along a random path of a binary tree of height h, m^i of them
  at level i, edges shrinking by m = h >= 2, every online policy, randomised or not, pays at least h
  lambda / 2 in expectation, and OPT at most ``(1 + m/(m-1)) lambda <= 3 lambda``. With n demands h is of
  order log n / log log n: no online policy has a constant ratio, not even with an additive constant, if
  neither depends on N. Fotakis proved this, and that some algorithms attain it.

Why
---
(1) Without arrivals nothing can enter, so the content of the last n steps is a set of at most K items,
and each K items can be in it for nothing; with ``pool`` more than K insertions cost lambda >= n. (2) A
pair has weight 1/2 + 1/2; two whole items leave the pair of the other two unserved in each round. (3)
Nothing ever has to leave: a schedule is a set of openings, each lambda. (4) Which child the path takes is
drawn after what stands there was built: what stands under the other child is of no use any more, and if
nothing stands under this one, something is built or m^i demands pay the way. Steps: ``proofs/C8.md``.

Examples
--------
>>> sets = [{0, 1}, {1, 2}, {3}]
>>> best_cover(sets, 2), int(optimum(coverage_trace(sets, 4), 2, 0))       # M + n - 3 = 4
(3, 4)

What the numbers are
--------------------
Exact costs and optima of softhit, beside exhaustive search. (4) is proved; shown are two natural
policies: LRU, which builds at a place's first demand, and Meyerson's, which builds with probability
distance / lambda. Their mean ratios to exact OPT at h = 2, 3, 4, 5 (7, 40, 341, 3906 demands) are 1.3,
1.8, 2.2, 2.7 and 1.5, 2.2, 3.0, 3.7; the bound for all policies, h/6, lies well below. Of the order log n
/ log log n four heights show nothing; that is the proof's.

References
----------
Meyerson, "Online facility location", FOCS 2001. Fotakis, "On the competitive ratio for online facility
location", Algorithmica 50 (2008): Theta(log n / log log n). Maximum coverage: Karp 1972 (set cover)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from offline_opt import solve
from offline_opt.certificate import certify, check_certificate
from softhit import Context, Decision, Observation, Policy, Schedule, Trace, Variant, cost, simulate
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import optimum, paid

__all__ = ["CLAIM", "Meyerson", "best_cover", "coverage_trace", "location_trace", "path_trace"]

Sets = Sequence[AbstractSet[int]]
POOL = Variant(availability="pool")
BOTH = ("serve_then_update", "update_then_serve")


def _rows(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return indptr, np.array([i for row in rows for i in row], np.int32)


def coverage_trace(sets: Sets, elements: int) -> Trace:
    """Return M announcing steps, that nothing serves, and a step for each element, without an arrival."""
    rows: list[list[int]] = [[] for _ in sets]
    rows += [[i for i, held in enumerate(sets) if j in held] for j in range(elements)]
    indptr, items = _rows(rows)
    arrivals = np.array([*range(len(sets)), *[-1] * elements], np.int32)
    return Trace(len(sets), indptr, items, np.full(len(items), 10_000, np.int32), arrivals)


def _cover(sets: Sets, chosen: Sequence[int]) -> int:
    return len(set().union(*(sets[i] for i in chosen)))


def best_cover(sets: Sets, k: int) -> int:
    """Return the largest number of elements that k of the sets cover, by trying all of them."""
    return max(_cover(sets, chosen) for chosen in itertools.combinations(range(len(sets)), k))


def _random_sets(rng: np.random.Generator) -> tuple[list[set[int]], int, int]:
    elements, count = int(rng.integers(2, 10)), int(rng.integers(2, 8))
    share = float(rng.uniform(0.15, 0.6))
    sets = [{j for j in range(elements) if rng.random() < share} for _ in range(count)]
    return sets, elements, int(rng.integers(1, min(4, count + 1)))


def coverage(pool_price: int | None = None, more: int = 0, early: int = 0) -> None:
    """On random instances, exact: sets to schedule, schedule to sets, and OPT = M + n - max coverage."""
    rng = np.random.default_rng(80)
    for number in range(25):
        sets, n, k = _random_sets(rng)
        trace, m = coverage_trace(sets, n), len(sets)
        cover = best_cover(sets, min(m, k + more))
        for lam in (Fraction(0), Fraction(1, 3), Fraction(n + 1)):
            for order in BOTH:
                variant, where = Variant(order=order), f"instance {number}, K={k}, lambda={lam}, {order}"
                equal(optimum(trace, k, lam, variant), Fraction(m + n - cover), f"{where}: OPT")
                for chosen in itertools.combinations(range(m), k):
                    held = Schedule.from_intervals(m + n, list(chosen), list(chosen), [m + n] * k)
                    total = Fraction(m + n - _cover(sets, chosen))
                    equal(cost(held, trace, k, lam, variant).fraction, total, f"{where}: sets {chosen}")
                for spec in ("fifo", "random", "gated_lru(theta=1)", "solar"):
                    schedule = simulate(spec, trace, k, lam, seed=number, variant=variant)
                    saved = m + n - cost(schedule, trace, k, lam, variant).fraction
                    held_sets = _held_at(schedule, m - early)
                    hold(len(held_sets) <= k, f"{where}, {spec}: {len(held_sets)} sets")
                    got = _cover(sets, held_sets)
                    hold(saved <= got, f"{where}, {spec}: saves {saved}, its sets {held_sets} cover {got}")
        price = Fraction(n if pool_price is None else pool_price)
        best = solve(trace, k, price, POOL, method="dp")
        assert best.cost is not None
        equal(best.cost.fraction, Fraction(m + n - cover), f"instance {number}, K={k}, pool: OPT")


def _held_at(schedule: Schedule, step: int) -> list[int]:
    """Return what the schedule holds before the given step."""
    held: set[int] = set()
    for t in range(step):
        held -= set(schedule.leave_items[schedule.leave_ptr[t] : schedule.leave_ptr[t + 1]].tolist())
        held |= set(schedule.enter_items[schedule.enter_ptr[t] : schedule.enter_ptr[t + 1]].tolist())
    return sorted(held)


PAIRS = list(itertools.combinations(range(4), 2))


def pairs_trace(rounds: int) -> Trace:
    """Return four steps without a query, in which the items arrive; then rounds of the six pairs."""
    rows: list[Sequence[int]] = [[] for _ in range(4)]
    rows += PAIRS * rounds
    indptr, items = _rows(rows)
    arrivals = np.array([0, 1, 2, 3, *[-1] * (6 * rounds)], np.int32)
    weight = np.array([0] * 4 + [1] * (6 * rounds), np.int32)
    return Trace(4, indptr, items, np.full(len(items), 10_000, np.int32), arrivals, weight)


def lp_gap(slots: int = 2, relaxed: Fraction = Fraction(0)) -> None:
    """Four items, six pairs, K = 2: LP value 0, optimum 1 a round; certificates prove no more than 0."""
    # the static programme: z >= 1 - x_i - x_j for each pair, sum x <= K; a feasible point of value 0
    x = [Fraction(1, 2)] * 4
    hold(sum(x) <= slots, f"x = 1/2 four times needs two slots, not {slots}")
    equal(sum(max(Fraction(0), 1 - x[i] - x[j]) for i, j in PAIRS), Fraction(0), "value of x = 1/2")
    missed = {held: sum(not {i, j} & set(held) for i, j in PAIRS) for held in PAIRS}
    equal(set(missed.values()), {1}, "pairs that two items leave unserved")
    for rounds in (1, 2, 4, 7):
        trace, lam = pairs_trace(rounds), Fraction(rounds + 1)
        for variant in (Variant(), POOL, Variant(order="update_then_serve")):
            where = f"{rounds} rounds, {variant.label}"
            exact = solve(trace, slots, lam, variant, method="dp")
            assert exact.cost is not None
            equal(exact.cost.fraction, Fraction(rounds), f"{where}: OPT")
            linear = solve(trace, slots, lam, variant, method="relaxation")
            equal(linear.lower_bound, relaxed, f"{where}: LP relaxation")
            verdict = check_certificate(certify(linear, trace, slots, lam, variant), trace)
            hold(verdict.proved, f"{where}: certificate rejected, {verdict.reason}")
            equal(verdict.lower_bound, relaxed, f"{where}: bound of the certificate")


def location_trace(units: NDArray[np.int64], demands: Sequence[int], scale: int) -> Trace:
    """Return one step without a query, then a step per demand: item i serves demand v with 1 - distance.

    ``units[i, v]``: distance in units of 1/scale, below 1; the place of the demand arrives with it.
    """
    n = len(units)
    indptr = np.concatenate([[0], np.arange(len(demands) + 1) * n]).astype(np.int64)
    quality = (scale - units[:, list(demands)].T).ravel().astype(np.int32)
    return Trace(
        n,
        indptr,
        np.tile(np.arange(n, dtype=np.int32), len(demands)),
        quality,
        np.array([-1, *demands], np.int32),
        np.array([0] + [1] * len(demands), np.int32),
        quality_scale=scale,
    )


def _charged(order: str) -> Variant:
    return Variant(order=order, availability="pool", fill="charged")


def _locate(units: NDArray[np.int64], demands: Sequence[int], lam: Fraction, scale: int) -> Fraction:
    """Return the optimum of facility location by trying all sets of open places."""
    n = len(units)
    best = Fraction(len(demands))
    for size in range(1, n + 1):
        for places in itertools.combinations(range(n), size):
            way = int(units[np.ix_(places, list(demands))].min(axis=0).sum())
            best = min(best, size * lam + Fraction(way, scale))
    return best


def facility_location(fill: str = "charged", lost: int = 0) -> None:
    """On random metrics OPT is that of facility location, both orders; with free fill everything is open."""
    rng = np.random.default_rng(81)
    for number in range(25):
        n, scale = int(rng.integers(2, 6)), 100
        at = rng.integers(0, 34, (n, 2))
        units = np.abs(at[:, None] - at[None]).sum(axis=2)
        demands = rng.integers(0, n, int(rng.integers(1, 8))).tolist()
        lam = Fraction(int(rng.integers(1, 200)), 100)
        trace = location_trace(units, demands, scale)
        for order in BOTH:
            where = f"instance {number}, lambda={lam}, {order}"
            variant = Variant(order=order, availability="pool", fill=fill)
            best = solve(trace, n, lam, variant, method="dp")
            assert best.cost is not None
            equal(best.cost.fraction, _locate(units, demands, lam, scale) - lost, f"{where}: OPT")
            free = solve(trace, n, lam, Variant(order=order, availability="pool"), method="dp")
            assert free.cost is not None
            equal(free.cost.fraction, Fraction(0), f"{where}: OPT with free fill")


def _tree(height: int, shrink: int) -> NDArray[np.int64]:
    """Return distances in the binary tree of this height: the edge below level i has shrink^(height-1-i)."""
    n = 2 ** (height + 1) - 1
    units = np.zeros((n, n), np.int64)

    def up(v: int) -> tuple[int, int]:
        return v // 2, shrink ** (height - (v.bit_length() - 1))

    for a in range(1, n + 1):
        for b in range(1, a):
            u, v, way = a, b, 0
            while u != v:
                if u > v:
                    u, edge = up(u)
                else:
                    v, edge = up(v)
                way += edge
            units[a - 1, b - 1] = units[b - 1, a - 1] = way
    return units


def path_trace(height: int, leaf: int) -> tuple[Trace, Fraction, list[int], int]:
    """Return the demands along the path to a leaf, lambda, the places of the path, and m.

    m^i demands at level i. With D the longest edge, 1/4, lambda = h D; place 0 is the root.

    Examples
    --------
    >>> trace, lam, places, m = path_trace(2, leaf=1)
    >>> trace.n_items, trace.n_steps, str(lam), places, m
    (7, 8, '1/2', [0, 1, 4], 2)
    """
    m = height
    node = 2**height + leaf
    places = [(node >> (height - i)) - 1 for i in range(height + 1)]
    demands = [place for i, place in enumerate(places) for _ in range(m**i)]
    return location_trace(_tree(height, m), demands, 4 * m ** (height - 1)), Fraction(height, 4), places, m


def _path_optimum(height: int, lam: Fraction, places: list[int], m: int) -> Fraction:
    """Return OPT: an open place off the path serves no better than where its way meets the path."""
    units = _tree(height, m)[np.ix_(places, places)]
    counts = np.array([m**i for i in range(height + 1)])
    best = Fraction(int(counts.sum()))
    for size in range(1, height + 2):
        for chosen in itertools.combinations(range(height + 1), size):
            way = int((units[list(chosen)].min(axis=0) * counts).sum())
            best = min(best, size * lam + Fraction(way, 4 * m ** (height - 1)))
    return best


class Meyerson:
    """Build at a demand with probability distance / lambda; at the first demand always.

    Examples
    --------
    >>> trace, lam, _, _ = path_trace(2, leaf=0)
    >>> len(simulate(Meyerson(), trace, 7, lam, variant=_charged("update_then_serve")).enter_items) >= 1
    True
    """

    name = "meyerson"

    def start(self, context: Context) -> None:
        """Take lambda and the random stream."""
        self.context = context

    def decide(self, seen: Observation) -> Decision:
        """Draw once where the demand's place is not held."""
        if seen.weight == 0 or seen.arrival < 0 or seen.arrival_held:
            return Decision()
        way = Fraction(seen.utility_scale - seen.utility_units, seen.utility_scale)
        chance = float(way / self.context.switch_cost)
        if seen.retrieved and self.context.rng.random() >= chance:
            return Decision()
        return Decision(admit=(seen.arrival,))


def growing(most_height: int = 5, share: Fraction = Fraction(1, 2), ways: int = 1) -> None:
    """LRU and Meyerson's policy pay h lambda/2 or more on average, OPT 3 lambda or less; the ratio grows."""
    rng = np.random.default_rng(82)
    before = dict.fromkeys(("lru", "meyerson"), 0.0)
    for height in range(2, most_height + 1):
        leaves = range(2**height) if height < 4 else rng.integers(0, 2**height, 4).tolist()
        runs: dict[str, list[Fraction]] = {"lru": [], "meyerson": []}
        for leaf in leaves:
            trace, lam, places, m = path_trace(height, leaf)
            best = _path_optimum(height, lam, places, m)
            where = f"h={height}, leaf {leaf}"
            if height == 2 or (height == 3 and leaf in (0, 5)):
                equal(optimum(trace, trace.n_items, lam, _charged(BOTH[1])), best, f"{where}: OPT")
            hold(best <= (1 + ways * Fraction(m, m - 1)) * lam, f"{where}: OPT = {best}, lambda={lam}")
            variant = _charged(BOTH[1])
            runs["lru"].append(paid("lru", trace, trace.n_items, lam, variant) / lam)
            for seed in range(max(1, 24 // len(leaves))):
                spent = paid_by(Meyerson(), trace, lam, variant, 100 * int(leaf) + seed)
                runs["meyerson"].append(spent / lam)
        for name, values in runs.items():
            mean = float(sum(values, Fraction(0)) / len(values))
            hold(mean >= height * share, f"{name}, h={height}: {mean:.3f} lambda, at least {height * share}")
            ratio = mean * float(lam / best)
            hold(ratio > before[name], f"{name}, h={height}: ratio {ratio:.3f}, {before[name]:.3f} at h-1")
            before[name] = ratio


def paid_by(policy: Policy, trace: Trace, lam: Fraction, variant: Variant, seed: int) -> Fraction:
    """Return what a policy object pays with as many slots as items."""
    return paid(policy, trace, trace.n_items, lam, variant, seed)


def charges(half: Fraction = Fraction(1, 2)) -> None:
    """Of any schedule the proof charges at most its cost: what is of no use any more, and what lacks."""
    rng = np.random.default_rng(83)
    for number in range(150):
        height = int(rng.integers(2, 4))
        trace, lam, places, m = path_trace(height, int(rng.integers(2**height)))
        n = trace.n_items
        order = list(range(n)) if number % 2 else sorted(places, key=lambda _: rng.random())
        rng.shuffle(order)
        # builds at most one place a step; places of the path more often, so that hardly anything is wasted
        steps = sorted(rng.choice(trace.n_steps, min(len(order), int(rng.integers(1, 7))), replace=False))
        built = list(zip((int(t) for t in steps), order, strict=False))
        ends = [trace.n_steps] * len(built)
        schedule = Schedule.from_intervals(trace.n_steps, [i for _, i in built], [t for t, _ in built], ends)
        for variant in map(_charged, BOTH):
            total = cost(schedule, trace, n, lam, variant).fraction
            sum_ = half * lam * _charged_levels(built, places, m)
            hold(sum_ <= total, f"schedule {number}, {variant.order}: charged {sum_}, costs {total}")


def _charged_levels(built: list[tuple[int, int]], places: list[int], m: int) -> int:
    """Return how many halves of lambda the proof charges."""
    count, start = 0, 1
    for level, place in enumerate(places):
        # in serve_then_update what enters after the last demand of the level before stands there too
        before = [item for t, item in built if t < start]
        if level > 0:
            sibling = ((place + 1) ^ 1) - 1
            count += any(_under(item, sibling) for item in before)
            count += not any(_under(item, place) for item in before)
        start += m**level
    return count


def _under(item: int, place: int) -> bool:
    v, top = item + 1, place + 1
    while v > top:
        v //= 2
    return v == top


def levels(least: int = 2) -> None:
    """Whatever stands under the two children, a level is charged half of lambda or more on average."""
    for left, right in itertools.product((False, True), repeat=2):
        # the path goes left or right: (something stands under the other child) + (nothing under this one)
        twice = (right + (not left)) + (left + (not right))
        hold(twice >= least, f"left {left}, right {right}: {twice} halves of lambda in two cases")


CLAIM = Claim(
    id="C8",
    title="soft hits are harder",
    statement=(
        "With soft hits maximum coverage and facility location embed; LP gaps have no limit, online ratios "
        "none that is independent of N."
    ),
    variant="best; (1) stream, free fill; (2) any; (3), (4) pool, charged fill, K = N; each in both orders",
    source="ours; lower and upper bound for facility location: Fotakis 2008",
    status="proved",
    scope="(1)-(3) all such instances; (4) every online policy: a ratio of h/6 or more for n ~ h^h demands",
    breaks="hard hits (E1); free fill with K = N; the matching upper bound of (4) is cited, not shown",
    checks=(
        Check("coverage", coverage),
        Check("lp_gap", lp_gap),
        Check("facility_location", facility_location),
        Check("growing", growing),
        Check("charges", charges),
        Check("levels", levels),
    ),
    mutants=(
        Mutant("pool_for_nothing", "coverage", {"pool_price": 0}, "at lambda = 0 the pool serves everything"),
        Mutant("one_set_more", "coverage", {"more": 1}, "K sets, not K+1"),
        Mutant("looks_early", "coverage", {"early": 1}, "the last arrival may be the set that covers"),
        Mutant("three_slots", "lp_gap", {"slots": 3}, "three items serve all pairs"),
        Mutant("lp_one", "lp_gap", {"relaxed": Fraction(1)}, "the relaxation has value 0"),
        Mutant("free_fill", "facility_location", {"fill": "free"}, "nothing is left of the problem"),
        Mutant("one_off", "facility_location", {"lost": 1}, "equality is exact"),
        Mutant("pays_more", "growing", {"share": Fraction(3)}, "3 h lambda is too much"),
        Mutant("lambda_alone", "growing", {"ways": 0}, "OPT pays for the way too"),
        Mutant("charged_in_full", "charges", {"half": Fraction(2)}, "a place would be charged twice"),
        Mutant("three_halves", "levels", {"least": 3}, "two halves in two cases"),
    ),
    proofs=("C8.md",),
)
