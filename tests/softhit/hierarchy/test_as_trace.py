"""A run as a trace and a schedule: valid, priced by what it missed and loaded, holding what L1 held."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offline_opt import solve
from softhit import InvalidInput, UnknownName, cost, simulate, verify
from softhit.hierarchy.allocator import Ahead, Start
from softhit.hierarchy.as_trace import RunTrace, as_trace
from softhit.hierarchy.log import DecisionLog, read_log
from tests.softhit.hierarchy.stand_ins import Run
from tests.softhit.hierarchy.test_boundary import colours, library, play, policies, run, steps


def held_after(made: RunTrace) -> dict[str, int]:
    held: set[int] = set()
    s = made.schedule
    for t in range(made.trace.n_steps):
        held -= set(s.leave_items[s.leave_ptr[t] : s.leave_ptr[t + 1]].tolist())
        held |= set(s.enter_items[s.enter_ptr[t] : s.enter_ptr[t + 1]].tolist())
    return {made.items[i][0]: int(made.trace.sizes[i]) for i in held}


def checked(one: Run) -> RunTrace:
    """Turn a run into a trace, and compare it with what the events and the state say."""
    made = as_trace(one.history)
    verify(made.schedule, made.trace, made.capacity, made.variant)
    priced = cost(made.schedule, made.trace, made.capacity, Fraction(1, 3), made.variant)
    missed = 0
    for event in one.history:
        wanted = event["kind"] == "load" and event.get("why") == "wanted"
        if (event["kind"] == "miss" and "segment" in event) or wanted:
            missed += event["tokens"]
    assert priced.misses == missed
    assert priced.insertions == one.context["loaded"]
    assert priced.switching == Fraction(max(0, one.context["loaded"] - 100), 3)
    assert held_after(made) == {id: s["tokens"] for id, s in one.context["l1"].items()}
    return made


class TestAnyRun:
    @given(st.lists(steps, max_size=12), policies)
    @settings(max_examples=150)
    def test_is_a_valid_schedule_that_costs_what_the_run_missed_and_loaded(
        self, script: Any, policy: str
    ) -> None:
        one = run(colours(), policy=policy)
        for _ in play(one, script):
            pass
        if one.history:
            checked(one)


def needs(one: Run, *words: str) -> None:
    for word in words:
        one.cross(Start(f"about {word}", word))


class TestARun:
    def test_pays_a_miss_for_what_a_node_needs_and_l1_lacks_and_nothing_for_a_hit(self) -> None:
        one = run(library({"a": 10, "b": 20}))
        needs(one, "topic", "topic")
        made = checked(one)
        assert made.trace.weight.tolist() == [10, 20, 10, 20]
        assert cost(made.schedule, made.trace, 100, 0).fraction == 30

    def test_pays_nothing_but_the_loading_for_what_was_prefetched(self) -> None:
        one = run(library({"a": 10, "b": 20}))
        one.cross(Start("first"), ahead=[Ahead("second", "topic", 1.0)])
        one.cross(Start("second", "topic"))
        made = checked(one)
        assert made.trace.weight.tolist() == [0, 10, 0, 20]
        paid = cost(made.schedule, made.trace, 100, 1)
        assert (paid.misses, paid.insertions) == (0, 30)

    def test_counts_a_new_version_of_a_text_as_a_new_item(self) -> None:
        one = run()
        for text in ("one", "one two"):
            one.cross(Start("node"))
            view = one.view()
            view.derive("note", text)
            one.report(view)
        one.cross(ending=True)
        made = checked(one)
        assert made.items == (("note", 1), ("note", 2))
        assert made.schedule.leave_items.tolist() == [0]

    def test_can_be_priced_beside_other_policies_and_the_optimum(self) -> None:
        topics = ["red", "green", "blue", "teal", "pink"]
        texts = {f"{c}{n}": library({f"{c}{n}": 12 + n}, c)[f"{c}{n}"] for c in topics for n in range(3)}
        one = run(texts, policy="lru")
        rng = np.random.default_rng(0)
        needs(one, *rng.choice(topics, 40).tolist())
        made = checked(one)
        best = solve(made.trace, made.capacity, 1)
        ours = cost(made.schedule, made.trace, made.capacity, 1).fraction
        other = simulate("lru", made.trace, made.capacity)
        assert best.cost is not None
        assert best.lower_bound <= best.cost.fraction <= ours
        assert best.lower_bound <= cost(other, made.trace, made.capacity, 1).fraction
        assert len(made.schedule.leave_items) > 20

    def test_is_read_from_the_file_of_its_log(self, tmp_path: Path) -> None:
        one = run(library({"a": 10, "b": 20}))
        needs(one, "topic", "topic")
        with DecisionLog(tmp_path / "run.jsonl", "run") as log:
            log.write(one.history)
        assert as_trace(tmp_path / "run.jsonl").trace.hash == as_trace(one.history).trace.hash


class TestALog:
    def test_of_several_threads_needs_to_be_told_one(self, tmp_path: Path) -> None:
        one, two = run(library({"a": 10, "b": 20})), run(library({"a": 10, "b": 20}))
        needs(one, "topic", "topic")
        needs(two, "topic", "topic", "topic")
        pairs = [("ann", e) for e in one.history] + [("bob", e) for e in two.history]
        with DecisionLog(tmp_path / "run.jsonl", "run") as log:
            log.write([{**e, "thread": name} for name, e in sorted(pairs, key=lambda p: p[1]["turn"])])
        events = read_log(tmp_path / "run.jsonl")
        for source in (events, tmp_path / "run.jsonl"):
            with pytest.raises(InvalidInput, match=r"several threads.*must be one of \['ann', 'bob'\]"):
                as_trace(source)
            assert as_trace(source, thread="ann").trace.hash == as_trace(one.history).trace.hash
            assert as_trace(source, thread="bob").trace.hash == as_trace(two.history).trace.hash
            with pytest.raises(UnknownName, match="Known: ann, bob"):
                as_trace(source, thread="eve")

    def test_with_a_part_missing_is_refused(self) -> None:
        one = run(library({"a": 10, "b": 20}))
        needs(one, "topic", "topic")
        gone = [e for e in one.history if (e["kind"], e.get("segment")) != ("load", "a")]
        with pytest.raises(InvalidInput, match="after turn 1 L1 held 30 tokens, its events add up to 20"):
            as_trace(gone)

    def test_without_a_turn_is_no_run(self) -> None:
        with pytest.raises(InvalidInput, match="no turn in it"):
            as_trace([])

    def test_whose_budget_changes_needs_to_be_told_one(self) -> None:
        events = [{"turn": t, "kind": "turn", "budget": 100 * t, "used": 0} for t in (1, 2)]
        with pytest.raises(InvalidInput, match="the budget changes"):
            as_trace(events)
        assert as_trace(events, budget=200).capacity == 200
