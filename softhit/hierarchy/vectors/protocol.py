"""What L2 needs of a vector store: conditional writes, nearest rows, the coldest rows, counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Row", "Vectors"]


@dataclass(frozen=True, slots=True)
class Row:
    """One point of the store without its vector.

    Attributes
    ----------
    id : str
        The segment's id (the store's own point id is derived from it).
    payload : mapping
        Plain data with at least ``id``, ``text``, ``version`` (int >= 1), ``dirty`` (0 or 1: some engines
        match no booleans), ``accesses`` (int) and ``last_access`` (int).
    """

    id: str
    payload: Mapping[str, Any]

    @property
    def version(self) -> int:
        """The version of its text."""
        return int(self.payload["version"])

    @property
    def dirty(self) -> bool:
        """Whether L3 lacks this version."""
        return bool(self.payload["dirty"])


@runtime_checkable
class Vectors(Protocol):
    """A vector store. Each method is one durable step: once it returned, a killed process loses nothing.

    Every method raises :class:`softhit.errors.Unavailable` when the store cannot be reached.
    """

    @property
    def name(self) -> str:
        """What it is and where, for messages and logs."""
        ...

    def upsert(
        self,
        id: str,
        vector: NDArray[np.float32],
        payload: Mapping[str, Any],
        expected: int | None,
        *,
        digest: str | None = None,
    ) -> bool:
        """Store a point iff its present version is ``expected`` (None: iff there is none); say whether.

        With ``digest`` the present point's field of that name has to be the same, too.
        """
        ...

    def patch(
        self,
        id: str,
        changes: Mapping[str, Any],
        expected: int | None = None,
        *,
        digest: str | None = None,
    ) -> bool:
        """Change payload fields iff the point exists and has what is expected; say whether.

        Expected can be a version, and the value of the payload's field ``digest``.
        """
        ...

    def delete(self, rows: Sequence[Row], clean_only: bool = True) -> int:
        """Delete those rows whose version is still the given one (and that are clean); return how many."""
        ...

    def fetch(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the rows that exist among ``ids``."""
        ...

    def nearest(
        self, vector: NDArray[np.float32], limit: int, least: float = -1.0, exclude: Collection[str] = ()
    ) -> list[tuple[Row, float]]:
        """Return rows by cosine (>= ``least``), highest first, equal ones by id."""
        ...

    def coldest(self, limit: int, dirty: bool | None = False) -> list[Row]:
        """Return rows by (accesses, last_access, id), smallest first; ``dirty=None``: of both kinds."""
        ...

    def count(self, dirty: bool | None = None) -> int:
        """Return the exact number of rows."""
        ...

    def close(self) -> None:
        """Release the path; a second call does nothing."""
        ...
