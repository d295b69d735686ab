"""Read what a command line says about numbers: single ones, lists, ranges and settings.

``8``, ``1e3`` and ``1/3`` are numbers; ``1,2,4`` is a list; ``a:b`` is a range whose spacing depends on
what it counts (capacities: the powers of two; steps: half-decades), with its two ends always included;
``a:b:n`` is a range of n numbers. All of it is exact: integers and fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from softhit.check import fail
from softhit.errors import InvalidInput
from softhit.exact import as_fraction
from softhit.policies import split_specs

__all__ = [
    "capacities",
    "quality",
    "seconds",
    "settings",
    "share",
    "split_specs",
    "steps",
    "switch_cost",
    "switch_costs",
    "whole",
]

_MAX_VALUES = 10_000
_MOST = 10**30


def _number(name: str, text: str, low: int | None = None) -> Fraction:
    """Read one exact number whose parts are small enough that costs in its units fit a result file."""
    number = as_fraction(name, text.strip(), low=low)
    if max(abs(number.numerator), number.denominator) > _MOST:
        fail(name, text, "a number of at most 30 digits above and below the fraction bar")
    return number


def whole(name: str, text: str, low: int = 0, high: int = _MOST) -> int:
    """Read an integer in [low, high]; ``1e4`` is one, ``1.5`` is not.

    >>> whole("steps", "1e4")
    10000
    """
    try:
        number = _number(name, text)
    except InvalidInput:
        number = Fraction(1, 2)
    if number.denominator != 1 or not low <= number <= high:
        limit = f" and at most {high}" if high < _MOST else ""
        fail(name, text, f"an integer >= {low}{limit} such as 8 or 1e4")
    return int(number)


def _unique(name: str, values: Iterable[Fraction]) -> list[Fraction]:
    result = list(dict.fromkeys(values))
    if len(result) > _MAX_VALUES:
        raise InvalidInput(f"{name} names {len(result)} values; at most {_MAX_VALUES} make sense")
    return result


def _expand(
    name: str,
    text: str,
    number: Callable[[str], Fraction],
    between: Callable[[Fraction, Fraction], Iterable[Fraction]] | None,
    spaced: Callable[[Fraction, Fraction, int], Iterable[Fraction]],
) -> list[Fraction]:
    values: list[Fraction] = []
    for part in split_specs(text):
        ends = part.split(":")
        if len(ends) == 1:
            values.append(number(part))
            continue
        if len(ends) > 3:
            raise InvalidInput(f"{name} must be a number, a range a:b or a range a:b:n, got {part!r}")
        low, high = number(ends[0]), number(ends[1])
        if low > high:
            raise InvalidInput(f"{name} range {part!r} is empty: it ends below its start")
        if len(ends) == 3:
            n = whole(f"number of values in {name} range {part!r}", ends[2], low=1)
            if n > _MAX_VALUES:
                raise InvalidInput(f"{name} range {part!r} has too many values; at most {_MAX_VALUES}")
            if n == 1 and low != high:
                raise InvalidInput(f"{name} range {part!r} has two ends but one value")
            values += [low] if n == 1 else spaced(low, high, n)
        elif between is None:
            raise InvalidInput(f"{name} range {part!r} must say how many values: a:b:n")
        else:
            values += between(low, high)
    if not values:
        raise InvalidInput(f"{name} must name at least one value, got {text!r}")
    return _unique(name, values)


def _geometric(low: Fraction, high: Fraction, n: int) -> list[Fraction]:
    if low <= 0:
        raise InvalidInput(f"a range with n values is spaced by a factor, so it cannot start at {low}")
    growth = math.log(high / low) / (n - 1)
    inner = [Fraction(round(float(low) * math.exp(growth * i))) for i in range(1, n - 1)]
    return [low, *inner, high]


def _powers_of_two(low: Fraction, high: Fraction) -> list[Fraction]:
    powers = [Fraction(2**i) for i in range(int(high).bit_length()) if low < 2**i < high]
    return [low, *powers, high]


def _half_decades(low: Fraction, high: Fraction) -> list[Fraction]:
    rounded = [Fraction(round(10 ** (i / 2))) for i in range(2 * len(str(int(high))) + 1)]
    return [low, *(x for x in rounded if low < x < high), high]


def _linear(low: Fraction, high: Fraction, n: int) -> list[Fraction]:
    return [low + (high - low) * i / (n - 1) for i in range(n)]


def capacities(text: str) -> list[int]:
    """Read capacities: integers >= 1; ``a:b`` goes by powers of two, ``a:b:n`` by equal factors.

    >>> capacities("2:16"), capacities("3:20"), capacities("1,7"), capacities("10:1000:3")
    ([2, 4, 8, 16], [3, 4, 8, 16, 20], [1, 7], [10, 100, 1000])
    """
    read = lambda part: Fraction(whole("capacity", part, low=1))  # noqa: E731
    return [int(x) for x in _expand("capacity", text, read, _powers_of_two, _geometric)]


def steps(text: str) -> list[int]:
    """Read numbers of steps: integers >= 0; ``a:b`` goes by half-decades, ``a:b:n`` by equal factors.

    >>> steps("1e3:1e5")
    [1000, 3162, 10000, 31623, 100000]
    """
    read = lambda part: Fraction(whole("steps", part, low=0))  # noqa: E731
    return [int(x) for x in _expand("steps", text, read, _half_decades, _geometric)]


def switch_cost(text: str) -> Fraction:
    """Read one switching cost, a number >= 0.

    >>> switch_cost("1/3")
    Fraction(1, 3)
    """
    return _number("switch_cost", text, low=0)


def quality(name: str, text: str) -> Fraction:
    """Read a quality above 0 and at most 1.

    >>> quality("near", "0.25")
    Fraction(1, 4)
    """
    number = _number(name, text, low=0)
    if not 0 < number <= 1:
        fail(name, text, "a number above 0 and at most 1")
    return number


def seconds(name: str, text: str | None) -> float | None:
    """Read a limit in seconds, >= 0; None means that none was given.

    >>> seconds("time_limit", "1/2")
    0.5
    """
    return None if text is None else float(_number(name, text, low=0))


def share(name: str, text: str | None) -> float | None:
    """Read a part of a whole, >= 0, as a number or in per cent; None means that none was given.

    >>> share("gap", "0.001"), share("gap", "0.1%")
    (0.001, 0.001)
    """
    if text is None:
        return None
    stripped = text.strip()
    number = _number(name, stripped.removesuffix("%"), low=0)
    return float(number / 100 if stripped.endswith("%") else number)


def switch_costs(text: str) -> list[Fraction]:
    """Read switching costs: numbers >= 0, exactly; ``a:b:n`` is spaced evenly.

    >>> switch_costs("0,1/3"), switch_costs("0:1:3")
    ([Fraction(0, 1), Fraction(1, 3)], [Fraction(0, 1), Fraction(1, 2), Fraction(1, 1)])
    """
    return _expand("switch_cost", text, switch_cost, None, _linear)


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """Read ``key=value`` settings; values stay text, for the family knows what they mean.

    >>> settings(["w=1.5K", "soft=1"])
    {'w': '1.5K', 'soft': '1'}
    """
    result: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key.isidentifier() or not value:
            raise InvalidInput(f"set must be key=value, got {pair!r}")
        if key in result:
            raise InvalidInput(f"set gives {key!r} twice: {result[key]!r} and {value!r}")
        result[key] = value
    return result
