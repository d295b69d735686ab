"""A segment: a piece of text of the context window, by what L1 has to know of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from softhit.check import fail

__all__ = ["SOURCES", "Segment", "Source", "check_id", "digest_of", "encodes"]

Source = Literal["document", "tool_output", "agent_derived"]
SOURCES: tuple[Source, ...] = ("document", "tool_output", "agent_derived")


def check_id(name: str, value: object) -> str:
    """Return an id: any text but the empty one that a checkpoint can hold.

    >>> check_id("id", "notes/limits")
    'notes/limits'
    """
    if not isinstance(value, str) or not value:
        fail(name, value, "a text that is not empty")
    if not encodes(value):
        fail(name, value, "a text that UTF-8 can hold: checkpoints hold it")
    return value


def encodes(text: str) -> bool:
    """Say whether UTF-8 can hold a text: it has no lone surrogates, so a checkpoint may have it as a key.

    >>> encodes("caf\\u00e9"), encodes("half a pair \\ud83d")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal; lone surrogates are kept apart from question marks.

    >>> digest_of("")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Segment:
    """What L1 knows of a segment; its text lies in the store of texts, under its digest.

    Attributes
    ----------
    id : str
        The same in all three levels.
    digest : str
        SHA-256 of the text.
    tokens : int
        Exact, by the tokenizer of the allocator.
    source : {"document", "tool_output", "agent_derived"}
    query : str
        What it was fetched for.
    url : str
        Where its source can be found; "" = nowhere.
    version : int
        Of the text, from 1; a new text under the same id counts one up.
    dirty : bool
        In L1: this version is not in L2 yet. In L2: it is not in L3 yet.
    accesses : int
        How often a node used it since it was loaded.
    loaded_turn : int
    last_turn : int or None
        Turn of the last access; None = never accessed.
    fields : tuple of str
        State fields it depends on: when one changes, the segment is stale.
    pinned : bool
        Never evicted while True.
    group : str or None
        Segments of one group leave together, e.g. a tool call and its result.
    """

    id: str
    digest: str
    tokens: int
    source: Source = "document"
    query: str = ""
    url: str = ""
    version: int = 1
    dirty: bool = False
    accesses: int = 0
    loaded_turn: int = 0
    last_turn: int | None = None
    fields: tuple[str, ...] = ()
    pinned: bool = False
    group: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as it lies in a checkpoint."""
        data = asdict(self)
        data["fields"] = list(self.fields)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segment:
        """Return the segment of :meth:`to_json`; keys it does not know are left out.

        >>> one = Segment("a", digest_of("x"), 1, fields=("user",))
        >>> Segment.from_json(one.to_json()) == one
        True
        """
        known = {name: data[name] for name in _NAMES if name in data}
        known["fields"] = tuple(known.get("fields", ()))
        return cls(**known)


_NAMES = tuple(f.name for f in fields(Segment))
