"""What both vector stores share: ids of points, texts on the wire, exact order, one kind of failure."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import as_array, describe, fail
from softhit.errors import InvalidInput, SofthitError, Unavailable
from softhit.hierarchy.vectors.protocol import Row

__all__ = [
    "INTEGERS",
    "NOISE",
    "check_changes",
    "check_patch",
    "check_payload",
    "check_vector",
    "coldest_rows",
    "coldness",
    "guarded",
    "nearest_rows",
    "other_dimension",
    "pack",
    "point_id",
    "unpack",
]

# Fields the engines need an integer index of: they order by it or match it.
INTEGERS = ("accesses", "last_access", "version", "dirty")
# Two engines, or one engine at two positions of a block, differ by less than this in a cosine.
NOISE = 1e-5

_NAMESPACE = uuid.UUID("6b0f6f0e-5a0c-5d3c-9a64-0f1d8f1a4f53")
_ESCAPE = "utf-8-hex:"


def point_id(id: str) -> str:
    """Return the point's id in the store, the same in every process: the UUID 5 of the segment's id.

    >>> point_id("a") == str(uuid.uuid5(_NAMESPACE, "a"))
    True
    """
    name = _NAMESPACE.bytes + id.encode("utf-8", "surrogatepass")
    return str(uuid.UUID(bytes=hashlib.sha1(name, usedforsecurity=False).digest()[:16], version=5))


def pack(value: Any) -> Any:
    """Return plain data in which every string can be sent; lone surrogates (no UTF-8) become hexadecimal.

    >>> unpack(pack({"text": "a\\ud800", "n": [1, "b"]})) == {"text": "a\\ud800", "n": [1, "b"]}
    True
    """
    if isinstance(value, str):
        # a pair of lone surrogates would come back from JSON as one character
        if value.startswith(_ESCAPE) or any("\ud800" <= letter <= "\udfff" for letter in value):
            return _ESCAPE + value.encode("utf-8", "surrogatepass").hex()
        return value
    if isinstance(value, Mapping):
        return {pack(key): pack(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [pack(one) for one in value]
    return value


def unpack(value: Any) -> Any:
    """Undo :func:`pack`."""
    if isinstance(value, str):
        if value.startswith(_ESCAPE):
            return bytes.fromhex(value.removeprefix(_ESCAPE)).decode("utf-8", "surrogatepass")
        return value
    if isinstance(value, dict):
        return {unpack(key): unpack(one) for key, one in value.items()}
    if isinstance(value, list):
        return [unpack(one) for one in value]
    return value


def check_payload(id: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a new row, packed; refuse one that breaks what :class:`Row` says."""
    if payload.get("id") != id:
        fail("payload['id']", payload.get("id"), f"the row's id {id!r}")
    if not isinstance(payload.get("text"), str):
        fail("payload['text']", payload.get("text"), "a text")
    return check_changes(dict.fromkeys(INTEGERS) | dict(payload))


def check_patch(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changed fields of a row, packed."""
    for name, value in changes.items():
        if name == "id" or value is None:  # to set a field to null deletes it in one engine, not in another
            fail(f"changes[{name!r}]", value, "a field other than 'id' with a value other than None")
    return check_changes(changes)


def check_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields, packed; refuse what is not plain data and numbers out of range."""
    for name in INTEGERS:
        if name in changes:
            low, high = (0, 1) if name == "dirty" else (1 if name == "version" else 0, 2**53)
            value = changes[name]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                fail(f"payload[{name!r}]", value, f"an integer in {low}..{high}")
    try:
        json.dumps(changes, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"payload must be plain data: {error}") from error
    packed: dict[str, Any] = pack(changes)
    return packed


def check_vector(name: str, vector: Any, dimension: int) -> NDArray[np.float32]:
    """Return a vector as float32; its length must be the store's, and it must have a direction."""
    allowed = f"a vector of {dimension} finite numbers that are not all 0"
    array = as_array(name, vector, allowed, np.float32)
    if array.shape != (dimension,) or not np.isfinite(array).all() or not array.any():
        fail(name, vector, allowed)
    return array


def nearest_rows(
    query: NDArray[np.float32],
    limit: int,
    least: float,
    excluded: Collection[str],
    ask: Callable[[int], Sequence[tuple[str, float]]],
    read: Callable[[list[str]], Iterable[tuple[Row, Any]]],
) -> list[tuple[Row, float]]:
    """Return rows by their cosine in double precision, highest first, equal ones by id, also at the cut.

    An engine's own scores of two equal vectors may differ in the last bit by where they lie in its memory,
    and it orders equal ones as it likes. So it is asked for all that could belong to the answer, and these
    are compared by scores that depend on the vectors only.

    Parameters
    ----------
    ask : function
        From a count n to the n best (point id, the engine's score), best first.
    read : function
        From point ids to rows with their stored vectors.
    """
    if limit == 0:
        return []
    count = 2 * limit + len(excluded) + 4
    while True:
        found = ask(count)
        kept = [(point, score) for point, score in found if point not in excluded]
        cut = kept[limit - 1][1] - 2 * NOISE if len(kept) >= limit else -np.inf
        if len(found) < count or found[-1][1] < cut:
            break
        count *= 2
    wanted = query.astype(np.float64)
    wanted /= np.sqrt(wanted @ wanted)
    scored = []
    for row, stored in read([point for point, score in kept if score >= cut]):
        vector = np.array(stored, dtype=np.float64)
        score = float(vector @ wanted / np.sqrt(vector @ vector))
        if score >= least:
            scored.append((row, score))
    scored.sort(key=lambda pair: (-pair[1], pair[0].id))
    return scored[:limit]


def coldness(row: Row) -> tuple[int, int, str]:
    """Return what the coldest rows are ordered by."""
    return int(row.payload["accesses"]), int(row.payload["last_access"]), row.id


def coldest_rows(
    limit: int,
    dirty: bool | None,
    ordered: Callable[[str, Mapping[str, int], int], list[Row]],
    every: Callable[[Mapping[str, int]], list[str]],
    fetch: Callable[[list[str]], Mapping[str, Row]],
) -> list[Row]:
    """Return rows by (accesses, last_access, id) from an engine that can order by one field only.

    Parameters
    ----------
    ordered : function
        From a field, values that other fields must have, and n to the first n rows by that field.
    every : function
        From values that fields must have to the ids of all such rows.
    fetch : function
        From ids to rows.
    """
    match = {} if dirty is None else {"dirty": int(dirty)}
    chosen: dict[str, Row] = {}
    for key in ("accesses", "last_access"):
        wanted = limit - len(chosen)
        if wanted <= 0:
            break
        rows = ordered(key, match, wanted)
        if len(rows) < wanted:
            chosen.update((row.id, row) for row in rows)
            break
        # of those equal to the last one there may be more, and others of them may come first
        cut = int(rows[-1].payload[key])
        chosen.update((row.id, row) for row in rows if int(row.payload[key]) < cut)
        match = {**match, key: cut}
    else:
        tied = sorted(every(match))[: limit - len(chosen)]
        chosen.update(fetch(tied))
    return sorted(chosen.values(), key=coldness)


def other_dimension(name: str, stored: int, wanted: int) -> InvalidInput:
    """Return the error of a collection whose vectors have another length."""
    return InvalidInput(
        f"{name} has vectors of dimension {stored}, not {wanted}: it was made with another embedder; "
        "use that one, or another collection"
    )


@contextmanager
def guarded(name: str, doing: str) -> Iterator[None]:
    """Turn whatever an engine raises into Unavailable, which says where; our own errors pass."""
    try:
        yield
    except SofthitError:
        raise
    except Exception as error:
        raise Unavailable(f"{name} failed to {doing}: {describe(error)}") from error
