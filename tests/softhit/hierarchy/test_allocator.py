"""The parameters of the allocator are checked, exact, and 0 is one of their values."""

from fractions import Fraction
from typing import Any

import pytest

from softhit import InvalidInput, UnknownName
from softhit.hierarchy.allocator import ContextAllocator, Start
from softhit.hierarchy.nodes import Running, running
from softhit.hierarchy.texts import Texts
from tests.softhit.hierarchy.stand_ins import Run, WordsL2, allocator, text_of


class TestParameters:
    def test_have_the_defaults_of_the_context_cache_post(self) -> None:
        made = ContextAllocator(WordsL2(), Texts(":memory:"))
        assert made.budget == 40_000
        assert (made.high, made.low) == (Fraction(85, 100), Fraction(65, 100))
        assert (made.rules.high, made.rules.low) == (34_000, 26_000)
        assert made.weights == (Fraction(6, 10), Fraction(4, 10))
        assert made.policy == "priority_lru"
        assert made.lookahead == 2

    @pytest.mark.parametrize(
        ("name", "value", "allowed"),
        [
            ("budget", 0, "an integer >= 1"),
            ("budget", 1.5, "an integer >= 1"),
            ("budget", True, "an integer >= 1"),
            ("high", "1.01", "0..1"),
            ("high", -0.1, "a finite number"),
            ("high", float("nan"), "a finite number"),
            ("low", "0.9", "at most high"),
            ("low", "half", "a finite number"),
            ("weights", "ab", "two numbers"),
            ("weights", (1,), "two numbers"),
            ("weights", None, "two numbers"),
            ("weights", {1: 2, 3: 4}, "two numbers"),
            ("weights", (1, -1), "weights"),
            ("pin_accesses", -1, "an integer >= 0"),
            ("top_k", -1, "an integer >= 0"),
            ("least_score", 2, "<= 1"),
            ("lookahead", -1, "an integer >= 0"),
            ("min_probability", 2, "0..1"),
            ("counter", 3, "an encoding"),
            ("seed", -1, "an integer >= 0"),
            ("policy", 7, "the name of a policy"),
            ("switch_cost", -1, ">= 0"),
        ],
    )
    def test_out_of_range_are_refused_by_name(self, name: str, value: Any, allowed: str) -> None:
        given = {"policy": "lfu", name: value}
        with pytest.raises(InvalidInput, match=name) as caught:
            allocator(WordsL2(), **given)
        assert allowed in str(caught.value)

    def test_an_unknown_policy_is_refused(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'lru'"):
            allocator(WordsL2(), policy="lruu")

    def test_may_be_zero(self) -> None:
        made = allocator(
            WordsL2(),
            high=0,
            low=0,
            weights=(0, 0),
            pin_accesses=0,
            top_k=0,
            least_score=0,
            lookahead=0,
            min_probability=0,
            seed=0,
            switch_cost=0,
        )
        assert (made.rules.high, made.rules.low, made.rules.pin_accesses) == (0, 0, 0)

    def test_marks_are_exact_for_every_budget(self) -> None:
        for budget in (1, 7, 99, 40_000, 123_457):
            made = allocator(WordsL2(), budget=budget)
            for used in range(max(0, made.rules.high - 2), made.rules.high + 3):
                assert (used > made.rules.high) == (Fraction(used) > Fraction("0.85") * budget)
            for used in range(max(0, made.rules.low - 2), made.rules.low + 3):
                assert (used <= made.rules.low) == (Fraction(used) <= Fraction("0.65") * budget)

    def test_a_float_stands_for_its_shortest_decimal(self) -> None:
        assert allocator(WordsL2(), high=0.85, low=0.65).high == Fraction(17, 20)

    def test_every_sized_policy_of_the_registry_can_manage_a_run(self) -> None:
        texts = {f"d{i}": text_of(20, f"t{i % 4}", f"d{i}") for i in range(12)}
        for policy in ("priority_lru", "lru", "fifo", "lfu", "clock", "sieve", "random", "solar"):
            one = Run(allocator(WordsL2(texts), policy=policy))
            for turn in range(12):
                one.cross(Start("node", f"t{turn % 4}"))
            assert one.context["batches"] > 0, policy
            assert one.context["evicted"] < one.context["loaded"]


class TestViews:
    def test_need_a_context(self) -> None:
        with pytest.raises(InvalidInput, match="attach"):
            allocator(WordsL2()).view({"question": "?"})

    def test_take_the_context_of_the_running_node_where_the_state_has_none(self) -> None:
        one = Run(allocator(WordsL2({"a": "red a"})))
        one.cross(Start("node", "red"))
        now = Running("node", "7", one.context, one.reports)
        token = running.set(now)
        try:
            first, second = one.allocator.view(None), one.allocator.view({"payload": 1})
        finally:
            running.reset(token)
        assert (first.node, first.task) == ("node", "7")
        assert now.views == [first, second]
        first.touch("a")
        second.pin("a")
        # two views of one run of a node never make one key
        keys = [*first.update()["context_reports"]["reports"], *second.update()["context_reports"]["reports"]]
        assert keys == ["1/node/7/0", "1/node/7/1"]


class TestWatchedFields:
    def test_are_those_of_l1_of_staging_and_of_reports(self) -> None:
        from softhit.hierarchy.allocator import Ahead

        one = Run(allocator(WordsL2({"a": "red a", "b": "blue b"})))
        one.cross(Start("node", "red", ("user",)), ahead=[Ahead("next", "blue", 1, ("city",))])
        assert one.allocator.watched(one.context) == {"user", "city"}
        view = one.view()
        view.derive("note", "text", fields=["date"])
        view.search("red", fields=["day"])
        one.report(view)
        assert one.allocator.watched(one.context, one.reports) == {"user", "city", "date", "day"}
        assert one.allocator.watched({}) == set()
