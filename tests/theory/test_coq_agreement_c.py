"""What the Coq files of C1, C2, C3 and C9 compute is what the Python code computes.

One file of `Eval vm_compute` commands, run once; each answer is compared with softhit, offline_opt or theory.
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offline_opt import solve
from softhit import (
    InvalidSchedule,
    Schedule,
    Session,
    Trace,
    Variant,
    cost,
    from_arrays,
    from_requests,
    simulate,
)
from theory.two_states import bank

pytestmark = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
FILES = ("Paging", "C1", "C2", "C3", "C9")
HEADER = """
Require Import List Arith ZArith Bool.
Require Import Paging C1 C2.
Require C3 C9.
Import ListNotations.
Set Printing Width 1000000.
Set Printing Depth 1000000.
Definition plain (l : list (nat * action)) := map (fun p => (fst p, leaves (snd p), enters (snd p))) l.

(* The last k distinct items of a history, and LRU as a function of the requests so far. *)
Fixpoint recent (k : nat) (seen h : list nat) : list nat :=
  match h with
  | [] => []
  | x :: r => if held x seen then recent k seen r
              else match k with 0 => [] | S k' => x :: recent k' (x :: seen) r end
  end.
Definition lru (K : nat) (h : list nat) : action :=
  match h with
  | [] => idle
  | q :: r => let c := recent K [] r in
              if held q c then idle
              else if length c <? K then Act [] [q] else Act [last c 0] [q]
  end.
Definition summary (x : option (list nat * nat * nat)) :=
  match x with Some (_, m, z) => [m; z] | None => [] end.
"""
VARIANTS = [
    (order == "serve_then_update", availability == "stream", Variant(order, availability, "charged"))
    for order, availability in product(("serve_then_update", "update_then_serve"), ("stream", "pool"))
]
Events = list[tuple[int, list[int], list[int]]]


@dataclass(frozen=True)
class Case:
    """A term of Coq, and what is to be true of its value."""

    name: str
    term: str
    judge: Callable[[Any], None]


def equals(want: Any) -> Callable[[Any], None]:
    def judge(got: Any) -> None:
        assert got == want

    return judge


def listed(items: Any) -> str:
    return "[" + "; ".join(str(int(i)) for i in items) + "]"


def acted(events: Events) -> str:
    return "[" + "; ".join(f"({q}, Act {listed(out)} {listed(into)})" for q, out, into in events) + "]"


def flag(value: bool) -> str:
    return "true" if value else "false"


def scheduled(leaves: list[list[int]], enters: list[list[int]]) -> Schedule:
    def flat(per_step: list[list[int]]) -> tuple[list[int], list[int]]:
        return [t for t, row in enumerate(per_step) for _ in row], [i for row in per_step for i in row]

    return Schedule.from_events(len(leaves), *flat(leaves), *flat(enters))


def counted(events: Events, capacity: int, variant: Variant) -> list[int]:
    """What softhit says of a schedule: [misses, insertions], or [] where verify raises."""
    trace = from_requests(np.array([q for q, _, _ in events], int), n_items=8)
    schedule = scheduled([out for _, out, _ in events], [into for _, _, into in events])
    try:
        paid = cost(schedule, trace, capacity, 1, variant)
    except InvalidSchedule:
        return []
    return [paid.miss_units // trace.quality_scale, paid.insertions]


def random_events(rng: np.random.Generator, capacity: int, stream: bool) -> Events:
    """Mostly within the rules, so that both answers of verify occur."""
    held: list[int] = []
    events: Events = []
    for _ in range(int(rng.integers(0, 12))):
        q = int(rng.integers(0, 4))
        out = [i for i in held if rng.random() < 0.3]
        if rng.random() < 0.03:
            out.append(int(rng.integers(0, 4)))
        held = [i for i in held if i not in out]
        wish = [q] if stream else [int(i) for i in rng.permutation(4)[:2]]
        into = [i for i in wish if i not in held and rng.random() < 0.7]
        if rng.random() < 0.95:
            into = into[: max(0, capacity - len(held))]
        held += into
        events.append((q, out, into))
    return events


def schedules() -> Iterator[Case]:
    rng = np.random.default_rng(101)
    for n in range(32):
        serves_first, stream, variant = VARIANTS[n % 4]
        capacity = int(rng.integers(1, 4))
        events = random_events(rng, capacity, stream)
        yield Case(
            f"schedule {n}",
            f"summary (run (Variant {flag(serves_first)} {flag(stream)}) {capacity} [] {acted(events)})",
            equals(counted(events, capacity, variant)),
        )


def phase_openings(asked: list[int], k: int) -> int:
    seen: set[int] = set()
    count = 0
    for x in asked:
        if x not in seen and len(seen) == k:
            seen, count = set(), count + 1
        seen.add(x)
    return count


def phases() -> Iterator[Case]:
    """The schedule that Coq computes goes through verify and cost, and lies between OPT and the bound."""
    rng = np.random.default_rng(102)
    for n in range(16):
        serves_first, _, variant = VARIANTS[(0, 2)[n % 2]]
        k, lam = int(rng.integers(1, 5)), Fraction(int(rng.integers(1, 8)), int(rng.integers(1, 4)))
        tau = ceil(lam) + serves_first
        asked = rng.integers(0, k + 1, int(rng.integers(0, 14))).tolist()
        requests = [q for x in asked for q in [x] * tau]
        bound = ((1 if serves_first else 0) + lam) * (k + phase_openings(asked, k))

        def judge(
            got: Any,
            k: int = k,
            lam: Fraction = lam,
            variant: Variant = variant,
            requests: list[int] = requests,
            bound: Fraction = bound,
        ) -> None:
            events, summary = got
            assert [q for q, _, _ in events] == requests
            assert counted(events, k, variant) == summary
            paid = summary[0] + lam * summary[1]
            assert paid <= bound
            trace = from_requests(np.array(requests, int), n_items=k + 1)
            assert solve(trace, k, lam, variant).cost.fraction <= paid

        v, price = f"(Variant {flag(serves_first)} true)", f"{lam.denominator} {lam.numerator}"
        s = f"(phase_schedule {k} (tau_of {v} {price}) [] {listed(asked)})"
        yield Case(f"phases {n}", f"(plain {s}, summary (run {v} {k} [] {s}))", judge)
        yield Case(f"openings {n}", f"openings {k} [] {listed(asked)}", equals(phase_openings(asked, k)))


def early() -> Iterator[Case]:
    rng = np.random.default_rng(103)
    for n in range(6):
        k, lam = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        asked = rng.integers(0, k + 1, int(rng.integers(1, 12))).tolist()
        bound = 1 + lam * (k + phase_openings(asked, k))

        def judge(got: Any, k: int = k, lam: int = lam, bound: int = bound) -> None:
            events, summary = got
            assert counted(events, k, Variant(availability="pool", fill="charged")) == summary
            assert summary[0] + lam * summary[1] <= bound

        s = f"(early_schedule {k} (tau_stu 1 {lam}) {listed(asked)})"
        yield Case(f"early {n}", f"(plain {s}, summary (run stu_pool {k} [] {s}))", judge)


def harmonics() -> Iterator[Case]:
    for k in range(1, 7):
        h = sum(Fraction(factorial(k), i) for i in range(1, k + 1))
        yield Case(f"harmonic {k}", f"harmonic {k} {k}", equals(h))


def played(capacity: int, tau: int, n: int) -> list[int]:
    """The missing-item adversary against softhit's LRU: the blocks it asks for."""
    session = Session("lru", capacity + 1, capacity)
    asked = []
    for _ in range(n):
        x = next(i for i in range(capacity + 1) if not session.holds(i))
        asked.append(x)
        for _ in range(tau):
            session.step([x], [10_000], arrival=x)
    return asked


def policies() -> Iterator[Case]:
    """LRU as a function of the history costs what softhit's LRU costs; the adversary asks it for the same."""
    rng = np.random.default_rng(104)
    for n in range(8):
        k, tau = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        asked = rng.integers(0, k + 1, 12).tolist()
        trace = from_requests(np.repeat(asked, tau), n_items=k + 1)
        paid = cost(simulate("lru", trace, k, 1), trace, k, 1)
        yield Case(
            f"lru {n}",
            f"summary (play (Variant true true) {k} {tau} (lru {k}) [] [] {listed(asked)})",
            equals([paid.miss_units // trace.quality_scale, paid.insertions]),
        )
        yield Case(
            f"adversary {n}",
            f"adversary (Variant true true) {k} {tau} (lru {k}) [] [] 10",
            equals(played(k, tau, 10)),
        )


def two_states(tasks: list[tuple[int, int]], unit: int) -> Trace:
    """Item 0 is configuration A, item 1 is B; step 0 is for entering A, and dear to whoever does not."""
    quality = [[1.0, 0.0]] + [[1 - a / unit, 1 - b / unit] for a, b in tasks]
    return from_arrays(quality, weight=[1000] + [1] * len(tasks), quality_scale=unit)


def in_states(states: list[int]) -> Schedule:
    """Enter A at step 0, then be where the states say."""
    moves = list(pairwise([0, *states]))
    return scheduled(
        [[]] + [[a] if a != b else [] for a, b in moves], [[0]] + [[b] if a != b else [] for a, b in moves]
    )


def banks() -> Iterator[Case]:
    """Costs of schedules against softhit.cost, the optimum against offline_opt, the bank against theory."""
    rng = np.random.default_rng(105)
    unit = 6
    for n in range(16):
        move = int(rng.integers(1, 9))
        tasks = rng.integers(0, unit + 1, (int(rng.integers(1, 12)), 2))
        tasks *= rng.random(tasks.shape) < 0.7
        pairs = [(int(a), int(b)) for a, b in tasks]
        states = rng.integers(0, 2, len(pairs)).tolist()
        term = "[" + "; ".join(f"({a}, {b})" for a, b in pairs) + "]%Z"
        where = "[" + "; ".join(flag(s == 0) for s in states) + "]"
        trace, lam = two_states(pairs, unit), Fraction(move, unit)

        def pays(
            order: str, trace: Trace = trace, states: list[int] = states, lam: Fraction = lam
        ) -> Fraction:
            variant = Variant(order, "pool", "charged")
            entering = lam + (1000 if order == "serve_then_update" else 0)
            return unit * (cost(in_states(states), trace, 1, lam, variant).fraction - entering)

        best = solve(trace, 1, lam, Variant("update_then_serve", "pool", "charged")).cost.fraction
        want = [
            pays("update_then_serve"),
            pays("serve_then_update"),
            unit * (best - lam),
            bank(pairs, move, 2 * move),
            bank(pairs, move, 2 * move, serves_first=True),
        ]
        calls = [
            f"C3.cost_uts {move} true {term} {where}",
            f"C3.cost_stu {move} true {term} {where}",
            f"C3.optimum {move} {term}",
            f"C3.bank_cost true {move} {term}",
            f"C3.bank_cost false {move} {term}",
        ]
        yield Case(f"bank {n}", "[" + "; ".join(calls) + "]", equals(want))


def cruelty() -> Iterator[Case]:
    """The opponent that charges the policy's state, against policies that move every k-th step."""
    for k, move in product((1, 2, 5), (1, 4)):
        state, steps, paid = 0, [], 0
        for t in range(1, 13):
            steps.append((1, 0) if state == 0 else (0, 1))
            after = t // k % 2
            paid += move * (after != state) + steps[-1][after]
            state = after
        term = f"(C3.cruel (fun h => Nat.even (length h / {k})) [] true 12)"
        yield Case(
            f"cruel {k} {move}",
            f"({term}, C3.cost_uts {move} true {term} "
            f"(C3.chosen (fun h => Nat.even (length h / {k})) [] {term}))",
            equals((steps, paid)),
        )


def refresh(costs: list[list[int]], price: int, choices: list[bool] | None) -> int:
    """Play the refresh model: costs[t][u] at step t for content of step u; None: the policy's choices."""
    total = since = last = 0
    for t in range(1, len(costs)):
        total += costs[t][last]
        since += costs[t][last]
        if since >= price if choices is None else choices[t - 1]:
            total, since, last = total + price, 0, t
    return total


def refreshes() -> Iterator[Case]:
    rng = np.random.default_rng(106)
    for n in range(8):
        length, price = int(rng.integers(1, 9)), int(rng.integers(1, 7))
        costs = [[]] + [sorted(rng.integers(0, 4, t).tolist(), reverse=True) for t in range(1, length + 1)]
        choices = (rng.random(length) < 0.3).tolist()
        table = "[" + "; ".join(listed(row) for row in costs) + "]"
        c = f"(fun t u => nth u (nth t {table} []) 0)"
        where = "[" + "; ".join(map(flag, choices)) + "]"
        yield Case(
            f"refresh {n}",
            f"[C9.cost {c} {price} 1 0 {where}; "
            f"C9.cost {c} {price} 1 0 (C9.policy {c} {price} 1 0 0 {length})]",
            equals([refresh(costs, price, choices), refresh(costs, price, None)]),
        )


CASES = [
    case
    for cases in (schedules, phases, early, harmonics, policies, banks, cruelty, refreshes)
    for case in cases()
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Compile the files in a fresh folder, evaluate all terms, and read what Coq prints."""
    folder = tmp_path_factory.mktemp("coq")

    def coqc(name: str) -> str:
        done = subprocess.run(
            ["coqc", "-q", "-R", ".", "Softhit", f"{name}.v"], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for name in FILES:
        shutil.copy(PROOFS / f"{name}.v", folder)
        coqc(name)
    commands = "".join(f"Eval vm_compute in ({case.term}).\n" for case in CASES)
    (folder / "Agreement.v").write_text(HEADER + commands)
    printed = re.findall(r"^     = (.*)$", coqc("Agreement"), re.MULTILINE)
    return [ast.literal_eval(re.sub(r"%(Z|nat|list)", "", text).replace(";", ",")) for text in printed]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.name for case in CASES])
def test_coq_and_python_compute_the_same(answers: list[Any], index: int) -> None:
    assert len(answers) == len(CASES)
    CASES[index].judge(answers[index])


def test_the_schedules_tried_are_of_both_kinds_in_every_variant() -> None:
    rng = np.random.default_rng(101)
    verdicts = set()
    for n in range(32):
        _, stream, variant = VARIANTS[n % 4]
        capacity = int(rng.integers(1, 4))
        verdicts.add((n % 4, bool(counted(random_events(rng, capacity, stream), capacity, variant))))
    assert verdicts == set(product(range(4), (False, True)))
