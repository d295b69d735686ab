"""The facade: which method it takes, what its answer is worth, and how it meets a solver that is wrong."""

import _thread
import math
import threading
from fractions import Fraction

import highspy
import numpy as np
import pytest

import softhit
from offline_opt import instances
from offline_opt.facade import METHODS, method_names, solve
from offline_opt.result import KINDS, Status
from offline_opt.soft import milp
from softhit import InvalidInput, UnknownName, Variant, cost, from_arrays, from_clusters, from_requests


def medium(seed=0, steps=40, items=25, arrivals=True, **rest):
    rng = np.random.default_rng(seed)
    quality = rng.integers(1, 1001, (steps, items)) / 1000 * (rng.random((steps, items)) < 0.3)
    return from_arrays(quality, rng.integers(0, items, steps) if arrivals else None, **rest)


class TestTheChoice:
    @pytest.mark.parametrize(
        ("trace", "capacity", "variant", "method"),
        [
            (from_requests([0, 1, 2, 0, 1]), 1, Variant(), "flow"),
            (from_requests([]), 1, Variant(), "flow"),
            (from_requests([0, 1, 2, 0, 1], arrivals=[2, 2, 0, 1, 1]), 2, Variant(fill="charged"), "flow"),
            (from_clusters([0, 1, 0, 1, 0], [0, 0, 1, 1], [0, 2, 1, 3, 0]), 1, Variant(), "classes"),
            (from_clusters([0, 1, 0, 1, 0], [0, 0, 1, 1], [0, 2, 1, 3, 0]), 4, Variant(), "hold_all"),
            (
                from_clusters([0, 1, 0, 1, 0], [0, 0, 1, 1], [0, 2, 1, 3, 0]),
                1,
                Variant(aggregator="mean_topk", top_k=2),
                "dp",
            ),
            (from_arrays([[1, 0.5], [0.5, 1]] * 4, [0, 1] * 4), 1, Variant(), "dp"),
            (medium(), 3, Variant(), "milp"),
            (medium(), 25, Variant(), "hold_all"),
            (medium(), 3, Variant(aggregator="coverage", top_k=2), "relaxation"),
        ],
    )
    def test_auto_takes_the_method_that_fits(self, trace, capacity, variant, method):
        answer = solve(trace, capacity, 1, variant)
        assert answer.method == method
        assert answer.reason
        assert answer.explain().startswith(f"method {method}: ")
        assert answer.kind in KINDS
        assert cost(answer.schedule, trace, capacity, 1, variant) == answer.cost

    def test_every_method_states_its_scope_and_guarantee(self):
        assert method_names()[0] == "auto"
        assert {"flow", "networkx", "ortools", "lp", "dp", "milp"} <= set(METHODS)
        for method in METHODS.values():
            assert method.scope
            assert method.guarantee

    def test_sizes_leave_the_flow_out(self):
        trace = from_arrays(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 0], sizes=[1, 2, 3])
        assert solve(trace, 3, 1).method == "dp"

    def test_too_many_entries_leave_branch_and_bound_out(self, monkeypatch):
        # the package shows the function under the module's name
        monkeypatch.setattr("offline_opt.facade.AUTO_ENTRIES", 100)
        answer = solve(medium(), 3, 1)
        assert answer.method == "relaxation"
        assert "no branch and bound: 3" in answer.reason
        assert answer.kind in ("band", "exact")

    def test_too_many_entries_for_the_lp_leave_ascent(self, monkeypatch):
        monkeypatch.setattr("offline_opt.facade.AUTO_ENTRIES", 100)
        monkeypatch.setattr("offline_opt.facade.AUTO_LP", 200)
        answer = solve(medium(), 3, 1)
        assert answer.method == "lagrangian"
        assert answer.certificate is not None
        floor = solve(medium(), 3, 1, method="floor")
        assert floor.lower_bound < answer.lower_bound
        assert answer.lower_bound <= solve(medium(), 3, 1, method="relaxation").lower_bound
        assert answer.cost.fraction <= floor.cost.fraction

    def test_without_a_time_limit_auto_counts_nodes_and_not_seconds(self, monkeypatch):
        asked = []
        honest = milp.run_highs

        def backend(programme, relaxed, **rest):
            asked.append((relaxed, rest.get("time_limit"), rest.get("max_nodes")))
            return honest(programme, relaxed, **rest)

        monkeypatch.setattr(milp, "run_highs", backend)
        monkeypatch.setattr("offline_opt.dp.MAX_ITEMS", 0)
        monkeypatch.setattr("offline_opt.facade.AUTO_WORK", 10_000)
        solve(hardest(), 2, 1)
        assert asked == [(True, None, None), (False, None, 10_000 // 48)]
        asked.clear()
        solve(hardest(), 2, 1, time_limit=30)
        assert [(relaxed, seconds is not None, nodes) for relaxed, seconds, nodes in asked] == [
            (True, True, None),
            (False, True, None),
        ]


class TestErrors:
    trace = from_requests([0, 1, 0])

    def test_an_unknown_method_suggests_the_nearest(self):
        with pytest.raises(UnknownName, match="unknown method 'flwo'; did you mean 'flow'"):
            solve(self.trace, 1, 1, method="flwo")

    def test_a_method_that_does_not_apply_says_why_and_names_those_that_do(self):
        with pytest.raises(InvalidInput, match=r"'flow' does not apply: .*soft hits.*these do: .*milp"):
            solve(medium(), 2, 1, method="flow")
        with pytest.raises(InvalidInput, match=r"'milp' does not apply: coverage"):
            solve(medium(), 2, 1, Variant(aggregator="coverage", top_k=2), method="milp")
        with pytest.raises(InvalidInput, match=r"'dp' does not apply: 19 items can matter"):
            solve(medium(), 2, 1, method="dp")
        with pytest.raises(InvalidInput, match=r"'classes' does not apply"):
            solve(medium(), 2, 1, method="classes")
        with pytest.raises(InvalidInput, match=r"'hold_all' does not apply: .*do not all fit"):
            solve(self.trace, 1, 1, method="hold_all")

    @pytest.mark.parametrize("capacity", [0, -1, 1.5, True, None, "2"])
    def test_a_capacity_that_is_no_positive_integer(self, capacity):
        with pytest.raises(InvalidInput, match="capacity must be an integer >= 1"):
            solve(self.trace, capacity, 1)

    @pytest.mark.parametrize("lam", [-1, "-1/2", math.nan, math.inf, "x", None])
    def test_a_switch_cost_that_is_no_price(self, lam):
        with pytest.raises(InvalidInput, match="switch_cost"):
            solve(self.trace, 1, lam)

    @pytest.mark.parametrize("limit", [-1, math.nan, "soon"])
    def test_a_time_limit_that_is_none(self, limit):
        with pytest.raises(InvalidInput, match="time_limit"):
            solve(self.trace, 1, 1, time_limit=limit)

    def test_branch_and_bound_itself_refuses_coverage(self):
        with pytest.raises(InvalidInput, match="not supported by method milp: coverage"):
            milp.branch_and_bound(medium(), 2, 1, Variant(aggregator="coverage", top_k=2))

    def test_bare_requests_are_no_trace(self):
        with pytest.raises(InvalidInput, match=r"trace must be a Trace, as from_requests\(ids\) makes one"):
            solve([0, 1, 2], 2, 1)


class TestWhatAnAnswerIsWorth:
    def test_a_band_holds_the_optimum_and_says_so(self):
        instance = instances.get("lp_gap")
        answer = solve(*instance.problem, method="relaxation")
        assert answer.kind == "band"
        assert answer.lower_bound == 0
        assert answer.lower_bound <= instance.optimum <= answer.cost.fraction
        assert answer.gap == answer.cost.fraction - answer.lower_bound
        assert answer.status == Status("gap", True, True)
        assert "0 <= OPT <= 2" in answer.explain()

    def test_branch_and_bound_is_believed_but_not_called_proved(self):
        instance = instances.get("lp_gap")
        answer = solve(*instance.problem, method="milp")
        assert answer.kind == "exact (solver)"
        assert answer.cost.fraction == 2
        assert answer.lower_bound == 0, "what is proved"
        assert answer.status == Status("optimal", True, False)
        assert "is believed" in answer.explain()

    def test_an_lp_without_gap_proves_the_optimum_in_integers(self):
        trace = medium(1)
        answer = solve(trace, 2, 2, method="milp")
        if answer.kind == "exact":
            assert answer.certificate is not None
        assert answer.lower_bound <= answer.cost.fraction

    def test_prices_come_with_the_flow(self):
        answer = solve(from_requests([0, 1, 2, 0, 1, 2]), 1, "1/3")
        assert answer.certificate is not None
        assert answer.status == Status("optimal", True, True)

    def test_everything_fits_is_proved_by_the_floor(self):
        answer = solve(medium(2), 25, 7)
        assert (answer.method, answer.kind, answer.cost.paid) == ("hold_all", "exact", 0)

    def test_no_steps_cost_nothing(self):
        for method in ("auto", "flow", "dp", "milp", "relaxation", "classes", "hold_all", "networkx"):
            answer = solve(from_requests([]), 2, 1, method=method)
            assert (answer.cost.fraction, answer.kind) == (0, "exact"), method

    def test_the_floor_takes_over_where_it_is_above_the_lp(self):
        # k = 2 of three items cover; the LP may add 0.6 and 0.6 up to 1, the floor knows 1 - 0.4 * 0.4
        trace = from_arrays(
            [[0] * 4] * 4 + [[0.6, 0.6, 0.6, 0]] * 2, [0, 1, 2, 3, -1, -1], weight=[0] * 4 + [1] * 2
        )
        variant = Variant(aggregator="coverage", top_k=2)
        assert milp.relax(trace, 2, 1, variant).lower_bound == 0
        answer = solve(trace, 2, 1, variant, method="relaxation")
        assert answer.lower_bound == answer.cost.fraction == Fraction(32, 100)
        assert (answer.kind, answer.certificate) == ("exact", None)
        assert any("floor" in note for note in answer.notes)


class TestLimits:
    def test_branch_and_bound_out_of_time_at_once_has_no_incumbent_of_its_own(self):
        out = milp.branch_and_bound(medium(), 3, 1, time_limit=0)
        assert out.stop == "time limit"
        assert (out.schedule, out.cost) == (None, None)

    def test_the_facade_then_answers_with_a_heuristic_band(self, monkeypatch):
        def late(*_, **__):
            return milp.Answer("time limit", None, math.nan, -math.inf)

        trace = hardest()
        relaxed = milp.relax(trace, 2, 1)
        monkeypatch.setattr(milp, "relax", lambda *_, **__: relaxed)
        monkeypatch.setattr(milp, "run_highs", late)
        answer = solve(trace, 2, 1, method="milp", time_limit=5)
        assert answer.kind == "band"
        assert answer.status == Status("time", True, True)
        assert any("found no schedule" in note for note in answer.notes)

    def test_a_flow_out_of_time_gives_a_band_between_the_floor_and_a_policy(self):
        rng = np.random.default_rng(0)
        trace = from_requests(rng.integers(0, 400, 5000))
        answer = solve(trace, 200, 1, time_limit=0)
        assert (answer.method, answer.kind, answer.status.stop) == ("flow", "band", "time")
        assert answer.lower_bound == 400
        assert answer.lower_bound <= solve(trace, 200, 1).cost.fraction <= answer.cost.fraction

    def test_an_lp_out_of_time_still_gives_a_valid_bound(self):
        out = milp.relax(hardest(), 2, 1, time_limit=0)
        assert out.stop != "optimal"
        assert math.isnan(out.value)
        assert 0 <= out.lower_bound <= milp.relax(hardest(), 2, 1).lower_bound

    def test_progress_is_told(self):
        lines = []
        solve(medium(), 3, 1, method="milp", progress=lines.append)
        assert any(line.startswith("milp: ") for line in lines)


def hardest():
    """An instance on which the LP has a gap, so that the solver's word matters."""
    rounds = instances.get("lp_gap").trace
    quality = np.zeros((2 * rounds.n_steps + 4, 4))
    for t in range(2 * rounds.n_steps):
        quality[4 + t, rounds.row(t % rounds.n_steps)[0]] = 1
    queries = 2 * rounds.n_steps
    return from_arrays(quality, [0, 1, 2, 3] + [-1] * queries, weight=[0] * 4 + [1] * queries)


class TestASolverThatIsWrong:
    """The bugs of cvxpy #3368 and #3534 and scipy #22812, as answers of a backend."""

    trace = hardest()

    def answered(self, monkeypatch, change):
        """What branch and bound makes of a backend's answer after ``change``."""
        honest = milp.run_highs

        def backend(programme, relaxed, **rest):
            answer = honest(programme, relaxed, **rest)
            return answer if relaxed else change(programme, answer)

        monkeypatch.setattr(milp, "run_highs", backend)
        return milp.branch_and_bound(self.trace, 2, 1), solve(self.trace, 2, 1, method="milp")

    def test_honest_answers_pass(self, monkeypatch):
        out, answer = self.answered(monkeypatch, lambda programme, a: a)
        assert out.rejected is None
        assert answer.kind == "exact (solver)"
        assert answer.cost.fraction == out.cost.fraction == 4

    def test_a_point_beyond_its_bounds_is_rejected(self, monkeypatch):
        def beyond(programme, a):
            point = np.ones(len(programme.objective))  # everything held at once
            return milp.Answer("optimal", point, 0.0, 0.0)

        out, answer = self.answered(monkeypatch, beyond)
        assert "no schedule" in str(out.rejected)
        assert (out.schedule, out.lower_bound) == (None, None)
        assert answer.status.stop == "rejected"
        assert answer.kind == "band"
        assert any("rejected" in note for note in answer.notes)

    def test_a_suboptimal_point_called_optimal_does_not_lower_the_price(self, monkeypatch):
        def flattering(programme, a):
            return milp.Answer("optimal", np.zeros_like(a.point), a.objective, a.bound)

        out, answer = self.answered(monkeypatch, flattering)
        assert "claims" in str(out.rejected)
        assert out.cost.fraction == self.trace.total_weight
        assert answer.kind == "band"
        assert answer.cost.fraction < out.cost.fraction, "heuristics do better than the empty schedule"

    def test_a_bracket_that_is_open_is_never_called_optimal(self, monkeypatch):
        def vague(programme, a):
            return milp.Answer("optimal", a.point, a.objective, 0.0)

        out, answer = self.answered(monkeypatch, vague)
        assert out.stop == "optimal"
        assert answer.kind == "band"
        assert answer.status.stop == "gap"
        assert any("floating point" in note for note in answer.notes)

    def test_zeros_without_an_incumbent_are_no_solution(self, monkeypatch):
        def limit(programme, a):
            return milp.Answer("time limit", None, math.nan, 1.5)

        out, answer = self.answered(monkeypatch, limit)
        assert out.schedule is None
        assert out.lower_bound == 2, "1.5 rounded up to whole costs"
        assert answer.kind == "band"
        assert answer.status.stop == "time"

    def test_missing_values_are_rejected(self, monkeypatch):
        def holes(programme, a):
            point = a.point.copy()
            point[3] = np.nan
            return milp.Answer("optimal", point, a.objective, a.bound)

        out, _ = self.answered(monkeypatch, holes)
        assert "missing values" in str(out.rejected)

    def test_a_stay_that_nothing_began_is_rejected(self, monkeypatch):
        def unbegun(programme, a):
            point = np.zeros_like(a.point)
            point[programme.occasions.ptr[1] - 1] = 1.0
            return milp.Answer("optimal", point, a.objective, a.bound)

        out, _ = self.answered(monkeypatch, unbegun)
        assert "stays that was not held" in str(out.rejected)

    def test_a_lower_bound_above_the_cost_is_rejected(self, monkeypatch):
        out, answer = self.answered(
            monkeypatch, lambda programme, a: milp.Answer("optimal", a.point, a.objective, a.bound + 3)
        )
        assert "exceeds" in str(out.rejected)
        assert answer.kind == "band"

    def test_a_bound_within_the_tolerance_is_not_stretched_to_the_next_cost(self):
        programme = milp.build(self.trace, 2, Fraction(1), Variant())
        error = milp.bound_error(programme)
        assert 0 < error < 1e-3
        point = milp.run_highs(programme, relaxed=False).point
        below = milp.check_answer(
            programme,
            milp.Answer("optimal", point, 4.0, 3.0 + error / 2),
            self.trace,
            2,
            Fraction(1),
            Variant(),
            Fraction(1),
        )
        assert below.lower_bound == 3

    def test_highs_agrees_whatever_number_of_threads_was_used_before(self):
        import highspy

        other = highspy.Highs()
        other.setOptionValue("output_flag", False)
        other.setOptionValue("threads", 2)
        other.addVar(0, 1)
        other.run()
        assert milp.relax(self.trace, 2, 1).stop == "optimal"


def test_nothing_is_printed(capfd):
    solve(medium(3), 3, 1, method="milp")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_the_result_prices_its_own_schedule():
    trace = medium(4)
    answer = solve(trace, 3, Fraction(1, 7))
    softhit.verify(answer.schedule, trace, 3)
    assert softhit.cost(answer.schedule, trace, 3, Fraction(1, 7)) == answer.cost


def test_ctrl_c_ends_a_solver_at_work(monkeypatch):
    rng = np.random.default_rng(3)
    quality = np.where(rng.random((150, 40)) < 0.3, rng.random((150, 40)), 0)
    trace = from_arrays(quality, arrivals=rng.integers(0, 40, 150))
    made, quiet = [], milp._quiet_highs

    def interrupted():
        solver = quiet()
        start = solver.startSolve

        def begin():
            threading.Timer(0.3, _thread.interrupt_main).start()
            return start()

        solver.startSolve = begin
        made.append(solver)
        return solver

    monkeypatch.setattr(milp, "_quiet_highs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        milp.branch_and_bound(trace, 6, 1)
    # it stopped, and did not first finish what would have taken half a minute
    assert made[0].getModelStatus() == highspy.HighsModelStatus.kInterrupt
