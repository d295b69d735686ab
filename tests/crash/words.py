"""The texts that scenarios derive: each says whose version of what it is, and in which life it was made."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from functools import cache

__all__ = ["LIVES", "Made", "digest", "made_by_digest", "text_of"]

LIVES = 3
"""How many processes may work on one point, one after the other."""


@dataclass(frozen=True, order=True)
class Made:
    """The ``k``-th text of an id, as the process number ``life`` wrote it; an agent never writes it twice."""

    id: str
    k: int
    life: int


_NOUNS = ["ledger", "river", "threshold", "merchant", "lantern", "refund", "orchard", "invoice", "meadow"]
_VERBS = ["exceeds", "follows", "contradicts", "doubles", "precedes", "explains", "resembles", "limits"]


@cache
def text_of(id: str, k: int, life: int = 1) -> str:
    """The text itself: a few hundred bytes, for ids that start with "long" some pages of a file."""
    draw = random.Random(f"{id} {k} {life}")
    lines = 110 if id.startswith("long") else 4
    body = "\n".join(
        f"{draw.choice(_NOUNS)} {draw.choice(_VERBS)} {draw.choice(_NOUNS)} {draw.randrange(10**12)} — ok ✓"
        for _ in range(lines)
    )
    return f"{id} text {k} of life {life}\n{body}\n"


def digest(text: str) -> str:
    """SHA-256, as this package computes it by itself."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def made_by_digest(ids: tuple[str, ...], most: int) -> dict[str, Made]:
    """Every text that agents may have derived of these ids, by digest."""
    every = (Made(id, k, life) for id in ids for k in range(1, most + 1) for life in range(1, LIVES + 1))
    return {digest(text_of(m.id, m.k, m.life)): m for m in every}


def made(text: str) -> Made | None:
    """Whose text this is, byte for byte; None = nobody's."""
    match = re.match(r"(\S+) text (\d+) of life (\d+)\n", text)
    if not match:
        return None
    one = Made(match[1], int(match[2]), int(match[3]))
    return one if text_of(one.id, one.k, one.life) == text else None
