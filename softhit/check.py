"""Small verbs that validate parameters with one clear message: name, value, what is allowed."""

from __future__ import annotations

import difflib
import math
import operator
import os
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from softhit.errors import InvalidInput, UnknownName

__all__ = ["as_array", "check_choice", "check_int", "check_real", "describe", "fail", "nearest", "unknown"]


def fail(name: str, value: object, allowed: str) -> NoReturn:
    """Raise the one error message form of the project.

    >>> fail("capacity", 0, "an integer >= 1")
    Traceback (most recent call last):
    ...
    softhit.errors.InvalidInput: capacity must be an integer >= 1, got 0
    """
    text = repr(value)
    if len(text) > 80:
        text = text[:77] + "..."
    raise InvalidInput(f"{name} must be {allowed}, got {text}")


def check_int(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as an int in [low, high]; integral floats such as 8.0 and ``True`` are refused.

    >>> check_int("capacity", 8, low=1)
    8
    """
    if low is None and high is None:
        allowed = "an integer"
    elif high is None:
        allowed = f"an integer >= {low}"
    elif low is None:
        allowed = f"an integer <= {high}"
    else:
        allowed = f"an integer in {low}..{high}"
    if isinstance(value, bool):
        fail(name, value, allowed)
    try:
        number = operator.index(value)
    except TypeError:
        fail(name, value, allowed)
    if (low is not None and number < low) or (high is not None and number > high):
        fail(name, value, allowed)
    return number


def check_real(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return ``value`` as a finite float in [low, high].

    >>> check_real("threshold", 0, low=0, high=1)
    0.0
    """
    parts = []
    if low > -math.inf:
        parts.append(f">= {low:g}")
    if high < math.inf:
        parts.append(f"<= {high:g}")
    allowed = "a finite number" + (" " + " and ".join(parts) if parts else "")
    if isinstance(value, bool | str | bytes):
        fail(name, value, allowed)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        fail(name, value, allowed)
    if not math.isfinite(number) or not low <= number <= high:
        fail(name, value, allowed)
    return number


def as_array(name: str, value: Any, allowed: str, dtype: Any = None) -> NDArray[Any]:
    """Return ``value`` as an array; what numpy cannot make one of is refused by name.

    >>> as_array("quality", [[1, 0], [1]], "a matrix")
    Traceback (most recent call last):
    ...
    softhit.errors.InvalidInput: quality must be a matrix, got [[1, 0], [1]]
    """
    try:
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        fail(name, value, allowed)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion such as ``"; did you mean 'lru'?"``, or an empty string."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(kind: str, name: object, known: Sequence[str]) -> NoReturn:
    """Raise ``UnknownName`` with the nearest known name and the whole list.

    >>> unknown("policy", "lur", ["fifo", "lru"])
    Traceback (most recent call last):
    ...
    softhit.errors.UnknownName: unknown policy 'lur'; did you mean 'lru'? Known: fifo, lru
    """
    hint = nearest(str(name), known)
    end = "" if hint.endswith("?") else "."
    raise UnknownName(f"unknown {kind} {name!r}{hint}{end} Known: {', '.join(known)}")


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        hint = nearest(str(value), allowed)
        raise InvalidInput(f"{name} must be one of {', '.join(allowed)}, got {value!r}{hint}")
    return value


def describe(error: BaseException) -> str:
    """Say in one line what went wrong in code that is not ours, and where.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     describe(error).partition(" (")[0]
    'ZeroDivisionError: division by zero'
    """
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    # of a syntax error the message itself says where
    if frames and not isinstance(error, SyntaxError):
        text += f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"
    return text
