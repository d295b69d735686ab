"""What a run of the bracket can be resumed from, in memory and as a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.schedule import Schedule
from softhit.trace import Trace

__all__ = ["State"]

_PRICES = ("serve", "slot", "credit", "entry", "share")


@dataclass(frozen=True, eq=False)
class State:
    """What a run can be resumed from; a file of named arrays (npz), bound to its instance.

    Attributes
    ----------
    instance : str
        Hash of the trace, capacity, switch cost and variant.
    arrays : dict
        Float prices ``serve``, ``slot``, ``credit``, ``entry``, the ``share`` of each occasion, and the four
        arrays of the schedule.
    iterations : int
        Iterations of the ascent so far.
    """

    instance: str
    arrays: dict[str, NDArray[Any]]
    iterations: int

    @property
    def schedule(self) -> Schedule:
        """The best schedule so far."""
        a = self.arrays
        return Schedule(a["leave_ptr"], a["leave_items"], a["enter_ptr"], a["enter_items"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all.

        Raises
        ------
        InvalidInput
            The place cannot be written.
        """
        with replacing(path) as temporary, temporary.open("wb") as out:
            np.savez_compressed(
                out,
                instance=np.array(self.instance),
                iterations=np.array(self.iterations),
                **self.arrays,  # type: ignore[arg-type]
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> State:
        """Read a file that :meth:`save` wrote.

        Raises
        ------
        InvalidInput
            The file cannot be read or holds something else; names the file.
        """
        name = existing(path, "state file")
        try:
            # opened here: where numpy finds no archive in a file of its own, it leaves it open
            with name.open("rb") as source, np.load(source, allow_pickle=False) as data:
                arrays = {key: data[key] for key in data.files}
            instance, iterations = str(arrays.pop("instance")), int(arrays.pop("iterations"))
            state = cls(instance, arrays, iterations)
            for key in _PRICES:
                values = arrays[key].astype(float)
                if not np.all((values >= 0) & (values < np.inf)):
                    raise ValueError(f"{key} is negative or not finite")
            state.schedule  # noqa: B018 (it raises if arrays are missing or broken)
        except Exception as error:
            # zip, zlib and numpy have many ways to fail, NotImplementedError for instance, and all mean this
            raise InvalidInput(f"{str(name)!r} is not a saved state: {error}") from None
        return state

    def fits(self, trace: Trace, occasions: int) -> None:
        """Check that the arrays are as long as those of a run on this trace.

        Raises
        ------
        InvalidInput
            One is not; names it.
        """
        lengths = (trace.n_steps, trace.n_steps, trace.n_steps, 1, occasions)
        for key, length in zip(_PRICES, lengths, strict=True):
            shape = self.arrays[key].shape
            if shape != (length,):
                raise InvalidInput(f"the state is damaged: {key} has shape {shape}, not {(length,)}")
