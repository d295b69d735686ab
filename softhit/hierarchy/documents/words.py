"""What a search by words means in every document store: distinct shared words, then keys."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from softhit.check import check_int, fail
from softhit.errors import InvalidInput
from softhit.hierarchy.documents.protocol import Record
from softhit.hierarchy.segment import check_id

__all__ = ["check_key", "check_new", "check_query", "plain", "words_of"]

# Scripts written without blanks: each character is a word there.
_WORD = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
    r"|[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)

# The largest integer of a SQLite column.
HIGHEST = 2**63 - 1


def words_of(text: str) -> set[str]:
    """Return the distinct words of a text, without regard to case.

    >>> sorted(words_of("The cache, the CACHE: 一致"))
    ['cache', 'the', '一', '致']
    """
    return set(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def check_key(key: object) -> str:
    """Return a key: any string but the empty one."""
    if not isinstance(key, str) or not key:
        fail("key", key, "a string that is not empty")
    return key


def check_query(words: object, limit: object) -> tuple[set[str], int]:
    """Return what to look for and how many."""
    if not isinstance(words, str):
        fail("words", words, "a string")
    return words_of(words), check_int("limit", limit, low=0)


def check_new(
    key: object, text: object, metadata: object, expected: object, version: object
) -> tuple[str, str, dict[str, Any], int, int]:
    """Return the arguments of ``upsert``, the metadata as it will be read back, the version to make."""
    if not isinstance(text, str):
        fail("text", text, "a string")
    before = check_int("expected", expected, low=0, high=HIGHEST - 1)
    new = before + 1 if version is None else check_int("version", version, low=before + 1, high=HIGHEST)
    return check_id("key", key), text, plain(metadata), before, new


def plain(metadata: object) -> dict[str, Any]:
    """Return metadata as JSON gives them back: lists for tuples, and so on."""
    if not isinstance(metadata, Mapping) or not all(isinstance(name, str) for name in metadata):
        fail("metadata", metadata, "a mapping from strings to plain data")
    try:
        data: dict[str, Any] = json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata must be plain data that JSON can hold: {error}") from error
    return data


def best(records: list[tuple[int, Record]], limit: int) -> list[Record]:
    """Return the records with most shared words, then by key; those without any are left out."""
    found = sorted((-shared, record.key, record) for shared, record in records if shared)
    return [record for _, _, record in found[:limit]]
