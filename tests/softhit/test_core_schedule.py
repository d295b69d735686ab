"""Schedules are kept as given; what breaks a rule of the model is refused with its step, item and rule."""

import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softhit import (
    InvalidInput,
    InvalidSchedule,
    Schedule,
    Trace,
    Variant,
    from_arrays,
    from_requests,
    simulate,
    verify,
)

# A valid history: the trace asks 0 1 2 0 3, the cache holds two.
TRACE = from_requests([0, 1, 2, 0, 3])
VALID = ([2, 4], [0, 1], [0, 1, 2, 4], [0, 1, 2, 3])


def refused(
    events: Any, trace: Trace = TRACE, capacity: int = 2, variant: Variant | None = None
) -> InvalidSchedule:
    with pytest.raises(InvalidSchedule) as caught:
        verify(Schedule.from_events(trace.n_steps, *events), trace, capacity, variant)
    return caught.value


class TestRules:
    def test_the_untouched_history_is_valid(self) -> None:
        verify(Schedule.from_events(5, *VALID), TRACE, 2)

    @pytest.mark.parametrize(
        ("change", "step", "item", "rule"),
        [
            (([2, 4], [3, 1], *VALID[2:]), 2, 3, "the item leaves but is not held"),
            (([0, 2, 4], [2, 0, 1], *VALID[2:]), 0, 2, "the item leaves but is not held"),
            (([2, 2, 4], [0, 0, 1], *VALID[2:]), 2, 0, "the item leaves but is not held"),
            (([2, 4], [0, -1], *VALID[2:]), 4, -1, "the item id is out of range"),
            (([2, 4], [0, 4], *VALID[2:]), 4, 4, "the item id is out of range"),
            (([4], [1], *VALID[2:]), 2, 2, "the cache holds more than its capacity"),
            ((*VALID[:2], [0, 1, 2, 2, 4], [0, 1, 2, 2, 3]), 2, 2, "the item enters but is already held"),
            (
                (*VALID[:2], [0, 1, 2, 4], [0, 1, 3, 3]),
                2,
                3,
                "only the arrival of the step may enter (stream)",
            ),
            ((*VALID[:2], [0, 1, 2, 4], [0, 1, 2, 7]), 4, 7, "the item id is out of range"),
            (
                (*VALID[:2], [0, 1, 3, 4], [0, 1, 2, 3]),
                3,
                2,
                "only the arrival of the step may enter (stream)",
            ),
        ],
    )
    def test_each_violation_is_named(self, change: Any, step: int, item: int, rule: str) -> None:
        error = refused(change)
        assert (error.step, error.item, error.rule) == (step, item, rule)

    def test_pool_allows_any_item_at_any_step(self) -> None:
        events = ([], [], [0, 0], [3, 2])
        assert refused(events).rule == "only the arrival of the step may enter (stream)"
        verify(Schedule.from_events(5, *events), TRACE, 2, Variant(availability="pool"))
        refused(events, capacity=1, variant=Variant(availability="pool"))

    def test_leaves_come_before_enters_within_a_step(self) -> None:
        # item 2 takes the place that item 0 leaves at the same step; 2 cannot leave before it enters
        verify(Schedule.from_events(5, [1], [0], [0, 1], [0, 1]), TRACE, 1)
        assert refused(([2], [2], [2], [2])).rule == "the item leaves but is not held"
        # out and in again at one step is legal, if pointless
        verify(Schedule.from_events(5, [3], [0], [0, 3], [0, 0]), TRACE, 1)

    def test_sizes_count_against_the_capacity(self) -> None:
        trace = from_arrays(np.eye(2), arrivals=[0, 1], sizes=[3, 2])
        events = ([], [], [0, 1], [0, 1])
        verify(Schedule.from_events(2, *events), trace, 5)
        assert refused(events, trace, 4).item == 1
        assert refused(events, trace, 2).item == 0

    def test_what_leaves_gives_back_its_size_no_more_and_no_less(self) -> None:
        trace = from_arrays(np.eye(3), arrivals=[0, 1, 2], sizes=[3, 2, 2])
        swap = ([1], [0], [0, 1], [0, 1])
        verify(Schedule.from_events(3, *swap), trace, 3)
        assert refused(([1], [0], [0, 1, 2], [0, 1, 2]), trace, 3).item == 2
        verify(Schedule.from_events(3, [1, 2], [0, 1], [0, 1, 2], [0, 1, 2]), trace, 3)

    def test_nothing_enters_where_nothing_arrives(self) -> None:
        trace = from_requests([0, 1, 0], arrivals=[0, -1, 1])
        error = refused(([], [], [1], [1]), trace)
        assert (error.step, error.item) == (1, 1)
        assert error.rule == "only the arrival of the step may enter (stream)"

    def test_the_number_of_steps_must_be_that_of_the_trace(self) -> None:
        with pytest.raises(InvalidInput, match="the schedule has 4 steps, the trace 5"):
            verify(Schedule.from_events(4, [], [], [], []), TRACE, 2)

    def test_the_error_survives_a_process_boundary(self) -> None:
        error = pickle.loads(pickle.dumps(refused(([0], [0], [], []))))
        assert (error.step, error.item, error.rule) == (0, 0, "the item leaves but is not held")

    @settings(max_examples=60)
    @given(
        seed=st.integers(0, 10**6), side=st.sampled_from(["leave", "enter"]), change=st.sampled_from("+-sio")
    )
    def test_a_tampered_schedule_is_refused_or_obeys_a_naive_check(
        self, seed: int, side: str, change: str
    ) -> None:
        rng = np.random.default_rng(seed)
        trace = from_requests(rng.integers(0, 5, 20), n_items=5)
        true = simulate("random", trace, 2, seed=seed)
        lists = {
            "leave": [list(e) for e in zip(steps_of(true.leave_ptr), true.leave_items.tolist(), strict=True)],
            "enter": [list(e) for e in zip(steps_of(true.enter_ptr), true.enter_items.tolist(), strict=True)],
        }
        events = lists[side]
        at = (
            int(rng.integers(0, len(events) + 1))
            if change == "+" or not events
            else int(rng.integers(len(events)))
        )
        if change == "+" or not events:
            events.append([int(rng.integers(20)), int(rng.integers(-1, 7))])
        elif change == "-":
            events.pop(at)
        elif change == "s":
            events[at][0] = int(rng.integers(20))
        elif change == "i":
            events[at][1] = int(rng.integers(-1, 7))
        else:
            events.append(list(events[at]))
        for key in lists:
            lists[key].sort(key=lambda e: e[0])
        tampered = Schedule.from_events(
            20, *([e[j] for e in lists[key]] for key in ("leave", "enter") for j in (0, 1))
        )
        try:
            verify(tampered, trace, 2)
            accepted = True
        except InvalidSchedule:
            accepted = False
        assert accepted == naive_verdict(tampered, trace, 2)


def steps_of(pointers: np.ndarray) -> list[int]:
    return np.repeat(np.arange(len(pointers) - 1), np.diff(pointers)).tolist()


def naive_verdict(schedule: Schedule, trace: Trace, capacity: int) -> bool:
    held: set[int] = set()
    for t in range(trace.n_steps):
        leaves, enters = schedule.at(t)
        for i in leaves:
            if i not in held:
                return False
            held.remove(i)
        for i in enters:
            if i in held or i != trace.arrivals[t]:
                return False
            held.add(i)
        if len(held) > capacity:
            return False
    return True


class TestForm:
    def test_events_become_pointers(self) -> None:
        schedule = Schedule.from_events(5, *VALID)
        assert schedule.leave_ptr.tolist() == [0, 0, 0, 1, 1, 2]
        assert schedule.enter_ptr.tolist() == [0, 1, 2, 3, 3, 4]
        assert [schedule.at(t) for t in range(5)] == [([], [0]), ([], [1]), ([0], [2]), ([], []), ([1], [3])]
        assert schedule.n_insertions == 4

    def test_intervals_are_stays(self) -> None:
        assert Schedule.from_intervals(5, [2, 0, 3, 1], [2, 0, 4, 1], [5, 2, 5, 4]) == Schedule.from_events(
            5, *VALID
        )
        for stays, message in (
            (([0], [0], [6]), "leave_steps must be at most 5, got 6"),
            (([0.5], [0], [1]), "items must be a one-dimensional array of integers"),
            (([2**40], [0], [1]), "items must be an array of integers in"),
            (([0, 1], [0], [1]), "must have one length, got 2, 1 and 1"),
        ):
            with pytest.raises(InvalidInput, match=message):
                Schedule.from_intervals(5, *stays)

    def test_a_prefix_is_the_history_so_far(self) -> None:
        assert Schedule.from_events(5, *VALID).prefix(3) == Schedule.from_events(
            3, [2], [0], [0, 1, 2], [0, 1, 2]
        )
        assert Schedule.from_events(5, *VALID).prefix(0).n_steps == 0
        with pytest.raises(InvalidInput, match=r"n_steps must be an integer in 0\.\.5, got 6"):
            Schedule.from_events(5, *VALID).prefix(6)

    def test_arrays_are_copied_and_read_only(self) -> None:
        steps, items = np.array([0, 1]), np.array([0, 1], np.int32)
        schedule = Schedule.from_events(2, [], [], steps, items)
        pointers = np.array([0, 1, 2])
        direct = Schedule(np.zeros(3, int), items[:0], pointers, items)
        items[0] = 9
        pointers[1] = 2
        assert schedule == direct
        assert schedule.enter_items.tolist() == [0, 1]
        for array in (schedule.enter_items, schedule.enter_ptr, direct.leave_ptr, direct.enter_items):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        simulated = pickle.loads(pickle.dumps(simulate("lru", TRACE, 2)))
        assert simulated == simulate("lru", TRACE, 2)
        with pytest.raises(ValueError, match="read-only"):
            simulated.enter_items[0] = 1

    @pytest.mark.parametrize(
        ("events", "message"),
        [
            (([], [], [1, 0], [0, 0]), "enter_steps must be non-decreasing; 0 comes after 1"),
            (([-1], [0], [], []), r"leave_steps\[0\] must be a step in 0\.\.2, got -1"),
            (([], [], [0, 3], [0, 1]), r"enter_steps\[1\] must be a step in 0\.\.2, got 3"),
            (([], [], [0], [0, 1]), "enter_steps and enter_items must have one length, got 1 and 2"),
            (([], [], [0.5], [0]), "enter_steps must be a one-dimensional array of integers"),
            (
                ([], [], [0], [2**31]),
                r"enter_items must be an array of integers in -2147483648\.\.2147483647",
            ),
            (([[0]], [[0]], [], []), "leave_steps must be a one-dimensional array"),
        ],
    )
    def test_malformed_events_are_refused(self, events: Any, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            Schedule.from_events(3, *events)

    @pytest.mark.parametrize("pointers", [[], [1, 1, 1], [0, 2, 1], [0, 1, 3], [0, 0, 0]])
    def test_malformed_pointers_are_refused(self, pointers: list[int]) -> None:
        with pytest.raises(InvalidInput, match="enter_ptr must be non-decreasing from 0 to 2"):
            Schedule(np.zeros(3, int), np.zeros(0, int), np.array(pointers, int), np.array([0, 1]))

    def test_both_sides_have_one_number_of_steps(self) -> None:
        with pytest.raises(InvalidInput, match="must have the same length"):
            Schedule(np.zeros(2, int), np.zeros(0, int), np.zeros(3, int), np.zeros(0, int))

    def test_a_schedule_equals_schedules_only(self) -> None:
        schedule = Schedule.from_events(5, *VALID)
        assert schedule != "schedule"
        assert schedule != schedule.prefix(4)
        with pytest.raises(TypeError):
            hash(schedule)
