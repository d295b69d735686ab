"""Numbers, lists, ranges and settings as a command line writes them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softhit.errors import InvalidInput
from softhit_lab import ranges


def test_a_capacity_range_goes_by_powers_of_two_and_keeps_both_ends() -> None:
    assert ranges.capacities("2:128") == [2, 4, 8, 16, 32, 64, 128]
    assert ranges.capacities("3:100") == [3, 4, 8, 16, 32, 64, 100]
    assert ranges.capacities("5:5") == [5]


def test_a_range_of_steps_goes_by_half_decades() -> None:
    assert ranges.steps("1e3:1e5") == [1000, 3162, 10000, 31623, 100000]
    assert ranges.steps("0:10") == [0, 1, 3, 10]


def test_a_range_with_a_count_has_that_many_values_between_its_ends() -> None:
    assert ranges.capacities("1:1000:4") == [1, 10, 100, 1000]
    assert ranges.switch_costs("0:1:5") == [Fraction(i, 4) for i in range(5)]


def test_lists_and_ranges_mix_and_repeat_nothing() -> None:
    assert ranges.capacities("1, 2:8, 4, 3") == [1, 2, 4, 8, 3]


def test_fractions_and_exponents_are_exact() -> None:
    assert ranges.switch_costs("1/3,0.1,2e-1") == [Fraction(1, 3), Fraction(1, 10), Fraction(1, 5)]
    assert ranges.whole("steps", "2.5e3") == 2500


def test_commas_inside_parentheses_do_not_split() -> None:
    text = "lru,gated_lru(theta=2,touch=threshold(0.5)), fifo"
    assert ranges.split_specs(text) == ["lru", "gated_lru(theta=2,touch=threshold(0.5))", "fifo"]


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_every_range_is_ascending_between_its_ends(a: int, b: int) -> None:
    low, high = sorted((a, b))
    for values in (ranges.capacities(f"{low}:{high}"), ranges.steps(f"{low}:{high}")):
        assert values == sorted(set(values))
        assert (values[0], values[-1]) == (low, high)


@pytest.mark.parametrize(
    ("read", "text", "names"),
    [
        (ranges.capacities, "8:4", "empty"),
        (ranges.capacities, "0", "capacity must be an integer >= 1"),
        (ranges.capacities, "1.5", "capacity must be an integer >= 1"),
        (ranges.capacities, "two", "capacity must be an integer >= 1"),
        (ranges.capacities, "1:2:3:4", "range"),
        (ranges.capacities, "1:10:0", "number of values"),
        (ranges.capacities, "1:10:1", "two ends but one value"),
        (ranges.capacities, ",", "at least one value"),
        (ranges.capacities, "1e999999999", "capacity must be an integer"),
        (ranges.steps, "-1", "steps must be an integer >= 0"),
        (ranges.steps, "0:10:3", "cannot start at 0"),
        (ranges.switch_costs, "nan", "switch_cost must be a finite number"),
        (ranges.switch_costs, "-1", ">= 0, got '-1'"),
        (ranges.switch_costs, "1/0", "switch_cost must be a finite number"),
        (ranges.switch_costs, "0:1", "how many values"),
        (ranges.switch_costs, "1e999999999", "switch_cost must be a finite number"),
        # Fraction would read these: the first fills the memory, the second is no exponent int() takes
        (ranges.switch_costs, "1e9_99999999", "switch_cost must be a finite number"),
        (ranges.switch_costs, "1e" + "9" * 5000, "switch_cost must be a finite number"),
        (ranges.switch_costs, "1/" + "7" * 31, "at most 30 digits"),
        (ranges.switch_costs, "1e31", "at most 30 digits"),
        (ranges.capacities, "9" * 5000, "capacity must be an integer >= 1"),
        (ranges.capacities, "\u0661", "capacity must be an integer >= 1"),
    ],
)
def test_what_cannot_be_read_is_named(read: object, text: str, names: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(text)  # type: ignore[operator]
    assert names in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("pairs", [["w"], ["=1"], ["w="], ["1w=2"], ["w=1", "w=2"]])
def test_a_setting_without_key_or_value_or_twice_is_refused(pairs: list[str]) -> None:
    with pytest.raises(InvalidInput, match="set"):
        ranges.settings(pairs)


def test_the_value_of_a_setting_may_hold_an_equals_sign() -> None:
    assert ranges.settings(["a=b=c"]) == {"a": "b=c"}
