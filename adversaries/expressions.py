"""Numbers relative to the capacity, such as ``K+1`` or ``1.5K``, read exactly and without ``eval``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from softhit.check import fail
from softhit.errors import InvalidInput
from softhit.exact import as_fraction

__all__ = ["evaluate", "evaluate_count", "round_half_up"]

# a number, a name or a sign; at most two digits of exponent, so that nothing explodes
_TOKEN = re.compile(r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)|([A-Za-z]\w*)|([-+*/()]))")
_LONGEST = 100


class _Reader:
    """Recursive descent: sum := product {+- product}; product := factor {*/ factor | factor}."""

    def __init__(self, text: str, names: Mapping[str, int | Fraction]) -> None:
        self.names = names
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise InvalidInput(f"cannot read {text[at:]!r}")
            number, name, sign = match.groups()
            self.tokens.append(("number", number) if number else ("name", name) if name else ("sign", sign))
            at = match.end()
        self.at = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def sum(self) -> Fraction:
        total = self.product()
        while self.peek() in (("sign", "+"), ("sign", "-")):
            sign = self.take()[1]
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def product(self) -> Fraction:
        result = self.factor()
        while True:
            kind, text = self.peek()
            if text == "*":
                self.take()
                result *= self.factor()
            elif text == "/":
                self.take()
                divisor = self.factor()
                if divisor == 0:
                    raise InvalidInput("it divides by zero")
                result /= divisor
            elif kind == "name" or text == "(":
                result *= self.factor()
            else:
                return result

    def factor(self) -> Fraction:
        kind, text = self.take()
        if kind == "number":
            return Fraction(text)
        if kind == "name":
            if text not in self.names:
                raise InvalidInput(f"it may use the names {', '.join(self.names)}, not {text!r}")
            return Fraction(self.names[text])
        if text == "(":
            inside = self.sum()
            if self.take()[1] != ")":
                raise InvalidInput("a parenthesis is not closed")
            return inside
        if text == "-":
            return -self.factor()
        raise InvalidInput("it ends too early" if kind == "end" else f"{text!r} stands in a wrong place")


def evaluate(name: str, value: Any, names: Mapping[str, int | Fraction]) -> Fraction:
    """Return the exact value of a number or of an expression in ``names``.

    Numbers (``12``, ``1.5``, ``1e3``), names, ``+ - * /`` and parentheses; a name may follow a number
    directly (``1.5K`` is 1.5 times K).

    Raises
    ------
    InvalidInput
        The text cannot be read, uses another name, or divides by zero.

    Examples
    --------
    >>> evaluate("w", "1.5K + 1", {"K": 8}), evaluate("w", "K/3", {"K": 8})
    (Fraction(13, 1), Fraction(8, 3))
    """
    if not isinstance(value, str):
        return as_fraction(name, value)
    allowed = f"a number or an expression such as {', '.join(f'1.5{n}' for n in list(names)[:1]) or '1e3'}"
    if not value.strip() or len(value) > _LONGEST:
        fail(name, value, allowed)
    try:
        reader = _Reader(value, names)
        result = reader.sum()
        if reader.peek()[0] != "end":
            raise InvalidInput(f"{reader.peek()[1]!r} stands in a wrong place")
    except InvalidInput as error:
        raise InvalidInput(f"{name} must be {allowed}, got {value!r}: {error}") from None
    return result


def round_half_up(value: Fraction) -> int:
    """Round to the nearest integer, halves up: the rule for counts such as ``1.5K`` with an odd K.

    >>> round_half_up(Fraction(3, 2)), round_half_up(Fraction(5, 4)), round_half_up(Fraction(-1, 2))
    (2, 1, 0)
    """
    return math.floor(value + Fraction(1, 2))


def evaluate_count(
    name: str, value: Any, names: Mapping[str, int | Fraction], low: int = 0, high: int = 2**31 - 2
) -> int:
    """Return a count given as an integer or an expression, rounded half up, within [low, high].

    >>> evaluate_count("w", "1.5K", {"K": 3}, low=1)
    5
    >>> evaluate_count("w", "K-9", {"K": 3}, low=1)
    Traceback (most recent call last):
    ...
    softhit.errors.InvalidInput: w must be an integer in 1..2147483646, got 'K-9' = -6 with K = 3
    """
    exact = evaluate(name, value, names)
    count = round_half_up(exact)
    if not low <= count <= high:
        allowed = f"an integer in {low}..{high}"
        if isinstance(value, str) and str(count) != value.strip():
            used = ", ".join(f"{k} = {v}" for k, v in names.items() if k in value)
            given = f"{value!r} = {count}" + (f" with {used}" if used else "")
            raise InvalidInput(f"{name} must be {allowed}, got {given}")
        fail(name, value, allowed)
    return count
