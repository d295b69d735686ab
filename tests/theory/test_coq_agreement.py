"""What A1.v, B1.v and E2.v compute is what the Python computes: policies, costs and lower bounds.

One file of ``Eval vm_compute`` commands for everything, and once more for each changed definition.
"""

import itertools
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from offline_opt import instances, solve
from offline_opt.certificate.checker import Instance, evaluate
from offline_opt.certificate.format import Certificate, contents_of
from offline_opt.certificate.make import make_certificate
from offline_opt.result import Prices
from offline_opt.soft.bound import cost_grid
from softhit import Schedule, Trace, Variant, cost, from_requests, simulate
from softhit.exact import Cost
from softhit.io.canonical import canonical_bytes
from softhit.retrieval import utility_scale

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
FILES = ("Model", "A1", "B1", "E2")
HEAD = "From Coq Require Import List ZArith.\n" + "".join(f"Require Import {name}.\n" for name in FILES)
HEAD += """Import ListNotations.
Open Scope Z_scope.
Definition priced (s : setting) (p q : Z) (tr : list query) (sch : list change) : list Z :=
  match run s [] tr sch with None => [] | Some (m, z, _) => [m; z; price s p q m z] end.
"""
SERVED = (("best", 1), ("mean_topk", 2), ("coverage", 2), ("mean_topk", 3), ("coverage", 3))

pytestmark = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc is not installed (Debian: apt-get install coq)"
)


@dataclass(frozen=True)
class Case:
    """A Coq term of type ``list Z``, the numbers that Python gets, and what they are."""

    term: str
    numbers: list[int]
    what: str


Patches = dict[str, tuple[str, str]]


def evaluated(folder: Path, cases: list[Case], patches: Patches | None = None) -> list[list[int]]:
    """Let Coq evaluate all terms; ``patches`` change the text of a file of proofs/ first.

    With ``-vos`` Coq reads definitions and statements and skips the proofs, which ``make proofs`` checks.
    """
    for name in FILES:
        text = (PROOFS / f"{name}.v").read_text()
        if patches and name in patches:
            old, new = patches[name]
            assert text.count(old) == 1, f"{name}.v holds {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        # Print Assumptions would speak of every proof that was skipped
        (folder / f"{name}.v").write_text(re.sub(r"^Print Assumptions .*$", "", text, flags=re.M))
    terms = "".join(f"Eval vm_compute in ({case.term}).\n" for case in cases)
    (folder / "Agreement.v").write_text(HEAD + terms)
    output = ""
    for name in (*FILES, "Agreement"):
        done = subprocess.run(
            ["coqc", "-q", "-vos", f"{name}.v"], cwd=folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{name}.v: {done.stderr}"
        output = done.stdout
    printed = re.findall(r"= (.*?)\s*: list Z", output, re.S)
    assert len(printed) == len(cases)
    return [[int(number) for number in re.findall(r"-?\d+", one)] for one in printed]


def listed(values: list[str]) -> str:
    return "[" + "; ".join(values) + "]"


def setting(trace: Trace, capacity: int, variant: Variant) -> str:
    flags = (variant.serves_first, variant.stream, variant.free_fill)
    return (
        f"(Setting {listed([str(size) for size in trace.sizes])} {capacity} "
        + " ".join(str(flag).lower() for flag in flags)
        + f" {variant.top_k} {utility_scale(trace.quality_scale, variant)} "
        + f"{str(variant.aggregator == 'coverage').lower()})"
    )


def queries(trace: Trace) -> str:
    rows = []
    for t in range(trace.n_steps):
        a, b = int(trace.indptr[t]), int(trace.indptr[t + 1])
        # without a score the retriever ranks by quality
        ranks = trace.quality_scale - trace.quality if trace.ranks is None else trace.ranks
        row = [f"Entry {trace.items[x]} {trace.quality[x]} {ranks[x]}" for x in range(a, b)]
        arrival = "None" if trace.arrivals[t] < 0 else f"(Some {trace.arrivals[t]}%nat)"
        rows.append(f"Query {listed(row)} {trace.weight[t]} {arrival}")
    return listed(rows)


def changes(schedule: Schedule) -> str:
    def part(ptr: np.ndarray, items: np.ndarray, t: int) -> str:
        return listed([f"{i}%nat" for i in items[ptr[t] : ptr[t + 1]].tolist()])

    return listed(
        [
            f"Change {part(schedule.leave_ptr, schedule.leave_items, t)} "
            f"{part(schedule.enter_ptr, schedule.enter_items, t)}"
            for t in range(schedule.n_steps)
        ]
    )


def numbers(paid: Cost, trace: Trace, variant: Variant, lam: Fraction) -> list[int]:
    """Miss units, inserted size, and the cost in units of 1/(full q), q the denominator of lambda."""
    full = utility_scale(trace.quality_scale, variant)
    priced = paid.fraction * full * lam.denominator
    assert priced.denominator == 1
    return [int(Fraction(paid.misses) * full), paid.insertions, int(priced)]


def variants() -> Iterator[Variant]:
    for number in itertools.count():
        order = ("serve_then_update", "update_then_serve")[number % 2]
        availability, fill = ("stream", "pool")[number // 2 % 2], ("free", "charged")[number // 4 % 2]
        yield Variant(order, availability, fill, *SERVED[number % len(SERVED)])


def gated_cases(count: int) -> Iterator[Case]:
    """gated_lru on random traces of unit sizes, any variant."""
    rng = np.random.default_rng(11)
    for number, variant in zip(range(count), variants(), strict=False):
        kind = ("requests", "soft", "hard", "scored", "classes")[number % 5]
        trace, capacity, lam = instances.random_instance(rng, kind, max_steps=40)
        full = utility_scale(trace.quality_scale, variant)
        theta = int(rng.integers(0, 3 * full))
        spec = f"gated_lru(theta={Fraction(theta, full)})"
        schedule = simulate(spec, trace, capacity, lam, variant=variant)
        paid = cost(schedule, trace, capacity, lam, variant)
        yield Case(
            f"let s := {setting(trace, capacity, variant)} in let tr := {queries(trace)} in "
            f"priced s {lam.numerator} {lam.denominator} tr (gated_lru_schedule s {theta} tr)",
            numbers(paid, trace, variant, lam),
            f"gated_lru, {kind} {number}, {variant.label}",
        )


def paging_cases(count: int) -> Iterator[Case]:
    """FIFO and LRU on cycles and on random requests; the static schedule; the optimum of a cycle."""
    rng = np.random.default_rng(12)
    for number in range(count):
        k = int(rng.integers(1, 6))
        w = int(rng.integers(k + 1, 2 * k + 3))
        steps = int(rng.integers(1, 50))
        lam = Fraction(int(rng.integers(0, 8)), int(rng.choice([1, 2, 3])))
        p, q, s = lam.numerator, lam.denominator, f"(paper {w} {k})"
        asked = [t % w for t in range(steps)] if number % 2 else rng.integers(0, w, steps).tolist()
        # qualities in units of 1, as in B1.v
        trace = from_requests(asked, n_items=w)
        for name in ("fifo", "lru"):
            paid = cost(simulate(name, trace, k, lam), trace, k, lam)
            yield Case(
                f"let l := {listed([f'{i}%nat' for i in asked])} in "
                f"priced {s} {p} {q} (map hard l) (follow ({name} {k}) [] l)",
                [int(paid.misses), paid.insertions, int(paid.fraction * q)],
                f"{name}, requests {number}",
            )
        if number % 2:
            best = solve(trace, k, lam).cost.fraction
            yield Case(
                f"Z.of_nat (opt {w} {k} {steps}) :: "
                f"priced {s} {p} {q} (cycle {w} {steps}) (static {k} {steps})",
                [int(best), int(best), min(k, steps), int(best * q)],
                f"optimum of a cycle, {number}",
            )


def random_schedule(rng: np.random.Generator, trace: Trace, capacity: int, variant: Variant) -> Schedule:
    """Anything that keeps the rules; also an item that leaves and enters again at one step."""
    held: list[int] = []
    events: list[list[int]] = [[], [], [], []]
    for t in range(trace.n_steps):
        for i in [i for i in held if rng.random() < 0.3]:
            held.remove(i)
            events[0].append(t)
            events[1].append(i)
        candidates = [int(trace.arrivals[t])] if variant.stream else rng.permutation(trace.n_items).tolist()
        for i in candidates:
            used = sum(int(trace.sizes[j]) for j in held)
            if i >= 0 and i not in held and used + trace.sizes[i] <= capacity and rng.random() < 0.7:
                held.append(i)
                events[2].append(t)
                events[3].append(i)
    return Schedule.from_events(trace.n_steps, *events)


def bound_cases(count: int) -> Iterator[Case]:
    """Costs of random schedules; the checker's bound of random prices, as it is and rounded to the grid."""
    rng = np.random.default_rng(13)
    for number, variant in zip(range(count), variants(), strict=False):
        kind = ("soft", "sized", "scored", "requests")[number // 2 % 4]
        trace, capacity, lam = instances.random_instance(rng, kind, max_steps=16)
        schedule = random_schedule(rng, trace, capacity, variant)
        paid = cost(schedule, trace, capacity, lam, variant)
        where = f"{kind} {number}, {variant.label}"
        given = f"let s := {setting(trace, capacity, variant)} in let tr := {queries(trace)} in "
        yield Case(
            given + f"priced s {lam.numerator} {lam.denominator} tr {changes(schedule)}",
            numbers(paid, trace, variant, lam),
            f"cost of a schedule, {where}",
        )
        full = utility_scale(trace.quality_scale, variant)
        unit = Fraction(int(rng.integers(1, 4)), full * int(rng.integers(1, 4)))
        high = int(rng.choice([0.05, 0.3, 1.0]) / unit)
        slot, serve = (
            [int(rng.integers(0, high)) if rng.random() < 0.4 else 0 for _ in range(trace.n_steps)]
            for _ in range(2)
        )
        entry = int(rng.random() * float(lam / unit))
        weights = trace.weight.tolist()
        credit = [int(rng.random() * w / unit) for w in weights] if number % 3 else None
        prices = Prices(
            np.array(slot, dtype=object),
            np.array(serve, dtype=object),
            entry,
            unit,
            np.array(credit, dtype=object) if credit and variant.aggregator == "coverage" else None,
        )
        draft = make_certificate(trace, capacity, lam, variant, schedule, prices)
        instance = Instance.from_bytes(canonical_bytes(trace))
        grid = cost_grid(trace, capacity, lam, variant)
        low, rounded = (checked(draft, instance, g) for g in (Fraction(0), grid))
        scale = math.lcm(unit.denominator, full)
        factor = unit.numerator * (scale // unit.denominator)
        credits = (
            [w * scale for w in weights] if prices.credit is None else [c * factor for c in prices.credit]
        )
        tags = listed(
            [f"Tag {a * factor} {b * factor} {c}" for a, b, c in zip(slot, serve, credits, strict=True)]
        )
        fraction = f"{grid.numerator or 1} {grid.denominator}"
        yield Case(
            given + f"let low := bound s {scale // full} {entry * factor} {tags} tr in "
            f"[low; if check_grid s {lam.numerator} {lam.denominator} {fraction} tr then 1 else 0;"
            f" rounded s {scale // full} {fraction} low]",
            [int(low * scale), 1, int(rounded / grid)],
            f"lower bound, {where}",
        )


def checked(certificate: Certificate, instance: Instance, grid: Fraction) -> Fraction:
    """The lower bound that the checker computes from the prices, rounded up to a grid (0: not)."""
    contents = contents_of(certificate)
    return evaluate(type(contents)(**{**vars(contents), "grid": grid}), instance)[0]


@cache
def all_cases() -> list[Case]:
    return [*gated_cases(40), *paging_cases(14), *bound_cases(50)]


def disagreements(cases: list[Case], found: list[list[int]]) -> list[str]:
    return [
        f"{case.what}: Coq {got}, Python {case.numbers}"
        for case, got in zip(cases, found, strict=True)
        if got != case.numbers
    ]


def test_coq_and_python_compute_the_same_numbers(tmp_path):
    cases = all_cases()
    assert len(cases) >= 100
    assert disagreements(cases, evaluated(tmp_path, cases)) == []
    # the comparison has something to see: replacements, hits, bounds above 0
    gated = [case.numbers for case in cases if case.what.startswith("gated_lru")]
    assert sum(inserted > 5 for _, inserted, _ in gated) > 10
    assert sum(case.numbers[0] > 0 for case in cases if case.what.startswith("lower bound")) > 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("Model", "Z.max 0 (inserted - capacity s)", "(inserted - capacity s)"),
        ("Model", "(if serves_first s then cache else held) + m,", "cache + m,"),
        ("Model", "if rank e <=? rank f then", "if rank e <? rank f then"),
        ("A1", "(rest ++ [x], put x 0 counters, Change [v] [x])", "(rest ++ [x], counters, Change [v] [x])"),
        ("B1", "(drop x cache ++ [x], Change [] [])", "(cache, Change [] [])"),
        ("E2", "else units.", "else units - 1."),
        ("E2", "if y <=? x then x :: l else", "if x <=? y then x :: l else"),
        ("E2", "- ((- (amount * part)) / unit)", "amount * part / unit"),
        ("E2", "let chance := if may e then Some (hold e) else", "let chance := if may e then Some 0 else"),
        (
            "E2",
            "tr', p :: ps' =>\n      Event (if serves_first s then ready else",
            "tr', p :: ps' =>\n      Event (if false then ready else",
        ),
    ],
)
def test_a_changed_definition_disagrees(tmp_path, file, old, new):
    cases = all_cases()
    assert disagreements(cases, evaluated(tmp_path, cases, {file: (old, new)}))
