"""Digests of state fields: equal plain data have equal digests, in every process."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from softhit.hierarchy.segment import digest_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

__all__ = ["ABSENT", "digest_of_value", "digests_of", "values_of"]

ABSENT = digest_of("\0absent")
"""The digest of a field that has no value yet."""


def digest_of_value(value: Any) -> str:
    """Return a digest of plain data, dataclasses, pydantic models, messages, sets of those, ...

    Lists and tuples are the same. Values that are nothing of this are told apart by how a checkpoint would
    hold them, or by being pickled; those that cannot be pickled either, by which object in memory they are.
    Of these, equal ones may have two digests: then what depends on them is stale too often, not too seldom.

    >>> digest_of_value({"a": 1, "b": {2}}) == digest_of_value({"b": {2}, "a": 1})
    True
    >>> digest_of_value({1: "a"}) == digest_of_value({"1": "a"})
    False
    """
    try:
        text = json.dumps(_plain(value), sort_keys=True)
    except Exception:  # too deep, or a method of a user's class that raises
        text = _serialised(value)
    return digest_of(text)


def values_of(config: RunnableConfig, names: Collection[str]) -> dict[str, Any]:
    """Return the values of state fields, as they are before this step's writes, of those that have any."""
    from langgraph.pregel._read import ChannelRead

    if not names:
        return {}
    values: dict[str, Any] = ChannelRead.do_read(config, select=sorted(names), fresh=False)
    return values


def digests_of(config: RunnableConfig, names: Collection[str]) -> dict[str, str]:
    """Return digests of state fields, as they are before this step's writes."""
    values = values_of(config, names)
    return {name: digest_of_value(values[name]) if name in values else ABSENT for name in sorted(names)}


def _plain(value: Any) -> Any:
    """Return what JSON tells apart as the values are; what is no JSON is tagged, as no data are."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(one) for key, one in value.items()}
        # JSON would write keys that are numbers as texts
        return {"\0keys": sorted([digest_of_value(key), digest_of_value(one)] for key, one in value.items())}
    name = f"\0{type(value).__qualname__}"
    if isinstance(value, set | frozenset):
        return {name: sorted(digest_of_value(one) for one in value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {name: bytes(value).hex()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if callable(dump := getattr(value, "model_dump", None)):
        return {name: _plain(dump())}
    return {name: _serialised(value)}


def _serialised(value: Any) -> str:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    try:
        kind, data = JsonPlusSerializer().dumps_typed(value)
        return f"{kind}:{data.hex()}"
    except Exception:
        pass
    try:
        return f"pickle:{pickle.dumps(value).hex()}"
    except Exception:  # no checkpoint can hold it, so it lives in this process only
        return f"{type(value).__module__}.{type(value).__qualname__}:{id(value)}"
