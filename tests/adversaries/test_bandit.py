"""The eviction game: exact laws of the draws, policies against plain Python, regret against closed forms.

Statistical tests reject a correct program with probability 10^-6 each, and their seeds are fixed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from adversaries.bandit import POLICIES, one_good, play
from adversaries.bandit.bayes import least_bayes_regret
from adversaries.bandit.clique import expected_loss, play_matrix, play_means, rates
from adversaries.bandit.grid import Cell, full_grid, run_cell
from adversaries.bandit.posterior import draw_beta, fits, log_density, tangent
from adversaries.bandit.thompson import arrange, lowest_below
from softhit.errors import InvalidInput
from softhit.jit import jit

ERROR = 1e-6
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


@jit
def beta_draws(rng, losses, others, n):
    found = np.empty(n)
    for i in range(n):
        found[i] = draw_beta(rng, losses, others)
    return found


@jit
def draws_below(rng, losses, others, x, n):
    """What a candidate leaves of n draws: those below x, and -1 for each of the others."""
    p, slope = tangent(losses, others, x)
    found = np.full(n, -1.0)
    for i in range(n):
        if rng.random() < p:
            z = x - rng.standard_exponential() / slope
            if fits(rng, losses, others, x, slope, z):
                found[i] = z
    return found


@jit
def winners(rng, losses, others, x, n):
    """How often each arm has the lowest draw, at level x; and the work."""
    state = arrange(losses, others, x)
    rate, slope, hot, place, seen, n_hot = state
    count, work = np.zeros(len(losses), np.int64), np.zeros(3, np.int64)
    for t in range(n):
        count[lowest_below(rng, losses, others, x, rate, slope, hot, place, n_hot, seen, t, work)] += 1
    return count, work


def chance_of_lowest(losses, others):
    """Probability that each arm has the lowest of independent Beta draws, by quadrature."""
    laws = [stats.beta(1 + a, 1 + b) for a, b in zip(losses, others, strict=True)]
    chance = []
    for law in laws:
        low, high = law.ppf(1e-13), law.isf(1e-13)
        z = (NODES + 1) / 2 * (high - low) + low
        log = law.logpdf(z) + sum(other.logsf(z) for other in laws if other is not law)
        chance.append(float((WEIGHTS * np.exp(log)).sum() * (high - low) / 2))
    assert sum(chance) == pytest.approx(1, abs=1e-9)
    return np.array(chance)


@pytest.mark.parametrize(
    ("losses", "others"), [(0, 0), (0, 9), (3, 1), (40, 55), (5_000, 200), (10**6, 10**6)]
)
def test_a_beta_draw_has_the_law_of_scipy(losses, others):
    drawn = beta_draws(np.random.default_rng(losses + others), float(losses), float(others), 40_000)
    assert stats.kstest(drawn, stats.beta(1 + losses, 1 + others).cdf).pvalue > ERROR


@pytest.mark.parametrize(
    ("losses", "others"), [(1, 0), (2, 3), (14, 15), (40, 55), (5_000, 200), (10**6, 10**6)]
)
@pytest.mark.parametrize("share", [0.001, 0.05, 0.2])
def test_candidates_below_a_level_are_the_draws_below_it(losses, others, share):
    law = stats.beta(1 + losses, 1 + others)
    x = float(law.ppf(share))
    n = round(20_000 / share)
    assert tangent(float(losses), float(others), x)[0] < 1
    found = draws_below(np.random.default_rng([losses, others]), float(losses), float(others), x, n)
    below = found[found >= 0]
    assert stats.binomtest(len(below), n, share).pvalue > ERROR
    assert stats.kstest(below, lambda z: law.cdf(z) / share).pvalue > ERROR


@pytest.mark.parametrize(
    ("losses", "others"), [(0, 0), (0, 7), (7, 0), (3, 4), (14, 15), (15, 16), (70, 900)]
)
@pytest.mark.parametrize("x", [1e-6, 0.02, 0.3, 0.5, 0.99])
def test_the_density_is_that_of_scipy(losses, others, x):
    want = stats.beta(1 + losses, 1 + others).logpdf(x)
    assert log_density(float(losses), float(others), x) == pytest.approx(want, rel=1e-12, abs=1e-11)


def test_the_density_is_exact_to_nine_digits_after_two_million_rounds():
    n = 10**6
    # C(2n, n) / 4^n by its Wallis series, whose next term is below 1e-24
    r = Fraction(1, n)
    central = 1 - r / 8 + r**2 / 128 + 5 * r**3 / 1024
    want = math.log(2 * n + 1) - 0.5 * math.log(math.pi * n) + math.log(central)
    assert log_density(float(n), float(n), 0.5) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("size", [2, 7, 33])
@pytest.mark.parametrize("pulls", [2, 30, 4_000])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.6, 0.98, 1.0])
def test_the_winner_has_the_law_of_the_lowest_draw_at_any_level(size, pulls, share):
    rng = np.random.default_rng([size, pulls])
    n = rng.integers(max(1, pulls // 3), pulls + 1, size)
    means = np.clip(0.5 + rng.normal(0, 0.8, size) / np.sqrt(pulls), 0.05, 0.95)
    losses = rng.binomial(n, means).astype(float)
    others = n - losses
    lows = rng.beta(1 + losses, 1 + others, (4_000, size)).min(axis=1)
    x = float(np.quantile(lows, share))
    count, work = winners(rng, losses, others, x, 100_000)
    want = 100_000 * chance_of_lowest(losses, others)
    often = want > 8
    got = [*count[often], count[~often].sum()]
    expected = [*want[often], want[~often].sum()]
    if expected[-1] < 8:
        expected[-2] += expected.pop()
        got[-2] += got.pop()
    assert stats.chisquare(got, np.array(expected) * sum(got) / sum(expected)).pvalue > ERROR
    assert work[0] + work[1] + work[2] > 0


def plain_thompson(means, rounds, rng):
    """Thompson sampling as one would write it down."""
    a, b = np.ones(len(means)), np.ones(len(means))
    count = np.zeros(len(means), int)
    for _ in range(rounds):
        j = int(np.argmin(rng.beta(a, b)))
        loss = rng.random() < means[j]
        a[j] += loss
        b[j] += 1 - loss
        count[j] += 1
    return count


def test_thompson_evicts_as_often_as_plain_python_does():
    means = one_good(6, 0.2)
    ours = [play("thompson", means, 80, [1, run]).pulls[0, 0] for run in range(1_000)]
    theirs = [plain_thompson(means, 80, np.random.default_rng([2, run]))[0] for run in range(1_000)]
    assert stats.ks_2samp(ours, theirs).pvalue > ERROR
    assert abs(np.mean(ours) - np.mean(theirs)) < 5 * math.sqrt((np.var(ours) + np.var(theirs)) / 1_000)


@pytest.mark.parametrize(("k", "rounds"), [(5, 2_000), (40, 1_500)])
def test_skipping_draws_changes_no_law(k, rounds):
    means = one_good(k, 2 * math.sqrt(k / rounds) if k < 40 else 0.25)
    fast = [play("thompson", means, rounds, [3, run]) for run in range(400)]
    slow = [play("thompson_plain", means, rounds, [4, run]) for run in range(400)]
    a, b = ([one.pulls[0, 0] for one in many] for many in (fast, slow))
    assert stats.ks_2samp(a, b).pvalue > ERROR
    assert all(one.work.sum() == k * rounds for one in slow)
    if k == 40:
        assert sum(int(one.work.sum()) for one in fast) < 0.5 * 400 * k * rounds


def test_two_rounds_of_thompson_have_the_chances_that_rational_arithmetic_gives():
    # After a loss of arm 1 its posterior is Beta(2, 1): P(Beta(2,1) < Beta(1,1)) = E[1 - X] = 1/3;
    # after a hit Beta(1, 2): 2/3. So the same slot twice: 1/3 mu + 2/3 (1 - mu), averaged over the first.
    mu = [0.25, 0.75]
    same = np.mean([m / 3 + 2 * (1 - m) / 3 for m in mu])
    got = sum(2 in play("thompson", mu, 2, [5, run]).pulls[0] for run in range(20_000))
    assert stats.binomtest(got, 20_000, float(same)).pvalue > ERROR


def plain_index_policy(policy, means, rounds, rng):
    """UCB1 or the lowest posterior mean in plain Python, on the same stream of numbers."""
    order = rng.permutation(len(means))
    means = np.asarray(means)[order]
    losses, count = [0] * len(means), [0] * len(means)
    for t in range(rounds):
        if policy == "ucb1":
            index = [
                losses[j] / count[j] - math.sqrt(2 * math.log(t) / count[j]) if t >= len(means) else -math.inf
                for j in range(len(means))
            ]
            j = index.index(min(index)) if t >= len(means) else t
        else:
            index = [(1 + losses[j]) / (2 + count[j]) for j in range(len(means))]
            j = index.index(min(index))
        losses[j] += bool(rng.random() < means[j])
        count[j] += 1
    back = np.empty(len(means), int)
    back[order] = count
    return back.tolist()


@pytest.mark.parametrize("policy", ["ucb1", "lowest_posterior_mean"])
@pytest.mark.parametrize("k", [1, 2, 9])
def test_index_policies_evict_exactly_what_plain_python_does(policy, k):
    means = np.linspace(0.2, 0.8, k)
    for seed in range(20):
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        assert play(policy, means, 300, seed).pulls[0].tolist() == plain_index_policy(policy, means, 300, rng)


def test_uniform_eviction_has_the_regret_of_its_closed_form():
    means = np.array([0.1, 0.3, 0.6])
    regret = [play("uniform", means, [100, 1_000], [6, run]).regret for run in range(500)]
    for at, rounds in enumerate((100, 1_000)):
        values = [r[at] for r in regret]
        want = rounds * float((means - 0.1).mean())
        spread = math.sqrt(rounds * float(np.var(means)) / 500)
        assert abs(np.mean(values) - want) < 5 * spread
        assert abs(np.mean(values) - want) < 0.05 * want


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_round_evicts_one_slot_and_marks_only_count(policy):
    many = play(policy, one_good(5, 0.1), [1, 2, 10, 400], 7)
    assert many.pulls.sum(axis=1).tolist() == [1, 2, 10, 400]
    assert (np.diff(many.pulls, axis=0) >= 0).all()
    assert play(policy, one_good(5, 0.1), 400, 7).pulls[0].tolist() == many.pulls[-1].tolist()
    assert many.regret == pytest.approx(0.1 * (np.array([1, 2, 10, 400]) - many.pulls[:, 0]))


@pytest.mark.parametrize("policy", list(POLICIES))
def test_one_slot_has_no_regret(policy):
    assert play(policy, [0.3], 20).regret.tolist() == [0.0]


def test_wrong_games_are_refused_by_name():
    with pytest.raises(InvalidInput, match="policy"):
        play("tompson", [0.5], 3)
    for means in ([], [0.5, 1.5], [[0.5]], [float("nan")]):
        with pytest.raises(InvalidInput, match="means"):
            play("uniform", means, 3)
    for marks in (0, [5, 5], [9, 3]):
        with pytest.raises(InvalidInput, match="marks"):
            play("uniform", [0.5], marks)


def test_the_full_grid_starts_with_what_it_promises_and_reaches_a_million_rounds():
    cells = list(full_grid())
    assert len(set(cells)) == len(cells)
    assert {cell.k for cell in cells} == {2, 4, 8, 16, 32, 64, 128, 256}
    inside = [c for c in cells if 200 * c.k * c.marks[-1] <= 3.3e9 and c.kind == "hard"]
    assert max(c.marks[-1] for c in inside if c.k == 16) == 10**6
    assert all(0 < c.gap <= 0.4 for c in cells)
    first_outside = next(i for i, c in enumerate(cells) if 200 * c.k * c.marks[-1] > 3.3e9)
    assert all(200 * c.k * c.marks[-1] > 3.3e9 for c in cells[first_outside:])


def test_a_cell_is_the_same_each_time_and_other_runs_differ():
    cell = Cell("hard", 4, (500,), 2.0)
    one = run_cell(cell, 5)
    assert one.tolist() == run_cell(cell, 5).tolist()
    assert len(set(one[:, 0].tolist())) > 1
    assert one.tolist() != run_cell(cell, 5, seed=1).tolist()


def least_by_game_tree(k, rounds, gap, history=()):
    """Minimum over all decision trees; a history weighs its chance under each good slot."""
    half = Fraction(1, 2)
    chance = []
    for good in range(k):
        p = Fraction(1, k)
        for slot, loss in history:
            of = half - (gap if slot == good else 0)
            p *= of if loss else 1 - of
        chance.append(p)
    if len(history) == rounds:
        return Fraction(0)
    return min(
        gap * sum(chance[:slot] + chance[slot + 1 :])
        + sum(least_by_game_tree(k, rounds, gap, (*history, (slot, loss))) for loss in (0, 1))
        for slot in range(k)
    )


@pytest.mark.parametrize(("k", "rounds"), [(1, 3), (2, 1), (2, 2), (2, 5), (3, 1), (3, 2), (3, 3), (4, 2)])
@pytest.mark.parametrize("gap", [Fraction(0), Fraction(1, 7), Fraction(1, 4), Fraction(1, 2)])
def test_the_least_bayes_regret_is_that_of_the_best_decision_tree(k, rounds, gap):
    assert least_bayes_regret(k, rounds, gap) == least_by_game_tree(k, rounds, gap)


def test_the_least_bayes_regret_is_below_that_of_every_policy_here():
    gap, rounds = Fraction(1, 5), 20
    least = float(least_bayes_regret(2, rounds, gap))
    for policy in ("thompson", "uniform", "ucb1", "lowest_posterior_mean"):
        regret = [play(policy, one_good(2, 0.2), rounds, [8, run]).regret[0] for run in range(2_000)]
        assert np.mean(regret) > least - 5 * np.std(regret) / math.sqrt(2_000)
    with pytest.raises(InvalidInput, match="gap"):
        least_bayes_regret(2, 3, Fraction(3, 4))


def plain_clique(losses, eta, gamma, total=None, t=0):
    """Expected loss of exponential weights by recursion over what is evicted, in plain Python."""
    if t == len(losses):
        return 0.0
    k = len(losses[0])
    total = total or [0.0] * k
    mass = sum(math.exp(-eta * x) for x in total)
    p = [(1 - gamma) * math.exp(-eta * x) / mass + gamma / k for x in total]
    answer = 0.0
    for gone in range(k):
        later = [x + (losses[t][i] / (1 - p[i]) if i != gone else 0) for i, x in enumerate(total)]
        answer += p[gone] * (losses[t][gone] + plain_clique(losses, eta, gamma, later, t + 1))
    return answer


@pytest.mark.parametrize(("k", "rounds"), [(2, 1), (2, 7), (3, 4), (4, 3)])
def test_the_expected_loss_on_the_clique_is_that_of_all_evictions(k, rounds):
    losses = np.random.default_rng([k, rounds]).random((rounds, k))
    for eta in (0.02, 0.25):
        got = expected_loss(losses, eta, 2 * eta)
        assert got == pytest.approx(plain_clique(losses.tolist(), eta, 2 * eta), rel=1e-12)
        played = [play_matrix(np.random.default_rng([9, run]), losses, eta, 2 * eta) for run in range(4_000)]
        assert abs(np.mean(played) - got) < 5 * np.std(played) / math.sqrt(4_000) + 1e-12


def test_two_slots_of_equal_means_cost_no_pseudo_regret_and_a_free_one_is_found():
    for means, low, high in (([0.5, 0.5], 0, 0), ([0.0, 1.0], 1, 200)):
        regret = np.zeros(1)
        play_means(np.random.default_rng(1), np.array(means), np.array([2_000]), *rates(2, 2_000), regret)
        assert low <= regret[0] <= high
