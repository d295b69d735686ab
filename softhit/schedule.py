"""The schedule: the whole history of a cache, per step what left and what entered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import as_array, check_int, fail
from softhit.errors import InvalidInput
from softhit.jit import jit

__all__ = ["Schedule"]


def _array(name: str, value: Any, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    array = as_array(name, value, "a one-dimensional array of integers")
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        fail(name, value, "a one-dimensional array of integers")
    info = np.iinfo(dtype)
    narrows = array.dtype.itemsize >= info.dtype.itemsize and array.dtype != info.dtype and len(array) > 0
    if narrows and (array.min() < info.min or array.max() > info.max):
        fail(name, value, f"an array of integers in {info.min}..{info.max}")
    result = np.array(array, dtype=dtype, copy=True, order="C")
    result.setflags(write=False)
    return result


@jit
def _count(steps: Any, pointers: Any) -> Any:
    """Turn non-decreasing steps into pointers; return the first place where they are not, or -1."""
    x = 0
    pointers[0] = 0
    for t in range(len(pointers) - 1):
        while x < len(steps) and steps[x] == t:
            x += 1
        pointers[t + 1] = x
    return x if x < len(steps) else -1


@jit
def _first_fall(pointers: Any) -> Any:
    for t in range(1, len(pointers)):
        if pointers[t] < pointers[t - 1]:
            return t
    return -1


def _pointers(name: str, steps: NDArray[Any], n_steps: int) -> NDArray[np.int64]:
    pointers = np.empty(n_steps + 1, np.int64)
    bad = _count(steps, pointers)
    if bad >= 0:
        step = int(steps[bad])
        if 0 <= step < n_steps:
            raise InvalidInput(f"{name} must be non-decreasing; {step} comes after {int(steps[bad - 1])}")
        fail(f"{name}[{bad}]", step, f"a step in 0..{n_steps - 1}")
    return pointers


@dataclass(frozen=True, eq=False)
class Schedule:
    """What leaves and what enters the cache at each step; leaves come first within a step.

    The cache starts empty. Two compressed lists: step ``t`` loses
    ``leave_items[leave_ptr[t]:leave_ptr[t+1]]`` and gains ``enter_items[enter_ptr[t]:enter_ptr[t+1]]``. A
    schedule says nothing about its own cost or validity: see :func:`softhit.verify` and
    :func:`softhit.cost`.

    Attributes
    ----------
    leave_ptr, enter_ptr : int64[T+1]
    leave_items, enter_items : int32[...]

    Examples
    --------
    >>> s = Schedule.from_events(3, [2], [7], [0, 2], [7, 4])
    >>> s.n_steps, s.n_insertions, s.at(2)
    (3, 2, ([7], [4]))
    """

    leave_ptr: NDArray[np.int64]
    leave_items: NDArray[np.int32]
    enter_ptr: NDArray[np.int64]
    enter_items: NDArray[np.int32]

    def __post_init__(self) -> None:
        for ptr_name, item_name in (("leave_ptr", "leave_items"), ("enter_ptr", "enter_items")):
            ptr = _array(ptr_name, getattr(self, ptr_name), np.int64)
            items = _array(item_name, getattr(self, item_name), np.int32)
            if len(ptr) < 1 or ptr[0] != 0 or ptr[-1] != len(items) or _first_fall(ptr) >= 0:
                fail(ptr_name, ptr, f"non-decreasing from 0 to {len(items)}, the length of {item_name}")
            object.__setattr__(self, ptr_name, ptr)
            object.__setattr__(self, item_name, items)
        if len(self.leave_ptr) != len(self.enter_ptr):
            raise InvalidInput("leave_ptr and enter_ptr must have the same length")

    @classmethod
    def adopt(cls, leave_ptr: Any, leave_items: Any, enter_ptr: Any, enter_items: Any) -> Schedule:
        """Wrap arrays of the right types that nobody else will write to, unchecked and without copies."""
        schedule = object.__new__(cls)
        for name, array in (
            ("leave_ptr", leave_ptr),
            ("leave_items", leave_items),
            ("enter_ptr", enter_ptr),
            ("enter_items", enter_items),
        ):
            array.setflags(write=False)
            object.__setattr__(schedule, name, array)
        return schedule

    @classmethod
    def from_events(
        cls, n_steps: int, leave_steps: Any, leave_items: Any, enter_steps: Any, enter_items: Any
    ) -> Schedule:
        """Build from parallel arrays of steps (non-decreasing, 0..n_steps-1) and items."""
        n = check_int("n_steps", n_steps, low=0)
        parts = []
        for side, steps, items in (("leave", leave_steps, leave_items), ("enter", enter_steps, enter_items)):
            when = _array(f"{side}_steps", steps, np.int64)
            what = _array(f"{side}_items", items, np.int32)
            if len(when) != len(what):
                raise InvalidInput(
                    f"{side}_steps and {side}_items must have one length, got {len(when)} and {len(what)}"
                )
            parts += [_pointers(f"{side}_steps", when, n), what]
        return cls.adopt(*parts)

    @classmethod
    def from_intervals(cls, n_steps: int, items: Any, enter_steps: Any, leave_steps: Any) -> Schedule:
        """Build from one (item, enter step, leave step) per stay; a leave step of ``n_steps`` means never."""
        n = check_int("n_steps", n_steps, low=0)
        what = _array("items", items, np.int32)
        into, out = _array("enter_steps", enter_steps, np.int64), _array("leave_steps", leave_steps, np.int64)
        if not len(what) == len(into) == len(out):
            raise InvalidInput(
                "items, enter_steps and leave_steps must have one length, "
                f"got {len(what)}, {len(into)} and {len(out)}"
            )
        if len(out) and out.max() > n:
            fail("leave_steps", int(out.max()), f"at most {n}")
        by_enter = np.lexsort((what, into))
        ends = np.flatnonzero(out < n)
        by_leave = ends[np.lexsort((what[ends], out[ends]))]
        return cls.from_events(n, out[by_leave], what[by_leave], into[by_enter], what[by_enter])

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # arrays come back from a pickle or a deep copy writable
        for name, value in state.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def n_steps(self) -> int:
        """T."""
        return len(self.leave_ptr) - 1

    @property
    def n_insertions(self) -> int:
        """How many times an item entered."""
        return len(self.enter_items)

    def at(self, step: int) -> tuple[list[int], list[int]]:
        """Return the items that leave and the items that enter at ``step``."""
        leaves = self.leave_items[self.leave_ptr[step] : self.leave_ptr[step + 1]]
        enters = self.enter_items[self.enter_ptr[step] : self.enter_ptr[step + 1]]
        return leaves.tolist(), enters.tolist()

    def prefix(self, n_steps: int) -> Schedule:
        """Return the history of the first ``n_steps`` steps."""
        n = check_int("n_steps", n_steps, low=0, high=self.n_steps)
        return Schedule(
            self.leave_ptr[: n + 1],
            self.leave_items[: self.leave_ptr[n]],
            self.enter_ptr[: n + 1],
            self.enter_items[: self.enter_ptr[n]],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("leave_ptr", "leave_items", "enter_ptr", "enter_items")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Schedule: {self.n_steps} steps, {self.n_insertions} insertions>"
