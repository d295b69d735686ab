"""Digests of state fields: equal values have equal digests, in every process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from softhit.hierarchy.segment import digest_of

__all__ = ["ABSENT", "digest_of_value"]

ABSENT = digest_of("\0absent")
"""The digest of a field that has no value yet."""


def digest_of_value(value: Any) -> str:
    """Return a digest of plain data, dataclasses, pydantic models, messages, sets of those, ...

    Values it knows nothing about are told apart by what their serialisation for a checkpoint is.

    >>> digest_of_value({"a": 1, "b": {2}}) == digest_of_value({"b": {2}, "a": 1})
    True
    """
    try:
        text = json.dumps(value, sort_keys=True, default=_plain)
    except (TypeError, ValueError):
        text = _serialised(value)
    return digest_of(text)


def _plain(value: Any) -> Any:
    name = type(value).__qualname__
    if isinstance(value, set | frozenset):
        return {name: sorted(digest_of_value(one) for one in value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {name: bytes(value).hex()}
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}}
    if callable(dump := getattr(value, "model_dump", None)):
        return {name: dump()}
    return _serialised(value)


def _serialised(value: Any) -> str:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    try:
        kind, data = JsonPlusSerializer().dumps_typed(value)
    except Exception:  # what no checkpoint can hold: a change of it is not seen, but its type is
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{kind}:{data.hex()}"
